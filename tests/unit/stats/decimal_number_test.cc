#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attune/base/random.h"
#include "attune/stats/decimal.h"

namespace attune {
namespace {

Decimal D(std::string_view text) { return Decimal::Parse(text).value(); }

TEST(Decimal, SumsThatTieInDecimalsTieHere) {
  EXPECT_NE(0.1 + 0.2, 0.3);
  EXPECT_EQ(Decimal::FromDouble(0.1) + Decimal::FromDouble(0.2), Decimal::FromDouble(0.3));
}

TEST(Decimal, ReadsEverySpellingOfANumber) {
  EXPECT_EQ(D("1e-4"), D("0.0001"));
  EXPECT_EQ(D("-0"), D("0"));
  EXPECT_EQ(D("1.50e3"), D("1500"));
  EXPECT_EQ(D(".5"), D("5e-1"));
  EXPECT_FALSE(Decimal::Parse("nan"));
  EXPECT_FALSE(Decimal::Parse("1e99999"));
  EXPECT_FALSE(Decimal::Parse(""));
  EXPECT_FALSE(Decimal::Parse("+1"));
}

TEST(Decimal, MultipliesAcrossLimbs) {
  EXPECT_EQ(D("999999999999999999") * D("999999999999999999"),
            D("999999999999999998000000000000000001"));
  EXPECT_EQ(D("-0.000000001") * D("1000000000"), D("-1"));
}

TEST(Decimal, SubtractsAcrossBorrowsAndSigns) {
  EXPECT_EQ(D("1000000000000000000000") - D("1"), D("999999999999999999999"));
  EXPECT_EQ(D("1") - D("1000000000000000000000"), D("-999999999999999999999"));
  EXPECT_EQ((D("5.5") - D("5.5")).Sign(), 0);
  EXPECT_EQ(D("-3") + D("-4"), D("-7"));
  EXPECT_EQ(-D("0"), D("0"));
}

TEST(Decimal, OrdersAcrossSignsAndScales) {
  EXPECT_LT(D("-2"), D("-1.999999999999999999999"));
  EXPECT_LT(D("-1e-300"), D("0"));
  EXPECT_GT(D("1e300"), D("9.99e299"));
  EXPECT_LE(D("1"), D("1.0"));
}

TEST(Decimal, AComputedDoubleLosesItsRoundingNoise) {
  const double noisy = std::nextafter(103.0, 200.0);
  ASSERT_NE(noisy, 103.0);
  EXPECT_EQ(Decimal::FromDouble(noisy), Decimal(103));
}

TEST(Decimal, FifteenDigitsSurvive) {
  EXPECT_EQ(Decimal::FromDouble(1.23456789012345), D("1.23456789012345"));
  EXPECT_NE(Decimal::FromDouble(1.23456789012345), D("1.23456789012346"));
}

TEST(Decimal, ScalesOnlyToWholeNumbersThatFit) {
  EXPECT_EQ(D("12.5").Scaled(1), 125);
  EXPECT_EQ(D("-12.5").Scaled(2), -1250);
  EXPECT_FALSE(D("12.5").Scaled(0));
  EXPECT_FALSE(D("1e19").Scaled(0));
  EXPECT_FALSE(D("1").Scaled(300));
  EXPECT_EQ(D("4611686018427387904").Scaled(0), std::int64_t{1} << 62);
  EXPECT_FALSE(D("4611686018427387905").Scaled(0));
  EXPECT_EQ(D("0").Scaled(5), 0);
}

TEST(Decimal, AgreesWithIntegerArithmetic) {
  Random random(7);
  for (int i = 0; i < 500; ++i) {
    const auto a = static_cast<std::int64_t>(random.Below(2'000'000'000)) - 1'000'000'000;
    const auto b = static_cast<std::int64_t>(random.Below(2'000'000'000)) - 1'000'000'000;
    EXPECT_EQ(Decimal(a) + Decimal(b), Decimal(a + b));
    EXPECT_EQ(Decimal(a) * Decimal(b), Decimal(a * b));
    EXPECT_EQ(Decimal::Compare(Decimal(a), Decimal(b)), a < b ? -1 : (a > b ? 1 : 0));
    EXPECT_EQ((Decimal(a) * Decimal(b)).ToDouble(), static_cast<double>(a * b));
  }
}

TEST(ShiftExceeds, ExactlyTheLimitDoesNot) {
  ASSERT_GT(10.2 / 10 - 1, 0.02) << "in binary it would";
  EXPECT_FALSE(ShiftExceeds(10.2, 10.0, 0.02));
  EXPECT_FALSE(ShiftExceeds(9.8, 10.0, 0.02));
  EXPECT_TRUE(ShiftExceeds(10.2000001, 10.0, 0.02));
  EXPECT_TRUE(ShiftExceeds(9.7999999, 10.0, 0.02));
  EXPECT_TRUE(ShiftExceeds(10.20000000001, 10.0, 0.02)) << "one part in 10^12 above";
  EXPECT_TRUE(ShiftExceeds(-10.21, -10.0, 0.02));
  EXPECT_FALSE(ShiftExceeds(-10.2, -10.0, 0.02));
}

TEST(RatioExceeds, ExactlyTheBandDoesNot) {
  ASSERT_GT(103.0 / 100.0 - 1, 0.03) << "in binary it would";
  EXPECT_FALSE(RatioExceeds(103, 100, 0.03));
  EXPECT_TRUE(RatioExceeds(103.000001, 100, 0.03));
  EXPECT_FALSE(RatioExceeds(90, 100, 0.03));
}

TEST(MeanRatioExceeds, ComparesMeansWithoutDividing) {
  const std::vector<double> a = {103.1, 102.9};
  const std::vector<double> b = {100.0, 100.1, 99.9};
  EXPECT_FALSE(MeanRatioExceeds(a, b, 0.03));
  EXPECT_TRUE(MeanRatioExceeds(a, b, 0.029999));
}

}  // namespace
}  // namespace attune
