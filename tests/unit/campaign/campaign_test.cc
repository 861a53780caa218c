// Whole campaigns with a fake launcher: what is decided, in which order, and what it costs.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::FakeRecipe;

Standing StandingOf(const Campaign& c, const std::string& label) {
  const CampaignState s = c.State();
  const RunRecord* run = c.Run(s, label);
  return run != nullptr && run->judged ? run->judged->standing : Standing::kInvalid;
}

TEST(RunCampaign, CalibratesSearchesVerifiesAndShips) {
  Campaign c(FakeRecipe());
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 0) << end->why;
  const CampaignState s = c.State();
  EXPECT_EQ(s.phase, Phase::kShipped);
  ASSERT_TRUE(s.calibration);
  EXPECT_EQ(s.calibration->runs.size(), 3u);
  EXPECT_GT(s.leader.gain, 0.5);
  ASSERT_EQ(s.finals.size(), 1u);
  EXPECT_TRUE(s.finals[0].passed) << s.finals[0].reason;
  EXPECT_GT(s.finals[0].gain, 0.5);
  EXPECT_EQ(c.ships, 1);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(RunCampaign, SameSeedSameEvents) {
  Campaign a(FakeRecipe()), b(FakeRecipe());
  ASSERT_TRUE(a.Go());
  ASSERT_TRUE(b.Go());
  EXPECT_EQ(a.RunTable(), b.RunTable());
  ASSERT_EQ(a.journal.events.size(), b.journal.events.size());
  for (std::size_t i = 0; i < a.journal.events.size(); ++i) {
    EXPECT_EQ(a.journal.events[i].at, b.journal.events[i].at);
    EXPECT_EQ(FactWord(a.journal.events[i].fact), FactWord(b.journal.events[i].fact));
  }
}

TEST(RunCampaign, ABaselineThatFailsEndsWithItsCause) {
  Recipe r = FakeRecipe();
  r.base.args.Set("--fake-oom-at", {"41"});
  Campaign c(r);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 7);
  EXPECT_NE(end->why.find("oom_gpu"), std::string::npos) << end->why;
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(RunCampaign, ABudgetSmallerThanTheCalibrationLaunchesNothing) {
  Campaign c(FakeRecipe());
  c.opening.budget = FromGpuHours(0.01);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 5);
  EXPECT_NE(end->why.find("does not cover the calibration"), std::string::npos) << end->why;
  EXPECT_TRUE(c.world.Tokens().empty());
}

TEST(RunCampaign, NoGainShipsTheBaselineAndSaysSo) {
  Recipe r = FakeRecipe();
  r.declared = {
      {"form", "--optimizer-form", "", {"single", "foreach"}, LeverClass::kMemory, {}, {}, {}, ""}};
  Campaign c(r);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 0);
  EXPECT_EQ(c.State().phase, Phase::kNoGain);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(RunCampaign, OomIsFailedAndTheSearchGoesOn) {
  Recipe r = FakeRecipe();
  r.base.args.Set("--fake-oom-above", {"2"});
  Campaign c(r);
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  EXPECT_EQ(s.phase, Phase::kShipped);
  bool oom = false;
  for (const auto& [id, run] : s.runs) {
    oom = oom || (run.end && run.end->detail.end == RunEnd::kOomGpu);
  }
  EXPECT_TRUE(oom);
  EXPECT_GT(s.ledger.failed.value, 0);
  EXPECT_EQ(s.leader.user.args.Value("--micro-batch-size"), "2");
  EXPECT_EQ(BrokenBooks(c), "");
}

// A lever that changes the loss is caught at step 0 and never leads, whatever it gains.
TEST(RunCampaign, AStep0ShiftIsRejected) {
  Recipe r = FakeRecipe();
  r.declared = {{"shift", "--fake-loss-shift", "", {"0.05"}, LeverClass::kMemory, {}, {}, {}, ""}};
  Campaign c(r);
  ASSERT_TRUE(c.Go());
  EXPECT_EQ(StandingOf(c, "shift-0.05"), Standing::kRejected);
  EXPECT_EQ(c.State().phase, Phase::kNoGain);
}

TEST(RunCampaign, AHungRunIsStoppedAndCharged) {
  Recipe r = FakeRecipe();
  r.declared = {{"hang", "--fake-hang-at", "", {"52"}, LeverClass::kMemory, {}, {}, {}, ""}};
  Campaign c(r);
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  const RunRecord* run = c.Run(s, "hang-52");
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->end->detail.end, RunEnd::kHung);
  EXPECT_EQ(run->judged->standing, Standing::kFailed);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(RunCampaign, HalfPrintedStepTimesAreNoMeasurement) {
  Recipe r = FakeRecipe();
  r.declared = {
      {"half", "--fake-half-times", "", {"true", "false"}, LeverClass::kMemory, {}, {}, {}, ""}};
  Campaign c(r);
  ASSERT_TRUE(c.Go());
  EXPECT_EQ(c.State().phase, Phase::kNoGain);
  EXPECT_NE(StandingOf(c, "half-true"), Standing::kWin);
}

