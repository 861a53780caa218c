// What a launcher, an oracle and a program need before the first job: the site, the place of the
// arguments in a command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/model/arguments.h"
#include "attune/sim/cluster.h"
#include "truth.h"

namespace attune::sim {

// Also resolves the baseline, to which a world may be bound (pinned factors, keeps_baseline, an
// input pipeline of its rate). kInvalidInput: the recipe can't be simulated; the message says why.
Result<Site> PrepareSite(const ClusterSetup& setup);

// The framework's arguments in the argv of a stage; nullopt when argv was not made from `command`.
std::optional<Arguments> ArgumentsOf(const std::vector<std::string>& command,
                                     const std::vector<std::string>& argv);

}  // namespace attune::sim
