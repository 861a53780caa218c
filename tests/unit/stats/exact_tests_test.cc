#include <gtest/gtest.h>

#include <vector>

#include "attune/base/random.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

using Numbers = std::vector<double>;

TEST(PermutationTest, CountsTheObservedAssignmentAndTies) {
  const ExactTest test = PermutationTest(Numbers{3, 4, 5}, Numbers{1, 2, 3}).value();
  EXPECT_EQ(test.count, 2U) << "either 3 may be the one in a";
  EXPECT_EQ(test.total, 20U);
  EXPECT_DOUBLE_EQ(test.P(), 0.1);
  EXPECT_DOUBLE_EQ(test.Floor(), 0.05);
}

TEST(PermutationTest, TiesOfDecimalsCount) {
  // 0.1 + 0.2 + 0.7 = 0.3 + 0.3 + 0.4, which binary sums miss.
  EXPECT_EQ(PermutationTest(Numbers{0.1, 0.2, 0.7}, Numbers{0.3, 0.3, 0.4})->count, 11U);
}

TEST(PermutationTest, RefusesMoreAssignmentsThanItCanWalk) {
  const Numbers many(20, 1.0);
  EXPECT_FALSE(PermutationTest(many, many));
}

// The block test reaches its counts by folding sums, the plain test by walking all assignments.
TEST(BlockPermutationTest, OneBlockIsThePlainTest) {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    SampleBlock block;
    for (int i = 0; i < 4; ++i) {
      block.a.push_back(static_cast<double>(random.Below(30)) / 10);
      block.b.push_back(static_cast<double>(random.Below(30)) / 10);
    }
    const ExactTest plain = PermutationTest(block.a, block.b).value();
    const ExactTest folded = BlockPermutationTest({&block, 1}).value();
    EXPECT_EQ(plain.count, folded.count);
    EXPECT_EQ(plain.total, folded.total);
  }
}

TEST(BlockPermutationTest, PairsAreTheSignFlipTestOfTheirDifferences) {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<SampleBlock> blocks;
    Numbers differences;
    for (int i = 0; i < 5; ++i) {
      const double a = static_cast<double>(random.Below(100));
      const double b = static_cast<double>(random.Below(100));
      blocks.push_back({{a}, {b}});
      differences.push_back(a - b);
    }
    const ExactTest pairs = BlockPermutationTest(blocks).value();
    const ExactTest flips = SignFlipTest(differences).value();
    EXPECT_EQ(pairs.count, flips.count);
    EXPECT_EQ(pairs.total, flips.total);
  }
}

TEST(SignFlipTest, HasItsFloorAndCountsZeros) {
  EXPECT_EQ(SignFlipTest(Numbers{1, 2, 3})->count, 1U);
  EXPECT_DOUBLE_EQ(SignFlipTest(Numbers{1, 2, 3})->Floor(), 0.125);
  EXPECT_EQ(SignFlipTest(Numbers{0, 0})->count, 4U) << "zeros keep their two equal signs";
  EXPECT_EQ(SignFlipTest(Numbers{0.1, 0.2, -0.3})->count, 5U) << "a sum of exactly 0";
  EXPECT_FALSE(SignFlipTest(Numbers(25, 1.0)));
}

TEST(SignFlipTest, WorksBeyondTheRangeOfScaledIntegers) {
  EXPECT_EQ(SignFlipTest(Numbers{1e200, 1e-200, 3})->total, 8U);
  EXPECT_EQ(SignFlipTest(Numbers{1e200, 1e-200, 3})->count, 4U)
      << "the small ones vanish beside the large one, and ties count";
}

TEST(Assignments, AreCountedOrRefused) {
  EXPECT_EQ(AssignmentsTwoSample(5, 5), 252U);
  EXPECT_EQ(AssignmentsTwoSample(0, 3), 1U);
  EXPECT_FALSE(AssignmentsTwoSample(40, 40));
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks = {{1, 1}, {2, 1}, {1, 2}};
  EXPECT_EQ(AssignmentsInBlocks(blocks), 18U);
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> many(80, {1, 1});
  EXPECT_FALSE(AssignmentsInBlocks(many));
  EXPECT_EQ(Binomial(62, 31), 465428353255261088U);
  EXPECT_EQ(Binomial(3, 5), 0U);
}

TEST(FisherGreater, IsTheHypergeometricTail) {
  // Margins 4, 4, 4: P(x = 4) = 1/70, P(x >= 3) = 17/70.
  EXPECT_NEAR(FisherGreater(4, 0, 0, 4), 1.0 / 70, 1e-15);
  EXPECT_NEAR(FisherGreater(3, 1, 1, 3), 17.0 / 70, 1e-15);
  EXPECT_NEAR(FisherGreater(0, 4, 4, 0), 1, 1e-15);
}

}  // namespace
}  // namespace attune
