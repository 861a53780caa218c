#include "judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "allocation.h"
#include "attune/gates/calibration.h"
#include "attune/gates/candidate_traits.h"
#include "attune/gates/comparison.h"
#include "attune/gates/loss_check.h"
#include "attune/gates/measurement_check.h"
#include "attune/gates/readback_check.h"
#include "attune/gates/thresholds.h"
#include "attune/stats/stats.h"
#include "config_gate.h"
#include "pace.h"
#include "watch.h"

namespace attune {
namespace {

constexpr Thresholds kLimits{};

void Add(std::vector<Finding>& to, const std::vector<Finding>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

Judged Unscored(const RunRecord& run, Standing standing, std::string reason) {
  Judged j;
  j.id = run.plan.id;
  j.validity = standing == Standing::kEnvironment ? Validity::kRetry : Validity::kInvalid;
  j.standing = standing;
  j.reason = std::move(reason);
  return j;
}

std::string EndReason(const EndDetail& d) {
  std::string reason(Word(d.end));
  if (!d.cause.empty()) reason += ": " + d.cause;
  if (!d.evidence_at.empty()) reason += " (" + d.evidence_at + ")";
  return reason;
}

// Ends that leave nothing to measure. A run that we stopped because its window was whole, or that
// ended by itself with its steps there, goes on to be measured.
std::optional<Judged> FromEnd(const CampaignState& s, const RunRecord& run) {
  const EndDetail& end = run.end->detail;
  if (run.stop) {
    switch (run.stop->why) {
      case StopWhy::kStep0:
      case StopWhy::kReadback:
      case StopWhy::kTrajectory: {
        Judged j = Unscored(run, Standing::kRejected, run.stop->detail);
        j.findings = run.stop->findings;
        return j;
      }
      case StopWhy::kWrongStart:
        return Unscored(run, Standing::kEnvironment, run.stop->detail);
      case StopWhy::kUser:
        return Unscored(run, Standing::kEnvironment, "stopped by the user");
      case StopWhy::kEnough:
      case StopWhy::kEarlyLoss:
      case StopWhy::kEarlyWin:
      case StopWhy::kHang:
      case StopWhy::kFatalLine:
      case StopWhy::kLimit:
        break;
    }
  }
  if (IsEnvironment(end.end) || end.end == RunEnd::kCancelledOutside) {
    return Unscored(run, Standing::kEnvironment, EndReason(end));
  }
  // A profile that broke after the steps were there costs the trace, not the run.
  if (EndedByProfile(run) && Measure(InputOf(s, run), kLimits).validity != Validity::kInvalid) {
    return std::nullopt;
  }
  if (IsFailed(end.end)) return Unscored(run, Standing::kFailed, EndReason(end));
  return std::nullopt;
}

Judged Measured(const CampaignState& s, const RunRecord& run, bool short_window) {
  MeasureInput input = InputOf(s, run);
  input.short_window = short_window;
  MeasuredRun seen = Measure(input, kLimits);
  Judged j;
  j.id = run.plan.id;
  j.validity = seen.validity;
  j.measurement = std::move(seen.measurement);
  j.findings = std::move(seen.findings);
  j.reason = std::move(seen.reason);
  if (EndedByProfile(run)) {
    j.findings.push_back({Severity::kNote, "profile.broke", "", "", "",
                          "the run ended in its profile, behind the timed window: " +
                              EndReason(run.end->detail) + "; later runs are not profiled"});
  }
  switch (seen.validity) {
    case Validity::kValid:
      j.standing = Standing::kReference;
      break;
    case Validity::kRetry:
      j.standing = Standing::kEnvironment;
      break;
    case Validity::kInvalid:
      j.standing = Standing::kInvalid;
      break;
  }
  return j;
}

// Levels 1 and 2 for a candidate that would lead.
bool PassesCorrectness(const CampaignState& s, const RunRecord& run, Judged& j) {
  const Correctness first = CheckFirstStep(s, run);
  const Correctness block = CheckBlock(s, run);
  Add(j.findings, first.findings);
  Add(j.findings, block.findings);
  const GateVerdict printed = CheckPrintedSteps(run.steps, *s.calibration);
  const GateVerdict losses = CheckLosses(run.steps, *s.calibration,
                                         SameComposition(s.recipe, s.recipe.base, run.plan.user),
                                         LossLevel::kLeading, kLimits);
  Add(j.findings, printed.findings);
  Add(j.findings, losses.findings);
  // A step-0 alarm makes the readback a condition; what is not available never passes.
  const bool unread = first.alarm && !block.not_available.empty();
  if (unread) {
    j.findings.push_back(
        {Severity::kRefuse, "step0.alarm_unread", "", "", "",
         "the step-0 loss moved by more than its class does, and the job prints no "
         "argument block that would show what it runs"});
  }
  return !first.refused && !block.refused && !unread && printed.admitted && losses.admitted;
}

std::vector<double> PairScores(const CampaignState& s, const RunRecord& candidate,
                               std::string_view of) {
  std::vector<double> scores;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose != Purpose::kPair || run.plan.of != of) continue;
    const LaunchRecord& launch = s.launches.at(run.launch);
    const bool mine =
        std::any_of(launch.intent.runs.begin(), launch.intent.runs.end(), [&](const RunPlan& plan) {
          return plan.of == "candidate" && plan.proposal == candidate.plan.proposal;
        });
    if (mine && run.judged && run.judged->validity == Validity::kValid && run.judged->measurement) {
      scores.push_back(ScoreOf(*run.judged->measurement, *s.calibration));
    }
  }
  return scores;
}

const LaunchRecord* PairOf(const CampaignState& s, const RunRecord& candidate) {
  for (const auto& [id, launch] : s.launches) {
    if (launch.intent.purpose != Purpose::kPair) continue;
    for (const RunPlan& plan : launch.intent.runs) {
      if (plan.of == "candidate" && plan.proposal == candidate.plan.proposal) return &launch;
    }
  }
  return nullptr;
}

std::optional<Comparison> CompareOnce(const CampaignState& s, const RunRecord& run,
                                      const Judged& measured) {
  if (measured.validity != Validity::kValid || !measured.measurement) return std::nullopt;
  const std::string allocation = AllocationOf(s, run);
  const LeaderThere leader = LeaderIn(s, allocation);
  const double score[] = {ScoreOf(*measured.measurement, *s.calibration)};
  Comparison c = Compare(score, leader.scores, NoiseIn(s, allocation), kLimits);
  if (!leader.measured) {
    c.near_band = true;  // against what was measured elsewhere: only a fresh pair decides
    c.why += "; the leader was measured in another allocation";
  }
  return c;
}

bool StoppedFor(const RunRecord& run, StopWhy why) { return run.stop && run.stop->why == why; }

Judged JudgeCandidate(const CampaignState& s, const RunRecord& run) {
  if (StoppedFor(run, StopWhy::kEarlyLoss)) {
    Judged j = Measured(s, run, true);
    if (j.measurement) {
      // Over its mean: of the allocation, where the two share a held one.
      const std::string allocation = AllocationOf(s, run);
      const double mean = allocation.empty() ? s.leader.mean : Mean(LeaderIn(s, allocation).scores);
      j.gain = ScoreOf(*j.measurement, *s.calibration) / mean - 1;
    }
    j.standing = Standing::kStoppedEarly;
    j.reason = run.stop->detail;
    return j;
  }
  Judged j = Measured(s, run, StoppedFor(run, StopWhy::kEarlyWin));
  std::optional<Comparison> comparison = CompareOnce(s, run, j);
  if (!comparison) return j;
  if (PairOf(s, run) != nullptr) {
    const std::vector<double> candidate = PairScores(s, run, "candidate");
    const std::vector<double> leader = PairScores(s, run, "leader");
    if (!candidate.empty() && !leader.empty()) {
      comparison = ComparePair(candidate, leader, NoiseIn(s, AllocationOf(s, run)), kLimits);
    } else if (comparison->standing == Standing::kWin) {
      // The pair that had to confirm it gave no valid measurement: not believed.
      comparison->standing = Standing::kTie;
      comparison->why += "; the fresh pair could not be measured";
    }
  }
  j.standing = comparison->standing;
  j.gain = comparison->gain;
  j.reason = comparison->why;
  const bool correct = PassesCorrectness(s, run, j);
  if (!correct) {
    j.standing = Standing::kRejected;
    for (const Finding& f : j.findings) {
      if (f.severity == Severity::kRefuse) {
        j.reason = f.rule + ": " + f.why;
        break;
      }
    }
  }
  j.leads = j.standing == Standing::kWin;
  return j;
}

}  // namespace

