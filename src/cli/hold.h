// An allocation that is held for a campaign: Slurm is asked for it, and the campaign runs in it. By
// run --hold, or launcher.allocation of the recipe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"
#include "wire.h"

namespace attune::cli {

// For how long one is asked for before anything else is done; unset: none is. `flag`: --hold, which
// wins over the recipe. The recipe asks outside an allocation, and not for final blocks, of which a
// held one has room for one: those are jobs of their own. `campaign`: what goes on; null: a new
// one.
std::optional<Millis> SessionToHold(std::optional<Millis> flag, const Recipe& recipe,
                                    bool in_allocation, const CampaignState* campaign);

// What this process was started with, as it is said in the allocation: without --hold, without
// --detach, since the job lasts as long as the process, and without -C, whose folder it starts in.
std::vector<std::string> WordsInside(const std::vector<std::string>& words,
                                     const std::string& program, const std::string& state_folder);

struct HoldAsked {
  Millis time{0};
  const CampaignState* campaign = nullptr;  // that goes on in it; null: a new one
  std::vector<std::string> more;            // words that this process was not started with
};
Result<int> AskToHold(Wire& wire, const Recipe& recipe, const std::string& recipe_path,
                      const HoldAsked& asked);

}  // namespace attune::cli
