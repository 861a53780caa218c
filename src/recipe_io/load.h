#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/recipe_io/recipe_io.h"
#include "read_recipe.h"
#include "attune/recipe_io/tree.h"

namespace attune {

struct LoadedTree {
  Node root;
  Sources sources;
  std::vector<SourceFolder> folders;
};

// The merged tree, before anything is read from it.
Result<LoadedTree> LoadTree(std::string_view text, const std::string& path,
                            const LoadOptions& options);

}  // namespace attune
