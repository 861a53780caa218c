// Recipes that the tests of the simulated cluster run: a small dense job and a mixture of experts.
#pragma once

#include <string>
#include <vector>

#include "attune/model/recipe.h"
#include "attune/sim/cluster.h"

namespace attune::sim {

Recipe DenseRecipe();   // 8 GPUs
Recipe ExpertRecipe();  // 64 GPUs, as the gates' tests have it
ClusterSetup SetupFor(Recipe recipe, const std::string& world, std::uint64_t seed = 1);
// One stage that runs the recipe with these arguments on top.
LaunchSpec SpecFor(const Recipe& recipe, const std::string& token,
                   const std::vector<std::vector<std::string>>& stages);

}  // namespace attune::sim
