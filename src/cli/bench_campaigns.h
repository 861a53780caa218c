// Campaigns of tuners over worlds, with what only the simulated cluster knows beside what they
// claim. For comparisons; no campaign sees any of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune::cli {

struct BenchCampaign {
  std::string recipe, world, tuner;
  std::uint64_t seed = 0;
  bool shipped = false;  // it claims a gain
  bool aborted = false;
  double claimed_gain = 0;  // of the final stage
  double true_gain = 0;     // of what it ships, noise-free, over the recipe
  double reached = 0;       // throughput of what it ships over the best that was found; 0: no scan
  double best_gain = 0;     // of that best
  double reached_of_all = 0;  // the same over the best that would not leave the head-room either
  bool wrong = false;       // it ships what trains something else, or fails
  double calibration = 0, search = 0, final = 0, overrun = 0;  // GPU-hours
  int launches = 0, failed = 0;                                // of the search
  std::string changes;                                         // of what it ships
};

struct BenchPlan {
  std::vector<LoadedRecipe> recipes;  // rehearsed
  std::vector<std::string> worlds;    // "default:0", "cloud:7", a file
  std::vector<std::string> tuners;
  int seeds = 1;
  bool scan = true;
};
// `done` is called after each campaign.
Result<std::vector<BenchCampaign>> RunBench(const BenchPlan& plan, Clock& clock,
                                            const std::function<void(const BenchCampaign&)>& done);

// "cloud:1-4" is four worlds.
Result<std::vector<std::string>> ExpandWorlds(const std::vector<std::string>& specs);

// One line a recipe, family of worlds and tuner: means, worst cases and shares.
std::string BenchTable(const std::vector<BenchCampaign>& campaigns, bool markdown);

}  // namespace attune::cli
