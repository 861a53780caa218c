// The recipe's file against the campaign that was opened with it. A campaign keeps its recipe as it
// was; a file that says something else now is refused by `resume`, because nothing of it would be
// done, but for what nothing is decided by (cli.md section 3.5).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/campaign.h"
#include "attune/recipe_io/recipe_io.h"
#include "wire.h"

namespace attune::cli {

// What stood beside the file's name when the campaign was opened.
struct RecipeSource {
  std::vector<std::string> set, set_file;  // --set, --set-file (with absolute paths)
};
// Kept as STATE/opened/CAMPAIGN.json, so that the file can be read the same way again.
Status KeepSource(const std::string& state_folder, const CampaignId& campaign,
                  const RecipeSource& source);
// Unset: nothing was kept (an older attune opened it).
Result<std::optional<RecipeSource>> KeptSource(const std::string& state_folder,
                                               const CampaignId& campaign);

// The recipe as its file gives it now. kInvalidInput: it would be another campaign; each difference
// is told first. A file that is gone or cannot be read is told, and the campaign's own recipe is
// what is given back.
Result<Recipe> RecipeNow(Wire& wire, const CampaignState& state);
// The same for a file that is read already.
Result<Recipe> RecipeNow(Wire& wire, const CampaignState& state, const Recipe& file, bool certain);

// What a session takes over: price, notify, and the limits of model calls.
void TakeOver(Recipe& campaign, const Recipe& now);
// budget.gpu_hours where the file has raised it since; unset where a flag gave the campaign its
// own.
std::optional<GpuMillis> EditedBudget(const CampaignState& state, const Recipe& now);

}  // namespace attune::cli
