// Layers of a recipe: what a file extends, the file, --set.
#pragma once

#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "attune/recipe_io/tree.h"

namespace attune {

// Puts `top` over `base`, a map over a map key by key; a list or a value replaces; an empty value
// removes the key and must find it. `args` alone may be a list below and a map on top: the map then
// edits the list by flag (Node::entries of the list).
Status MergeOver(Node& base, const Node& top, const Sources& sources);

// "measure.steps=15" as a tree to merge. Keys are separated by '.'; a key with a dot is quoted:
// args."model.tp"=2. The value is a YAML scalar, or a list or map in brackets; empty removes.
Result<Node> ParseSet(std::string_view option, Sources& sources);
// "key=FILE": the text of the file as one string, without its last newline.
Result<Node> ParseSetFile(std::string_view option, Sources& sources);

}  // namespace attune
