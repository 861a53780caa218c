// Every key that a recipe file may hold: one table for the reader's unknown-key errors, the JSON
// Schema and the check of docs/formats/recipe.md.
#pragma once

#include <span>
#include <string_view>

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
};

struct Key {
  std::string_view name;
  KeyKind kind;
  std::string_view doc;
  std::span<const Key> keys = {};                // kSection, kSections
  std::span<const std::string_view> words = {};  // closed list of values
  bool required = false;
};

std::span<const Key> RecipeKeys();
// The keys of a section by its dotted path ("launcher.script"); a bug when there is none.
std::span<const Key> SectionKeys(std::string_view path);

}  // namespace attune
