// The last words of run and resume: what ships, what it cost, what to do next (cli.md section 3.7).
#pragma once

#include <string>

#include "attune/model/campaign.h"

namespace attune::cli {

// `folder`: of the campaigns, where what a rehearsal shipped lies.
std::string SummaryText(const CampaignState& state, int code, const std::string& why,
                        const std::string& folder);
std::string SummaryJson(const CampaignState& state, int code, const std::string& why);

// Runs that would bring the band down to 3%, said when a campaign ends without a gain because its
// band is wide; empty when the band is no obstacle.
std::string NoiseAdvice(const CampaignState& state);

}  // namespace attune::cli