bool NeedsPair(const CampaignState& s, const RunRecord& run) {
  if (run.purpose != Purpose::kCandidate || run.judged || !run.end || !s.calibration) return false;
  if (FromEnd(s, run) || StoppedFor(run, StopWhy::kEarlyLoss) || PairOf(s, run) != nullptr) {
    return false;
  }
  Judged j = Measured(s, run, StoppedFor(run, StopWhy::kEarlyWin));
  const std::optional<Comparison> c = CompareOnce(s, run, j);
  if (!c || !c->near_band || c->gain <= 0) return false;
  // What ties by its own run is not asked again: at most it would gain about the band.
  const bool elsewhere = !LeaderIn(s, AllocationOf(s, run)).measured;
  if (c->standing != Standing::kWin && !elsewhere) return false;
  // What can't lead however fast it is gets none: its own run shows that it trains something else.
  return PassesCorrectness(s, run, j);
}

std::optional<Judged> JudgeRun(const CampaignState& s, const RunRecord& run) {
  if (auto ended = FromEnd(s, run)) return ended;
  switch (run.purpose) {
    case Purpose::kComponentTest:
    case Purpose::kRehearsal: {
      Judged j;
      j.id = run.plan.id;
      j.validity = Validity::kValid;
      j.standing = Standing::kReference;
      j.reason = EndReason(run.end->detail);
      return j;
    }
    case Purpose::kCalibration:
    case Purpose::kProbe:
    case Purpose::kPair:
    case Purpose::kFinal:
      return Measured(s, run, false);
    case Purpose::kCandidate:
      break;
  }
  if (NeedsPair(s, run)) return std::nullopt;
  if (const LaunchRecord* pair = PairOf(s, run)) {
    const bool open =
        std::any_of(pair->intent.runs.begin(), pair->intent.runs.end(),
                    [&](const RunPlan& plan) { return !s.runs.at(plan.id).judged.has_value(); });
    if (open && pair->state != LaunchState::kVoid) return std::nullopt;
  }
  return JudgeCandidate(s, run);
}

