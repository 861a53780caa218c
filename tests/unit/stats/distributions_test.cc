// Expected values were computed with 30 digits of precision.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attune/base/random.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

using Numbers = std::vector<double>;

void ExpectClose(double got, double wanted, double relative = 1e-10) {
  EXPECT_NEAR(got, wanted, relative * std::abs(wanted));
}

TEST(StudentQuantile, TenDigitsFromHeavyTailsToNormal) {
  ExpectClose(StudentQuantile(0.995, 4), 4.604094871349992);
  ExpectClose(StudentQuantile(0.9995, 4), 8.610301581379523);
  ExpectClose(StudentQuantile(0.975, 1), 12.70620473617469);
  ExpectClose(StudentQuantile(0.995, 2), 9.924843200918289);
  ExpectClose(StudentQuantile(0.9, 30), 1.310415025391396);
  ExpectClose(StudentQuantile(0.995, 0.7), 364.935202981585);
  ExpectClose(StudentQuantile(0.999, 1000), 3.098402163912923);
  EXPECT_EQ(StudentQuantile(0.5, 3), 0);
}

TEST(StudentCdf, TailsKeepTheirDigits) {
  ExpectClose(StudentCdf(2.5, 4), 0.9666167275940059);
  ExpectClose(StudentUpperTail(2.5, 4), 0.03338327240599407);
  ExpectClose(StudentCdf(-7.470232542603399, 7), 7.039571043935968e-5);
  ExpectClose(StudentUpperTail(40, 3), 1.719034039457926e-5);
  ExpectClose(StudentCdf(0.3, 12.5), 0.6154461280157327);
}

TEST(StudentQuantile, IsTheInverseOfTheCdf) {
  Random random(11);
  for (int i = 0; i < 200; ++i) {
    const double p = 0.001 + 0.998 * random.Unit();
    const double df = 0.5 + 60 * random.Unit();
    EXPECT_NEAR(StudentCdf(StudentQuantile(p, df), df), p, 1e-12);
    EXPECT_NEAR(StudentQuantile(p, df), -StudentQuantile(1 - p, df), 1e-9 * (1 + df));
  }
}

TEST(IncompleteBeta, HoldsForSmallAndLargeParameters) {
  ExpectClose(IncompleteBeta(2, 3, 0.4), 0.5248);
  ExpectClose(IncompleteBeta(0.5, 0.5, 0.1), 0.2048327646991335);
  ExpectClose(IncompleteBeta(500, 300, 0.6), 0.07292159199253187);
  ExpectClose(IncompleteBeta(5000, 4000, 0.556), 0.5334997828311299);
  EXPECT_EQ(IncompleteBeta(2, 3, 0), 0);
  EXPECT_EQ(IncompleteBeta(2, 3, 1), 1);
}

TEST(NormalQuantile, TenDigitsInTheTail) {
  ExpectClose(NormalQuantile(0.975), 1.959963984540054);
  ExpectClose(NormalQuantile(0.9995), 3.290526731491895);
  ExpectClose(NormalQuantile(1e-10), -6.361340902404056);
  ExpectClose(NormalCdf(NormalQuantile(0.3)), 0.3);
}

TEST(ExpectedMaxNormal, IsTheWinnersCurse) {
  EXPECT_NEAR(ExpectedMaxNormal(1), 0, 1e-12);
  ExpectClose(ExpectedMaxNormal(3), 0.8462843753216344, 1e-12);
  ExpectClose(ExpectedMaxNormal(8), 1.423600306045278, 1e-12);
  ExpectClose(ExpectedMaxNormal(20), 1.86747505979832, 1e-12);
}

// Coverage of the exact interval, by its definition: each end is where the tail is alpha / 2.
TEST(BinomialInterval, EndsWhereTheTailsAre) {
  const Interval interval = BinomialInterval(15, 24, 0.95);
  ExpectClose(IncompleteBeta(15, 10, interval.low), 0.025, 1e-9);
  ExpectClose(IncompleteBeta(16, 9, interval.high), 0.975, 1e-9);
  EXPECT_EQ(BinomialInterval(0, 10, 0.95).low, 0);
  EXPECT_EQ(BinomialInterval(10, 10, 0.95).high, 1);
}

TEST(UpperRateIfNone, BoundsTheRate) {
  const double bound = UpperRateIfNone(460, 0.95);
  EXPECT_LT(bound, 0.0065);
  ExpectClose(std::pow(1 - bound, 460), 0.05);
}

TEST(MakePredictionBand, WidensForTheNewRunToo) {
  const PredictionBand band = MakePredictionBand(Numbers{9, 10, 11}, 0.05);
  const double reach = 4.302652729911275 * std::sqrt(4.0 / 3);  // t(0.975; 2), s = 1
  ExpectClose(band.band.low, 10 - reach, 1e-9);
  ExpectClose(band.band.high, 10 + reach, 1e-9);
  EXPECT_TRUE(band.Inside(10 + reach * 0.999));
  EXPECT_FALSE(band.Inside(10 + reach * 1.001));
}

TEST(OneSampleLess, AMeanThatIsMuGivesHalf) {
  const TTest test = OneSampleLess(Numbers{3.2795, 3.2806, 3.2799}, 3.28);
  EXPECT_EQ(test.t, 0);
  EXPECT_EQ(test.p, 0.5);
}

TEST(TTests, WithoutSpreadTheSignDecides) {
  EXPECT_EQ(OneSampleLess(Numbers{1, 1}, 2).p, 0);
  EXPECT_EQ(OneSampleLess(Numbers{3, 3}, 2).p, 1);
  EXPECT_EQ(WelchLess(Numbers{1, 1}, Numbers{1, 1}).p, 0.5);
}

TEST(WelchLess, EqualSizesAndSpreadsAreStudentsTest) {
  const TTest test = WelchLess(Numbers{1, 2, 3}, Numbers{2, 3, 4});
  ExpectClose(test.t, -1 / std::sqrt(2.0 / 3));
  ExpectClose(test.df, 4);
}

TEST(FalsePromotionRate, ASecondLeaderRunHelps) {
  EXPECT_LT(FalsePromotionRate(0.01, 0.03, 5).p, FalsePromotionRate(0.01, 0.03, 1).p);
  ExpectClose(FalsePromotionRate(0.01, 0.03, 1).z, 3 / std::sqrt(2.0));
}

}  // namespace
}  // namespace attune
