#include "attune/gates/measurement_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "attune/base/check.h"
#include "attune/gates/step0_check.h"
#include "attune/stats/stats.h"
#include "step_times.h"

namespace attune {
namespace {

constexpr std::size_t kDriftPoints = 200;  // Theil-Sen is quadratic

struct Judgement {
  std::vector<Finding> findings;
  bool environment = false;
  bool recipe = false;

  // The recipe's own fault: measuring again would give the same.
  void Invalid(std::string rule, std::string why, std::string was = {}, std::string now = {}) {
    recipe = true;
    findings.push_back({.severity = Severity::kRefuse,
                        .rule = "measure." + std::move(rule),
                        .key = {},
                        .was = std::move(was),
                        .now = std::move(now),
                        .why = std::move(why)});
  }
  void Retry(std::string rule, std::string why) {
    environment = true;
    findings.push_back({.severity = Severity::kRefuse,
                        .rule = "measure." + std::move(rule),
                        .key = {},
                        .was = {},
                        .now = {},
                        .why = std::move(why)});
  }
  void NotJudged(std::string rule, std::string why) {
    findings.push_back({.severity = Severity::kNote,
                        .rule = "measure." + std::move(rule),
                        .key = {},
                        .was = {},
                        .now = {},
                        .why = std::move(why)});
  }
};

// Printed numbers may be anything, so their difference wraps.
std::uint64_t Rise(std::int64_t from, std::int64_t to) {
  return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
}

double BaselineStepMs(const MeasureInput& input, const StepTimes& times) {
  if (input.calibration != nullptr && input.calibration->step_ms > 0) {
    return input.calibration->step_ms;
  }
  std::vector<double> known;
  for (std::size_t i = 0; i < times.ms.size(); ++i) {
    if (times.ms[i] > 0 && !input.steps[i].cut) {
      known.push_back(times.ms[i]);
    }
  }
  return known.empty() ? 0 : Median(known);
}

// Steps rise by one from s + 1, none is skipped or not a number. False: there is no order in which
// a window could be cut out.
bool CheckSequence(const MeasureInput& input, Judgement& judgement) {
  const std::span<const Step> steps = input.steps;
  if (steps.empty()) {
    judgement.Invalid("window", "the run printed no step");
    return false;
  }
  if (input.start_iteration && Rise(*input.start_iteration, steps.front().iteration) != 1) {
    judgement.Retry("wrong_start",
                    fmt::format("the first printed iteration is {}, the start point is {}",
                                steps.front().iteration, *input.start_iteration));
  }
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (Rise(steps[i - 1].iteration, steps[i].iteration) != 1) {
      judgement.Invalid("sequence", fmt::format("iteration {} is followed by {}",
                                                steps[i - 1].iteration, steps[i].iteration));
      return false;
    }
  }
  for (const Step& step : steps) {
    if (step.nan) {
      judgement.Invalid("nan", fmt::format("iteration {} has no finite loss", step.iteration));
      break;
    }
  }
  for (const Step& step : steps) {
    if (step.skipped != 0) {
      judgement.Invalid("skipped", fmt::format("iteration {} reports {} skipped iterations",
                                               step.iteration, step.skipped));
      break;
    }
  }
  return true;
}

// Trains on other data per step than the workload says: then its throughput is another quantity.
void CheckBatch(const MeasureInput& input, Judgement& judgement) {
  bool printed = false;
  for (std::size_t i = 0; i < input.steps.size(); ++i) {
    const Step& step = input.steps[i];
    if (step.global_batch) {
      printed = true;
      if (*step.global_batch != input.global_batch) {
        judgement.Invalid("global_batch",
                          fmt::format("iteration {} prints global batch {}, the workload has {}",
                                      step.iteration, *step.global_batch, input.global_batch),
                          std::to_string(input.global_batch), std::to_string(*step.global_batch));
        return;
      }
    }
    if (i > 0 && step.consumed_samples && input.steps[i - 1].consumed_samples) {
      printed = true;
      const auto rose = static_cast<std::int64_t>(
          Rise(*input.steps[i - 1].consumed_samples, *step.consumed_samples));
      if (rose != input.global_batch) {
        judgement.Invalid(
            "samples",
            fmt::format("consumed samples rise by {} at iteration {}, the global batch is {}", rose,
                        step.iteration, input.global_batch),
            std::to_string(input.global_batch), std::to_string(rose));
        return;
      }
    }
  }
  if (!printed) {
    judgement.NotJudged("global_batch", "the log prints neither global batch nor consumed samples");
  }
}

// Tokens of the window; also checks them. 0 after an objection.
double TokensOf(const MeasureInput& input, const Window& window, Judgement& judgement) {
  const double fixed =
      static_cast<double>(input.global_batch) * static_cast<double>(input.seq_length);
  double tokens = 0;
  double baseline = 0;
  for (const std::size_t i : window.timed) {
    const std::optional<double>& printed = input.steps[i].tokens;
    if (!input.variable_rows) {
      if (printed && *printed != fixed) {
        judgement.Invalid("tokens",
                          fmt::format("iteration {} prints {:.0f} tokens, the workload has {:.0f}",
                                      input.steps[i].iteration, *printed, fixed));
        return 0;
      }
      tokens += fixed;
      continue;
    }
    if (!printed || !std::isfinite(*printed) || *printed <= 0) {
      judgement.Invalid("tokens", fmt::format("rows vary and iteration {} prints no token count",
                                              input.steps[i].iteration));
      return 0;
    }
    tokens += *printed;
    if (input.calibration != nullptr) {
      const auto& reference = input.calibration->steps;
      if (i >= reference.size() || !reference[i].tokens) {
        judgement.Invalid("tokens", fmt::format("rows vary and the calibration has no token count "
                                                "for iteration {}",
                                                input.steps[i].iteration));
        return 0;
      }
      baseline += *reference[i].tokens;
    }
  }
  if (input.variable_rows && input.calibration != nullptr && tokens != baseline) {
    judgement.Invalid("tokens", fmt::format("the window has {:.0f} tokens, the baseline's same "
                                            "steps have {:.0f}",
                                            tokens, baseline));
    return 0;
  }
  return tokens;
}

// Arrival of the lines against the job's own times, over the steps where both are known. A step
// after a cut one is left out: its line arrives later by whatever the cut step did.
std::optional<double> ClockRatio(const MeasureInput& input, const StepTimes& times,
                                 const Window& window) {
  double printed = 0;
  double arrived = 0;
  for (const std::size_t i : window.timed) {
    if (i == 0 || input.steps[i].arrival_ms < 0 || input.steps[i - 1].arrival_ms < 0 ||
        input.steps[i - 1].cut) {
      continue;
    }
    printed += times.ms[i];
    arrived += static_cast<double>(input.steps[i].arrival_ms - input.steps[i - 1].arrival_ms);
  }
  if (!times.printed || printed <= 0) {
    return std::nullopt;
  }
  return arrived / printed;
}

// Change over the window by Theil-Sen, relative to the median. Long windows are thinned to medians
// of consecutive groups.
double DriftOf(std::span<const double> ms) {
  std::vector<double> points;
  const std::size_t groups = std::min(ms.size(), kDriftPoints);
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t from = g * ms.size() / groups;
    const std::size_t to = (g + 1) * ms.size() / groups;
    points.push_back(Median(ms.subspan(from, to - from)));
  }
  const double median = Median(ms);
  return points.size() < 2
             ? 0
             : TheilSenSlope(points) * static_cast<double>(points.size() - 1) / median;
}

