#include "run_projection.h"

#include <algorithm>

#include "attune/estimate/estimate.h"
#include "attune/propose/experience.h"

namespace attune::cli {
namespace {

// The fold up to the intent of the run's launch.
CampaignState Before(const CampaignState& s, std::span<const Event> events, const RunId& run) {
  CampaignState state;
  state.recipe = s.recipe;
  for (const Event& event : events) {
    if (const auto* intent = std::get_if<LaunchIntended>(&event.fact)) {
      const bool its = std::any_of(intent->runs.begin(), intent->runs.end(),
                                   [&](const RunPlan& plan) { return plan.id == run; });
      if (its) break;
    }
    state = Apply(std::move(state), event);
  }
  return state;
}

}  // namespace

std::optional<RunProjection> ProjectionOf(const CampaignState& s, std::span<const Event> events,
                                          const RunId& id) {
  const RunRecord* run = s.FindRun(id);
  if (run == nullptr || s.recipe.framework != Framework::kMegatronLm) return std::nullopt;
  const auto resolved =
      ResolveMegatron(run->plan.user.args, run->plan.user.env, s.recipe.workload);
  const auto* job = std::get_if<TrainingJob>(&resolved);
  if (job == nullptr) return std::nullopt;
  const Correction correction = Fit(ExperienceOf(Before(s, events, id)));
  const std::optional<Estimate> estimate = Project(*job, correction), bare = Project(*job);
  if (!estimate || !bare) return std::nullopt;
  RunProjection p;
  p.runs = correction.runs;
  p.step_seconds = estimate->step_seconds;
  p.step_sd = estimate->step_sd;
  p.bare_step_seconds = bare->step_seconds;
  p.peak_bytes = estimate->peak_bytes;
  p.peak_sd = estimate->peak_sd;
  if (run->judged && run->judged->measurement &&
      run->judged->measurement->tokens_per_s_per_slot > 0) {
    p.got_step_seconds = static_cast<double>(job->batch.gbs * job->batch.seq_len) / job->world /
                         run->judged->measurement->tokens_per_s_per_slot;
  }
  const std::int64_t peak = std::max(run->memory.max_allocated, run->memory.max_reserved);
  if (peak > 0) p.got_peak_bytes = static_cast<double>(peak);
  return p;
}

}  // namespace attune::cli
