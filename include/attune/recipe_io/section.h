// Typed reading of one map of a YAML file: a recipe, a world. The first problem is kept and everything after it reads as
// absent, so that a reader is a list of fields and not a ladder of ifs.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"
#include "attune/recipe_io/tree.h"

namespace attune {

enum class KeyKind {
  kText,      // any scalar, as written
  kInt,       // whole number
  kNumber,    // decimal
  kBool,      // true | false
  kDuration,  // 90s, 8m, 2h
  kTexts,     // list of scalars
  kInts,      // list of whole numbers
  kTextMap,   // keys chosen by the user, scalar values
  kSection,   // map with the keys of `keys`
  kSections,  // list of such maps
  kArgs,      // list, or map flag -> value, list, true, false
  kBudget,    // number or auto
  kExtends,   // path or list of paths
  kShape,     // a row's name, or a map
  kChoice,    // one of `words`, or a map with the keys of `keys`
};

struct Key {
  std::string_view name;
  KeyKind kind;
  std::string_view doc;
  std::span<const Key> keys = {};                // kSection, kSections
  std::span<const std::string_view> words = {};  // closed list of values
  bool required = false;
};

class Problems {
 public:
  // `document`: what the file is, in messages.
  explicit Problems(const Sources& sources, std::string document = "recipe")
      : sources_(sources), document_(std::move(document)) {}
  void At(const Where& where, std::string_view message, std::string help = {});
  bool none() const { return !first_; }
  Status Take();
  const Sources& sources() const { return sources_; }
  const std::string& document() const { return document_; }

 private:
  const Sources& sources_;
  std::string document_;
  std::optional<Error> first_;
};

class Section {
 public:
  // `node`: a map with keys of `keys` only, or nullptr (then nothing is there). `path`: dotted, as
  // in messages; empty for the document itself.
  Section(const Node* node, std::span<const Key> keys, std::string path, Problems& problems);

  bool present() const { return node_ != nullptr; }
  const Node* node() const { return node_; }
  Where where() const { return node_ == nullptr ? Where{0, 0, 0} : node_->where; }
  const Node* Find(std::string_view key) const;
  Where WhereOf(std::string_view key) const;  // of the value, else of the section
  std::string Name(std::string_view key) const;
  Problems& problems() const { return problems_; }

  void Text(std::string_view key, std::string& out) const;
  void Int(std::string_view key, int& out, int least,
           int most = std::numeric_limits<int>::max()) const;
  void Int(std::string_view key, std::optional<int>& out, int least) const;
  void Int64(std::string_view key, std::optional<std::int64_t>& out, std::int64_t least) const;
  void Number(std::string_view key, double& out, double least, double most) const;
  void Bool(std::string_view key, bool& out) const;
  void Duration(std::string_view key, std::optional<Millis>& out) const;
  void Texts(std::string_view key, std::vector<std::string>& out) const;
  void Ints(std::string_view key, std::vector<int>& out, int least) const;
  // In the order of the file.
  std::vector<std::pair<std::string, std::string>> TextMap(std::string_view key) const;
  Section Sub(std::string_view key) const;
  std::vector<Section> Subs(std::string_view key) const;

 private:
  const Key* Spec(std::string_view key) const;
  const Node* Scalar(std::string_view key) const;
  void CheckKeys() const;
  void CheckWord(const Key& spec, const Node& value) const;
  std::optional<std::int64_t> Whole(std::string_view key, std::int64_t least,
                                    std::int64_t most) const;

  const Node* node_;
  std::span<const Key> keys_;
  std::string path_;
  Problems& problems_;
};

// The tree of a file of at most kMaxRecipeBytes, which is added to `sources`. kNotFound: no such file.
Result<Node> ReadYamlFile(const std::string& path, Sources& sources);

}  // namespace attune
