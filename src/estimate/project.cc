// Projection and fit. One model for both step time and peak memory: the logarithm of the value is
// linear in the logarithms of the term factors around their fitted values. A factor is a constant
// with a normal prior plus a Gaussian process over places, since what a formula misses of a term
// changes from layout to layout; another process takes what no term explains. The posterior is
// exact for that model (Rasmussen and Williams, Gaussian Processes for Machine Learning, sections
// 2.2 and 2.7); the linearisation is repeated until it stands.
#include <algorithm>
#include <cmath>
#include <functional>

#include "assemble.h"
#include "attune/estimate/estimate.h"
#include "place.h"
#include "terms.h"

namespace attune {
namespace {

using namespace estimate;

constexpr std::array<std::string_view, kTerms> kNames = {
    "gemm",       "shape",  "experts",   "attention", "memory_bound", "launch",  "tp",
    "all_to_all", "flex",   "cp",        "pp",        "dp",           "overlap", "bubble",
    "repeat",     "graphs", "optimizer", "offload",   "head"};
// Standard deviations of the log factors before any run: how far off the formulas may well be.
constexpr Factors kPrior = {0.20, 0.50, 0.30, 0.25, 0.35, 0.60, 0.40, 0.50, 0.60, 0.50,
                            0.50, 0.40, 0.50, 0.15, 0.20, 0.50, 0.50, 0.50, 0.30};
constexpr MemoryFactors kPeakPrior = {0.06, 0.25, 0.40};
// The same of what a factor differs by between places that have nothing to do with each other. Of
// memory the formulas' factors hold everywhere, and the rest is local.
constexpr double kStepLocal = 0.25, kPeakLocal = 0;
constexpr double kStepRest = 0.06, kPeakRest = 0.09;     // of the smooth rest
constexpr double kStepNoise = 0.012, kPeakNoise = 0.01;  // of one run
constexpr double kCutNoise = 0.06;  // an out-of-memory end says only that it was above
constexpr double kShareNoise = 0.25, kShareFloor = 0.03;  // of the logarithm of share + floor
constexpr double kUsable = 0.98;  // of the device, before an allocation fails
constexpr int kRounds = 4;
constexpr double kDelta = 0.02;

struct Shape {
  const double* prior;
  std::size_t terms;
  double local, rest;
};
constexpr Shape kStepShape{kPrior.data(), kTerms, kStepLocal, kStepRest};
constexpr Shape kPeakShape{kPeakPrior.data(), kMemoryTerms, kPeakLocal, kPeakRest};

// What the fit says of one place: logarithms of the factors there, and the rest.
template <std::size_t N>
struct Here {
  std::array<double, N> log_factor{};
  double rest = 0;

  std::array<double, N> Factors() const {
    std::array<double, N> f;
    for (std::size_t i = 0; i < N; ++i) f[i] = std::exp(std::clamp(log_factor[i], -2.0, 2.0));
    return f;
  }
};

template <std::size_t N>
Here<N> HereOf(const Shape& shape, const FittedTerms& fitted, const std::vector<double>& place) {
  Here<N> here;
  for (std::size_t i = 0; i < N && i < fitted.log_factor.size(); ++i) {
    here.log_factor[i] = fitted.log_factor[i];
  }
  for (const FittedTerms::Run& run : fitted.runs) {
    const double like = Likeness(place, run.place) * run.weight;
    const double local = shape.local * shape.local * like;
    for (std::size_t i = 0; i < N; ++i) here.log_factor[i] += local * run.slope[i];
    if (run.whole) here.rest += shape.rest * shape.rest * like;
  }
  return here;
}

// Log of the value and its slopes, at given factors.
template <std::size_t N, class Value>
std::vector<double> SlopesOf(const std::array<double, N>& f, double at, const Value& value) {
  std::vector<double> slope(N);
  for (std::size_t i = 0; i < N; ++i) {
    std::array<double, N> g = f;
    g[i] *= 1 + kDelta;
    slope[i] = (std::log(value(g)) - at) / std::log1p(kDelta);
  }
  return slope;
}

double Covariance(const Shape& shape, const FittedTerms::Run& a, const FittedTerms::Run& b) {
  const double like = Likeness(a.place, b.place);
  const double local = shape.local * shape.local * like;
  double sum = a.whole && b.whole ? shape.rest * shape.rest * like : 0;
  for (std::size_t i = 0; i < shape.terms; ++i) {
    sum += (shape.prior[i] * shape.prior[i] + local) * a.slope[i] * b.slope[i];
  }
  return sum;
}

double At(const std::vector<double>& lower, std::size_t i, std::size_t j) {
  return lower[i * (i + 1) / 2 + j];
}

// Solves lower x = b in place.
void Forward(const std::vector<double>& lower, std::vector<double>& b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) b[i] -= At(lower, i, j) * b[j];
    b[i] /= At(lower, i, i);
  }
}
void Backward(const std::vector<double>& lower, std::vector<double>& b) {
  for (std::size_t i = b.size(); i-- > 0;) {
    for (std::size_t j = i + 1; j < b.size(); ++j) b[i] -= At(lower, j, i) * b[j];
    b[i] /= At(lower, i, i);
  }
}