double HalfDriftOf(std::span<const double> ms) {
  const std::size_t half = ms.size() / 2;
  if (half == 0) {
    return 0;
  }
  return Mean(ms.last(half)) / Mean(ms.first(half)) - 1;
}

Measurement MeasurementOf(const MeasureInput& input, const StepTimes& times, const Window& window,
                          double tokens) {
  std::vector<double> ms;
  for (const std::size_t i : window.timed) {
    ms.push_back(times.ms[i]);
  }
  Measurement m;
  m.first_iteration = input.steps[window.timed.front()].iteration;
  m.last_iteration = input.steps[window.timed.back()].iteration;
  m.steps = static_cast<int>(ms.size());
  m.short_window = input.short_window;
  m.seconds = window.ms / 1000;
  m.tokens_per_s_per_slot = tokens / m.seconds / input.slots;
  m.median_step_ms = Median(ms);
  m.p95_step_ms = Percentile(ms, 0.95);
  m.mad_step_ms = Mad(ms);
  m.mean_over_median = std::abs(Mean(ms) / m.median_step_ms - 1);
  if (ms.size() > 1) {
    m.cv = RelativeSd(ms);
    m.half_drift = HalfDriftOf(ms);
    m.drift = DriftOf(ms);
    m.lag1 = Lag1Autocorrelation(ms);
  }
  m.clock_ratio = ClockRatio(input, times, window);
  m.memory = input.memory;
  const std::map<std::string, double>& losses = input.steps.front().losses;
  if (const auto main = losses.find(MainLoss(losses)); main != losses.end()) {
    m.step0_loss = main->second;
  }
  m.cut_steps = static_cast<int>(window.timed.back() - window.timed.front() + 1) - m.steps;
  if (input.flops_per_token && input.peak_flops && *input.peak_flops > 0) {
    m.mfu = m.tokens_per_s_per_slot * *input.flops_per_token / *input.peak_flops;
  }
  if (input.variable_rows && input.calibration != nullptr) {
    double baseline_ms = 0;
    for (const std::size_t i : window.timed) {
      baseline_ms += i < input.calibration->steps.size() ? input.calibration->steps[i].step_ms : 0;
    }
    m.same_steps_ratio = baseline_ms / window.ms;
  }
  return m;
}

