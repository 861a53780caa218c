// A whole campaign on the simulated cluster in this process, for comparisons and benchmarks: the
// loop, the store and the readers of `attune run`, without a terminal, signals or files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attune/base/result.h"
#include "attune/campaign/campaign.h"
#include "attune/propose/proposer.h"
#include "attune/recipe_io/recipe_io.h"
#include "attune/sim/cluster.h"
#include "attune/store/store.h"

namespace attune::cli {

struct SimCampaign {
  const LoadedRecipe* recipe = nullptr;  // rehearsed (simulate.h)
  sim::WorldRef world;
  Policy policy;                    // its seed is the cluster's too
  std::optional<GpuMillis> budget;  // unset: the rule for "auto"
};
// Runs it to its end and gives the last state. `store` may hold other campaigns.
Result<CampaignState> RunSimCampaign(const SimCampaign& campaign, Proposer& proposer, Store& store,
                                     Clock& machine_clock);

}  // namespace attune::cli