std::vector<double> CholeskyOf(const Shape& shape, const std::vector<FittedTerms::Run>& runs,
                               const std::vector<double>& noise) {
  std::vector<double> lower(runs.size() * (runs.size() + 1) / 2);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = Covariance(shape, runs[i], runs[j]);
      if (i == j) sum += noise[i] * noise[i];
      for (std::size_t k = 0; k < j; ++k) sum -= At(lower, i, k) * At(lower, j, k);
      lower[i * (i + 1) / 2 + j] = i == j ? std::sqrt(std::max(sum, 1e-9)) : sum / At(lower, j, j);
    }
  }
  return lower;
}

// Variance of the logarithm of a value at a place, after the fit.
double VarianceAt(const Shape& shape, const FittedTerms& fitted, const FittedTerms::Run& at) {
  double variance = Covariance(shape, at, at);
  std::vector<double> with(fitted.runs.size());
  for (std::size_t i = 0; i < with.size(); ++i) with[i] = Covariance(shape, at, fitted.runs[i]);
  Forward(fitted.cholesky, with);
  for (const double x : with) variance -= x * x;
  return std::max(variance, 1e-8);
}

// One value to fit: `log_value` gives the formula's logarithm and slopes at given factors.
struct Target {
  std::vector<double> place;
  double log_measured = 0;
  double noise = 0;
  bool at_least = false;  // the measured value is a lower bound
  bool whole = true;      // of the step or the peak, not of a part of it: the rest belongs to it
  std::function<double(const double* factors)> value;
};

template <std::size_t N>
FittedTerms FitTerms(const Shape& shape, const std::vector<Target>& targets) {
  FittedTerms fitted;
  fitted.log_factor.assign(N, 0);
  if (targets.empty()) return fitted;
  for (int round = 0; round < kRounds; ++round) {
    const FittedTerms before = fitted;
    fitted.runs.clear();
    std::vector<double> rest, noise;
    for (const Target& t : targets) {
      const Here<N> here = HereOf<N>(shape, before, t.place);
      const auto factors = here.Factors();
      const auto value = [&](const std::array<double, N>& f) { return t.value(f.data()); };
      const double at = std::log(value(factors));
      // Satisfied bounds say nothing more.
      if (t.at_least && at + here.rest >= t.log_measured) continue;
      FittedTerms::Run run{t.place, SlopesOf<N>(factors, at, value), 0, t.whole};
      double y = t.log_measured - at;
      for (std::size_t i = 0; i < N; ++i) y += run.slope[i] * here.log_factor[i];
      fitted.runs.push_back(std::move(run));
      rest.push_back(y);
      noise.push_back(t.noise);
    }
    fitted.cholesky = CholeskyOf(shape, fitted.runs, noise);
    Forward(fitted.cholesky, rest);
    Backward(fitted.cholesky, rest);
    fitted.log_factor.assign(N, 0);
    for (std::size_t r = 0; r < fitted.runs.size(); ++r) {
      fitted.runs[r].weight = rest[r];
      for (std::size_t i = 0; i < N; ++i) {
        fitted.log_factor[i] += shape.prior[i] * shape.prior[i] * fitted.runs[r].slope[i] * rest[r];
      }
    }
    for (double& x : fitted.log_factor) x = std::clamp(x, -2.0, 2.0);
  }
  return fitted;
}

