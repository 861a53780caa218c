// What a job prints is foreign: whatever the numbers are, the checks answer, and a run called valid
// has a finite positive score.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "attune/base/random.h"
#include "attune/gates/calibration.h"
#include "attune/gates/comparison.h"
#include "attune/gates/loss_check.h"
#include "attune/gates/measurement_check.h"
#include "attune/gates/readback_check.h"
#include "attune/gates/step0_check.h"

namespace attune {
namespace {

double Strange(Random& random, double usual) {
  switch (random.Below(12)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return std::numeric_limits<double>::infinity();
    case 2:
      return -usual;
    case 3:
      return 0;
    case 4:
      return std::numeric_limits<double>::max();
    case 5:
      return std::numeric_limits<double>::denorm_min();
    default:
      return usual * (1 + 0.02 * random.Normal());
  }
}

std::int64_t StrangeWhole(Random& random, std::int64_t usual) {
  switch (random.Below(40)) {
    case 0:
      return std::numeric_limits<std::int64_t>::max();
    case 1:
      return std::numeric_limits<std::int64_t>::min();
    case 2:
      return 0;
    default:
      return usual;
  }
}

std::vector<Step> Draw(Random& random, bool strange) {
  std::vector<Step> steps(random.Below(60));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    const auto n = static_cast<std::int64_t>(i);
    const bool odd = strange && random.Below(8) == 0;
    step.iteration = odd ? StrangeWhole(random, n + 1) : n + 1;
    step.printed_ms = odd ? Strange(random, 100) : 100 + random.Unit();
    step.arrival_ms = odd ? StrangeWhole(random, 100 * n) : 100 * n;
    step.losses["lm loss"] = odd ? Strange(random, 2) : 2;
    if (random.Below(2) == 0) {
      step.consumed_samples = odd ? StrangeWhole(random, 8 * n) : 8 * n;
    }
    step.tokens = odd ? Strange(random, 800) : 800;
    step.cut = random.Below(30) == 0;
  }
  return steps;
}

TEST(ForeignNumbers, NeverStopTheChecksNorMakeAStrangeScore) {
  Random random(20261130);
  const Thresholds limits;
  MeasureSpec spec;
  spec.min_seconds = Millis{300};
  int valid = 0;
  for (int round = 0; round < 3'000; ++round) {
    const bool strange = round % 4 != 0;
    const std::vector<Step> steps = Draw(random, strange);
    CalibrationRun replica;
    const std::vector<Step> reference = Draw(random, strange);
    replica.measurement.tokens_per_s_per_slot = 8'000;
    replica.measurement.median_step_ms = 100;
    replica.measurement.steps = 20;
    replica.steps = reference;
    const CalibrationRun replicas[] = {replica, replica};
    const Calibration calibration = Calibrate(replicas, spec, Framework::kCustom, limits);
    MeasureInput input;
    input.steps = steps;
    input.spec = &spec;
    input.calibration = random.Below(2) == 0 ? &calibration : nullptr;
    input.global_batch = 8;
    input.seq_length = 100;
    input.variable_rows = random.Below(3) == 0;
    input.short_window = random.Below(3) == 0;
    input.start_iteration = random.Below(2) == 0 ? std::optional<std::int64_t>(0) : std::nullopt;
    LookAtWindow(input, limits);
    const MeasuredRun run = Measure(input, limits);
    if (run.validity == Validity::kValid) {
      ++valid;
      ASSERT_TRUE(run.measurement);
      const double score[] = {ScoreOf(*run.measurement, calibration)};
      const double leader[] = {8'000};
      ASSERT_TRUE(std::isfinite(score[0]) && score[0] > 0) << "round " << round;
      Compare(score, leader, calibration, limits);
      LookEarly(score[0], 5, leader, calibration, limits);
    } else {
      EXPECT_FALSE(run.reason.empty());
    }
    Step0Input first;
    first.calibration = &calibration;
    first.step = steps.empty() ? nullptr : &steps.front();
    CheckStep0(first, limits);
    CheckLosses(steps, calibration, round % 2 == 0, LossLevel::kFinal, limits);
    CheckPrintedSteps(steps, calibration);
  }
  EXPECT_GT(valid, 100) << "the draws must also reach the valid side";
}

}  // namespace
}  // namespace attune
