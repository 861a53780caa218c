// Recipes that the gate's cases, corpora and benchmark start from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/gates/config_check.h"
#include "attune/model/recipe.h"

namespace attune {

// "glm45" (a 92-layer MoE over 128 GPUs, the published baseline layout), "dense" (a small dense
// model over 16 GPUs), "hybrid" (Mamba pattern), "mla", "custom" (a declared trainer).
std::optional<Recipe> BaseRecipe(std::string_view name);

// The tests that the GLM-4.5 corpus counts as passed: the two same-math fusions.
std::vector<PassedTest> FusionTests();

std::vector<std::string> Tokens(std::string_view text);  // by spaces and newlines

}  // namespace attune
