// The strict reading of a model's tool arguments: base/json_tree.h, and what every reader of such a
// tree asks of it. What does not fit is refused; nothing is repaired.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/json_tree.h"
#include "attune/base/result.h"

namespace attune::strict {

// Bounds of a reply. They are far above any honest one and keep a runaway model cheap.
inline constexpr std::size_t kMaxNameBytes = 128;   // a flag, variable or lever id
inline constexpr std::size_t kMaxTextChars = 2000;  // hypothesis and other free text

using Node = JsonNode;
using NodeKind = JsonKind;

// One whole JSON object, valid UTF-8, no byte order mark, no key twice in one object, bounded in
// bytes, depth and values. Error: what does not fit, in one line.
Result<Node> ReadObject(std::string_view raw);

// What every reader of such a tree asks of it. The first thing that does not fit stands in `error`,
// and every question after it says no.
class Reader {
 public:
  std::string error;

 protected:
  bool No(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  bool OnlyKeys(const Node& object, std::span<const std::string_view> allowed,
                std::string_view where);
  bool HasKeys(const Node& object, std::span<const std::string_view> demanded,
               std::string_view where);
  bool Name(const Node& node, std::string_view key, std::string& out);
  bool Names(const Node* node, std::string_view key, std::size_t most,
             std::vector<std::string>& out);
  // Absent is empty.
  bool FreeText(const Node& root, std::string_view key, std::string& out);
  bool FreeTextOf(const Node& node, std::string_view key, std::string& out);
};

}  // namespace attune::strict
