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
                   const std::string& source, const std::string& llm_call = {});

// Classes of every lever in which the two differ (user form); kUnknown for what no lever explains.
std::vector<LeverClass> ClassesOf(const Recipe& recipe, const Effective& from, const Effective& to);
// Keys of the printed argument block that follow from others, with the values our rules compute.
std::map<std::string, std::string> DerivedKeys(const Recipe& recipe, const Effective& executed);
// Rows of a step and tokens of a row: the recipe's own word, else its arguments' (megatron-lm).
std::optional<std::int64_t> GlobalBatchOf(const Recipe& recipe);
std::optional<std::int64_t> SequenceOf(const Recipe& recipe);
// Memory of one slot in bytes, where known (the GPU table, or shape key device_memory).
std::optional<std::int64_t> DeviceMemory(const Recipe& recipe);

}  // namespace attune
