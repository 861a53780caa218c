// `attune-wrapper rank PROGRAM ARGUMENT...`: what srun starts once a task. Turns Slurm's numbers
// into the names that env:// and torchrun read, and becomes the program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/os/process.h"

namespace attune::launch {

// RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT, and torchrun's own defaults
// PET_NNODES PET_NODE_RANK PET_MASTER_ADDR PET_MASTER_PORT, from SLURM_PROCID, SLURM_LOCALID,
// SLURM_NTASKS, SLURM_NODEID, SLURM_LAUNCH_NODE_IPADDR (the first node: the wrapper called srun
// there) and ATTUNE_PORT (free there). Error: not below srun.
Result<os::Environment> RankEnvironment(os::Environment env);

// The rank that failed first, from what srun prints: its own exit code is the one of the killed
// others ("srun: error: n2: task 1: Exited with exit code 3").
struct RankFailure {
  int rank = 0;
  std::optional<int> code, signal;
};
std::optional<RankFailure> FirstFailedRank(std::string_view srun_output);

// Returns only with an error.
Error BecomeRank(const std::vector<std::string>& argv);

}  // namespace attune::launch
