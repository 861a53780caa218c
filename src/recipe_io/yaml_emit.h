// Writes trees as YAML that ParseYaml reads back to the same tree.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "attune/recipe_io/tree.h"

namespace attune {

// Quotes what would not read back as the same text: empty, ambiguous, or with a meaning in YAML.
std::string YamlScalar(std::string_view text, bool plain);

// Block style, lists of scalars in brackets. `comment` gives a remark for a node's line, or "".
std::string EmitYaml(const Node& map, const std::function<std::string(const Where&)>& comment = {});

}  // namespace attune