TEST(RunCampaign, AStepPrintedTwiceCountsOnce) {
  Recipe r = FakeRecipe();
  r.declared = {{"twice", "--fake-twice", "", {"48"}, LeverClass::kMemory, {}, {}, {}, ""}};
  Campaign c(r);
  ASSERT_TRUE(c.Go());
  EXPECT_NE(StandingOf(c, "twice-48"), Standing::kWin);
}

TEST(RunCampaign, OtherTokensPerStepAreNoMeasurement) {
  Recipe r = FakeRecipe();
  r.declared = {{"batch", "--fake-printed-batch", "", {"16"}, LeverClass::kMemory, {}, {}, {}, ""}};
  Campaign c(r);
  ASSERT_TRUE(c.Go());
  const Standing standing = StandingOf(c, "batch-16");
  EXPECT_TRUE(standing == Standing::kInvalid || standing == Standing::kRejected);
  EXPECT_EQ(c.State().phase, Phase::kNoGain);
}

TEST(RunCampaign, APreemptedCandidateIsLaunchedAgainOnce) {
  Campaign c(FakeRecipe());
  bool taken = false;
  c.world.fault = [&](const LaunchSpec& spec, int) {
    fakes::FakeFault fault;
    if (!taken && spec.token.value.find("-l004-") != std::string::npos) {
      taken = true;
      fault = {fakes::FakeFault::Kind::kPreempted, Millis{2'000}};
    }
    return fault;
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  ASSERT_TRUE(taken);
  const std::vector<std::string> table = c.RunTable();
  EXPECT_NE(std::find(table.begin(), table.end(), "candidate:micro_batch-2:environment"),
            table.end());
  EXPECT_EQ(StandingOf(c, "micro_batch-2"), Standing::kEnvironment);
  EXPECT_EQ(c.State().phase, Phase::kShipped);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(RunCampaign, ASubmitOfUnknownFateIsLocatedNeverRepeated) {
  for (const auto kind :
       {fakes::FakeFault::Kind::kUnknownRuns, fakes::FakeFault::Kind::kUnknownNothing}) {
    Campaign c(FakeRecipe());
    c.world.fault = [&](const LaunchSpec&, int nth) {
      fakes::FakeFault fault;
      if (nth == 1) fault.kind = kind;
      return fault;
    };
    const Result<CampaignEnd> end = c.Go();
    ASSERT_TRUE(end) << end.error().message;
    EXPECT_EQ(c.State().phase, Phase::kShipped);
    EXPECT_EQ(BrokenBooks(c), "");
  }
}

TEST(RunCampaign, DrainFinishesTheRunAndResumeGoesOn) {
  Campaign c(FakeRecipe());
  int asks = 0;
  c.interrupted = [&]() -> std::optional<std::string> {
    return ++asks == 5 ? std::optional<std::string>("drain") : std::nullopt;
  };
  Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 130);
  EXPECT_TRUE(c.State().OpenLaunches().empty());
  end = c.Go();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 0);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(RunCampaign, CancelStopsTheJobs) {
  Campaign c(FakeRecipe());
  int asks = 0;
  c.interrupted = [&]() -> std::optional<std::string> {
    return ++asks == 5 ? std::optional<std::string>("cancel") : std::nullopt;
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 130);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(RunCampaign, ALostLeaseEndsTheProcessBeforeAnyEffect) {
  Campaign c(FakeRecipe());
  c.journal.lease_lost = true;
  const Result<CampaignEnd> end = c.Go();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(c.world.Tokens().empty());
}

TEST(RunCampaign, AVanishedCheckpointPauses) {
  Campaign c(FakeRecipe());
  c.check_inputs = [](const CampaignState&) -> Status {
    return Fail(ErrorCode::kNotFound, "the checkpoint is gone");
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 75);
  EXPECT_TRUE(c.world.Tokens().empty());
}

TEST(RunCampaign, AClockSetBackChangesNoCharge) {
  Campaign c(FakeRecipe());
  int asks = 0;
  c.interrupted = [&]() -> std::optional<std::string> {
    if (++asks == 7) c.clock.StepWall(-std::chrono::hours(1));
    return std::nullopt;
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(c.State().phase, Phase::kShipped);
  EXPECT_EQ(BrokenBooks(c), "");
}

}  // namespace
}  // namespace attune
