// Times and money of the next launch: windows, limits, holds, reserve (control_plane.md sections 2
// and 3). Pure; the only place that computes them.
#pragma once

#include <optional>

#include "attune/model/campaign.h"

namespace attune {

// How many steps a measured run wants. `expected`: warm-up plus window at the leader's step time;
// `bound`: where the job's own exit argument ends it, generous because a faster candidate needs
// more steps to fill the same seconds. The watcher ends the run once the window is whole.
struct WindowPlan {
  int warmup = 5;
  int steps = 20;
  int expected() const { return warmup + steps; }
  int bound = 25;
};
WindowPlan PlanWindow(const CampaignState& s);

// What a run of the baseline or leader takes, from the first measured run on.
struct Pace {
  Millis startup{0};
  double step_ms = 0;
};
std::optional<Pace> PaceOf(const CampaignState& s);

// Limit of a launch with `runs` runs, as the launcher rounds it.
Millis LaunchLimit(const CampaignState& s, int runs);
// Limit of a final block: 1.2 x what the same runs took.
Millis FinalLimit(const CampaignState& s);
GpuMillis HoldFor(const CampaignState& s, Millis limit);
// Holds of the whole final stage, its rehearsal included.
GpuMillis Reserve(const CampaignState& s);
int FinalBlocksWanted(const CampaignState& s);
// Steps of the rehearsal's first run: few, and many where graphs or overlaps fail late.
int RehearsalStepsWanted(const CampaignState& s);

// charged + holds + new hold <= budget - reserve. Calibration and final launches keep no reserve.
bool Affordable(const CampaignState& s, GpuMillis hold, bool keep_reserve);
// For a run that its time limit ended: had its steps stopped coming before? (hung or too slow)
bool StillProgressing(const RunRecord& run, Instant now);
// How long a run may show nothing new before it counts as hung.
Millis HangLimit(const CampaignState& s, const RunRecord& run);

}  // namespace attune
