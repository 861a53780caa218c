#include "attune/gates/calibration.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "attune/base/check.h"
#include "attune/gates/step0_check.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

constexpr std::int64_t kGpuMillisPerHour = 3'600'000;

// The first runs build caches, so the start-up that a candidate will see is that of the later ones.
Millis TypicalStartup(std::span<const CalibrationRun> runs) {
  std::vector<double> startups;
  for (std::size_t i = runs.size() > 1 ? 1 : 0; i < runs.size(); ++i) {
    startups.push_back(static_cast<double>(runs[i].startup.count()));
  }
  return Millis{std::llround(Median(startups))};
}

template <class Value>
double MedianOver(std::span<const CalibrationRun> runs, Value value) {
  std::vector<double> values;
  for (const CalibrationRun& run : runs) {
    values.push_back(value(run));
  }
  return Median(values);
}

template <class Value>
double LargestOver(std::span<const CalibrationRun> runs, Value value) {
  double largest = 0;
  for (const CalibrationRun& run : runs) {
    largest = std::max(largest, value(run));
  }
  return largest;
}

// Pooled within-run variance: each run's own level is taken out by its own mean.
double StepSd(std::span<const CalibrationRun> runs) {
  double squares = 0;
  double weight = 0;
  for (const CalibrationRun& run : runs) {
    const double freedom = run.measurement.steps - 1;
    squares += freedom * run.measurement.cv * run.measurement.cv;
    weight += freedom;
  }
  return weight > 0 ? std::sqrt(squares / weight) : 0;
}

bool DistinctNodes(std::span<const CalibrationRun> runs) {
  std::set<std::string> seen;
  for (const CalibrationRun& run : runs) {
    if (run.nodes.empty() || !seen.insert(run.nodes).second) {
      return false;
    }
  }
  return true;
}

// What every run agrees on; nullopt when one does not print it or prints something else.
template <class Value>
auto Agreed(std::span<const CalibrationRun> runs, std::size_t offset, Value value)
    -> decltype(value(Step{})) {
  const auto first = value(runs.front().steps[offset]);
  for (const CalibrationRun& run : runs) {
    if (value(run.steps[offset]) != first) {
      return std::nullopt;
    }
  }
  return first;
}

Calibration::StepReference StepAt(std::span<const CalibrationRun> runs, std::size_t offset) {
  Calibration::StepReference reference;
  std::vector<double> times;
  for (const CalibrationRun& run : runs) {
    const Step& step = run.steps[offset];
    if (step.printed_ms > 0) {
      times.push_back(step.printed_ms);
    } else if (offset > 0 && step.arrival_ms >= 0 && run.steps[offset - 1].arrival_ms >= 0) {
      times.push_back(static_cast<double>(step.arrival_ms - run.steps[offset - 1].arrival_ms));
    }
  }
  reference.step_ms = times.size() == runs.size() ? Mean(times) : 0;
  reference.tokens = Agreed(runs, offset, [](const Step& s) { return s.tokens; });
  reference.learning_rate = Agreed(runs, offset, [](const Step& s) { return s.learning_rate; });
  reference.global_batch = Agreed(runs, offset, [](const Step& s) { return s.global_batch; });
  reference.consumed_samples =
      Agreed(runs, offset, [](const Step& s) { return s.consumed_samples; });
  return reference;
}

// Values of one loss over the replicas, only when every replica printed it.
std::vector<double> Replicas(std::span<const CalibrationRun> runs, std::size_t offset,
                             const std::string& name) {
  std::vector<double> values;
  for (const CalibrationRun& run : runs) {
    const auto found = run.steps[offset].losses.find(name);
    if (found != run.steps[offset].losses.end() && std::isfinite(found->second)) {
      values.push_back(found->second);
    }
  }
  return values.size() == runs.size() ? values : std::vector<double>{};
}

