// How far the uncorrected estimate is off in a world, over a sample of a recipe's legal space.
// Results on a world count only where it is off enough: else a tuner would be tested on its own
// formulas.
#pragma once

#include <cstdint>
#include <string>

#include "attune/base/result.h"
#include "attune/model/recipe.h"
#include "attune/sim/cluster.h"

namespace attune::cli {

struct Gap {
  std::int64_t legal = 0, compared = 0, pairs = 0, near_limit = 0;
  double median = 0, p90 = 0;  // of |estimated / true step - 1|, configurations that train
  double wrong_sign = 0;       // share of the pairs whose true steps differ by over 5%
  double wrong_fit = 0;        // share of those that need 0.85 to 1.15 of the usable memory

  static constexpr double kMedian = 0.10, kP90 = 0.30, kSign = 0.08, kFit = 0.08;
  bool Counts() const {
    return median >= kMedian && p90 >= kP90 && wrong_sign >= kSign && wrong_fit >= kFit;
  }
};
Result<Gap> MeasureGap(const Recipe& recipe, const sim::Cluster& cluster);

}  // namespace attune::cli