// Instability may be the cluster's: it is worth one more try.
void CheckStability(const MeasureInput& input, const Measurement& m, const Thresholds& limits,
                    Judgement& judgement) {
  const Calibration none;
  const Calibration& own = input.calibration != nullptr ? *input.calibration : none;
  // A recipe that relaxes cv_max or half_drift_max relaxes their kin in proportion.
  const MeasureSpec strict;
  const double cv_relaxed = std::max(1.0, input.spec->cv_max / strict.cv_max);
  const double drift_relaxed = std::max(1.0, input.spec->half_drift_max / strict.half_drift_max);
  const auto check = [&](const char* rule, const char* what, double value, double limit,
                         double own_value) {
    limit = std::max(limit, limits.own_factor * own_value);
    if (std::abs(value) > limit * (1 + 1e-12)) {
      judgement.Retry(rule, fmt::format("{} is {:.2f}%, at most {:.2f}% is allowed", what,
                                        100 * std::abs(value), 100 * limit));
    }
  };
  check("mean_median", "the distance of mean and median step time", m.mean_over_median,
        limits.mean_over_median_max * cv_relaxed, own.own_mean_over_median);
  check("cv", "the spread of step times", m.cv, input.spec->cv_max, own.own_cv);
  check("half_drift", "the difference between the window's halves", m.half_drift,
        input.spec->half_drift_max, own.own_half_drift);
  check("drift", "the drift of step times over the window", m.drift,
        limits.drift_max * drift_relaxed, own.own_drift);
}

void CheckSanity(const MeasureInput& input, const Measurement& m, const Thresholds& limits,
                 Judgement& judgement) {
  if (m.clock_ratio && ShiftExceeds(*m.clock_ratio, 1, limits.clock_tolerance)) {
    judgement.Invalid(
        "two_clocks",
        fmt::format("iteration lines arrive {:.3f} times as slowly as the printed step times say",
                    *m.clock_ratio));
  }
  if (!m.clock_ratio) {
    judgement.NotJudged("two_clocks", "only one of printed and arrival times is there");
  }
  if (m.mfu && *m.mfu > limits.mfu_max * (1 + 1e-12)) {
    judgement.Invalid("mfu",
                      fmt::format("{:.1f}% of the peak is more than the {:.0f}% that any job "
                                  "reaches",
                                  100 * *m.mfu, 100 * limits.mfu_max));
  }
  if (!m.mfu) {
    judgement.NotJudged("mfu", "the model's FLOP count or the peak is not known");
  }
  if (input.roofline_tokens_per_s && m.tokens_per_s_per_slot > *input.roofline_tokens_per_s) {
    judgement.Invalid("roofline",
                      fmt::format("{:.1f} tokens/s per slot exceeds the roofline {:.1f}",
                                  m.tokens_per_s_per_slot, *input.roofline_tokens_per_s));
  }
}

