// A campaign whose launches are steps of held allocations: what is measured again in each, what
// counts as one allocation, and where idle nodes are booked.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::FakeRecipe;
using Kind = fakes::FakeFault::Kind;

std::vector<const LaunchRecord*> Of(const CampaignState& s, Purpose purpose) {
  std::vector<const LaunchRecord*> out;
  for (const auto& [id, launch] : s.launches) {
    if (launch.intent.purpose == purpose) out.push_back(&launch);
  }
  return out;
}

bool Happened(const Campaign& c, const std::function<bool(const Fact&)>& what) {
  return std::any_of(c.journal.events.begin(), c.journal.events.end(),
                     [&](const Event& e) { return what(e.fact); });
}

// Steps take this much longer, whatever they are. Without the argument block, in which the job
// would say so.
void SlowDown(Campaign& c, double factor) {
  c.world.play = [factor](const Stage& stage) {
    Stage slow = stage;
    const auto ms = std::find(slow.argv.begin(), slow.argv.end(), "--fake-step-ms");
    *(ms + 1) = std::to_string(static_cast<int>(std::stod(*(ms + 1)) * factor));
    slow.argv.emplace_back("--fake-no-block");
    return fakes::PlayTraining(slow);
  };
}

std::map<std::string, Standing> Candidates(const CampaignState& s) {
  std::map<std::string, Standing> out;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose == Purpose::kCandidate && run.judged) {
      out[run.plan.label] = run.judged->standing;
    }
  }
  return out;
}

// The session ends when it is calibrated; the next one is in another allocation.
void Calibrate(Campaign& c, const std::string& allocation) {
  c.world.allocation = allocation;
  int submits = 0;
  c.effect_hook = [&](const char* what) {
    if (std::string_view(what) == "submit" && ++submits == c.recipe.measure.calibration_runs) {
      c.journal.wishes.push_back(UserAsked{"drain"});
    }
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 130) << end->why;
  ASSERT_TRUE(c.State().calibration);
  EXPECT_EQ(Candidates(c.State()).size(), 0u);
  c.effect_hook = {};
}

TEST(HeldAllocation, GivesTheNoiseWithinAndCountsAsOne) {
  Campaign c(FakeRecipe());
  Calibrate(c, "77-1");
  const Calibration k = *c.State().calibration;
  EXPECT_EQ(k.runs.size(), 3u);
  EXPECT_EQ(k.allocations, 1);
  EXPECT_TRUE(k.quick) << "of the spread between allocations nothing is known";
  EXPECT_NEAR(k.band, 0.0388, 1e-9);
  EXPECT_EQ(k.within_runs, 3);
  EXPECT_GT(k.within_sigma, 0);
  EXPECT_LT(k.within_sigma, k.sigma);
  EXPECT_NE(k.how.find("3 runs in 1 held allocation"), std::string::npos) << k.how;

  Campaign own(FakeRecipe());
  Calibrate(own, "");
  EXPECT_EQ(own.State().calibration->allocations, 3);
  EXPECT_EQ(own.State().calibration->within_runs, 0);
  EXPECT_FALSE(own.State().calibration->quick);
}

TEST(HeldAllocation, TheLeaderIsMeasuredAgainOnceInTheNext) {
  Campaign alone(FakeRecipe());
  alone.world.allocation = "77-1";
  SlowDown(alone, 1);
  ASSERT_TRUE(alone.Go());
  EXPECT_TRUE(Of(alone.State(), Purpose::kProbe).empty()) << "one session measures it once";

  Campaign c(FakeRecipe());
  SlowDown(c, 1);
  Calibrate(c, "77-1");
  c.world.allocation = "78-5";
  SlowDown(c, 1.5);
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  const std::vector<const LaunchRecord*> probes = Of(s, Purpose::kProbe);
  ASSERT_EQ(probes.size(), 1u);
  EXPECT_EQ(probes.front()->intent.runs.front().of, "leader");
  EXPECT_EQ(probes.front()->intent.runs.front().user, s.recipe.base);
  EXPECT_EQ(probes.front()->handle->allocation, "78-5");
  for (const LaunchRecord* candidate : Of(s, Purpose::kCandidate)) {
    EXPECT_GT(candidate->intent.id, probes.front()->intent.id);
  }
  // Everything takes half as long again there, and what wins is what wins elsewhere.
  EXPECT_EQ(Candidates(s), Candidates(alone.State()));
  ASSERT_FALSE(s.leader.run.empty());
  EXPECT_NEAR(s.leader.gain, alone.State().leader.gain, 0.05);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(HeldAllocation, JobsOfTheirOwnMeasureItAgainToo) {
  Campaign c(FakeRecipe());
  Calibrate(c, "77-1");
  c.world.allocation = "";
  ASSERT_TRUE(c.Go());
  EXPECT_EQ(Of(c.State(), Purpose::kProbe).size(), 1u);
  EXPECT_TRUE(c.State().shipped) << c.State().phase_reason;

  Campaign back(FakeRecipe());
  Calibrate(back, "");
  back.world.allocation = "77-1";
  ASSERT_TRUE(back.Go());
  EXPECT_EQ(Of(back.State(), Purpose::kProbe).size(), 1u);
}

TEST(HeldAllocation, WhereTheLeaderCannotBeMeasuredAFreshPairDecides) {
  Campaign c(FakeRecipe());
  SlowDown(c, 1);
  Calibrate(c, "77-1");
  c.world.allocation = "78-5";
  SlowDown(c, 1.05);
  c.world.fault = [&](const LaunchSpec& spec, int) {
    const bool probe = Happened(c, [&](const Fact& f) {
      const auto* launch = std::get_if<LaunchIntended>(&f);
      return launch != nullptr && launch->token == spec.token && launch->purpose == Purpose::kProbe;
    });
    return probe ? fakes::FakeFault{Kind::kPreempted, Millis{500}} : fakes::FakeFault{};
  };
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  EXPECT_EQ(Of(s, Purpose::kProbe).size(), 2u);
  int wins = 0;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose != Purpose::kCandidate || !run.judged) continue;
    EXPECT_FALSE(run.stop &&
                 (run.stop->why == StopWhy::kEarlyWin || run.stop->why == StopWhy::kEarlyLoss))
        << id.value << " was looked at early against another allocation's leader";
    if (run.judged->standing != Standing::kWin) continue;
    ++wins;
    EXPECT_TRUE(std::any_of(s.launches.begin(), s.launches.end(),
                            [&](const auto& l) {
                              return l.second.intent.purpose == Purpose::kPair &&
                                     l.second.intent.runs.front().proposal == run.plan.proposal;
                            }))
        << id.value << " won without a pair";
    break;  // it leads from now on, measured here, and the next ones are compared with it
  }
  EXPECT_EQ(wins, 1);
}

