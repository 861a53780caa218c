// A simulated training job as a program that any launcher can start: the same prints at the same
// (scaled) moments, the same exit codes and signals, a trace where the arguments ask for one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/sim/cluster.h"

namespace attune::sim {

struct ProgramSetup {
  ClusterSetup cluster;           // recipe: workload and stack; command and base are not read
  std::vector<std::string> args;  // the framework's own arguments
  Env env;
  std::string job;         // identity: equal jobs of one seed print the same
  double speed = 1;        // times are divided by it, those that are printed too
  std::string truth_file;  // noise-free breakdown, for tests; empty: none
};
struct ProgramEnd {
  std::optional<int> exit_code, signal;
};
// Returns when the job ends by itself; a job that hangs returns never. `print` is called with whole
// lines. Error: what can't be simulated or written.
Result<ProgramEnd> RunProgram(const ProgramSetup& setup, Clock& clock,
                              const std::function<void(std::string_view)>& print);

}  // namespace attune::sim
