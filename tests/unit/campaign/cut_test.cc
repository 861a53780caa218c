// Cut everywhere: before commit N, after commit N, after each effect before its fact is written,
// and the Nth commit failing as a full disk, for N = 1, 2, 3 ... until a campaign finishes unhurt.
// After each cut the campaign is resumed, and must end as the unbroken one did.
#include <gtest/gtest.h>

#include "harness.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::Cut;
using testing::FakeRecipe;

Recipe ShortRecipe() {
  Recipe r = FakeRecipe();
  r.declared.resize(2);
  r.declared[0].values = {"1", "2"};
  r.measure.steps = 8;
  r.measure.min_seconds = Millis{3'000};
  r.measure.calibration_runs = 2;
  r.measure.relaxed = {"steps", "calibration_runs"};
  return r;
}

// Resumes until the campaign ends; a cut may fall only in the first process.
void Finish(Campaign& c, const std::vector<std::string>& expected, const std::string& where) {
  c.journal.cut_before = c.journal.cut_after = c.journal.full_at = 0;
  c.effect_hook = nullptr;
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << where << ": " << end.error().message;
  EXPECT_EQ(end->code, 0) << where << ": " << end->why;
  EXPECT_EQ(c.RunTable(), expected) << where;
  EXPECT_EQ(BrokenBooks(c), "") << where;
  EXPECT_EQ(c.State().phase, Phase::kShipped) << where;
}

std::vector<std::string> Unbroken() {
  Campaign c(ShortRecipe());
  const Result<CampaignEnd> end = c.Go();
  EXPECT_TRUE(end && end->code == 0);
  return c.RunTable();
}

class CutEverywhere : public ::testing::TestWithParam<const char*> {};

TEST_P(CutEverywhere, ResumesToTheSameEnd) {
  const std::string kind = GetParam();
  const std::vector<std::string> expected = Unbroken();
  ASSERT_GT(expected.size(), 5u);
  int n = 1;
  for (; n < 2'000; ++n) {
    Campaign c(ShortRecipe());
    int effects = 0;
    if (kind == "before commit") c.journal.cut_before = n;
    if (kind == "after commit") c.journal.cut_after = n;
    if (kind == "full") c.journal.full_at = n;
    if (kind == "after effect") {
      c.effect_hook = [&](const char*) {
        if (++effects == n) throw Cut{};
      };
    }
    bool cut = false;
    try {
      const Result<CampaignEnd> end = c.Go();
      cut = !end;
      if (cut) {
        ASSERT_EQ(end.error().code, ErrorCode::kFull) << end.error().message;
      }
    } catch (const Cut&) {
      cut = true;
    }
    if (!cut) break;
    Finish(c, expected, kind + " " + std::to_string(n));
    if (HasFatalFailure()) return;
  }
  EXPECT_LT(n, 2'000);
  EXPECT_GT(n, kind == "after effect" ? 5 : 20);
  RecordProperty("cut_points", n - 1);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CutEverywhere,
                         ::testing::Values("before commit", "after commit", "after effect", "full"),
                         [](const auto& p) {
                           std::string name = p.param;
                           for (char& ch : name) {
                             if (ch == ' ') ch = '_';
                           }
                           return name;
                         });

// Two cuts in one campaign, at every pair of a coarse grid.
TEST(CutTwice, ResumesToTheSameEnd) {
  const std::vector<std::string> expected = Unbroken();
  for (int first = 3; first < 60; first += 9) {
    for (int second = 2; second < 40; second += 7) {
      Campaign c(ShortRecipe());
      c.journal.cut_after = first;
      try {
        (void)c.Go();
      } catch (const Cut&) {
      }
      c.journal.cut_after = 0;
      c.journal.cut_before = second;
      try {
        (void)c.Go();
      } catch (const Cut&) {
      }
      if (c.State().Ended()) continue;
      Finish(c, expected, std::to_string(first) + " then " + std::to_string(second));
    }
  }
}

}  // namespace
}  // namespace attune