std::map<std::string, Calibration::Reference> LossesAt(std::span<const CalibrationRun> runs,
                                                       std::size_t offset) {
  std::map<std::string, Calibration::Reference> references;
  for (const auto& [name, unused] : runs.front().steps[offset].losses) {
    const std::vector<double> values = Replicas(runs, offset, name);
    if (values.empty()) {
      continue;
    }
    Calibration::Reference reference;
    reference.mean = Mean(values);
    reference.n = static_cast<int>(values.size());
    if (values.size() > 1 && reference.mean != 0) {
      reference.sd = RelativeSd(values);
    }
    const std::vector<double> first = Replicas(runs, 0, name);
    if (values.size() > 1 && !first.empty() && reference.mean != 0 && Mean(first) != 0) {
      std::vector<double> e;
      for (std::size_t r = 0; r < values.size(); ++r) {
        e.push_back(values[r] / reference.mean - first[r] / Mean(first));
      }
      reference.e_sd = SampleSd(e);
    }
    // Numbers too large to average are no reference; without one, later checks refuse.
    if (std::isfinite(reference.mean) && std::isfinite(reference.sd) &&
        std::isfinite(reference.e_sd)) {
      references.emplace(name, reference);
    }
  }
  return references;
}

double ShortWindowBias(std::span<const CalibrationRun> runs) {
  std::vector<double> biases;
  for (const CalibrationRun& run : runs) {
    if (run.short_measurement) {
      biases.push_back(
          run.short_measurement->tokens_per_s_per_slot / run.measurement.tokens_per_s_per_slot - 1);
    }
  }
  return biases.empty() ? 0 : std::abs(Mean(biases));
}

// Splits the printed blocks into the keys on which all agree, and the rest: what differs from
// launch to launch of one configuration says nothing about a candidate.
void ReadBlocks(std::span<const CalibrationRun> runs, Calibration& into) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, std::size_t> printed;
  for (const CalibrationRun& run : runs) {
    if (run.argument_block == nullptr || run.argument_block->empty()) {
      return;
    }
    for (const auto& [key, value] : *run.argument_block) {
      values[key].insert(value);
      ++printed[key];
    }
  }
  for (const auto& [key, seen] : values) {
    if (seen.size() == 1 && printed[key] == runs.size()) {
      into.argument_block.emplace(key, *seen.begin());
    } else {
      into.varying_keys.push_back(key);
    }
  }
}

// Scores of each allocation, in order of its first run. One that a launch has of its own has one.
std::vector<std::vector<double>> ByAllocation(std::span<const CalibrationRun> runs) {
  std::vector<std::vector<double>> out;
  std::map<std::string, std::size_t> held;
  for (const CalibrationRun& run : runs) {
    std::size_t at = out.size();
    if (!run.allocation.empty()) {
      at = held.emplace(run.allocation, at).first->second;
    }
    if (at == out.size()) {
      out.emplace_back();
    }
    out[at].push_back(run.measurement.tokens_per_s_per_slot);
  }
  return out;
}

double Widening(std::size_t runs, const Thresholds& limits) {
  switch (runs) {
    case 2:
      return limits.widen_2;
    case 3:
      return limits.widen_3;
    case 4:
      return limits.widen_4;
    default:
      return 1;
  }
}

// Sigma and band of a sample of `runs` >= 2 values whose own relative sd is `own`.
Noise NoiseFrom(double own, std::size_t runs, const MeasureSpec& spec, Framework framework,
                const Thresholds& limits) {
  const double floor = std::max(limits.band_floor, spec.band_floor);
  const double factor = std::max(limits.sigma_factor, spec.sigma_factor);
  Noise noise;
  noise.sigma = own;
  noise.how = fmt::format("{} runs", runs);
  double widening = 1;
  if (static_cast<double>(runs) < limits.full_runs) {
    if (framework == Framework::kCustom) {
      widening = Widening(runs, limits);
      noise.how += fmt::format(", factor widened by {:.2f}", widening);
    } else {
      const auto freedom = static_cast<double>(runs - 1);
      noise.sigma =
          std::sqrt((limits.prior_weight * std::pow(limits.prior_sigma, 2) + freedom * own * own) /
                    (limits.prior_weight + freedom));
      noise.how += fmt::format(", pooled with the prior sigma {:.2f}%", 100 * limits.prior_sigma);
      noise.pooled_freedom = static_cast<int>(limits.prior_weight);
    }
  }
  noise.band = std::max(floor, factor * widening * noise.sigma);
  return noise;
}

