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
// The fact that a proposal becomes: Proposed when admitted, else TurnedBack with the reason.
Fact JudgeProposal(const CampaignState& s, const ProposalId& id, Proposal proposal,
                   const std::string& source);

// Instrument(user) for a run that its own exit argument ends after `steps` steps.
Effective MeasuredForm(const CampaignState& s, const Effective& user, int steps);

// Classes of every lever in which the two differ (user form); kUnknown for what no lever explains.
std::vector<LeverClass> ClassesOf(const Recipe& recipe, const Effective& from, const Effective& to);
// Keys of the printed argument block that follow from others, with the values our rules compute.
std::map<std::string, std::string> DerivedKeys(const Recipe& recipe, const Effective& executed);
// Neither the micro-batch nor the data-parallel split differs: loss terms must agree closely.
bool SameComposition(const Recipe& recipe, const Effective& from, const Effective& to);
bool HasExperts(const Recipe& recipe, const Effective& e);
bool DroplessOrVariable(const Recipe& recipe, const Effective& e);
bool GraphsOrOverlaps(const Effective& e);

// Memory of one slot in bytes, where known (the GPU table, or shape key device_memory).
std::optional<std::int64_t> DeviceMemory(const Recipe& recipe);

// The rehearsal's two forms: `first` evaluates and saves below the run folder, `second` restarts
// from that save. Paths are relative to ATTUNE_LAUNCH_DIR, which the wrapper sets.
struct RehearsalForms {
  Effective first, second;
  int first_steps = 0;                 // that it must show
  std::int64_t restart_iteration = 0;  // the second run's first iteration is this + 1
};
RehearsalForms RehearsalOf(const CampaignState& s, const Effective& user);

}  // namespace attune