double MaxPeak(const std::vector<MemoryShape>& stages, const MemoryFactors& f, int* stage) {
  double peak = 0;
  for (const MemoryShape& m : stages) {
    const double here = m.At(f);
    if (here <= peak) continue;
    peak = here;
    if (stage != nullptr) *stage = m.stage;
  }
  return peak;
}

double MedianOf(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const std::size_t half = x.size() / 2;
  return x.size() % 2 == 1 ? x[half] : (x[half - 1] + x[half]) / 2;
}

bool SameJob(const Measured& a, const Measured& b) {
  return Likeness(PlaceOf(a.job), PlaceOf(b.job)) > 1 - 1e-12;
}

void Errors(std::span<const Measured> runs, Correction& c) {
  std::vector<double> raw, corrected;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].step_seconds) continue;
    // A repeat says nothing of the formulas that its first run did not.
    bool repeat = false;
    for (std::size_t j = 0; j < i && !repeat; ++j) {
      repeat = runs[j].step_seconds.has_value() && SameJob(runs[i], runs[j]);
    }
    const std::optional<Estimate> bare = repeat ? std::nullopt : Project(runs[i].job);
    if (!bare) continue;
    raw.push_back(std::abs(bare->step_seconds / *runs[i].step_seconds - 1));
  }
  if (!raw.empty()) c.raw_error = MedianOf(std::move(raw));
}

}  // namespace