// Of what runs in one allocation differ by: each allocation's own level is taken out by its mean.
void NoiseWithin(std::span<const std::vector<double>> allocations, const MeasureSpec& spec,
                 Framework framework, const Thresholds& limits, Calibration& into) {
  double squares = 0;
  std::size_t freedom = 0;
  for (const std::vector<double>& scores : allocations) {
    if (scores.size() < 2) {
      continue;
    }
    squares += static_cast<double>(scores.size() - 1) * std::pow(RelativeSd(scores), 2);
    freedom += scores.size() - 1;
  }
  if (freedom == 0) {
    return;
  }
  const Noise noise = NoiseFrom(std::sqrt(squares / static_cast<double>(freedom)), freedom + 1,
                                spec, framework, limits);
  into.within_runs = static_cast<int>(freedom + 1);
  into.within_sigma = noise.sigma;
  into.within_band = noise.band;
  into.how = fmt::format(
      "{} runs in {} held allocation{}, inside one sigma {:.2f}%, band {:.2f}% "
      "({}); from one to the next as after {}",
      into.runs.size(), allocations.size(), allocations.size() > 1 ? "s" : "", 100 * noise.sigma,
      100 * noise.band, noise.how, into.how);
}

}  // namespace

int PlannedCalibrationRuns(const MeasureSpec& spec, GpuMillis launch_cost,
                           std::optional<GpuMillis> budget, const Thresholds& limits) {
  const int full = static_cast<int>(limits.full_runs);
  const int wanted = std::max(1, spec.calibration_runs);
  if (wanted < full || !budget) {
    return wanted;
  }
  const double cost = static_cast<double>(launch_cost.value) * wanted;
  const bool affordable = cost <= limits.full_runs_share * static_cast<double>(budget->value);
  return affordable ? wanted : 2;
}

bool NeedMoreCalibration(std::span<const double> scores, int planned, bool by_budget,
                         const Thresholds& limits) {
  if (static_cast<int>(scores.size()) < planned) {
    return true;
  }
  if (!by_budget || scores.size() != 2) {
    return false;
  }
  const auto [low, high] = std::minmax(scores[0], scores[1]);
  return RatioExceeds(high, low, limits.third_run_spread);
}

std::string UnstableCluster(std::span<const CalibrationAttempt> attempts,
                            const Thresholds& limits) {
  const auto window = static_cast<std::size_t>(limits.unstable_window);
  const std::span<const CalibrationAttempt> recent =
      attempts.last(std::min(window, attempts.size()));
  const auto invalid = std::count_if(recent.begin(), recent.end(),
                                     [](const CalibrationAttempt& a) { return !a.valid; });
  if (static_cast<double>(invalid) > limits.unstable_of_seven) {
    return fmt::format("{} of {} calibration runs are invalid", invalid, recent.size());
  }
  int in_a_row = 0;
  for (std::size_t i = attempts.size(); i-- > 0;) {
    if (attempts[i].valid || attempts[i].cause != attempts.back().cause) {
      break;
    }
    ++in_a_row;
  }
  if (in_a_row >= limits.unstable_in_a_row) {
    return fmt::format("{} calibration runs in a row are invalid with one cause: {}", in_a_row,
                       attempts.back().cause);
  }
  return {};
}

Noise NoiseOf(std::span<const double> scores, const MeasureSpec& spec, Framework framework,
              const Thresholds& limits) {
  ATTUNE_CHECK(!scores.empty(), "a calibration needs a run");
  if (scores.size() > 1) {
    Noise noise = NoiseFrom(RelativeSd(scores), scores.size(), spec, framework, limits);
    noise.mean = Mean(scores);
    return noise;
  }
  Noise noise;
  noise.mean = Mean(scores);
  noise.quick = true;
  noise.sigma = limits.quick_band / limits.sigma_factor;
  noise.band = std::max({limits.quick_band, limits.band_floor, spec.band_floor});
  noise.how = fmt::format("1 run (quick): band {:.2f}%", 100 * noise.band);
  return noise;
}

