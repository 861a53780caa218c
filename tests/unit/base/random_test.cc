#include "attune/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace attune {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

// The inverses of the two operations Next mixes with: for a generator whose next bits are given.
std::uint64_t UndoShift(std::uint64_t y, int shift) {
  std::uint64_t x = y;
  for (int done = shift; done < 64; done += shift) {
    x = y ^ (x >> shift);
  }
  return x;
}

std::uint64_t OddInverse(std::uint64_t odd) {
  std::uint64_t inverse = odd;  // right in the lowest 3 bits; each round doubles them
  for (int i = 0; i < 5; ++i) {
    inverse *= 2 - odd * inverse;
  }
  return inverse;
}

Random WhoseNextIs(std::uint64_t bits) {
  std::uint64_t z = UndoShift(bits, 31) * OddInverse(0x94d049bb133111ebU);
  z = UndoShift(z, 27) * OddInverse(0xbf58476d1ce4e5b9U);
  return Random(UndoShift(z, 30) - kStep);
}

double NormalBelow(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

TEST(Random, GivesThePublishedSplitMix64Sequence) {
  Random random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317U);
  EXPECT_EQ(random.Next(), 3203168211198807973U);
  EXPECT_EQ(random.Next(), 9817491932198370423U);
  EXPECT_EQ(random.Next(), 4593380528125082431U);
  EXPECT_EQ(random.Next(), 16408922859458223821U);
}

TEST(Random, ContinuesFromItsState) {
  Random first(7);
  first.Next();
  first.Normal();
  Random second(first.state());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(first.Next(), second.Next());
  }
}

TEST(Random, BelowStaysInRangeAndReachesAllOfIt) {
  Random random(1);
  std::map<std::uint64_t, int> seen;
  for (int i = 0; i < 6000; ++i) {
    ++seen[random.Below(6)];
  }
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_EQ(seen.rbegin()->first, 5U);
  for (const auto& [value, count] : seen) {
    EXPECT_NEAR(count, 1000, 120) << value;  // 4 standard deviations
  }
  EXPECT_EQ(random.Below(1), 0U);
}

TEST(Random, BelowHasNoModuloBias) {
  // With a plain remainder half of all values, not a third, would be under 2^62.
  const std::uint64_t quarter = std::uint64_t{1} << 62;
  Random random(3);
  int low = 0;
  for (int i = 0; i < 6000; ++i) {
    low += random.Below(3 * quarter) < quarter ? 1 : 0;
  }
  EXPECT_NEAR(low, 2000, 150);
}

TEST(Random, BelowDrawsAgainWhenTheBitsWouldBiasIt) {
  // 2^64 mod 3 is 1: the one value 0 is thrown away.
  Random random = WhoseNextIs(0);
  Random after = random;
  after.Next();
  const std::uint64_t second = Random(after.state()).Next();
  EXPECT_EQ(random.Below(3), second % 3);
  after.Next();
  EXPECT_EQ(random.state(), after.state());
}

TEST(Random, UnitIsFromZeroToBelowOne) {
  EXPECT_EQ(WhoseNextIs(0).Unit(), 0.0);
  EXPECT_EQ(WhoseNextIs(~std::uint64_t{0}).Unit(), 1.0 - 0x1p-53);
  EXPECT_EQ(WhoseNextIs(std::uint64_t{1} << 63).Unit(), 0.5);
}

TEST(Random, NormalIsTheInverseOfTheNormalDistribution) {
  Random random(5);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    Random twin(random.state());
    const double z = random.Normal();
    const double u = twin.Unit();
    EXPECT_EQ(random.state(), twin.state());  // one draw each
    EXPECT_NEAR(NormalBelow(z), u, 1e-14 + 0x1p-52);
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / kDraws, 0, 4 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 4 * std::sqrt(2.0 / kDraws));
}

TEST(Random, NormalIsExactInTheFarTailsAndNeverInfinite) {
  const double lowest = WhoseNextIs(0).Normal();
  const double highest = WhoseNextIs(~std::uint64_t{0}).Normal();
  EXPECT_NEAR(NormalBelow(lowest) / 0x1p-53, 1, 1e-12);
  EXPECT_EQ(highest, -lowest);
  // Between the middle formula and the tail one: p = e^-25 is where one takes over.
  for (const double p : {1.3e-11, 1.5e-11, 1e-6, 0.07, 0.08}) {
    const auto bits = static_cast<std::uint64_t>(p * 0x1p52) << 12;
    const double middle = static_cast<double>(bits >> 12) * 0x1p-52 + 0x1p-53;
    EXPECT_NEAR(NormalBelow(WhoseNextIs(bits).Normal()) / middle, 1, 1e-12) << p;
  }
}

TEST(RandomHex, HasTheAskedLengthAndOnlyLowerCaseDigits) {
  const std::string hex = RandomHex(4000);
  EXPECT_EQ(hex.size(), 4000U);
  EXPECT_EQ(hex.find_first_not_of("0123456789abcdef"), std::string::npos);
  for (const char digit : std::string("0123456789abcdef")) {
    EXPECT_NE(hex.find(digit), std::string::npos) << digit;
  }
  EXPECT_EQ(RandomHex(0), "");
  EXPECT_NE(RandomHex(16), RandomHex(16));
}

}  // namespace
}  // namespace attune