void CheckGpus(const MeasureInput& input, const Thresholds& limits, Judgement& judgement) {
  std::map<std::string, std::vector<double>> clocks;
  std::map<std::string, std::vector<double>> steps;
  for (const GpuSeen& gpu : input.gpus) {
    if (gpu.clock_mhz) {
      clocks[gpu.peers].push_back(*gpu.clock_mhz);
    }
    if (gpu.step_ms) {
      steps[gpu.peers].push_back(*gpu.step_ms);
    }
  }
  const double usual_excess = input.calibration_straggler.value_or(1) - 1;
  for (const GpuSeen& gpu : input.gpus) {
    if (gpu.foreign_process) {
      judgement.Retry("foreign_process", gpu.id + " runs a process that is not ours");
    }
    if (gpu.hardware_slowdown || gpu.thermal || gpu.power_brake) {
      judgement.Retry("throttled", gpu.id + " was slowed down by its hardware");
    }
    if (gpu.clock_mhz) {
      const double usual = Median(clocks[gpu.peers]);
      if (*gpu.clock_mhz < limits.gpu_clock_min * usual * (1 - 1e-12)) {
        judgement.Retry("clock", fmt::format("{} ran at {:.0f} MHz, its peers at {:.0f}", gpu.id,
                                             *gpu.clock_mhz, usual));
      }
    }
    if (gpu.step_ms) {
      const double ratio = *gpu.step_ms / Median(steps[gpu.peers]);
      if (ratio > limits.straggler_ratio * (1 + 1e-12) &&
          ratio - 1 > limits.straggler_own_factor * usual_excess * (1 + 1e-12)) {
        judgement.Retry("straggler",
                        fmt::format("{} takes {:.3f} times its peers' time", gpu.id, ratio));
      }
    }
  }
  if (input.gpus.empty()) {
    judgement.NotJudged("clock", "no GPU telemetry: clocks, stragglers and foreign processes");
  }
}

MeasuredRun Concluded(Judgement judgement, std::optional<Measurement> measurement) {
  MeasuredRun run;
  run.measurement = std::move(measurement);
  run.findings = VerdictOf(std::move(judgement.findings)).findings;
  // Measuring again does not mend a recipe, so its own fault outweighs the environment's.
  run.validity = judgement.recipe        ? Validity::kInvalid
                 : judgement.environment ? Validity::kRetry
                                         : Validity::kValid;
  if (run.validity != Validity::kValid) {
    run.reason = run.findings.front().why;
  }
  return run;
}

WindowLength LengthFor(const MeasureInput& input, const StepTimes& times, bool look,
                       const Thresholds& limits) {
  return look ? LookLength(*input.spec, limits)
              : FullLength(*input.spec, BaselineStepMs(input, times), limits);
}

// Steps until a window is long enough, at its present pace.
int StepsMissing(const MeasureInput& input, const StepTimes& times, const Window& window,
                 const WindowLength& length) {
  if (window.long_enough) return 0;
  const double step_ms = window.timed.empty()
                             ? BaselineStepMs(input, times)
                             : window.ms / static_cast<double>(window.timed.size());
  const int by_time =
      step_ms > 0 ? static_cast<int>(std::ceil(std::max(0.0, length.ms - window.ms) / step_ms)) : 0;
  const int seen = static_cast<int>(input.steps.size());
  const int warmup = window.settled ? 0 : std::max(0, input.spec->warmup_steps - seen);
  const int timed = static_cast<int>(window.timed.size());
  return std::max({1, length.steps - timed + warmup, by_time});
}

}  // namespace

