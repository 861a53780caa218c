#include "attune/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <unordered_set>

#include "attune/base/ids.h"

namespace attune {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) {
    return Fail(ErrorCode::kUnavailable, "odd", "try an even one");
  }
  return n / 2;
}

Result<int> Quarter(int n) {
  ATTUNE_TRY(const int half, Half(n));
  ATTUNE_TRY(const int quarter, Half(half));
  return quarter;
}

Status CheckEven(int n, int* reached) {
  ATTUNE_RETURN_IF_ERROR([&]() -> Status {
    ATTUNE_TRY([[maybe_unused]] const int half, Half(n));
    return {};
  }());
  *reached = n;
  return {};
}

TEST(Result, TryDeclaresTheValueOrReturnsTheErrorAsItIs) {
  EXPECT_EQ(Quarter(8).value(), 2);
  for (const int n : {7, 6}) {
    const Result<int> failed = Quarter(n);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(failed.error().message, "odd");
    EXPECT_EQ(failed.error().help, "try an even one");
  }
}

TEST(Result, ReturnIfErrorLeavesOnlyOnError) {
  int reached = 0;
  EXPECT_TRUE(CheckEven(4, &reached));
  EXPECT_EQ(reached, 4);
  const Status failed = CheckEven(5, &reached);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "odd");
  EXPECT_EQ(reached, 4);
}

TEST(Result, MovesWhatCannotBeCopied) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  const auto use = [&]() -> Result<int> {
    ATTUNE_TRY(std::unique_ptr<int> owned, make());
    return *owned;
  };
  EXPECT_EQ(use().value(), 5);
}

TEST(Result, EachLayerSaysWhatItWasDoing) {
  const Error inner{ErrorCode::kDenied, "permission denied", "chmod it"};
  const Result<int> outer = Fail("reading recipe.yaml", inner);
  EXPECT_EQ(outer.error().code, ErrorCode::kDenied);
  EXPECT_EQ(outer.error().message, "reading recipe.yaml: permission denied");
  EXPECT_EQ(outer.error().help, "chmod it");
}

TEST(Id, KindsAreTypesOfTheirOwnAndOrderByText) {
  static_assert(!std::is_convertible_v<RunId, LaunchId>);
  static_assert(!std::is_convertible_v<std::string, RunId>);
  EXPECT_LT(RunId("r007"), RunId("r010"));
  EXPECT_TRUE(RunId().empty());
  const std::unordered_set<RunId> ids = {RunId("r007"), RunId("r007"), RunId("r008")};
  EXPECT_EQ(ids.size(), 2U);
}

}  // namespace
}  // namespace attune