std::vector<const RunRecord*> ValidCalibrationRuns(const CampaignState& s) {
  std::vector<const RunRecord*> runs;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose == Purpose::kCalibration && run.judged &&
        run.judged->validity == Validity::kValid && run.judged->measurement) {
      runs.push_back(&run);
    }
  }
  return runs;
}

namespace {

// Of the launch alone: that its nodes stood idle before it is no part of what it takes.
GpuMillis ChargeOf(const CampaignState& s, const RunRecord& run) {
  const LaunchRecord& launch = s.launches.at(run.launch);
  return launch.end ? launch.end->charged - launch.end->idle : GpuMillis{};
}

// Without the steps of its profile: what a launch costs decides the default budget, and a profile
// is no part of that (control_plane.md section 2).
GpuMillis UnprofiledCharge(const CampaignState& s, const RunRecord& run) {
  double ms = 0;
  for (const Step& step : run.steps) {
    if (InProfile(run.plan, step.iteration) && std::isfinite(step.printed_ms))
      ms += std::max(step.printed_ms, 0.0);
  }
  const GpuMillis profile =
      ChargeFor(s.recipe.workload.gpus, Millis{static_cast<std::int64_t>(ms)});
  return std::max(ChargeOf(s, run) - profile, GpuMillis{});
}

bool TooFew(const CampaignState& s, std::span<const double> scores, GpuMillis launch_cost) {
  const int planned = PlannedCalibrationRuns(s.recipe.measure, launch_cost, s.budget, kLimits);
  const bool by_budget = planned < s.recipe.measure.calibration_runs;
  return NeedMoreCalibration(scores, planned, by_budget, kLimits);
}

}  // namespace

bool WantsMoreCalibration(const CampaignState& s) {
  const std::vector<const RunRecord*> valid = ValidCalibrationRuns(s);
  if (valid.empty()) return true;
  std::vector<double> scores;
  std::int64_t cost = 0;
  for (const RunRecord* run : valid) {
    scores.push_back(run->judged->measurement->tokens_per_s_per_slot);
    cost += ChargeOf(s, *run).value;
  }
  return TooFew(s, scores, GpuMillis{cost / static_cast<std::int64_t>(valid.size())});
}