TEST(HeldAllocation, HasRoomForOneFinalBlock) {
  Campaign c(FakeRecipe());
  c.world.allocation = "77-1";
  Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 75) << end->why;
  EXPECT_NE(end->why.find("has had its final block"), std::string::npos) << end->why;
  EXPECT_EQ(c.State().phase, Phase::kFinalizing);
  EXPECT_EQ(Of(c.State(), Purpose::kFinal).size(), 1u);
  // The same one again has nothing to add; the next one has, and so have jobs of their own.
  end = c.Go();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 75);
  EXPECT_EQ(Of(c.State(), Purpose::kFinal).size(), 1u);
  c.world.allocation = "";
  end = c.Go();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 0) << end->why;
  const CampaignState s = c.State();
  EXPECT_EQ(s.finals.front().block_ratios.size(), Of(s, Purpose::kFinal).size());
  EXPECT_GE(s.finals.front().block_ratios.size(), 2u);
  EXPECT_TRUE(s.shipped) << s.phase_reason;
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(HeldAllocation, OneBlockThatWasAskedForIsOne) {
  Campaign c(FakeRecipe());
  c.opening.policy.final_blocks = 1;
  c.world.allocation = "77-1";
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 0) << end->why;
  EXPECT_TRUE(c.State().shipped);
}

TEST(HeldAllocation, IdleNodesAreBookedAsIdleAndAreNoOverrun) {
  Campaign c(FakeRecipe());
  c.opening.policy.final_blocks = 1;
  c.opening.budget = FromGpuHours(50);
  c.world.allocation = "77-1";
  c.world.idle_before = [](const LaunchSpec& spec) { return 2 * spec.limit; };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  GpuMillis idle, beside;
  for (const auto& [id, launch] : s.launches) {
    ASSERT_TRUE(launch.end);
    EXPECT_GT(launch.end->idle, launch.intent.hold);
    idle += launch.end->idle;
    if (launch.intent.purpose == Purpose::kCalibration) {
      beside += launch.end->charged - launch.end->idle;
    }
  }
  EXPECT_EQ(s.ledger.idle, idle);
  EXPECT_EQ(s.ledger.calibration, beside);
  EXPECT_EQ(s.ledger.overrun, GpuMillis{});
  EXPECT_LE(s.calibration->launch_cost, GpuMillis{beside.value / 3 + 1})
      << "what a launch takes, not what its allocation stood idle for";
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(HeldAllocation, APauseThatTheBudgetDoesNotCoverLaunchesNothing) {
  Campaign c(FakeRecipe());
  c.opening.budget = FromGpuHours(50);
  c.world.allocation = "77-1";
  c.effect_hook = [&](const char* what) {
    if (std::string_view(what) == "submit") c.journal.wishes.push_back(UserAsked{"drain"});
  };
  ASSERT_TRUE(c.Go());
  CampaignState s = c.State();
  ASSERT_EQ(s.launches.size(), 1u);
  s.user_wish.reset();
  SessionLimits limits;
  limits.allocation = "77-1";
  const auto launches = [&](Millis pause) {
    const Action action = Decide(s, c.clock.Now() + pause, limits);
    const auto* done = std::get_if<Done>(&action);
    if (done == nullptr) return true;
    EXPECT_EQ(done->code, 5) << done->why;
    EXPECT_NE(done->why.find("stood idle"), std::string::npos) << done->why;
    return false;
  };
  EXPECT_TRUE(launches(Millis{60'000}));
  const Millis all{s.budget->value / s.launches.begin()->second.intent.slots};
  EXPECT_FALSE(launches(all));
  limits.allocation = "78-1";
  EXPECT_TRUE(launches(all)) << "another allocation stood idle for nothing";
}

}  // namespace
}  // namespace attune
