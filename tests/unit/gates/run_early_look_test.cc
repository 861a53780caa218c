// The early look as an experiment: calibrations, leaders and candidates drawn with known noise go
// through Calibrate and LookEarly, and the share that ends early on the wrong side is counted
// (control_plane.md section 3: at the boundary at most 0.5% on either side).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "attune/base/random.h"
#include "attune/gates/calibration.h"
#include "attune/gates/comparison.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

constexpr int kTrials = 20'000;
constexpr int kWindow = 10;
constexpr int kLook = 5;
constexpr double kMeanMs = 1000;

struct NoiseSetting {
  double run = 0, step = 0, rho = 0;
  int runs = 5;  // of the calibration
};
std::string NameOf(const testing::TestParamInfo<NoiseSetting>& info) {
  return "Run" + std::to_string(std::lround(1e4 * info.param.run)) + "Step" +
         std::to_string(std::lround(1e4 * info.param.step)) + "Rho" +
         std::to_string(std::lround(10 * info.param.rho)) + "Of" + std::to_string(info.param.runs);
}

// Step times of one run: its own level, and steps that remember the one before.
std::vector<double> RunOnce(Random& random, const NoiseSetting& noise, double speed) {
  const double level = kMeanMs / (speed * (1 + noise.run * random.Normal()));
  std::vector<double> ms;
  double deviation = random.Normal();
  for (int i = 0; i < kWindow; ++i) {
    ms.push_back(level * (1 + noise.step * deviation));
    deviation = noise.rho * deviation + std::sqrt(1 - noise.rho * noise.rho) * random.Normal();
  }
  return ms;
}

double ScoreOfSteps(const std::vector<double>& ms, int steps) {
  return 1e6 / Mean(std::span(ms).first(static_cast<std::size_t>(steps)));
}

Calibration DrawCalibration(Random& random, const NoiseSetting& noise) {
  std::vector<CalibrationRun> runs(static_cast<std::size_t>(noise.runs));
  for (CalibrationRun& run : runs) {
    const std::vector<double> ms = RunOnce(random, noise, 1);
    run.measurement.tokens_per_s_per_slot = ScoreOfSteps(ms, kWindow);
    run.measurement.steps = kWindow;
    run.measurement.median_step_ms = Median(ms);
    run.measurement.cv = RelativeSd(ms);
    run.measurement.lag1 = Lag1Autocorrelation(ms);
  }
  return Calibrate(runs, MeasureSpec{}, Framework::kMegatronLm, Thresholds{});
}

struct Shares {
  double win = 0, stop = 0;
};
// Two candidates a calibration: one gains exactly the band that it found, one exactly 1%.
struct AtBoundaries {
  Shares band, one_percent;
};

void Look(Random& random, const NoiseSetting& noise, const Calibration& calibration, double gain,
          double weight, Shares& shares) {
  const std::vector<double> leader(static_cast<std::size_t>(noise.runs), calibration.mean);
  const double candidate = ScoreOfSteps(RunOnce(random, noise, 1 + gain), kLook);
  switch (LookEarly(candidate, kLook, leader, calibration, Thresholds{}).verdict) {
    case EarlyVerdict::kWin:
      shares.win += weight;
      break;
    case EarlyVerdict::kStop:
      shares.stop += weight;
      break;
    case EarlyVerdict::kGoOn:
      break;
  }
}

class EarlyLookBoundary : public testing::TestWithParam<NoiseSetting> {};

