// A launch that somebody has to say yes to first.
#include <algorithm>
#include <utility>

#include "attune/base/check.h"
#include "effects.h"

namespace attune {
namespace {

// The first launch of the open proposal, when that is what would be recorded. Repeats of a run that
// the environment spoiled, pairs and final blocks follow from a candidate that was said yes to.
const LaunchIntended* FirstLaunchOfCandidate(const CampaignState& state, const Record& record) {
  if (!state.open_proposal) return nullptr;
  for (const Fact& fact : record.facts) {
    const auto* launch = std::get_if<LaunchIntended>(&fact);
    if (launch == nullptr || launch->purpose != Purpose::kCandidate) continue;
    const auto of_it = [&](const RunPlan& run) { return run.proposal == *state.open_proposal; };
    if (std::any_of(launch->runs.begin(), launch->runs.end(), of_it)) return launch;
  }
  return nullptr;
}

}  // namespace

Result<std::vector<Fact>> Effects::DoRecord(const CampaignState& state, const Record& record) {
  ATTUNE_CHECK(!record.facts.empty(), "Record without facts would spin");
  const LaunchIntended* launch = parts_.approve ? FirstLaunchOfCandidate(state, record) : nullptr;
  if (launch == nullptr || approved_.contains(*state.open_proposal)) return record.facts;
  const ProposalRecord* proposal = state.FindProposal(*state.open_proposal);
  ATTUNE_CHECK(proposal != nullptr, "an open proposal without its record");
  Heard heard;
  ATTUNE_TRY(const Approval answer, parts_.approve(state, *proposal, *launch, Listen(heard)));
  if (!heard.lease) return Fail(std::move(heard.lease.error()));
  switch (answer) {
    case Approval::kYes:
      // Nobody knows how long that took: limits and deadline are looked at anew before it is kept.
      approved_.insert(proposal->id);
      return std::vector<Fact>{};
    case Approval::kNo:
      return std::vector<Fact>{TurnedBack{proposal->id,
                                          proposal->proposal,
                                          proposal->source,
                                          proposal->llm_call,
                                          "user.declined",
                                          {},
                                          "the user said no to its launch"}};
    case Approval::kLeave:
      break;
  }
  // Asked again by the next session: the proposal stays open.
  return std::vector<Fact>{UserAsked{heard.wish.value_or("drain")}};
}

}  // namespace attune
