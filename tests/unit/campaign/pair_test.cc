// Close to the band: which candidates are measured again in a fresh pair, and in how many runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::FakeRecipe;

constexpr std::string_view kFaster = "0.9709";  // gains 3.0%, the band: one run can't decide

// One lever, and runs that differ by enough for "close" to be wider than the noise.
Recipe NearRecipe() {
  Recipe r = FakeRecipe();
  r.base.args.Set("--slow", {"1"});
  r.base.args.Set("--num-experts", {"4"});
  r.base.args.Set("--fake-run-noise", {"0.003"});
  r.base.args.Set("--fake-no-block", {});
  r.budget.run_limit = std::chrono::minutes(1);
  r.declared = {
      {"speed", "--slow", "", {"1", std::string(kFaster)}, LeverClass::kMemory, {}, {}, {}, ""}};
  return r;
}

std::vector<const LaunchRecord*> Pairs(const CampaignState& s) {
  std::vector<const LaunchRecord*> pairs;
  for (const auto& [id, launch] : s.launches) {
    if (launch.intent.purpose == Purpose::kPair) pairs.push_back(&launch);
  }
  return pairs;
}

std::vector<std::string> RunsOf(const LaunchRecord& launch) {
  std::vector<std::string> of;
  for (const RunPlan& plan : launch.intent.runs) of.push_back(plan.of);
  return of;
}

const std::vector<std::string> kTwice = {"candidate", "leader", "leader", "candidate"};
const std::vector<std::string> kOnce = {"candidate", "leader"};

TEST(FreshPair, DecidesInFourRunsWhereTheyAreCheap) {
  Campaign c(NearRecipe());
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  const std::vector<const LaunchRecord*> pairs = Pairs(s);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(RunsOf(*pairs.front()), kTwice);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(FreshPair, RunsEachOnceWhereFourRunsHoldMoreThanATenthOfTheBudget) {
  Campaign rich(NearRecipe());
  ASSERT_TRUE(rich.Go());
  ASSERT_EQ(Pairs(rich.State()).size(), 1u);
  const GpuMillis hold = Pairs(rich.State()).front()->intent.hold;
  for (const auto& [budget, runs] : {std::pair{GpuMillis{10 * hold.value}, kTwice},
                                     std::pair{GpuMillis{10 * hold.value - 1}, kOnce}}) {
    Campaign c(NearRecipe());
    c.opening.budget = budget;
    const Result<CampaignEnd> end = c.Go();
    ASSERT_TRUE(end) << end.error().message;
    const CampaignState s = c.State();
    const std::vector<const LaunchRecord*> pairs = Pairs(s);
    ASSERT_EQ(pairs.size(), 1u) << end->why;
    EXPECT_EQ(RunsOf(*pairs.front()), runs) << budget.value;
    EXPECT_EQ(BrokenBooks(c), "");
  }
}

TEST(FreshPair, IsNotLaunchedForATie) {
  Recipe recipe = NearRecipe();
  recipe.declared.front().values = {"1", "0.9747"};  // gains 2.6%, close to the band from below
  Campaign c(recipe);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  EXPECT_TRUE(Pairs(s).empty());
  const RunRecord* run = c.Run(s, "speed-0.9747");
  ASSERT_TRUE(run != nullptr && run->judged);
  EXPECT_EQ(run->judged->standing, Standing::kTie) << run->judged->reason;
  EXPECT_EQ(BrokenBooks(c), "");
}

// The load-balancing loss is gone in the candidate, which only its judgement looks at.
TEST(FreshPair, IsNotLaunchedForWhatItsOwnRunShowsToBeWrong) {
  Campaign c(NearRecipe());
  c.world.play = [](const Stage& stage) {
    Stage played = stage;
    if (std::find(stage.argv.begin(), stage.argv.end(), kFaster) != stage.argv.end()) {
      played.argv.emplace_back("--fake-drop-aux");
    }
    return fakes::PlayTraining(played);
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  EXPECT_TRUE(Pairs(s).empty());
  const RunRecord* run = c.Run(s, "speed-" + std::string(kFaster));
  ASSERT_TRUE(run != nullptr && run->judged);
  EXPECT_EQ(run->judged->standing, Standing::kRejected);
  EXPECT_NE(run->judged->reason.find("load_balancing_loss"), std::string::npos)
      << run->judged->reason;
  EXPECT_EQ(s.phase, Phase::kNoGain);
  EXPECT_EQ(BrokenBooks(c), "");
}

}  // namespace
}  // namespace attune
