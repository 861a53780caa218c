#include "pace.h"

#include <algorithm>
#include <cmath>

#include "attune/campaign/campaign.h"
#include "attune/gates/candidate_traits.h"
#include "attune/gates/measurement_check.h"
#include "attune/gates/ship_check.h"
#include "plan.h"

namespace attune {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kBoundFactor = 3;  // a candidate up to three times as fast still fills its window
constexpr Millis kDefaultRunLimit = std::chrono::hours(2);
constexpr Millis kSmallestLimit = seconds(60);  // start-up of a small job varies by whole seconds
constexpr double kStartupFactor = 1.5, kStepFactor = 2.0, kFinalFactor = 1.2;
constexpr double kShortRunFactor = 1.5;
// Bands that the leader is ahead of the baseline when two blocks are going to be enough: twice what
// each block then has to show.
constexpr double kAhead = 2 * Thresholds{}.clear_bands;
// Writing a trace with Python stacks takes tens of seconds; a minute more is held for it.
constexpr Millis kProfileTime = seconds(60);
constexpr int kRehearsalSteps = 20;  // one evaluation, one save, and their neighbours

Millis Scaled(double ms) { return Millis{static_cast<std::int64_t>(std::ceil(ms))}; }

Millis Rounded(const CampaignState& s, Millis limit) {
  const std::int64_t step = s.opened ? std::max<std::int64_t>(s.opened->limit_step.count(), 1) : 1;
  return Millis{(limit.count() + step - 1) / step * step};
}

double MedianStep(const std::vector<Step>& steps) {
  std::vector<double> ms;
  for (const Step& step : steps) {
    if (step.printed_ms > 0) ms.push_back(step.printed_ms);
  }
  if (ms.empty()) return 0;
  std::nth_element(ms.begin(), ms.begin() + static_cast<std::ptrdiff_t>(ms.size() / 2), ms.end());
  return ms[ms.size() / 2];
}

bool ProfilesRuns(const CampaignState& s) {
  // A profiler that ended a run is not asked again: the runs are worth more than the traces.
  return IsProfiled(s.recipe) &&
         (s.recipe.launcher.kind != "sim" || (s.opened && s.opened->run_root == kTracedSimRoot)) &&
         std::none_of(s.runs.begin(), s.runs.end(),
                      [](const auto& r) { return EndedByProfile(r.second); });
}

double ProfileTime(const WindowPlan& window) {
  return window.profile > 0 ? static_cast<double>(kProfileTime.count()) : 0;
}

}  // namespace

bool InProfile(const RunPlan& plan, std::int64_t iteration) {
  return plan.profile_first > 0 && iteration >= plan.profile_first &&
         iteration <= plan.profile_last;
}

bool EndedByProfile(const RunRecord& run) {
  if (run.plan.profile_first == 0 || !run.end || run.steps.empty()) return false;
  const RunEnd end = run.end->detail.end;
  const std::int64_t last = run.steps.back().iteration;
  return (end == RunEnd::kCrashed || end == RunEnd::kOomGpu || end == RunEnd::kOomHost ||
          end == RunEnd::kHung || end == RunEnd::kTooSlow) &&
         last >= run.plan.profile_first - 1 && last < run.plan.profile_last;
}

bool ProfileIsOver(const RunRecord& run) {
  return run.plan.profile_first == 0 ||
         (!run.steps.empty() && run.steps.back().iteration >= run.plan.profile_last);
}

MeasuredWindow WindowFor(const CampaignState& s, int steps, const std::string& scratch) {
  const WindowPlan plan = PlanWindow(s);
  MeasuredWindow window;
  window.start_iteration = s.opened ? s.opened->start_iteration : 0;
  window.steps = steps;
  window.profile = plan.profile > 0;
  window.profile_after = plan.expected();
  window.profile_steps = s.recipe.profile.steps;
  window.profile_ranks = s.recipe.profile.ranks;
  window.run_dir = scratch;
  return window;
}

std::optional<Pace> PaceOf(const CampaignState& s) {
  if (s.calibration && s.calibration->step_ms > 0) {
    Pace pace{s.calibration->startup, s.calibration->step_ms};
    if (const RunRecord* leader = s.FindRun(s.leader.run); leader != nullptr && leader->end) {
      const double ms = MedianStep(leader->steps);
      if (ms > 0) pace.step_ms = ms;
      pace.startup = std::max(pace.startup, leader->end->startup);
    }
    return pace;
  }
  for (const auto& [id, run] : s.runs) {  // the first calibration run that showed its steps
    if (run.purpose != Purpose::kCalibration || !run.end) continue;
    const double ms = MedianStep(run.steps);
    if (ms > 0) return Pace{run.end->startup, ms};
  }
  return std::nullopt;
}

WindowPlan PlanWindow(const CampaignState& s) {
  const MeasureSpec& spec = s.recipe.measure;
  const std::optional<Pace> pace = PaceOf(s);
  WindowPlan plan;
  plan.warmup = spec.warmup_steps;
  plan.steps = WindowSteps(spec, pace ? pace->step_ms : 0, Thresholds{});
  // Before anything is known of the step time the bound allows for steps down to 20 ms.
  const int unknown = static_cast<int>(spec.min_seconds.count() / 20);
  plan.bound = plan.warmup + kBoundFactor * (pace ? plan.steps : std::max(plan.steps, unknown));
  if (ProfilesRuns(s)) {
    MeasuredWindow window;
    window.profile = true;
    window.profile_after = plan.expected();
    window.profile_steps = s.recipe.profile.steps;
    plan.profile = static_cast<int>(ProfiledBy(window).last) - plan.expected();
    plan.bound = std::max(plan.bound, plan.expected() + plan.profile);
  }
  return plan;
}