double Estimate::OutOfMemoryChance() const {
  const double z = std::log(kUsable * device_bytes / peak_bytes) / std::max(peak_sd, 1e-6);
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

std::span<const std::string_view> Correction::Terms() { return kNames; }

double Correction::Factor(std::string_view term) const {
  for (std::size_t i = 0; i < kTerms && i < step.log_factor.size(); ++i) {
    if (kNames[i] == term) return std::exp(step.log_factor[i]);
  }
  return 1;
}

std::optional<Estimate> Project(const TrainingJob& job, const Correction& correction) {
  const GpuSpec* gpu = FindGpu(job.gpu);
  if (gpu == nullptr) return std::nullopt;
  const std::optional<StepTerms> terms = TermsOf(job, *gpu);
  if (!terms) return std::nullopt;
  Estimate e;
  const std::vector<double> place = PlaceOf(job);
  const Here<kTerms> step = HereOf<kTerms>(kStepShape, correction.step, place);
  const Factors factors = step.Factors();
  const auto seconds = [&](const Factors& f) { return StepSeconds(*terms, f); };
  const double log_step = std::log(seconds(factors));
  e.step_seconds = std::exp(log_step + step.rest);
  e.step_sd = std::sqrt(VarianceAt(kStepShape, correction.step,
                                   {place, SlopesOf<kTerms>(factors, log_step, seconds)}));
  e.tokens_per_second_per_gpu = terms->tokens / e.step_seconds / terms->gpus;
  e.parts = PartsOf(*terms, factors);
  const double scale = std::exp(step.rest);
  for (double* part :
       {&e.parts.compute, &e.parts.recompute, &e.parts.host, &e.parts.tp, &e.parts.ep, &e.parts.cp,
        &e.parts.pp, &e.parts.dp, &e.parts.bubble, &e.parts.optimizer}) {
    *part *= scale;
  }
  const std::vector<MemoryShape> stages = MemoryOf(job, *gpu);
  const Here<kMemoryTerms> peak = HereOf<kMemoryTerms>(kPeakShape, correction.peak, place);
  const MemoryFactors memory = peak.Factors();
  const auto peak_at = [&](const MemoryFactors& f) { return MaxPeak(stages, f, nullptr); };
  const double log_peak = std::log(MaxPeak(stages, memory, &e.fullest_stage));
  e.peak_bytes = std::exp(log_peak + peak.rest);
  e.peak_sd = std::sqrt(VarianceAt(kPeakShape, correction.peak,
                                   {place, SlopesOf<kMemoryTerms>(memory, log_peak, peak_at)}));
  const MemoryShape& full = stages[static_cast<std::size_t>(e.fullest_stage)];
  const double rest = std::exp(peak.rest);
  e.weights_bytes = full.weights * memory[kWeights] * rest;
  e.activation_bytes = full.activations * memory[kActivations] * rest;
  e.other_bytes = full.fixed * memory[kFixed] * rest;
  e.device_bytes = correction.device_bytes.value_or(static_cast<double>(gpu->memory_bytes));
  return e;
}

std::optional<QuickEstimate> ProjectQuickly(const TrainingJob& job, const Correction& correction) {
  const GpuSpec* gpu = FindGpu(job.gpu);
  if (gpu == nullptr) return std::nullopt;
  const std::optional<StepTerms> terms = TermsOf(job, *gpu);
  if (!terms) return std::nullopt;
  const std::vector<double> place = PlaceOf(job);
  const Here<kTerms> step = HereOf<kTerms>(kStepShape, correction.step, place);
  const Here<kMemoryTerms> peak = HereOf<kMemoryTerms>(kPeakShape, correction.peak, place);
  return QuickEstimate{StepSeconds(*terms, step.Factors()) * std::exp(step.rest),
                       MaxPeak(MemoryOf(job, *gpu), peak.Factors(), nullptr) * std::exp(peak.rest),
                       correction.device_bytes.value_or(static_cast<double>(gpu->memory_bytes))};
}

double LayoutLikeness(const TrainingJob& a, const TrainingJob& b) {
  return Likeness(PlaceOf(a), PlaceOf(b));
}

Correction FitMemory(std::span<const Measured> runs) {
  Correction c;
  std::vector<Target> peaks;
  for (const Measured& run : runs) {
    const GpuSpec* gpu = FindGpu(run.job.gpu);
    if (gpu == nullptr || !TermsOf(run.job, *gpu)) continue;
    ++c.runs;
    if (run.device_bytes) c.device_bytes = run.device_bytes;
    if (!run.out_of_memory && !(run.peak_bytes && *run.peak_bytes > 0)) continue;
    const double limit =
        kUsable * run.device_bytes.value_or(static_cast<double>(gpu->memory_bytes));
    const double measured = run.out_of_memory ? 1.04 * limit : *run.peak_bytes;
    peaks.push_back({PlaceOf(run.job), std::log(measured),
                     run.out_of_memory ? kCutNoise : kPeakNoise, run.out_of_memory, true,
                     [stages = MemoryOf(run.job, *gpu)](const double* f) {
                       MemoryFactors factors;
                       std::copy(f, f + kMemoryTerms, factors.begin());
                       return MaxPeak(stages, factors, nullptr);
                     }});
  }
  c.peak = FitTerms<kMemoryTerms>(kPeakShape, peaks);
  return c;
}

Correction Fit(std::span<const Measured> runs) {
  Correction c = FitMemory(runs);
  std::vector<Target> steps;
  for (const Measured& run : runs) {
    const GpuSpec* gpu = FindGpu(run.job.gpu);
    if (gpu == nullptr) continue;
    const std::optional<StepTerms> terms = TermsOf(run.job, *gpu);
    if (!terms) continue;
    const std::vector<double> place = PlaceOf(run.job);
    if (run.step_seconds && *run.step_seconds > 0) {
      steps.push_back({place, std::log(*run.step_seconds), kStepNoise, false, true,
                       [t = *terms](const double* f) {
                         Factors factors;
                         std::copy(f, f + kTerms, factors.begin());
                         return StepSeconds(t, factors);
                       }});
    }
    const auto share = [&](std::optional<double> measured, auto part) {
      if (!measured) return;
      steps.push_back({place, std::log(*measured + kShareFloor), kShareNoise, false, false,
                       [t = *terms, part](const double* f) {
                         Factors factors;
                         std::copy(f, f + kTerms, factors.begin());
                         const StepParts p = PartsOf(t, factors);
                         return part(p) / p.Sum() + kShareFloor;
                       }});
    };
    share(run.exposed_communication,
          [](const StepParts& p) { return p.tp + p.ep + p.cp + p.pp + p.dp; });
    share(run.host_bound, [](const StepParts& p) { return p.host; });
  }
  c.step = FitTerms<kTerms>(kStepShape, steps);
  Errors(runs, c);
  return c;
}

}  // namespace attune
