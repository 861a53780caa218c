// Live checks of one running job: the first reason to stop it, if any. Pure; the same steps give
// the same answer however they were batched, because each check reads a prefix.
#pragma once

#include <optional>

#include "attune/campaign/campaign.h"
#include "attune/gates/measurement_check.h"
#include "attune/model/campaign.h"

namespace attune {

std::optional<StopAsked> WatchRun(const CampaignState& s, const RunRecord& run, Instant now,
                                  FoundSound* sound = nullptr);
// When WatchRun may next have something to say although no step arrives.
Instant NextDeadline(const CampaignState& s, const RunRecord& run);
// Further steps after which a decision may fall; 1 until the first step is there.
int StepsUntilDecision(const CampaignState& s, const RunRecord& run);

// Shared with judge: the input of the measurement check for a run.
MeasureInput InputOf(const CampaignState& s, const RunRecord& run);
// Step-0 and readback verdicts of a run against the calibration.
struct Correctness {
  std::vector<Finding> findings;
  bool refused = false;
  bool alarm = false;                      // step-0 class alarm
  std::vector<std::string> not_available;  // checks without input
};
Correctness CheckFirstStep(const CampaignState& s, const RunRecord& run);
Correctness CheckBlock(const CampaignState& s, const RunRecord& run);

}  // namespace attune