Calibration Calibrate(std::span<const CalibrationRun> runs, const MeasureSpec& spec,
                      Framework framework, const Thresholds& limits) {
  ATTUNE_CHECK(!runs.empty(), "a calibration needs a run");
  const std::vector<std::vector<double>> allocations = ByAllocation(runs);
  std::vector<double> means;
  for (const std::vector<double>& scores : allocations) {
    means.push_back(Mean(scores));
  }
  std::size_t common_steps = runs.front().steps.size();
  double charge = 0;
  Calibration made;
  for (const CalibrationRun& run : runs) {
    made.runs.push_back(run.id);
    common_steps = std::min(common_steps, run.steps.size());
    charge += static_cast<double>(run.charge.value);
    if (run.memory) {
      MemorySeen& most = made.memory ? *made.memory : made.memory.emplace();
      most.max_allocated = std::max(most.max_allocated, run.memory->max_allocated);
      most.max_reserved = std::max(most.max_reserved, run.memory->max_reserved);
    }
  }
  const Noise noise = NoiseOf(means, spec, framework, limits);
  made.mean = noise.mean;
  made.sigma = noise.sigma;
  made.band = noise.band;
  made.quick = noise.quick;
  made.how = noise.how;
  made.allocations = static_cast<int>(allocations.size());
  made.pooled_freedom = noise.pooled_freedom;
  NoiseWithin(allocations, spec, framework, limits, made);
  made.distinct_nodes = DistinctNodes(runs);
  made.startup = TypicalStartup(runs);
  made.step_ms =
      MedianOver(runs, [](const CalibrationRun& r) { return r.measurement.median_step_ms; });
  made.step_sd = StepSd(runs);
  made.step_lag1 = MedianOver(runs, [](const CalibrationRun& r) { return r.measurement.lag1; });
  made.window_steps = static_cast<int>(
      std::lround(MedianOver(runs, [](const CalibrationRun& r) { return r.measurement.steps; })));
  made.launch_cost = {std::llround(charge / static_cast<double>(runs.size()))};
  made.short_window_bias = ShortWindowBias(runs);
  made.own_mean_over_median =
      LargestOver(runs, [](const CalibrationRun& r) { return r.measurement.mean_over_median; });
  made.own_cv = LargestOver(runs, [](const CalibrationRun& r) { return r.measurement.cv; });
  made.own_half_drift =
      LargestOver(runs, [](const CalibrationRun& r) { return std::abs(r.measurement.half_drift); });
  made.own_drift =
      LargestOver(runs, [](const CalibrationRun& r) { return std::abs(r.measurement.drift); });
  for (std::size_t offset = 0; offset < common_steps; ++offset) {
    made.losses.push_back(LossesAt(runs, offset));
    made.steps.push_back(StepAt(runs, offset));
  }
  ReadBlocks(runs, made);
  return made;
}

Calibration WithinAllocation(Calibration calibration) {
  if (calibration.within_runs == 0) {
    return calibration;
  }
  calibration.sigma = calibration.within_sigma;
  calibration.band = calibration.within_band;
  calibration.allocations = calibration.within_runs;
  calibration.pooled_freedom = 0;
  calibration.quick = false;
  return calibration;
}

bool ProbeConfirms(double probe_score, const Calibration& calibration) {
  const double probe[] = {probe_score};
  const double mean[] = {calibration.mean};
  return probe_score > 0 && MeanRule(probe, mean, calibration.band) == MeanVerdict::kTie;
}

double BandOf(double sigma, const Thresholds& limits) {
  return std::max(limits.band_floor, limits.sigma_factor * sigma);
}

GpuMillis AutoBudget(GpuMillis unprofiled_launch, const Thresholds& limits) {
  const auto launches = static_cast<std::int64_t>(limits.budget_launches);
  const auto step = static_cast<std::int64_t>(limits.budget_step_gpu_hours) * kGpuMillisPerHour;
  const std::int64_t wanted = launches * unprofiled_launch.value;
  return {(wanted + step - 1) / step * step};
}

int RunsForBand(double sigma, double band_wanted, const Thresholds& limits) {
  ATTUNE_CHECK(sigma >= 0 && band_wanted > 0, "a noise and a band");
  const double runs = std::pow(limits.sigma_factor * sigma / band_wanted, 2);
  return std::max(1, static_cast<int>(std::ceil(std::min(runs, 1e6) - 1e-9)));
}

}  // namespace attune
