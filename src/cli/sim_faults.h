// Faults with a known answer, replayed on the simulated cluster (the paper's Tables 4 and B2).
#pragma once

#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/recipe_io/recipe_io.h"
#include "attune/sim/cluster.h"

namespace attune::cli {

struct FaultRow {
  std::string fault;
  std::string
      caught;        // "before launch" | "at step 0" | "in the run" | "no" | "passes" | "not here"
  std::string rule;  // which check said so
  double step0_shift = 0;  // of the first loss, outside any campaign
  bool legitimate = false;
  bool right = false;
};
// One campaign a row: five calibration runs and the candidate.
Result<std::vector<FaultRow>> ReplayFaults(const LoadedRecipe& rehearsed,
                                           const sim::WorldRef& world, std::uint64_t seed,
                                           Clock& machine_clock);

}  // namespace attune::cli
