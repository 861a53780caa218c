#include "attune/base/check.h"

#include <gtest/gtest.h>

namespace attune {
namespace {

TEST(Check, AbortsWithPlaceReasonAndCondition) {
  const int leader = 3;
  EXPECT_DEATH(ATTUNE_CHECK(leader == 4, "the leader is gone"),
               "check_test.cc:[0-9]+: the leader is gone \\(leader == 4\\)");
}

TEST(Check, LetsATrueConditionPassAndEvaluatesItOnce) {
  int evaluations = 0;
  ATTUNE_CHECK(++evaluations == 1, "first look");
  EXPECT_EQ(evaluations, 1);
}

}  // namespace
}  // namespace attune
