// Text made to a byte budget.
#include "sheet.h"

#include <gtest/gtest.h>

namespace attune {
namespace {

std::vector<Block> TwoBlocks() {
  return {{"a", "A in full", {"a1", "a2", "a3"}, 1}, {"b", "B in full", {"b1", "b2"}, 0}};
}

TEST(FitSheet, KeepsEveryBriefFormAndFailsWhenTheyDoNotFit) {
  EXPECT_EQ(*FitSheet(TwoBlocks(), 4), "a\nb\n");
  const Result<std::string> sheet = FitSheet(TwoBlocks(), 3);
  ASSERT_FALSE(sheet);
  EXPECT_NE(sheet.error().help.find("prompt_bytes"), std::string::npos);
}

TEST(FitSheet, EnlargesTheMostImportantBlockFirst) {
  // Room for one full form: that of the smaller rank, although it stands later.
  EXPECT_EQ(*FitSheet(TwoBlocks(), 18), "a\nB in full\nb1\nb2\n");
}

TEST(FitSheet, CountsTheRowsThatAreLeftOut) {
  const std::vector<Block> blocks = {{"a", "A", {"a row of 19 letters", "another", "third"}, 0}};
  EXPECT_EQ(*FitSheet(blocks, 31), "A\na row of 19 letters\n(2 more)\n");
  EXPECT_EQ(*FitSheet(blocks, 30), "A\n(3 more)\n");
}

TEST(FitSheet, NeverExceedsTheBudgetAndOnlyGrowsWithIt) {
  std::size_t before = 0;
  for (std::size_t bytes = 4; bytes < 80; ++bytes) {
    const std::size_t size = FitSheet(TwoBlocks(), bytes)->size();
    EXPECT_LE(size, bytes);
    EXPECT_GE(size, before);
    before = size;
  }
  EXPECT_EQ(*FitSheet(TwoBlocks(), 80), "A in full\na1\na2\na3\nB in full\nb1\nb2\n");
}

TEST(SomeOf, SaysHowManyWereLeftOut) {
  EXPECT_EQ(SomeOf({"one", "two", "three"}, 100), "one two three");
  EXPECT_EQ(SomeOf({"one", "two", "three"}, 11), "one +2 more");
  EXPECT_EQ(SomeOf({"one", "two", "three"}, 3), "+3 more");
  EXPECT_EQ(SomeOf({}, 3), "");
}

}  // namespace
}  // namespace attune
