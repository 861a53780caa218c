#include "strict_json.h"

#include <algorithm>
#include <utility>

#include "attune/base/text.h"

namespace attune::strict {
namespace {

std::size_t CodePoints(std::string_view s) {
  return static_cast<std::size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

Result<Node> ReadObject(std::string_view raw) {
  JsonReading reading = ReadJson(raw, JsonBounds{});
  if (!reading.error.empty()) return Fail(ErrorCode::kInvalidInput, std::move(reading.error));
  if (!reading.root.IsObject()) {
    return Fail(ErrorCode::kInvalidInput,
                "the reply must be one JSON object, not " + std::string(Noun(reading.root.kind)));
  }
  return std::move(reading.root);
}

bool Reader::OnlyKeys(const Node& object, std::span<const std::string_view> allowed,
                      std::string_view where) {
  for (const std::string& key : object.keys) {
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      return No("unknown key \"" + EscapeForDisplay(key, 60) + "\" in " + std::string(where));
    }
  }
  return true;
}

bool Reader::HasKeys(const Node& object, std::span<const std::string_view> demanded,
                     std::string_view where) {
  for (const std::string_view key : demanded) {
    if (object.Find(key) == nullptr) {
      return No(std::string(where) + " has no \"" + std::string(key) + "\"");
    }
  }
  return true;
}

bool Reader::Name(const Node& node, std::string_view key, std::string& out) {
  if (node.kind != NodeKind::kString) {
    return No("\"" + std::string(key) + "\" must be a string, not " + std::string(Noun(node.kind)));
  }
  if (node.text.empty() || node.text.size() > kMaxNameBytes) {
    return No("\"" + std::string(key) + "\" must have 1 to " + std::to_string(kMaxNameBytes) +
              " bytes");
  }
  out = node.text;
  return true;
}

bool Reader::Names(const Node* node, std::string_view key, std::size_t most,
                   std::vector<std::string>& out) {
  if (node == nullptr) return true;
  if (node->kind != NodeKind::kArray || node->items.size() > most) {
    return No("\"" + std::string(key) + "\" must be a list of at most " + std::to_string(most) +
              " strings");
  }
  for (const Node& item : node->items) {
    if (!Name(item, key, out.emplace_back())) return false;
  }
  return true;
}

bool Reader::FreeText(const Node& root, std::string_view key, std::string& out) {
  const Node* node = root.Find(key);
  return node == nullptr || FreeTextOf(*node, key, out);
}
bool Reader::FreeTextOf(const Node& node, std::string_view key, std::string& out) {
  if (node.kind != NodeKind::kString) {
    return No("\"" + EscapeForDisplay(key, 60) + "\" must be a string, not " +
              std::string(Noun(node.kind)));
  }
  if (CodePoints(node.text) > kMaxTextChars) {
    return No("\"" + EscapeForDisplay(key, 60) + "\" is longer than " +
              std::to_string(kMaxTextChars) + " characters");
  }
  if (node.text.find('\0') != std::string::npos) {
    return No("\"" + EscapeForDisplay(key, 60) + "\" holds a NUL character");
  }
  out = node.text;
  return true;
}

}  // namespace attune::strict
