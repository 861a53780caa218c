// What the machines of a recipe say when they are asked before a campaign: for `doctor` and for
// `plan --ask-scheduler`. Looks; starts no job, but for AskNode with `job`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/model/recipe.h"
#include "check_row.h"

namespace attune::cli {

// By launcher.kind: the scheduler, hosts over ssh, or this machine. `limit`: of the launch that a
// scheduler is asked about.
std::vector<CheckRow> AskLauncher(const Recipe& recipe, const std::string& state_folder,
                                  std::optional<Millis> limit, Clock& clock);

// Slurm's compute node, which only a job can see: with `job` one of a minute is submitted.
std::vector<CheckRow> AskNode(const Recipe& recipe, const std::string& state_folder, bool job,
                              Clock& clock);

}  // namespace attune::cli
