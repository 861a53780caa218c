// Foreign JSON, read strictly: one whole text, valid UTF-8, no key twice in one object, bounded in
// bytes, depth and values. A library's own tree keeps the last of two equal keys without a word and
// turns numbers into binary; here both stay visible as they were written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

enum class JsonKind { kNull, kBool, kNumber, kString, kArray, kObject };
std::string_view Noun(JsonKind kind);  // "a string", "an object" ...

struct JsonNode {
  JsonKind kind = JsonKind::kNull;
  bool truth = false;
  std::string text;               // of a string, decoded; of a number, as it was written
  std::vector<std::string> keys;  // of an object, in step with `items`
  std::vector<JsonNode> items;

  const JsonNode* Find(std::string_view key) const;
  bool IsObject() const { return kind == JsonKind::kObject; }
  bool IsArray() const { return kind == JsonKind::kArray; }
  bool IsString() const { return kind == JsonKind::kString; }
};

struct JsonBounds {
  std::size_t bytes = 64 * 1024;
  std::size_t depth = 16;  // objects and lists inside each other
  std::size_t values = 4096;
};

struct JsonReading {
  JsonNode root;      // meaningful when `error` is empty
  std::string error;  // one line for whoever wrote the text; shows nothing unescaped
};
JsonReading ReadJson(std::string_view text, const JsonBounds& bounds);

// Compact, keys in their order, numbers as they were written, bad UTF-8 never: reads back equal.
std::string WriteJson(const JsonNode& node);

}  // namespace attune
