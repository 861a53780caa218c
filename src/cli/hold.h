// run --hold: Slurm is asked for an allocation, and the campaign runs in it.
#pragma once

#include <string>
#include <vector>

#include "attune/recipe_io/recipe_io.h"
#include "wire.h"

namespace attune::cli {

// What this process was started with, as it is said in the allocation: without --hold, without
// --detach, since the job lasts as long as the process, and without -C, whose folder it starts in.
std::vector<std::string> WordsInside(const std::vector<std::string>& words,
                                     const std::string& program, const std::string& state_folder);

Result<int> AskToHold(Wire& wire, const LoadedRecipe& loaded, const std::string& recipe_path,
                      Millis time);

}  // namespace attune::cli
