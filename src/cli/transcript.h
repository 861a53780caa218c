// explain --transcript: what was asked of a model for one proposal, and what it answered.
// Everything shown came from outside or is about it, so all of it is escaped.
#pragma once

#include <string>

#include "attune/base/result.h"
#include "attune/model/campaign.h"

namespace attune::cli {

// The calls of the decision that ended in `proposal`: those after the proposal before it. Empty
// when no model was asked. `folder`: of the campaign's exchanges; what is not there any more is
// left out and said.
Result<std::string> TranscriptText(const CampaignState& state, const ProposalId& proposal,
                                   const std::string& folder);
Result<std::string> TranscriptJson(const CampaignState& state, const ProposalId& proposal,
                                   const std::string& folder);

}  // namespace attune::cli
