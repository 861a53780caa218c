// The campaign's use of the configuration gate: what a change may be, what a run executes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"
#include "attune/model/proposal.h"

namespace attune {

// The whole free gate for a change of the leader: classes, defects, legality, duplicates.
GateVerdict VetChange(const CampaignState& s, const Change& change);
// What would ship is the user's recipe plus levers, nothing else, and leaves no defective baseline
// behind unless its owner accepts that.
GateVerdict VetShipped(const CampaignState& s, const Effective& shipped);
// The fact that a proposal becomes: Proposed when admitted, else TurnedBack with the reason.
Fact JudgeProposal(const CampaignState& s, const ProposalId& id, Proposal proposal,
                   const std::string& source);

// Instrument(user) for a run that its own exit argument ends after `steps` steps. `scratch`: the
// folder below the launch's own that redirected writes go to.
Effective MeasuredForm(const CampaignState& s, const Effective& user, int steps,
                       const std::string& scratch);

// Classes of every lever in which the two differ (user form); kUnknown for what no lever explains.
std::vector<LeverClass> ClassesOf(const Recipe& recipe, const Effective& from, const Effective& to);
// Keys of the printed argument block that follow from others, with the values our rules compute.
std::map<std::string, std::string> DerivedKeys(const Recipe& recipe, const Effective& executed);
// Memory of one slot in bytes, where known (the GPU table, or shape key device_memory).
std::optional<std::int64_t> DeviceMemory(const Recipe& recipe);

}  // namespace attune
