// The final stage: fresh blocks of baseline and leader, a rehearsal, then ship, fall back, or the
// baseline (control_plane.md section 4). Pure.
#pragma once

#include <optional>
#include <string>

#include "attune/model/action.h"
#include "attune/model/campaign.h"

namespace attune {

// The next step of phase `finalizing`; no launch is open and every ended run is judged.
// `allocation`: the held one that launches become steps of; empty: each has its own.
Action DecideFinal(const CampaignState& s, const std::string& allocation);

// During the search: a leader falls that the gate would not ship, such as for a caution that has
// escalated since it won. What builds on it would be refused, or fall in its turn.
std::optional<Action> LeaderFalls(const CampaignState& s);

// Every search win that could not be verified fell: was any of them rejected for correctness?
bool FellForCorrectness(const CampaignState& s);

}  // namespace attune
