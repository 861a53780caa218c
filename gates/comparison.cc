#include "attune/gates/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "attune/base/check.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

Standing StandingOf(MeanVerdict verdict) {
  switch (verdict) {
    case MeanVerdict::kBeats:
      return Standing::kWin;
    case MeanVerdict::kTie:
      return Standing::kTie;
    case MeanVerdict::kLoses:
      return Standing::kLoss;
  }
  ATTUNE_CHECK(false, "a verdict without a standing");
}

Comparison Compared(std::span<const double> candidate, std::span<const double> leader,
                    double band) {
  Comparison c;
  c.standing = StandingOf(MeanRule(candidate, leader, band));
  c.gain = Mean(candidate) / Mean(leader) - 1;
  c.minor = c.standing == Standing::kTie && MeanRatioExceeds(candidate, leader, 0);
  c.why = fmt::format("{:.4g} against {:.4g} tokens/s per slot: {:+.2f}%, band {:.2f}%",
                      Mean(candidate), Mean(leader), 100 * c.gain, 100 * band);
  return c;
}

}  // namespace

Comparison Compare(std::span<const double> candidate, std::span<const double> leader,
                   const Calibration& calibration, const Thresholds& limits) {
  Comparison c = Compared(candidate, leader, calibration.band);
  const double reach =
      limits.near_sigmas * calibration.sigma *
      std::sqrt(1 / static_cast<double>(candidate.size()) + 1 / static_cast<double>(leader.size()));
  c.near_band = std::abs(c.gain - calibration.band) < reach;
  return c;
}

Comparison ComparePair(std::span<const double> candidate, std::span<const double> leader,
                       const Calibration& calibration, const Thresholds&) {
  return Compared(candidate, leader, calibration.band);
}

std::optional<double> EarlyMargin(const Calibration& calibration, int timed_steps, int leader_runs,
                                  const Thresholds& limits) {
  const auto runs = static_cast<double>(calibration.allocations > 0
                                            ? static_cast<std::size_t>(calibration.allocations)
                                            : calibration.runs.size());
  if (runs < 2 || calibration.quick || timed_steps < 1 || leader_runs < 1 ||
      calibration.short_window_bias > limits.short_bias_max * (1 + 1e-12)) {
    return std::nullopt;
  }
  const double rho = std::clamp(calibration.step_lag1, 0.0, limits.look_rho_max);
  const double inflation = (1 + rho) / (1 - rho);
  // A short window that is no shorter than the calibration's adds no step noise of its own.
  const double shorter =
      std::max(0.0, 1.0 / timed_steps - 1.0 / std::max(1, calibration.window_steps));
  const double variance = std::pow(calibration.sigma, 2) * (1 + 1.0 / leader_runs) +
                          std::pow(calibration.step_sd, 2) * inflation * shorter;
  const double freedom =
      calibration.pooled_freedom > 0 ? static_cast<double>(calibration.pooled_freedom) : runs - 1;
  return StudentQuantile(limits.look_confidence, freedom) * std::sqrt(variance);
}

EarlyLook LookEarly(double candidate, int timed_steps, std::span<const double> leader,
                    const Calibration& calibration, const Thresholds& limits) {
  EarlyLook look;
  look.gain = candidate / Mean(leader) - 1;
  const std::optional<double> margin =
      EarlyMargin(calibration, timed_steps, static_cast<int>(leader.size()), limits);
  if (!margin) {
    look.why = "no early looks: too few calibration runs, or their short windows are off";
    return look;
  }
  look.margin = *margin;
  if (look.gain - look.margin > calibration.band) {
    look.verdict = EarlyVerdict::kWin;
  } else if (look.gain + look.margin < limits.look_stop_below) {
    look.verdict = EarlyVerdict::kStop;
  }
  look.why = fmt::format("{:+.2f}% +- {:.2f}% after {} timed steps, band {:.2f}%", 100 * look.gain,
                         100 * look.margin, timed_steps, 100 * calibration.band);
  return look;
}

}  // namespace attune
