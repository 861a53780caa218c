// Worlds with one thing wrong: replays of faults with a known answer.
#pragma once

#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/sim/cluster.h"

namespace attune::sim {

struct Fault {
  std::string id;
  std::vector<std::string> when;  // conditions, as in a world file; none: every job
  double step0_loss = 0, loss_drift = 0, balance_factor = 1, grad_factor = 1;
};
// The world with a silent defect more. Error: a condition that is none.
Result<WorldRef> WithFault(const World& world, const Fault& fault);

}  // namespace attune::sim
