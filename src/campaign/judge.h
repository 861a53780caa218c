// What an ended run is worth: one Judged fact, written once. Pure.
#pragma once

#include <optional>
#include <vector>

#include "attune/model/campaign.h"

namespace attune {

// nullopt: not yet, a fresh pair has to decide first (NeedsPair).
std::optional<Judged> JudgeRun(const CampaignState& s, const RunRecord& run);
// A candidate close to the band whose fresh pair has not been launched, and that would lead if the
// pair found it faster: levels 1 and 2 pass.
bool NeedsPair(const CampaignState& s, const RunRecord& run);

// The calibration from the valid calibration runs so far.
Calibration CalibrationOf(const CampaignState& s);
// Valid calibration runs in order, and how many are wanted.
std::vector<const RunRecord*> ValidCalibrationRuns(const CampaignState& s);
bool WantsMoreCalibration(const CampaignState& s);
// The calibration that the campaign was opened with, once its first valid run confirms it: inside
// the band either way, the same batches and losses, and made from as many runs as this budget would
// have planned. A run that does not confirm it is the first of a calibration of its own.
std::optional<Calibrated> ReusedCalibration(const CampaignState& s);
// One sentence when the baseline can't be measured: unstable, or it fails; empty else.
struct CalibrationTrouble {
  std::string stop;    // "baseline_fails" | "unstable_cluster"
  std::string reason;  // with cause and evidence
};
std::optional<CalibrationTrouble> TroubleOf(const CampaignState& s);

}  // namespace attune
