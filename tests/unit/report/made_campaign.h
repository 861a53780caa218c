// A whole campaign by hand: two calibration runs, a refused, a winning and a failing proposal, one
// final block, shipped. `foreign` stands wherever a recipe, a log, a scheduler or a proposer may
// put text.
#pragma once

#include <string>
#include <vector>

#include "attune/model/campaign.h"

namespace attune::made {

struct MadeCampaign {
  std::vector<Event> events;
  CampaignState state;
};

enum class Until { kCalibrating, kSearching, kShipped };

MadeCampaign MakeCampaign(const std::string& foreign = "plain words",
                          Until until = Until::kShipped);

}  // namespace attune::made
