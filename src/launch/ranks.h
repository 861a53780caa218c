// How the ranks of a stage are started (recipe: ranks.kind) by the launchers that start one wrapper
// a node. Slurm's own steps (srun) are slurm's.
#pragma once

#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/run.h"

namespace attune::launch {

// The stage as the wrapper of node `node_rank` is to run it: env:// ranks know their place,
// torchrun stands before the command. A job on one node meets on 127.0.0.1 at a free port;
// `master_addr` and `master_port` are where the ranks of several nodes meet. kInvalidInput: a kind
// that needs another launcher.
Result<Stage> OnNode(Stage stage, int node_rank, const std::string& master_addr, int master_port);

// argv under torchrun (PyTorch's documentation of torch.distributed.run, 1.13 and later): "python3
// -u train.py ..." becomes "python3 -u -m torch.distributed.run FLAGS train.py ...", a module goes
// on as "-m module", and any other program runs under "torchrun FLAGS --no-python". No restarts: a
// failed rank is a failed run.
std::vector<std::string> UnderTorchrun(const Stage& stage);

// Where the ranks of several nodes meet when nobody says so: the same port for every submit of one
// token, below the range from which Linux hands out ports by itself (32768).
int PortFor(const Token& token, std::size_t stage);

// How many logs the stage has on its node: one for each rank that the wrapper starts.
int LogsOf(const Stage& stage);

}  // namespace attune::launch
