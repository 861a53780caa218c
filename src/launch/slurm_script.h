// The batch script and the command line of sbatch. Fixed text of ours; values stand in one quoted
// block of the script, or are words of argv: no shell ever reads one.
#pragma once

#include <string>
#include <vector>

#include "attune/launch/slurm.h"

namespace attune::launch {

// What the wrapper needs beyond the user's limit until its records are written: added to --time, so
// that the wrapper and not Slurm ends a launch that runs out of time.
inline constexpr Millis kWrapperTail{15'000};
std::int64_t MinutesFor(Millis limit);

// The script that runs `wrapper run folder ATTEMPT`. With a template of the user's: its line
// {{attune}} is replaced; Error: it has not exactly one such line, no "#!" or carriage returns.
Result<std::string> BatchScript(const std::string& user_template, const std::string& wrapper,
                                const std::string& folder);

// argv of sbatch for a launch.
std::vector<std::string> SbatchArgv(const SlurmOptions& options, const LaunchSpec& spec,
                                    const std::string& folder, const std::string& script);

// The part of it that says on which machines: nodes, GPUs, and nobody else there.
std::vector<std::string> NodesAskedFor(const SlurmOptions& options);
// One option of the user's: "true" is a bare one.
std::string OptionOf(const std::string& name, const std::string& value);

// The stage as the wrapper on the first node starts it: ranks over nodes by srun, one task a rank;
// a container around the program. `wrapper` is the path of attune-wrapper on the nodes; empty: as a
// batch script without attune starts it, which sets MASTER_PORT.
Stage OnNodes(const SlurmOptions& options, const Stage& stage, const std::string& wrapper,
              const std::string& folder);

}  // namespace attune::launch
