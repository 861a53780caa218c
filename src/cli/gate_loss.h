// gate loss: two logs by the loss gate's own rules, with no campaign.
#pragma once

#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/run.h"
#include "attune/model/verdict.h"

namespace attune::cli {

// The steps of a log file in whatever dialect it is. Error: not readable, no known dialect, no
// step.
Result<std::vector<Step>> ReadStepsOf(const std::string& path);

struct LossComparison {
  GateVerdict verdict;  // step 0, loss terms, trajectory
  double shift = 0;     // of the first loss, relative
  std::size_t compared = 0;
};
// The baseline's log stands for a calibration of one run: nothing is known of its spread, so the
// limits are the plain ones. Pure.
LossComparison CompareLosses(const std::vector<Step>& baseline, const std::vector<Step>& candidate);

}  // namespace attune::cli