Millis LaunchLimit(const CampaignState& s, int runs) {
  const std::optional<Pace> pace = PaceOf(s);
  std::optional<Millis> said = s.recipe.budget.run_limit;
  if (s.opened && s.opened->run_limit) said = s.opened->run_limit;
  if (!pace) return Rounded(s, said.value_or(s.recipe.launcher.time.value_or(kDefaultRunLimit)));
  const WindowPlan window = PlanWindow(s);
  const double one = kStartupFactor * static_cast<double>(pace->startup.count()) +
                     kStepFactor * (window.expected() + window.profile) * pace->step_ms +
                     ProfileTime(window);
  Millis limit = std::max(Scaled(runs * one), kSmallestLimit * runs);
  if (said) limit = std::min(limit, *said * runs);
  return Rounded(s, limit);
}

Millis FinalLimit(const CampaignState& s) {
  // Two runs, the baseline and the winner. The winner's pace is that of one short run: half as much
  // again, and at most the baseline's, which bounds it from above.
  const std::optional<Pace> pace = PaceOf(s);
  const double leader = pace ? pace->step_ms : 0;
  const double baseline = s.calibration ? s.calibration->step_ms : leader;
  const double winner = std::max(leader, std::min(baseline, kShortRunFactor * leader));
  const double startup = pace ? static_cast<double>(pace->startup.count()) : 0;
  // Final runs are as long as the calibration's, whose every step they are compared with.
  const WindowPlan window = PlanWindow(s);
  const int steps = std::max(window.expected() + window.profile,
                             s.calibration ? static_cast<int>(s.calibration->losses.size()) : 0);
  const double both = 2 * startup + steps * (baseline + winner) + 2 * ProfileTime(window);
  return Rounded(s, std::max(Scaled(kFinalFactor * both), 2 * kSmallestLimit));
}

GpuMillis HoldFor(const CampaignState& s, Millis limit) {
  const Millis margin = s.opened ? s.opened->release_margin : Millis{15'000};
  return ChargeFor(s.recipe.workload.gpus, limit + margin);
}

int RehearsalStepsWanted(const CampaignState& s) {
  const std::optional<Pace> pace = PaceOf(s);
  if (!pace || !s.budget) return kRehearsalSteps;
  const GpuMillis step = ChargeFor(s.recipe.workload.gpus, Scaled(pace->step_ms));
  return RehearsalSteps(kRehearsalSteps, GraphsOrOverlaps(s.recipe, s.leader.user), step, *s.budget,
                        Thresholds{});
}

int FinalBlocksWanted(const CampaignState& s) {
  const int asked = s.opened ? s.opened->policy.final_blocks : 0;
  return asked > 0 ? asked : 3;
}

namespace {

GpuMillis ReserveOf(const CampaignState& s, int blocks) {
  if (!PaceOf(s)) return {};
  GpuMillis reserve{HoldFor(s, FinalLimit(s)).value * blocks};
  if (NeedsRehearsal(s)) reserve += HoldFor(s, LaunchLimit(s, 2));
  return reserve;
}

}  // namespace

GpuMillis Reserve(const CampaignState& s) { return ReserveOf(s, FinalBlocksWanted(s)); }

GpuMillis KeptForFinal(const CampaignState& s) {
  const bool asked = s.opened && s.opened->policy.final_blocks > 0;
  const bool won = !s.leader.run.empty();
  const bool clear = won && s.calibration && s.leader.gain > kAhead * s.calibration->band;
  const int blocks = FinalBlocksWanted(s);
  const int fewest = static_cast<int>(Thresholds{}.final_blocks_clear);
  return ReserveOf(s, asked || (won && !clear) ? blocks : std::min(blocks, fewest));
}

bool Affordable(const CampaignState& s, GpuMillis hold, bool keep_reserve) {
  if (!s.budget) return true;  // "auto", not computed yet: bounded by the number of launches
  const GpuMillis kept = keep_reserve ? KeptForFinal(s) : GpuMillis{};
  return s.ledger.Charged() + s.ledger.held + hold + kept <= *s.budget;
}

bool FitsWall(const CampaignState& s, Millis limit, bool keep_reserve, Instant now) {
  if (!s.recipe.budget.wall) return true;
  const Millis margin = s.opened ? s.opened->release_margin : Millis{0};
  Millis kept{0};
  if (keep_reserve && PaceOf(s)) {
    kept = (FinalLimit(s) + margin) * FinalBlocksWanted(s);
    if (NeedsRehearsal(s)) kept += LaunchLimit(s, 2) + margin;
  }
  return now + limit + margin + kept <= s.opened_at + *s.recipe.budget.wall;
}

bool StillProgressing(const RunRecord& run, Instant now) {
  if (run.steps.empty()) return false;
  const Millis quiet = std::max<Millis>(seconds(5), Scaled(5 * MedianStep(run.steps)));
  return now - run.last_news_at < quiet;
}

Millis HangLimit(const CampaignState& s, const RunRecord& run) {
  constexpr std::size_t kCompilingSteps = 3;  // compilation and graph capture fall into these
  if (run.steps.size() < kCompilingSteps) {
    if (s.recipe.launcher.startup) return *s.recipe.launcher.startup;
    if (!s.calibration) return minutes(30);
    return std::max<Millis>(minutes(10), 2 * s.calibration->startup);
  }
  if (s.recipe.launcher.no_progress) return *s.recipe.launcher.no_progress;
  // In the user's form a line may stand for as many steps as the whole run has.
  const int silent = run.plan.form == Form::kUser ? run.plan.steps_wanted : 0;
  return std::max<Millis>(minutes(2), Scaled((5 + silent) * MedianStep(run.steps)));
}

}  // namespace attune
