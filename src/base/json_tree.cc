// A SAX pass of nlohmann's parser builds our own tree; the first thing that is wrong stops it.
#include "attune/base/json_tree.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "attune/base/text.h"

namespace attune {
namespace {

class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TreeBuilder(const JsonBounds& bounds) : bounds_(bounds) {}

  JsonNode root;
  std::string error;

  bool null() override { return Leaf(JsonKind::kNull, {}); }
  bool boolean(bool value) override {
    JsonNode* n = Place(JsonKind::kBool);
    if (n != nullptr) n->truth = value;
    return n != nullptr;
  }
  bool number_integer(number_integer_t value) override {
    return Leaf(JsonKind::kNumber, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Leaf(JsonKind::kNumber, std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& written) override {
    return Leaf(JsonKind::kNumber, written);
  }
  bool string(string_t& value) override { return Leaf(JsonKind::kString, std::move(value)); }
  bool binary(binary_t&) override { return Wrong("binary data"); }
  bool start_object(std::size_t) override { return Open(JsonKind::kObject); }
  bool start_array(std::size_t) override { return Open(JsonKind::kArray); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    JsonNode& object = *open_.back();
    if (std::find(object.keys.begin(), object.keys.end(), name) != object.keys.end()) {
      return Wrong("the key \"" + EscapeForDisplay(name, 60) + "\" stands twice in one object");
    }
    object.keys.push_back(std::move(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Wrong("not one whole JSON text: error at byte " + std::to_string(position));
  }

 private:
  bool Wrong(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  JsonNode* Place(JsonKind kind) {
    if (++values_ > bounds_.values) {
      Wrong("more than " + std::to_string(bounds_.values) + " values");
      return nullptr;
    }
    JsonNode* at = &root;
    if (!open_.empty()) at = &open_.back()->items.emplace_back();
    at->kind = kind;
    return at;
  }
  bool Leaf(JsonKind kind, std::string text) {
    JsonNode* n = Place(kind);
    if (n != nullptr) n->text = std::move(text);
    return n != nullptr;
  }
  bool Open(JsonKind kind) {
    if (open_.size() >= bounds_.depth) {
      return Wrong("nested deeper than " + std::to_string(bounds_.depth));
    }
    JsonNode* n = Place(kind);
    // A parent's `items` only grows while the parent is the innermost open node, so the pointers
    // of the open chain stay good.
    if (n != nullptr) open_.push_back(n);
    return n != nullptr;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonBounds& bounds_;
  std::vector<JsonNode*> open_;
  std::size_t values_ = 0;
};

void Write(const JsonNode& node, std::string& out) {
  switch (node.kind) {
    case JsonKind::kNull:
      out += "null";
      return;
    case JsonKind::kBool:
      out += node.truth ? "true" : "false";
      return;
    case JsonKind::kNumber:
      out += node.text;
      return;
    case JsonKind::kString:
      out += '"' + JsonEscape(node.text) + '"';
      return;
    case JsonKind::kArray:
      out += '[';
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        if (i > 0) out += ',';
        Write(node.items[i], out);
      }
      out += ']';
      return;
    case JsonKind::kObject:
      out += '{';
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        if (i > 0) out += ',';
        out += '"' + JsonEscape(node.keys[i]) + "\":";
        Write(node.items[i], out);
      }
      out += '}';
      return;
  }
}

}  // namespace

std::string_view Noun(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "true or false";
    case JsonKind::kNumber:
      return "a number";
    case JsonKind::kString:
      return "a string";
    case JsonKind::kArray:
      return "a list";
    case JsonKind::kObject:
      return "an object";
  }
  return "nothing";
}

const JsonNode* JsonNode::Find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

JsonReading ReadJson(std::string_view text, const JsonBounds& bounds) {
  if (text.size() > bounds.bytes) {
    return {{}, "longer than " + std::to_string(bounds.bytes) + " bytes"};
  }
  if (text.starts_with("\xEF\xBB\xBF")) return {{}, "starts with a byte order mark"};
  if (!IsValidUtf8(text)) return {{}, "not valid UTF-8"};
  TreeBuilder tree(bounds);
  bool whole = false;
  try {
    whole = nlohmann::json::sax_parse(text.begin(), text.end(), &tree);
  } catch (const std::exception& e) {  // the library's own; our handler throws nothing
    return {{}, std::string("unreadable JSON: ") + EscapeForDisplay(e.what(), 200)};
  }
  if (!whole) return {{}, tree.error.empty() ? "not one whole JSON text" : tree.error};
  return {std::move(tree.root), {}};
}

std::string WriteJson(const JsonNode& node) {
  std::string out;
  Write(node, out);
  return out;
}

}  // namespace attune
