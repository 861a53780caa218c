#include "watch.h"

#include <fmt/core.h>

#include <algorithm>

#include "allocation.h"
#include "attune/base/text.h"
#include "attune/gates/candidate_traits.h"
#include "attune/gates/comparison.h"
#include "attune/gates/readback_check.h"
#include "attune/gates/rules.h"
#include "attune/gates/step0_check.h"
#include "attune/gates/thresholds.h"
#include "config_gate.h"
#include "pace.h"

namespace attune {
namespace {

constexpr Thresholds kLimits{};

bool IsMeasured(const RunRecord& run) {
  return run.plan.form == Form::kMeasured && run.plan.steps_wanted > 0;
}

// Baseline runs are compared with nobody; every other measured run is.
bool IsCompared(const CampaignState& s, const RunRecord& run) {
  return s.calibration && IsMeasured(run) && run.plan.user != s.recipe.base;
}

const RunRecord* CalibrationRunWithBlock(const CampaignState& s) {
  if (!s.calibration) return nullptr;
  for (const RunId& id : s.calibration->runs) {
    const RunRecord* run = s.FindRun(id);
    if (run != nullptr && !run->block.empty()) return run;
  }
  return nullptr;
}

void Add(Correctness& c, const GateVerdict& verdict) {
  c.findings.insert(c.findings.end(), verdict.findings.begin(), verdict.findings.end());
  c.refused = c.refused || !verdict.admitted;
}

std::vector<std::string> ProfileFlags(const Recipe& recipe) {
  std::vector<std::string> flags;
  if (recipe.framework == Framework::kMegatronLm) {
    for (const InstrumentRow& row : BuiltInRules().instrument) {
      if (row.when == InstrumentRow::When::kProfile) flags.emplace_back(row.name);
    }
  } else {
    for (const auto& [flag, value] : recipe.profile.set) flags.push_back(flag);
  }
  return flags;
}

// Layouts draw other random numbers, so with dropout their losses can't be compared. Megatron-LM's
// own default is 0.1 for both.
bool HasDropout(const Recipe& recipe, const Effective& e) {
  for (const char* flag : {"--attention-dropout", "--hidden-dropout"}) {
    const std::optional<std::string> value = e.args.Value(flag);
    if (!value && recipe.framework == Framework::kMegatronLm) return true;
    if (value && CompareDecimal(*value, "0") != 0) return true;
  }
  return false;
}

bool MayBeLookedAt(const CampaignState& s, const RunRecord& run) {
  return run.purpose == Purpose::kCandidate && s.calibration;
}

// One look: the short window is the first one, however many steps have come since. Where the full
// window is there it alone decides.
std::optional<StopAsked> LookNow(const CampaignState& s, const RunRecord& run) {
  if (!MayBeLookedAt(s, run)) return std::nullopt;
  MeasureInput input = InputOf(s, run);
  const WindowNeed need = LookAtWindow(input, kLimits);
  if (!need.look || need.full) return std::nullopt;
  input.short_window = true;
  const MeasuredRun seen = Measure(input, kLimits);
  if (seen.validity != Validity::kValid || !seen.measurement) return std::nullopt;
  const std::string allocation = AllocationOf(s, run);
  const LeaderThere leader = LeaderIn(s, allocation);
  if (!leader.measured) return std::nullopt;
  const EarlyLook look =
      LookEarly(ScoreOf(*seen.measurement, *s.calibration), seen.measurement->steps, leader.scores,
                NoiseIn(s, allocation), kLimits);
  if (look.verdict == EarlyVerdict::kGoOn) return std::nullopt;
  const StopWhy why = look.verdict == EarlyVerdict::kWin ? StopWhy::kEarlyWin : StopWhy::kEarlyLoss;
  return StopAsked{run.plan.id, why, {}, look.why};
}

}  // namespace

MeasureInput InputOf(const CampaignState& s, const RunRecord& run) {
  const Workload& workload = s.recipe.workload;
  MeasureInput input;
  input.steps = run.steps;
  input.spec = &s.recipe.measure;
  input.calibration = s.calibration ? &*s.calibration : nullptr;
  input.slots = workload.gpus;
  input.global_batch = GlobalBatchOf(s.recipe).value_or(0);
  input.seq_length = SequenceOf(s.recipe).value_or(0);
  input.variable_rows = workload.variable_rows;
  input.start_iteration = run.plan.start_iteration;
  if (run.memory.max_reserved > 0 || run.memory.max_allocated > 0) input.memory = run.memory;
  return input;
}

Correctness CheckFirstStep(const CampaignState& s, const RunRecord& run) {
  Correctness c;
  const std::vector<LeverClass> classes = ClassesOf(s.recipe, s.recipe.base, run.plan.user);
  Step0Input input;
  input.calibration = &*s.calibration;
  input.step = run.steps.empty() ? nullptr : &run.steps.front();
  input.classes = classes;
  input.experts = HasExperts(s.recipe, run.plan.user);
  input.incomparable =
      (s.opened && s.opened->checkpoint.empty()) || HasDropout(s.recipe, run.plan.user);
  input.recipe_limit = s.recipe.gate.step0_loss;
  const Step0Verdict verdict = CheckStep0(input, kLimits);
  Add(c, verdict.verdict);
  c.alarm = verdict.alarm;
  if (verdict.weak) c.not_available.emplace_back("step0");
  return c;
}

Correctness CheckBlock(const CampaignState& s, const RunRecord& run) {
  // Of the built-in tables, which do not change: asked for at every look at a run.
  static const std::map<std::string, BlockDestination> destinations =
      BlockDestinationsOf(BuiltInRules());
  Correctness c;
  const RunRecord* baseline = CalibrationRunWithBlock(s);
  ReadbackInput input;
  if (baseline != nullptr) {
    input.baseline = &baseline->block;
    input.intended = IntendedKeys(baseline->plan.executed, run.plan.executed, destinations);
    input.derived = DerivedKeys(s.recipe, run.plan.executed);
  }
  input.candidate = &run.block;
  input.per_launch = PerLaunchKeys();
  if (s.calibration) {
    input.per_launch.insert(s.calibration->varying_keys.begin(), s.calibration->varying_keys.end());
  }
  // A run that is not profiled beside a baseline that was: these are rows of ours in either case,
  // and a job need not print a switch that is off.
  for (const std::string& flag : ProfileFlags(s.recipe)) {
    input.per_launch.insert(BlockKey(flag));
    input.intended.erase(BlockKey(flag));
  }
  const ReadbackVerdict verdict = CheckReadback(input, kLimits);
  if (!verdict.available) {
    c.not_available.emplace_back("readback");
    return c;
  }
  Add(c, verdict.verdict);
  return c;
}

std::optional<StopAsked> WatchRun(const CampaignState& s, const RunRecord& run, Instant now,
                                  FoundSound* sound) {
  const RunId& id = run.plan.id;
  if (!run.started || run.end || run.stop) return std::nullopt;
  if (run.plan.steps_wanted > 0 && !run.steps.empty() &&
      run.steps.front().iteration != run.plan.start_iteration + 1) {
    return StopAsked{id,
                     StopWhy::kWrongStart,
                     {},
                     fmt::format("the first printed iteration is {}, expected {}",
                                 run.steps.front().iteration, run.plan.start_iteration + 1)};
  }
  if (IsCompared(s, run)) {
    const auto known = [&](std::set<RunId> FoundSound::*runs) {
      return sound != nullptr && (sound->*runs).contains(id);
    };
    const auto remember = [&](std::set<RunId> FoundSound::*runs) {
      if (sound != nullptr) (sound->*runs).insert(id);
    };
    if (!run.block.empty() && !known(&FoundSound::blocks)) {
      const Correctness block = CheckBlock(s, run);
      if (block.refused) {
        return StopAsked{id, StopWhy::kReadback, block.findings,
                         "the job does not run what was intended"};
      }
      remember(&FoundSound::blocks);
    }
    if (!run.steps.empty() && !known(&FoundSound::first_steps)) {
      const Correctness first = CheckFirstStep(s, run);
      if (first.refused) {
        return StopAsked{id, StopWhy::kStep0, first.findings, "the step-0 loss moved"};
      }
      remember(&FoundSound::first_steps);
    }
  }
  if (run.failure && run.failure->fatal) {
    return StopAsked{id, StopWhy::kFatalLine, {}, run.failure->line};
  }
  if (IsMeasured(run)) {
    // A win is not ended before its profile: where the time of the next leader goes is what the
    // next proposal is made from.
    auto early = LookNow(s, run);
    if (early && (early->why != StopWhy::kEarlyWin || ProfileIsOver(run))) return early;
    // Final runs go on for as long as the calibration's did: level 3 compares every step of them.
    const bool long_enough = run.purpose != Purpose::kFinal || !s.calibration ||
                             run.steps.size() >= s.calibration->losses.size();
    if (long_enough && ProfileIsOver(run) && LookAtWindow(InputOf(s, run), kLimits).full) {
      return StopAsked{id, StopWhy::kEnough, {}, "the window is whole"};
    }
  }
  const Millis silent = now - run.last_news_at;
  const Millis limit = HangLimit(s, run);
  if (silent >= limit) {
    return StopAsked{
        id,
        StopWhy::kHang,
        {},
        fmt::format("nothing new for {} (limit {})", ShowDuration(silent), ShowDuration(limit))};
  }
  return std::nullopt;
}

Instant NextDeadline(const CampaignState& s, const RunRecord& run) {
  return run.last_news_at + HangLimit(s, run);
}

int StepsUntilDecision(const CampaignState& s, const RunRecord& run) {
  if (run.steps.empty() || !IsMeasured(run)) return 1;
  const WindowNeed need = LookAtWindow(InputOf(s, run), kLimits);
  if (need.full && !ProfileIsOver(run)) {
    return static_cast<int>(run.plan.profile_last - run.steps.back().iteration);
  }
  const bool look_is_next = MayBeLookedAt(s, run) && !need.look;
  return std::max(
      1, look_is_next ? std::min(need.look_missing, need.steps_missing) : need.steps_missing);
}

}  // namespace attune
