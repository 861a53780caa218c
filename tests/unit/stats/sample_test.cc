#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attune/stats/stats.h"

namespace attune {
namespace {

using Numbers = std::vector<double>;

TEST(SampleSd, DividesByOneLess) {
  EXPECT_DOUBLE_EQ(SampleSd(Numbers{1, 3}), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(RelativeSd(Numbers{1, 3}), std::sqrt(2.0) / 2);
  EXPECT_DOUBLE_EQ(RelativeSd(Numbers{-1, -3}), std::sqrt(2.0) / 2);
}

TEST(Percentile, IsLinearBetweenOrderStatistics) {
  const Numbers xs = {40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(Percentile(xs, 0), 10);
  EXPECT_DOUBLE_EQ(Percentile(xs, 1), 40);
  EXPECT_DOUBLE_EQ(Percentile(xs, 0.5), 25);
  EXPECT_DOUBLE_EQ(Percentile(xs, 0.95), 38.5);
  EXPECT_DOUBLE_EQ(Median(Numbers{7}), 7);
}

TEST(Mad, IgnoresOneWildValue) { EXPECT_DOUBLE_EQ(Mad(Numbers{1, 2, 3, 4, 1000}), 1); }

TEST(GeometricMean, IsTheMeanOfRatios) {
  EXPECT_NEAR(GeometricMean(Numbers{2, 8}), 4, 1e-12);
  EXPECT_NEAR(GeometricMean(Numbers{0.5, 2}), 1, 1e-12);
}

TEST(TheilSenSlope, FindsTheLineThroughOneWildValue) {
  Numbers ys;
  for (int i = 0; i < 21; ++i) {
    ys.push_back(5 + 0.25 * i);
  }
  ys[10] = 1e6;
  EXPECT_DOUBLE_EQ(TheilSenSlope(ys), 0.25);
}

TEST(Lag1Autocorrelation, SignsAlternationAndPersistence) {
  // m = 0: sum x_i x_{i+1} = -3, sum x_i^2 = 4.
  EXPECT_DOUBLE_EQ(Lag1Autocorrelation(Numbers{1, -1, 1, -1}), -0.75);
  // m = 0: 1 - 1 + 1 = 1, over 4.
  EXPECT_DOUBLE_EQ(Lag1Autocorrelation(Numbers{1, 1, -1, -1}), 0.25);
  EXPECT_DOUBLE_EQ(Lag1Autocorrelation(Numbers{3, 3, 3}), 0);
}

TEST(MeanRule, ExactlyTheBandIsATieBothWays) {
  EXPECT_EQ(MeanRule(Numbers{103}, Numbers{100}, 0.03), MeanVerdict::kTie);
  EXPECT_EQ(MeanRule(Numbers{100}, Numbers{103}, 0.03), MeanVerdict::kTie);
  EXPECT_EQ(MeanRule(Numbers{103.01}, Numbers{100}, 0.03), MeanVerdict::kBeats);
  EXPECT_EQ(MeanRule(Numbers{100}, Numbers{103.01}, 0.03), MeanVerdict::kLoses);
}

TEST(MeanRule, IsSymmetricInTheRatioNotInTheDifference) {
  // 3% less is a ratio of 1.0309 the other way round.
  EXPECT_EQ(MeanRule(Numbers{97}, Numbers{100}, 0.03), MeanVerdict::kLoses);
  EXPECT_EQ(MeanRule(Numbers{97.1}, Numbers{100}, 0.03), MeanVerdict::kTie);
}

TEST(KnownSigmaRule, AcceptsAtExactlyTheConstant) {
  EXPECT_TRUE(KnownSigmaRule(Numbers{3.276}, 3.28, 0.004).accept);
  EXPECT_FALSE(KnownSigmaRule(Numbers{3.2760001}, 3.28, 0.004).accept);
  EXPECT_TRUE(KnownSigmaRule(Numbers{3.278, 3.278, 3.278, 3.278}, 3.28, 0.004).accept);
  EXPECT_FALSE(KnownSigmaRule(Numbers{3.29}, 3.28, 0.004).accept) << "far on the wrong side";
  EXPECT_TRUE(KnownSigmaRule(Numbers{3.29}, 3.28, -0.02).accept);
  EXPECT_FALSE(KnownSigmaRule(Numbers{3.31}, 3.28, -0.02).accept);
}

}  // namespace
}  // namespace attune
