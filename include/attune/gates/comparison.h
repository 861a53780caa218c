// Better, worse or the same: throughput against the leader's (control_plane.md section 3,
// "Decision against the leader"). All limits are strict and exact in decimals: a gain of exactly
// the band is a tie.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "attune/gates/thresholds.h"
#include "attune/model/measurement.h"

namespace attune {

struct Comparison {
  Standing standing = Standing::kLoss;  // kWin, kTie or kLoss
  double gain = 0;                      // candidate / leader - 1
  // |gain - band| < 2 sigma sqrt(1/n_c + 1/n_l): one fresh pair decides instead, once a candidate.
  bool near_band = false;
  bool minor = false;  // 0 < gain <= band: may be stacked with other disjoint minor levers
  std::string why;     // one line with the numbers
};
// candidate, leader: scores (tokens/s/slot) behind each mean; both non-empty.
Comparison Compare(std::span<const double> candidate, std::span<const double> leader,
                   const Calibration& calibration, const Thresholds& limits);
// The fresh runs of a pair alone: their ratio decides, never near_band again.
Comparison ComparePair(std::span<const double> candidate, std::span<const double> leader,
                       const Calibration& calibration, const Thresholds& limits);

// ----- the early look: once, at the first moment that the short window allows
enum class EarlyVerdict {
  kGoOn,  // the full window decides
  kWin,   // gain - margin > band: the run ends, `short_window`, and may lead
  kStop,  // gain + margin < 1%: ends as stopped_early, not scored, not failed
};
struct EarlyLook {
  EarlyVerdict verdict = EarlyVerdict::kGoOn;
  double gain = 0, margin = 0;
  std::string why;
};
// Margin of a short window of n timed steps against a leader's mean of n_l runs:
//   t(0.995; R-1) sqrt(s_run^2 (1 + 1/n_l) + s_step^2 V (1/n - 1/n_w)), V = (1+rho)/(1-rho),
// rho clamped to [0, 0.8]; s_run, s_step, rho, R and n_w from the calibration. Where s_run is pooled
// with the prior (R < 5, a known framework) the prior's 4 degrees of freedom stand for R - 1: of two
// runs alone t would be 64. nullopt: no early looks (R = 1, or the calibration's short windows
// differ from its full ones by over 1%).
std::optional<double> EarlyMargin(const Calibration& calibration, int timed_steps, int leader_runs,
                                  const Thresholds& limits);
// candidate: score of the short window.
EarlyLook LookEarly(double candidate, int timed_steps, std::span<const double> leader,
                    const Calibration& calibration, const Thresholds& limits);

}  // namespace attune