WindowNeed LookAtWindow(const MeasureInput& input, const Thresholds& limits) {
  ATTUNE_CHECK(input.spec != nullptr, "a measurement needs its rules");
  WindowNeed need;
  if (input.steps.empty()) {
    return need;
  }
  const StepTimes times = TimesOf(input.steps);
  const WindowLength full = LengthFor(input, times, false, limits);
  const Window window = FindWindow(input.steps, times, *input.spec, full, /*ended=*/false, limits);
  need.settled = window.settled;
  need.warmup = static_cast<int>(window.warmup);
  need.timed_steps = static_cast<int>(window.timed.size());
  need.timed_seconds = window.ms / 1000;
  need.full = window.long_enough;
  need.steps_missing = StepsMissing(input, times, window, full);
  const WindowLength brief = LengthFor(input, times, true, limits);
  const Window look = FindWindow(input.steps, times, *input.spec, brief, /*ended=*/false, limits);
  need.look = need.full || look.long_enough;
  need.look_missing = need.look ? 0 : StepsMissing(input, times, look, brief);
  return need;
}

int WindowSteps(const MeasureSpec& spec, double step_ms, const Thresholds& limits) {
  const WindowLength length = FullLength(spec, step_ms, limits);
  const double by_time = step_ms > 0 ? std::ceil(length.ms / step_ms - 1e-9) : 0;
  return std::max(length.steps, static_cast<int>(std::min(by_time, 1e8)));
}

int StepsWanted(const MeasureSpec& spec, double step_ms, const Thresholds& limits) {
  constexpr int kMany = 100'000'000;
  const int window = std::min(WindowSteps(spec, step_ms, limits), kMany);
  const int warmup = std::clamp(spec.warmup_steps, 1, kMany);
  const int slack = step_ms > limits.slow_step_ms ? 0 : warmup + window / 10;
  return warmup + window + slack;
}

MeasuredRun Measure(const MeasureInput& input, const Thresholds& limits) {
  ATTUNE_CHECK(input.spec != nullptr && input.slots > 0, "a measurement needs its rules and slots");
  Judgement judgement;
  if (!CheckSequence(input, judgement)) {
    return Concluded(std::move(judgement), std::nullopt);
  }
  CheckBatch(input, judgement);
  const StepTimes times = TimesOf(input.steps);
  if (!times.known) {
    judgement.Invalid("no_clock", "steps have neither printed times nor arrival stamps");
    return Concluded(std::move(judgement), std::nullopt);
  }
  const WindowLength length = LengthFor(input, times, input.short_window, limits);
  const Window window = FindWindow(input.steps, times, *input.spec, length, /*ended=*/true, limits);
  if (!window.settled) {
    judgement.Retry("not_settled",
                    fmt::format("step times did not settle within {} steps", input.steps.size()));
    return Concluded(std::move(judgement), std::nullopt);
  }
  if (!window.long_enough) {
    judgement.Invalid(
        "window", fmt::format("the window has {} steps and {:.1f} s after {} warm-up steps, wanted "
                              "{} and {:.1f} s",
                              window.timed.size(), window.ms / 1000, window.warmup, length.steps,
                              length.ms / 1000));
  }
  if (window.timed.empty()) {
    return Concluded(std::move(judgement), std::nullopt);
  }
  const double tokens = TokensOf(input, window, judgement);
  const Measurement m = MeasurementOf(input, times, window, tokens);
  if (!std::isfinite(m.tokens_per_s_per_slot) ||
      (m.tokens_per_s_per_slot <= 0 && !judgement.recipe)) {
    judgement.Invalid("tokens", "the workload's batch or sequence length is not known");
    return Concluded(std::move(judgement), std::nullopt);
  }
  if (m.same_steps_ratio && (!std::isfinite(*m.same_steps_ratio) || *m.same_steps_ratio <= 0)) {
    judgement.Invalid("tokens", "the baseline's times of the same steps are not known");
    return Concluded(std::move(judgement), std::nullopt);
  }
  CheckStability(input, m, limits, judgement);
  CheckSanity(input, m, limits, judgement);
  CheckGpus(input, limits, judgement);
  return Concluded(std::move(judgement), m);
}

double ScoreOf(const Measurement& measurement, const Calibration& calibration) {
  return measurement.same_steps_ratio ? calibration.mean * *measurement.same_steps_ratio
                                      : measurement.tokens_per_s_per_slot;
}

}  // namespace attune
