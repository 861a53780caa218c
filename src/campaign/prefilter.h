// The memory pre-filter: a field of the policy, no gate (control_plane.md section 3). What the
// estimate projects not to fit is turned back before it costs a launch.
#pragma once

#include <optional>
#include <string>

#include "attune/model/campaign.h"

namespace attune {

// Above kMostMemory (propose/experience.h) a candidate is turned back; above kNearMemory once, and
// taken when it is proposed again with a reason why it fits. nullopt: it is not turned back, or the
// policy has no pre-filter.
std::optional<std::string> PrefilterMemory(const CampaignState& s, const Proposal& proposal,
                                           const Effective& candidate);

}  // namespace attune
