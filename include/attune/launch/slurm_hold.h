// An allocation that attune asks Slurm for and then runs in: one batch job that holds the nodes,
// whose script is attune itself with --in-allocation (decisions/0036).
#pragma once

#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"
#include "attune/launch/slurm.h"

namespace attune {

struct HoldSpec {
  std::string name;               // of the job, by which it is found again; [a-z0-9-]
  Millis time{0};                 // for which it holds the nodes at most, in whole minutes
  std::vector<std::string> argv;  // what runs in it; absolute
  std::string workdir;            // in which that starts
  std::string folder;             // of its script and its output, which the nodes share
  std::vector<std::string> exclude = {};  // nodes
};

// Submits it; its id. kUnavailable: a job of the name waits or runs already, Slurm does not answer,
// or it cannot be told whether the submit arrived: asked again, it is looked for by name first.
// kInvalidInput: refused, with Slurm's word.
Result<std::string> AskForAllocation(const SlurmOptions& options, const HoldSpec& spec);

}  // namespace attune
