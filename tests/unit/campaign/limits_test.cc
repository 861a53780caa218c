// Limits that end a search, and what is tried again when the environment spoiled it.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "harness.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::FakeRecipe;

Instant LastEvent(const Campaign& c) { return c.journal.events.back().at; }

TEST(BudgetWall, EndsTheSearchSoThatTheFinalStageFits) {
  Recipe r = FakeRecipe();
  r.budget.run_limit = std::chrono::minutes(1);
  Campaign unbounded(r);
  ASSERT_TRUE(unbounded.Go());
  const CampaignState all = unbounded.State();

  r.budget.wall = std::chrono::seconds(510);
  Campaign c(r);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  EXPECT_TRUE(s.Ended()) << end->why;
  EXPECT_LE(LastEvent(c) - s.opened_at, *r.budget.wall);
  EXPECT_LT(s.runs.size(), all.runs.size());
  EXPECT_EQ(s.stop, "budget");
  EXPECT_NE(s.phase_reason.find("budget.wall of 8m"), std::string::npos) << s.phase_reason;
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(BudgetWall, SmallerThanTheFirstLaunchLaunchesNothing) {
  Recipe r = FakeRecipe();
  r.budget.wall = Millis{1'000};
  Campaign c(r);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 5);
  EXPECT_NE(end->why.find("budget.wall"), std::string::npos) << end->why;
  EXPECT_TRUE(c.world.Tokens().empty());
}

// The job saves every twenty iterations, so there is something to rehearse.
class RehearsalStage : public ::testing::Test {
 protected:
  RehearsalStage() {
    std::string pattern = std::filesystem::temp_directory_path() / "attune-rehearsal.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    recipe_.base.args.Set("--save", {folder_ + "/user"});
    recipe_.base.args.Set("--save-interval", {"20"});
    recipe_.measure.instrument_remove = {"--save", "--save-interval"};
  }
  ~RehearsalStage() override { std::filesystem::remove_all(folder_); }
  void UseFolder(Campaign& c) const {
    c.world.run_root = folder_;
    c.opening.run_root = folder_;
  }

  std::string folder_;
  Recipe recipe_ = FakeRecipe();
};

// The rehearsal's first job is taken away: the next one decides, and the winner does not fall.
TEST_F(RehearsalStage, SpoiledByTheEnvironmentIsTriedAgainOnce) {
  for (const int spoiled : {1, 2}) {
    Campaign c(recipe_);
    UseFolder(c);
    int rehearsals = 0;
    c.world.fault = [&](const LaunchSpec& spec, int) {
      fakes::FakeFault fault;
      const auto& argv = spec.stages.front().argv;
      if (std::find(argv.begin(), argv.end(), "--save") == argv.end()) return fault;
      if (++rehearsals <= spoiled) fault = {fakes::FakeFault::Kind::kPreempted, Millis{500}};
      return fault;
    };
    const Result<CampaignEnd> end = c.Go();
    ASSERT_TRUE(end) << end.error().message;
    EXPECT_GE(rehearsals, 2);
    const CampaignState s = c.State();
    ASSERT_FALSE(s.finals.empty());
    EXPECT_EQ(s.finals.front().passed, spoiled == 1) << s.finals.front().reason;
    EXPECT_EQ(BrokenBooks(c), "");
  }
}

// Baseline and winner take turns at being first over the blocks that count, whatever was lost.
TEST(FinalStage, ASpoiledBlockIsMadeAgainInItsOwnOrder) {
  Campaign c(FakeRecipe());
  int finals = 0;
  c.world.fault = [&](const LaunchSpec& spec, int) {
    fakes::FakeFault fault;
    const CampaignState s = c.State();
    for (const auto& [id, launch] : s.launches) {
      if (launch.intent.token == spec.token && launch.intent.purpose == Purpose::kFinal &&
          ++finals == 1) {
        fault = {fakes::FakeFault::Kind::kPreempted, Millis{500}};
      }
    }
    return fault;
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  std::vector<std::string> first;
  const CampaignState s = c.State();
  for (const auto& [id, launch] : s.launches) {
    if (launch.intent.purpose == Purpose::kFinal) {
      first.push_back(launch.intent.runs.front().of);
    }
  }
  ASSERT_GE(first.size(), 3u);
  EXPECT_EQ(first[0], "baseline");
  EXPECT_EQ(first[1], "baseline");
  EXPECT_EQ(first[2], "leader");
}

// The user's log interval stays in the rehearsal: twenty steps print three lines and are all done.
TEST_F(RehearsalStage, KeepsTheUsersLogIntervalAndCountsStepsNotLines) {
  recipe_.base.args.Set("--log-interval", {"10"});
  recipe_.measure.instrument_set["--log-interval"] = "1";
  Campaign c(recipe_);
  UseFolder(c);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  ASSERT_FALSE(s.finals.empty());
  EXPECT_TRUE(s.finals.front().passed) << s.finals.front().reason;
  int rehearsed = 0;
  for (const auto& [id, run] : s.runs) {
    if (run.plan.label != "rehearsal") continue;
    rehearsed++;
    EXPECT_EQ(run.steps.size(), 3U);  // the first, the tenth, the twentieth
    ASSERT_TRUE(run.end);
    EXPECT_EQ(run.end->detail.end, RunEnd::kCompleted) << run.end->detail.cause;
  }
  EXPECT_EQ(rehearsed, 1);
}

// A job that begins elsewhere than the measured one did is not what was verified.
TEST_F(RehearsalStage, ThatBeginsAtAnotherIterationFails) {
  recipe_.base.args.Set("--ckpt-step", {"400"});
  recipe_.measure.instrument_set["--ckpt-step"] = "40";
  Campaign c(recipe_);
  UseFolder(c);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  ASSERT_FALSE(s.finals.empty()) << end->code << " " << end->why;
  EXPECT_FALSE(s.finals.front().passed);
  EXPECT_NE(s.finals.front().reason.find("rehearsal began at iteration 401, expected 41"),
            std::string::npos)
      << s.finals.front().reason;
}

// Two blocks of a final stage suffice where money is short: what a third would cost must not keep
// the search from its first launch.
TEST(Reserve, ASearchWithoutAWinCountsOnTwoBlocks) {
  const auto launched = [](double hours, int blocks) {
    Recipe r = FakeRecipe();
    r.budget.run_limit = std::chrono::minutes(1);
    Campaign c(r);
    c.opening.budget = FromGpuHours(hours);
    c.opening.policy.final_blocks = blocks;
    EXPECT_TRUE(c.Go());
    EXPECT_EQ(BrokenBooks(c), "");
    const CampaignState s = c.State();
    EXPECT_LE(s.ledger.Charged().value, s.budget->value);
    EXPECT_TRUE(!s.calibration || s.Ended()) << hours << " GPU-h: " << s.phase_reason;
    return s.calibration ? CountsOf(s).launched : -1;
  };
  int only_then = 0;
  for (double hours = 0.05; hours < 1; hours *= 1.05) {
    const int three = launched(hours, 3), free = launched(hours, 0);
    EXPECT_GE(free, three) << hours;
    only_then += three == 0 && free > 0;
  }
  EXPECT_GT(only_then, 0);
}

}  // namespace
}  // namespace attune
