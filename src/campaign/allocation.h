// What a held allocation means to the rules (launchers.md section 5, "Allocation"). Runs inside one
// are compared with each other, by the noise of runs that share one; nothing that was measured in
// another says how fast the leader is here. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"

namespace attune {

// What a run that was measured in `allocation` is compared with. Empty name: launches have
// allocations of their own, which are all the same to a comparison.
struct LeaderThere {
  std::vector<double> scores;
  bool measured = false;  // there; else elsewhere, and a fresh pair has to decide
};
LeaderThere LeaderIn(const CampaignState& s, const std::string& allocation);

// Sigma and band of comparisons in it.
Calibration NoiseIn(const CampaignState& s, const std::string& allocation);

// Before a candidate is launched into `allocation` the leader is measured there, once. nullopt: it
// has been, or does not run there twice over, and fresh pairs decide.
std::optional<LaunchIntended> MeasureLeader(const CampaignState& s, const std::string& allocation);

// What so many slots of it have cost since its last run ended: charged with the next launch. 0
// before its first run, and for an empty name.
GpuMillis IdleIn(const CampaignState& s, const std::string& allocation, int slots, Instant now);

}  // namespace attune
