#include "prefilter.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/propose/experience.h"

namespace attune {
namespace {

constexpr std::string_view kReason = "prefilter.memory";

bool AskedBefore(const CampaignState& s, const Effective& candidate) {
  const std::string hash = CanonicalHash(candidate);
  return std::any_of(s.proposals.begin(), s.proposals.end(), [&](const ProposalRecord& p) {
    return p.reason == kReason && p.proposal &&
           CanonicalHash(ApplyEdits(s.leader.user, p.proposal->change.edits)) == hash;
  });
}

}  // namespace

std::optional<std::string> PrefilterMemory(const CampaignState& s, const Proposal& proposal,
                                           const Effective& candidate) {
  if (!s.opened || !s.opened->policy.prefilter) return std::nullopt;
  const std::optional<Estimate> estimate = ProjectCandidateMemory(s, candidate);
  if (!estimate || estimate->MemoryShare() <= kNearMemory) return std::nullopt;
  const std::string projection = fmt::format(
      "projected peak {:.1f} GB, {:.0f}% of the device's memory (weights and optimizer "
      "{:.1f}, activations {:.1f}, other {:.1f} GB, on stage {})",
      estimate->peak_bytes / 1e9, 100 * estimate->MemoryShare(), estimate->weights_bytes / 1e9,
      estimate->activation_bytes / 1e9, estimate->other_bytes / 1e9, estimate->fullest_stage);
  if (estimate->MemoryShare() > kMostMemory) return projection;
  if (!Trim(proposal.fits_because).empty() && AskedBefore(s, candidate)) return std::nullopt;
  return projection + "; it may be proposed once more with fits_because";
}

}  // namespace attune
