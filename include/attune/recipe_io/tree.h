// What a YAML file says, as plain nodes that know where they stand. Everything behind the YAML
// parser sees these only, so no quirk of a YAML library reaches a recipe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/base/result.h"

namespace attune {

// line and column count from 1; 0: the source has none (a value given by --set).
struct Where {
  int source = -1;
  int line = 0;
  int column = 0;
};

// Names of the files (and --set options) that a tree was made of.
class Sources {
 public:
  int Add(std::string name);
  std::string Show(const Where& where) const;  // "recipe.yaml:18:5"
  std::string ShowLine(const Where& where) const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

struct Node;
struct Entry;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  Where where;
  std::string text;    // scalar: as written, without quotes
  bool plain = false;  // scalar without quotes: may be a number or true/false
  std::vector<Node> items;
  // Map: in the order of the file. A list of arguments may carry entries too: edits that a file on
  // top of it makes by flag (merge.cc).
  std::vector<Entry> entries;

  bool IsMap() const { return kind == Kind::kMap; }
  bool IsList() const { return kind == Kind::kList; }
  bool IsScalar() const { return kind == Kind::kScalar; }
  bool IsNull() const { return kind == Kind::kNull; }
  const Node* Find(std::string_view key) const;
  Entry* FindEntry(std::string_view key);
};

struct Entry {
  std::string key;
  Where where;  // of the key
  Node value;
};

Node MakeText(std::string text, const Where& where);  // as if quoted
std::string_view KindWord(Node::Kind kind);           // "nothing", "a value", "a list", "a map"

// "FILE:LINE:COLUMN: message"; the file alone where there is no line.
tl::unexpected<Error> FailAt(const Sources& sources, const Where& where, std::string_view message,
                             std::string help = {});

// Plain scalars that readers of YAML disagree about: yes, no, on, off, True, 010.
bool IsDoubtfulPlain(std::string_view text);

// Strict YAML: one document, no duplicate keys, `<<`, tags, tabs in indentation, plain yes/no/on/
// off or leading zeros; bounded in bytes, depth and nodes (aliases count as what they expand to).
Result<Node> ParseYaml(std::string_view text, int source, const Sources& sources);

}  // namespace attune
