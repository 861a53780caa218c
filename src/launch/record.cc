#include "record.h"

#include <algorithm>

#include "attune/base/text.h"

namespace attune::launch {
namespace {

constexpr std::string_view kName = "attune/";
constexpr std::int64_t kVersion = 1;

bool IsKey(std::string_view s) {
  return !s.empty() && s.size() <= 32 && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

tl::unexpected<Error> Torn(std::string_view kind, const char* why) {
  return Fail(ErrorCode::kCorrupt, "the " + std::string(kind) + " record is " + why);
}

// Takes text up to `end` from the front of `rest`.
std::optional<std::string_view> TakeUntil(std::string_view& rest, char end) {
  const auto at = rest.find(end);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  return taken;
}

}  // namespace

std::optional<std::string> Record::Text(std::string_view key) const {
  const auto it = std::find_if(fields_.begin(), fields_.end(),
                               [&](const auto& field) { return field.first == key; });
  return it == fields_.end() ? std::nullopt : std::optional<std::string>(it->second);
}

std::optional<std::int64_t> Record::Int(std::string_view key) const {
  const auto text = Text(key);
  return text ? ParseInt(*text) : std::nullopt;
}

std::string Record::Encode() const {
  std::string out = std::string(kName) + kind_ + "/" + std::to_string(kVersion) + "\n";
  for (const auto& [key, value] : fields_) {
    out += key + " " + std::to_string(value.size()) + ":" + value + "\n";
  }
  out += "end " + Sha256Hex(out) + "\n";
  return out;
}

Result<Record> DecodeRecord(std::string_view bytes, std::string_view kind) {
  std::string_view rest = bytes;
  const auto first = TakeUntil(rest, '\n');
  const std::string head = std::string(kName) + std::string(kind) + "/";
  if (!first || !first->starts_with(head)) {
    return Torn(kind, "torn or of another kind");
  }
  const auto version = ParseInt(first->substr(head.size()));
  if (!version || *version < 1) {
    return Torn(kind, "torn in its first line");
  }
  if (*version > kVersion) {
    return Fail(ErrorCode::kNewerFormat, "a " + std::string(kind) + " record of version " +
                                             std::to_string(*version) +
                                             ", written by a newer attune");
  }
  Record record{std::string(kind)};
  for (;;) {
    const std::size_t before = bytes.size() - rest.size();
    const auto key = TakeUntil(rest, ' ');
    if (!key || !IsKey(*key)) {
      return Torn(kind, "torn");
    }
    if (*key == "end") {
      const std::string expected = Sha256Hex(bytes.substr(0, before)) + "\n";
      if (rest != expected) {
        return Torn(kind, "torn: its hash does not fit");
      }
      return record;
    }
    const auto length_text = TakeUntil(rest, ':');
    const auto length = length_text ? ParseInt(*length_text) : std::nullopt;
    if (!length || *length < 0 || static_cast<std::size_t>(*length) >= rest.size() ||
        rest[static_cast<std::size_t>(*length)] != '\n') {
      return Torn(kind, "torn in a value");
    }
    record.Add(std::string(*key), std::string(rest.substr(0, static_cast<std::size_t>(*length))));
    rest.remove_prefix(static_cast<std::size_t>(*length) + 1);
  }
}

}  // namespace attune::launch
