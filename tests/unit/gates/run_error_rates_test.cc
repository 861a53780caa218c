// How often a candidate without any gain wins, with sigma and band estimated from five runs: the
// rates that a campaign is told (control_plane.md section 3, "Error rates").
#include <gtest/gtest.h>

#include <vector>

#include "attune/base/random.h"
#include "attune/gates/calibration.h"
#include "attune/gates/comparison.h"

namespace attune {
namespace {

constexpr int kTrials = 20'000;

struct Rates {
  double against_calibration = 0, against_one_run = 0;
};

Rates FalseWins(double sigma) {
  Random random(555);
  const Thresholds limits;
  const auto run_once = [&] { return 100 * (1 + sigma * random.Normal()); };
  Rates rates;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<double> runs;
    for (int r = 0; r < 5; ++r) {
      runs.push_back(run_once());
    }
    const Noise noise = NoiseOf(runs, MeasureSpec{}, Framework::kCustom, limits);
    Calibration calibration;
    calibration.mean = noise.mean;
    calibration.sigma = noise.sigma;
    calibration.band = noise.band;
    const std::vector<double> candidate = {run_once()};
    const std::vector<double> leader = {run_once()};
    const auto wins = [&](const std::vector<double>& against) {
      return Compare(candidate, against, calibration, limits).standing == Standing::kWin;
    };
    rates.against_calibration += wins(runs) ? 1.0 / kTrials : 0;
    rates.against_one_run += wins(leader) ? 1.0 / kTrials : 0;
  }
  return rates;
}

// Tolerances are four standard errors of 20,000 draws.
TEST(FalseWins, AreAsRareAsStated) {
  const Rates quiet = FalseWins(0.0095);
  EXPECT_NEAR(quiet.against_calibration, 0.0015, 0.0012);
  EXPECT_NEAR(quiet.against_one_run, 0.010, 0.003);
  const Rates usual = FalseWins(0.0129);
  EXPECT_NEAR(usual.against_calibration, 0.008, 0.0026);
  EXPECT_NEAR(usual.against_one_run, 0.028, 0.005);
  const Rates noisy = FalseWins(0.03);
  EXPECT_GT(noisy.against_calibration, 0.021 - 0.004);
  EXPECT_LT(noisy.against_calibration, 0.026 + 0.005);
  EXPECT_NEAR(noisy.against_one_run, 0.0475, 0.008);
}

}  // namespace
}  // namespace attune
