#include "attune/propose/experience.h"

#include <fmt/core.h>

#include <variant>

#include "history.h"

namespace attune {

std::vector<Measured> ExperienceOf(const CampaignState& s) {
  if (s.recipe.framework != Framework::kMegatronLm) return {};
  return rules::HistoryOf(s).measured;
}

namespace {

template <class FitRuns>
std::optional<Estimate> ProjectBy(const CampaignState& s, const Effective& candidate,
                                  const FitRuns& fit) {
  if (s.recipe.framework != Framework::kMegatronLm) return std::nullopt;
  const auto job = ResolveMegatron(candidate.args, candidate.env, s.recipe.workload);
  const auto* resolved = std::get_if<TrainingJob>(&job);
  if (resolved == nullptr) return std::nullopt;
  return Project(*resolved, fit(ExperienceOf(s)));
}

}  // namespace

std::optional<Estimate> ProjectCandidate(const CampaignState& s, const Effective& candidate) {
  return ProjectBy(s, candidate, [](const auto& runs) { return Fit(runs); });
}

std::optional<Estimate> ProjectCandidateMemory(const CampaignState& s, const Effective& candidate) {
  return ProjectBy(s, candidate, [](const auto& runs) { return FitMemory(runs); });
}

std::string WhereTimeGoes(const Estimate& e) {
  const StepParts& p = e.parts;
  const auto share = [&](double x) { return 100 * x / e.step_seconds; };
  return fmt::format(
      "of the step: compute {:.0f}%, host {:.0f}%, tp {:.0f}%, ep {:.0f}%, cp {:.0f}%, pp {:.0f}%, "
      "dp {:.0f}%, bubble {:.0f}%, optimizer {:.0f}%; recomputed {:.0f}%",
      share(p.compute), share(p.host), share(p.tp), share(p.ep), share(p.cp), share(p.pp),
      share(p.dp), share(p.bubble), share(p.optimizer), share(p.recompute));
}

std::string WhereMemoryGoes(const Estimate& e) {
  return fmt::format(
      "memory by weights and optimizer {:.1f}, activations {:.1f}, other {:.1f} GB, fullest stage "
      "{}",
      e.weights_bytes / 1e9, e.activation_bytes / 1e9, e.other_bytes / 1e9, e.fullest_stage);
}

}  // namespace attune