TEST_P(EarlyLookBoundary, AtMostHalfAPercentEndsEarlyOnEitherSide) {
  Random random(20'000);
  AtBoundaries shares;
  for (int i = 0; i < kTrials; ++i) {
    const Calibration calibration = DrawCalibration(random, GetParam());
    Look(random, GetParam(), calibration, calibration.band, 1.0 / kTrials, shares.band);
    Look(random, GetParam(), calibration, 0.01, 1.0 / kTrials, shares.one_percent);
  }
  EXPECT_LE(shares.band.win, 0.005) << "seed 20000";
  EXPECT_LE(shares.band.stop, 0.005) << "seed 20000";
  EXPECT_LE(shares.one_percent.win, 0.005) << "seed 20000";
  EXPECT_LE(shares.one_percent.stop, 0.005) << "seed 20000";
}

// A rule that never ends a run would pass the test above.
TEST_P(EarlyLookBoundary, FarFromTheBoundaryMostRunsEndEarly) {
  constexpr int kFewer = 500;
  const double far = 8 * (GetParam().run + GetParam().step);
  Random random(500);
  Shares up;
  Shares down;
  for (int i = 0; i < kFewer; ++i) {
    const Calibration calibration = DrawCalibration(random, GetParam());
    Look(random, GetParam(), calibration, calibration.band + far, 1.0 / kFewer, up);
    Look(random, GetParam(), calibration, -far, 1.0 / kFewer, down);
  }
  EXPECT_GT(up.win, 0.5);
  EXPECT_GT(down.stop, 0.5);
}

// The margin counts what it must: without the step noise, or with a bound that forgets how few runs
// the noise was estimated from, the boundary above would be crossed more often.
TEST(EarlyMargin, IsTheStatedFormula) {
  Calibration calibration;
  calibration.runs.resize(5);
  calibration.sigma = 0.01;
  calibration.step_sd = 0.02;
  calibration.step_lag1 = 0.5;
  calibration.window_steps = 10;
  const double t = 4.604094871349992;  // t(0.995; 4)
  const double wanted = t * std::sqrt(1e-4 * 1.2 + 4e-4 * 3 * (1.0 / 5 - 1.0 / 10));
  EXPECT_NEAR(*EarlyMargin(calibration, 5, 5, Thresholds{}), wanted, 1e-12);
  calibration.step_lag1 = -0.7;
  EXPECT_NEAR(*EarlyMargin(calibration, 5, 5, Thresholds{}), t * std::sqrt(1e-4 * 1.2 + 4e-4 * 0.1),
              1e-12)
      << "alternating steps never narrow it";
  EXPECT_NEAR(*EarlyMargin(calibration, 20, 1, Thresholds{}), t * std::sqrt(2e-4), 1e-12)
      << "a window longer than the calibration's has no step noise of its own";
}

TEST(EarlyMargin, OfAPooledSigmaCountsOnThePriorAlone) {
  Calibration calibration;
  calibration.runs.resize(2);
  calibration.sigma = 0.01;
  EXPECT_NEAR(*EarlyMargin(calibration, 20, 1, Thresholds{}), 63.65674 * std::sqrt(2e-4), 1e-6);
  calibration.pooled_freedom = 4;
  EXPECT_NEAR(*EarlyMargin(calibration, 20, 1, Thresholds{}), 4.604095 * std::sqrt(2e-4), 1e-6);
}

TEST(EarlyMargin, IsNotThereWithoutReplicas) {
  Calibration calibration;
  calibration.runs.resize(1);
  calibration.sigma = 0.01;
  EXPECT_FALSE(EarlyMargin(calibration, 5, 1, Thresholds{}));
  calibration.runs.resize(5);
  calibration.quick = true;
  EXPECT_FALSE(EarlyMargin(calibration, 5, 1, Thresholds{}));
}

INSTANTIATE_TEST_SUITE_P(
    Noises, EarlyLookBoundary,
    testing::Values(NoiseSetting{0.0049, 0.01, 0}, NoiseSetting{0.0049, 0.01, 0.5},
                    NoiseSetting{0.0095, 0.02, 0}, NoiseSetting{0.0095, 0.02, 0.5},
                    NoiseSetting{0.0129, 0.03, 0}, NoiseSetting{0.0129, 0.03, 0.5},
                    NoiseSetting{0.0049, 0.01, 0.5, 2}, NoiseSetting{0.0095, 0.02, 0.5, 2},
                    NoiseSetting{0.0129, 0.03, 0, 2}, NoiseSetting{0.0129, 0.03, 0.5, 2},
                    NoiseSetting{0.0129, 0.03, 0, 3}, NoiseSetting{0.0129, 0.03, 0.5, 3},
                    NoiseSetting{0.0129, 0.03, 0.5, 4}),
    NameOf);

}  // namespace
}  // namespace attune
