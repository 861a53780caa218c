// What the gates say of a recipe as it is given, before anything is launched: the same for `check`
// and for `run`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/recipe.h"
#include "attune/model/verdict.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune::cli {

// Where a key of the effective recipe comes from, for a message; the recipe's path when unknown.
std::string PlaceOf(const LoadedRecipe& loaded, std::string_view key);

// All that they find, refusals too: for `doctor`.
std::vector<Finding> GateFindings(const Recipe& recipe);

// A recipe that could not be launched, or whose runs would write outside their run folders
// (control_plane.md section 2b), is invalid; what else the gates have to say is told.
Result<std::vector<Finding>> AskGates(const LoadedRecipe& loaded);

}  // namespace attune::cli
