// Launches as intents: which recipes run, in which form, under which limit and hold. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"

namespace attune {

struct RunDraft {
  std::string label;
  std::string of;  // baseline | candidate | leader
  ProposalId proposal;
  Effective user;
};

// A launch of measured runs, one after the other, for `purpose`.
LaunchIntended PlanMeasured(const CampaignState& s, Purpose purpose,
                            const std::vector<RunDraft>& runs, int attempt = 0);
// Rehearsal of the leader in the user's form: one run that evaluates and saves, and its restart.
LaunchIntended PlanRehearsal(const CampaignState& s);
// A save or an evaluation in the user's recipe: there is something to rehearse.
bool NeedsRehearsal(const CampaignState& s);
LaunchIntended PlanComponentTest(const CampaignState& s, const ComponentTest& test);

// Where redirected writes and traces of a run go: below the launch's folder, whatever attempt
// writes there.
std::string Scratch(const CampaignState& s, const Token& launch, const RunId& run);

RunDraft BaselineDraft(const CampaignState& s);
RunDraft LeaderDraft(const CampaignState& s);
RunDraft CandidateDraft(const ProposalRecord& proposal);

}  // namespace attune
