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
  // Steps after the expected ones that the profile takes, its warm-up and writing included; 0:
  // none.
  int profile = 0;
};
WindowPlan PlanWindow(const CampaignState& s);

// The iteration is one that the run's profiler touches.
bool InProfile(const RunPlan& plan, std::int64_t iteration);
// The run failed while its profiler recorded or wrote, after the steps it was asked for.
bool EndedByProfile(const RunRecord& run);
// The profile's last step has been printed, or there is none.
bool ProfileIsOver(const RunRecord& run);

// What a run of the baseline or leader takes, from the first measured run on.
struct Pace {
  Millis startup{0};
  double step_ms = 0;
};
std::optional<Pace> PaceOf(const CampaignState& s);

// Limit of a launch with `runs` runs, as the launcher rounds it.
Millis LaunchLimit(const CampaignState& s, int runs);
// Limit of a final block: 1.2 x what its two runs are expected to take, the winner at half as much
// again as its own step time and at most at the baseline's.
Millis FinalLimit(const CampaignState& s);
GpuMillis HoldFor(const CampaignState& s, Millis limit);
int FinalBlocksWanted(const CampaignState& s);
// Steps of the rehearsal's first run: few, and many where graphs or overlaps fail late.
int RehearsalStepsWanted(const CampaignState& s);

// Of the reserve (campaign.h) what a launch of the search has to leave: all of it. A search without
// a win yet may count on two blocks, which suffice where money is short (control_plane.md section
// 4): a third one of a winner that there is not must not keep it from being found. So may one whose
// leader is more than four bands ahead, since two blocks that show half of that suffice. Unless the
// user asked for a number of them.
GpuMillis KeptForFinal(const CampaignState& s);
// charged + holds + new hold <= budget - reserve. Calibration and final launches keep no reserve.
bool Affordable(const CampaignState& s, GpuMillis hold, bool keep_reserve);
// budget.wall, counted from the campaign's opening: a launch that begins now and takes its whole
// limit ends within it, with the final stage's time kept back for launches of the search.
bool FitsWall(const CampaignState& s, Millis limit, bool keep_reserve, Instant now);
// For a run that its time limit ended: had its steps stopped coming before? (hung or too slow)
bool StillProgressing(const RunRecord& run, Instant now);
// How long a run may show nothing new before it counts as hung.
Millis HangLimit(const CampaignState& s, const RunRecord& run);

}  // namespace attune