std::optional<Calibrated> ReusedCalibration(const CampaignState& s) {
  if (!s.opened || !s.opened->earlier) return std::nullopt;
  const EarlierCalibration& earlier = *s.opened->earlier;
  const std::vector<const RunRecord*> valid = ValidCalibrationRuns(s);
  if (valid.size() != 1) return std::nullopt;  // the first fresh run decides
  const RunRecord& fresh = *valid.front();
  if (TooFew(s, earlier.scores, earlier.calibration.launch_cost) ||
      !ProbeConfirms(ScoreOf(*fresh.judged->measurement, earlier.calibration),
                     earlier.calibration) ||
      !CheckPrintedSteps(fresh.steps, earlier.calibration).admitted ||
      !CheckLosses(fresh.steps, earlier.calibration, true, LossLevel::kLeading, kLimits).admitted) {
    return std::nullopt;
  }
  Calibrated reused{earlier.calibration, earlier.campaign};
  reused.calibration.runs = {fresh.plan.id};
  reused.calibration.how = fmt::format("{} of {}, {} before, confirmed by {}",
                                       earlier.calibration.how, earlier.campaign.value,
                                       ShowDuration(s.opened_at - earlier.at), fresh.plan.id.value);
  return reused;
}

Calibration CalibrationOf(const CampaignState& s) {
  std::vector<CalibrationRun> runs;
  for (const RunRecord* run : ValidCalibrationRuns(s)) {
    CalibrationRun c;
    c.id = run->plan.id;
    c.measurement = *run->judged->measurement;
    MeasureInput input = InputOf(s, *run);
    input.short_window = true;
    c.short_measurement = Measure(input, kLimits).measurement;
    c.steps = run->steps;
    c.argument_block = run->block.empty() ? nullptr : &run->block;
    if (run->memory.max_reserved > 0) c.memory = run->memory;
    const LaunchRecord& launch = s.launches.at(run->launch);
    if (launch.end) c.nodes = launch.end->nodes;
    c.allocation = AllocationOf(s, *run);
    c.startup = run->end->startup;
    c.charge = UnprofiledCharge(s, *run);
    runs.push_back(std::move(c));
  }
  return Calibrate(runs, s.recipe.measure, s.recipe.framework, kLimits);
}

std::optional<CalibrationTrouble> TroubleOf(const CampaignState& s) {
  std::vector<CalibrationAttempt> attempts;
  const RunRecord* last_failed = nullptr;
  int failures_in_a_row = 0;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose != Purpose::kCalibration || !run.judged) continue;
    const bool valid = run.judged->validity == Validity::kValid;
    std::string cause;
    if (!valid) {
      cause = Word(run.end->detail.end);
      const GateVerdict verdict = VerdictOf(run.judged->findings);
      if (const Finding* why = verdict.FirstRefusal()) cause = why->rule;
    }
    attempts.push_back({valid, std::move(cause)});
    if (run.judged->standing == Standing::kFailed) {
      last_failed = &run;
      failures_in_a_row++;
    } else {
      failures_in_a_row = 0;
    }
  }
  // The baseline is the user's working recipe: when it fails twice, or fails for certain before it
  // ever worked, nothing can be tuned.
  const bool never_worked = ValidCalibrationRuns(s).empty();
  if (last_failed != nullptr &&
      (failures_in_a_row >= 2 || (never_worked && failures_in_a_row > 0))) {
    const EndDetail& d = last_failed->end->detail;
    std::string reason = fmt::format("the baseline fails: {}", EndReason(d));
    if (!d.evidence.empty()) reason += fmt::format(": {}", d.evidence);
    return CalibrationTrouble{"baseline_fails", std::move(reason)};
  }
  std::string unstable = UnstableCluster(attempts, kLimits);
  if (!unstable.empty()) {
    for (const auto& [id, run] : s.runs) {
      if (run.purpose == Purpose::kCalibration && run.judged &&
          run.judged->validity != Validity::kValid && !run.judged->reason.empty()) {
        unstable += "; " + id.value + ": " + run.judged->reason;
      }
    }
    return CalibrationTrouble{"unstable_cluster", std::move(unstable)};
  }
  return std::nullopt;
}

}  // namespace attune
