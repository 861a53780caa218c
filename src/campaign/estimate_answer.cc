#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/propose/experience.h"

namespace attune {
namespace {

std::string Figures(const Estimate& e) {
  return fmt::format(
      "step {:.3g} s (give or take {:.0f}%), {:.1f} tok/s/GPU, peak {:.1f} GB ({:.0f}% "
      "of the device, give or take {:.0f}%)",
      e.step_seconds, 100 * e.step_sd, e.tokens_per_second_per_gpu, e.peak_bytes / 1e9,
      100 * e.MemoryShare(), 100 * e.peak_sd);
}

}  // namespace

Result<std::string> EstimateFor(const CampaignState& s, const Question& q) {
  const Effective candidate = ApplyEdits(s.leader.user, q.candidate.edits);
  const std::optional<Estimate> leader = ProjectCandidate(s, s.leader.user);
  const std::optional<Estimate> e = ProjectCandidate(s, candidate);
  if (!e || !leader || leader->step_seconds <= 0) {
    return Fail(ErrorCode::kNotFound, "this job can't be projected");
  }
  return fmt::format("candidate: {}\n{}\nleader: {}\nprojected gain over the leader {:+.1f}%; {}",
                     Figures(*e), WhereTimeGoes(*e), Figures(*leader),
                     100 * (leader->step_seconds / e->step_seconds - 1), WhereMemoryGoes(*e));
}

}  // namespace attune
