// What doctor and plan --ask-scheduler say of a recipe that launches through Slurm.
#pragma once

#include <string>
#include <vector>

#include "attune/launch/slurm.h"
#include "attune/model/recipe.h"

namespace attune::cli {

struct SlurmCheck {
  enum class State { kOk, kWarn, kFail } state = State::kOk;
  std::string what, text, help;
};

// Questions only: nothing is queued. `limit`: of the launch that is asked for. `options`: the
// launcher's.
std::vector<SlurmCheck> CheckSlurm(const Recipe& recipe, const SlurmOptions& options, Millis limit);
// Submits a job of a minute through the launcher: can the compute node write below the run root,
// and does it see folder and image? Waits up to `patience` for it to start.
std::vector<SlurmCheck> CheckSlurmNode(const Recipe& recipe, SlurmOptions options, Millis patience);

}  // namespace attune::cli
