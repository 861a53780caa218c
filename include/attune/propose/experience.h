// What a campaign's runs teach the estimate, and what it then says of a candidate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/estimate/estimate.h"
#include "attune/model/campaign.h"

namespace attune {

// One measurement a configuration. Empty for a framework whose jobs can't be resolved.
std::vector<Measured> ExperienceOf(const CampaignState& s);

// Of the device's memory: above kMostMemory a candidate does not fit; above kNearMemory it may not.
inline constexpr double kMostMemory = 1.02, kNearMemory = 0.92;

// The candidate's projection with what this campaign has measured; nothing when the job can't be
// resolved or its GPU is not known.
std::optional<Estimate> ProjectCandidate(const CampaignState& s, const Effective& candidate);

// The same without what was measured of the step times: for who asks only whether it fits.
std::optional<Estimate> ProjectCandidateMemory(const CampaignState& s, const Effective& candidate);

// "of the step: compute 52%, host 20%, ...; recomputed 3%".
std::string WhereTimeGoes(const Estimate& e);
// "memory by weights and optimizer 40.0, activations 61.2, other 8.0 GB, fullest stage 1".
std::string WhereMemoryGoes(const Estimate& e);

}  // namespace attune
