// The request that an agent would be sent now, for people: plan --show-prompt.
#pragma once

#include <string>

#include "wire.h"

namespace attune::cli {

// Of the campaign that -c names, else of the newest of this recipe, else of one that has only been
// opened. `policy`, `skill`: instead of the campaign's, when not empty. Nothing is sent.
Result<std::string> PromptText(Wire& wire, const LoadedRecipe& loaded, const std::string& policy,
                               const std::string& skill);

}  // namespace attune::cli
