// The files of skill/ as they were when this program was built.
#pragma once

#include <span>
#include <string_view>

namespace attune::skill {

struct BuiltInFile {
  std::string_view name, text;  // "skill/levers/recompute.yaml"
};
// In order of name.
std::span<const BuiltInFile> BuiltInLevers();
std::span<const BuiltInFile> BuiltInLessons();
std::string_view BuiltInRulesText();  // SKILL.md

}  // namespace attune::skill
