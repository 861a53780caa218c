#include "enablers.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/propose/experience.h"

namespace attune {
namespace {

// The edits that belong to one lever.
Change Alone(const AgentDesk& desk, const Change& change, const std::string& lever) {
  Change alone{.lever = lever, .edits = {}, .enablers = {}};
  const auto offer = std::find_if(desk.levers.begin(), desk.levers.end(),
                                  [&](const LeverOffer& l) { return l.id == lever; });
  if (offer == desk.levers.end()) return alone;
  for (const Edit& edit : change.edits) {
    const bool own = std::any_of(offer->names.begin(), offer->names.end(),
                                 [&](const LeverOffer::Name& n) { return n.name == edit.name; });
    if (own) alone.edits.push_back(edit);
  }
  return alone;
}

const RunRecord* JudgedRun(const CampaignState& s, const RunId& id) {
  const RunRecord* run = s.FindRun(id);
  return run != nullptr && run->judged ? run : nullptr;
}

// What the record says of a configuration: it was launched and failed, or turned back for memory.
bool FailedBefore(const CampaignState& s, const Effective& candidate) {
  const std::string hash = CanonicalHash(candidate);
  return std::any_of(s.proposals.begin(), s.proposals.end(), [&](const ProposalRecord& p) {
    if (!p.proposal) return false;
    if (p.reason == "prefilter.memory") {
      return CanonicalHash(ApplyEdits(s.leader.user, p.proposal->change.edits)) == hash;
    }
    const RunRecord* run = JudgedRun(s, p.run);
    return p.hash == hash && run != nullptr && run->judged->standing == Standing::kFailed;
  });
}

const Change* ChangeOf(const CampaignState& s, const RunRecord& run) {
  const ProposalRecord* p = s.FindProposal(run.plan.proposal);
  return p != nullptr && p->proposal ? &p->proposal->change : nullptr;
}

bool CitesAFailure(const CampaignState& s, const Proposal& proposal) {
  return std::any_of(proposal.evidence.begin(), proposal.evidence.end(), [&](const RunId& id) {
    const RunRecord* run = JudgedRun(s, id);
    if (run == nullptr || run->judged->standing != Standing::kFailed) return false;
    const Change* change = ChangeOf(s, *run);
    return change != nullptr && change->lever == proposal.change.lever;
  });
}

bool IsStack(const CampaignState& s, const Change& change) {
  return IsMinor(s, change.lever) &&
         std::all_of(change.enablers.begin(), change.enablers.end(),
                     [&](const std::string& id) { return IsMinor(s, id); });
}

}  // namespace

bool IsMinor(const CampaignState& s, const std::string& lever) {
  return std::any_of(s.runs.begin(), s.runs.end(), [&](const auto& entry) {
    const RunRecord& run = entry.second;
    if (!run.judged || run.judged->standing != Standing::kTie) return false;
    const Change* change = ChangeOf(s, run);
    return change != nullptr && change->lever == lever && change->enablers.empty() &&
           run.judged->gain.value_or(0) > 0;
  });
}

std::string WhyNotTogether(const CampaignState& s, const AgentDesk& desk, const Vet& vet,
                           const Proposal& proposal) {
  const Change& change = proposal.change;
  if (change.enablers.empty()) return {};
  const Change alone = Alone(desk, change, change.lever);
  if (alone.edits.empty()) return {};  // the gate says what is wrong with it
  const Effective candidate = ApplyEdits(s.leader.user, alone.edits);
  if (FailedBefore(s, candidate) || CitesAFailure(s, proposal) || IsStack(s, change)) return {};
  const std::string words = EscapeForDisplay(Join(change.enablers, ", "), 200);
  if (candidate == s.leader.user) {
    return fmt::format("{} does not move; name what moves as the lever, not as an enabler ({})",
                       EscapeForDisplay(change.lever, 60), words);
  }
  const GateVerdict verdict = vet(alone);
  const Finding* why = verdict.FirstRefusal();
  if (why != nullptr && !why->rule.starts_with("duplicate")) return {};
  const std::optional<Estimate> estimate = ProjectCandidateMemory(s, candidate);
  if (estimate && estimate->MemoryShare() > kNearMemory) return {};
  return fmt::format(
      "{} alone is legal and fits as far as is known, so {} may not ride along: propose one lever, "
      "or name a failed launch of it as evidence",
      EscapeForDisplay(change.lever, 60), words);
}

}  // namespace attune
