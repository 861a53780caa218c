// Whole campaigns with a fake launcher: what is decided, in which order, and what it costs.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness.h"
#include "watch.h"

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

// The state when the first candidate has shown its argument block and its first steps.
std::optional<CampaignState> WithARunningCandidate(const Campaign& c) {
  CampaignState s;
  s.recipe = c.recipe;
  for (const Event& event : c.journal.events) {
    s = Apply(std::move(s), event);
    if (!std::holds_alternative<StepsSeen>(event.fact)) continue;
    const RunRecord& run = s.runs.at(std::get<StepsSeen>(event.fact).id);
    if (run.purpose == Purpose::kCandidate && !run.block.empty()) return s;
  }
  return std::nullopt;
}

TEST(WatchRun, WhatWasFoundSoundIsNotJudgedAgain) {
  Campaign c(FakeRecipe());
  ASSERT_TRUE(c.Go());
  std::optional<CampaignState> s = WithARunningCandidate(c);
  ASSERT_TRUE(s);
  RunRecord& run = s->runs.rbegin()->second;
  FoundSound sound;
  EXPECT_FALSE(WatchRun(*s, run, s->last_at, &sound));
  EXPECT_EQ(sound.blocks, std::set<RunId>{run.plan.id});
  EXPECT_EQ(sound.first_steps, std::set<RunId>{run.plan.id});
  // Neither changes in a campaign; here they do, which shows who looks.
  run.block.begin()->second += "x";
  EXPECT_FALSE(WatchRun(*s, run, s->last_at, &sound));
  const std::optional<StopAsked> stop = WatchRun(*s, run, s->last_at);
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->why, StopWhy::kReadback);
}

TEST(WatchRun, ABlockThatIsRefusedIsNotRememberedAsSound) {
  Campaign c(FakeRecipe());
  ASSERT_TRUE(c.Go());
  std::optional<CampaignState> s = WithARunningCandidate(c);
  ASSERT_TRUE(s);
  RunRecord& run = s->runs.rbegin()->second;
  run.block.begin()->second += "x";
  FoundSound sound;
  EXPECT_TRUE(WatchRun(*s, run, s->last_at, &sound));
  EXPECT_TRUE(sound.blocks.empty());
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

TEST(RunCampaign, ACancelThatCantBeToldIsToldLater) {
  Recipe r = FakeRecipe();
  r.declared = {{"hang", "--fake-hang-at", "", {"52"}, LeverClass::kMemory, {}, {}, {}, ""}};
  Campaign told(r), late(r);
  late.world.cancel_failures = 3;
  ASSERT_TRUE(told.Go());
  const Result<CampaignEnd> end = late.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(late.world.cancel_failures, 0);
  EXPECT_EQ(late.RunTable(), told.RunTable());
  EXPECT_EQ(BrokenBooks(late), "");
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

// The wrapper starts the ranks of a `ranks: {kind: env}` recipe.
TEST(RunCampaign, RanksOfARecipeReachTheLauncher) {
  Recipe r = FakeRecipe();
  r.ranks = RanksKind::kEnv;
  Campaign c(r);
  std::vector<int> ranks;
  c.world.fault = [&](const LaunchSpec& spec, int) {
    for (const Stage& stage : spec.stages) ranks.push_back(stage.ranks);
    return fakes::FakeFault{};
  };
  ASSERT_TRUE(c.Go());
  ASSERT_FALSE(ranks.empty());
  EXPECT_EQ(std::count(ranks.begin(), ranks.end(), 2), static_cast<std::ptrdiff_t>(ranks.size()));
}

// The instrumentation would undo it, and the baseline be measured under another name.
TEST(RunCampaign, ALeverThatTheMeasuredFormSetsIsNeverLaunched) {
  Recipe r = FakeRecipe();
  r.base.args.Set("--log-interval", {"10"});
  r.measure.instrument_set["--log-interval"] = "1";
  r.declared = {
      {"logging", "--log-interval", "", {"10", "100"}, LeverClass::kMemory, {}, {}, {}, ""}};
  Campaign c(r);
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  EXPECT_EQ(s.phase, Phase::kNoGain);
  EXPECT_EQ(CountsOf(s).launched, 0);
}

// One change with an enabler, asked once.
class OneChange final : public Proposer {
 public:
  explicit OneChange(Change change) : change_(std::move(change)) {}
  std::string Name() const override { return "scripted"; }
  Result<ProposerReply> Propose(const CampaignState& s, const Vet&) override {
    if (!s.proposals.empty()) return StopWish{"asked", {}};
    Proposal p;
    p.change = change_;
    p.label = "one";
    return p;
  }

 private:
  Change change_;
};

// A faster candidate whose step-0 loss moves by 0.6 %: allowed, but above what its class does.
Campaign Alarming() {
  Recipe r = FakeRecipe();
  r.base.args.Set("--slow", {"1"});
  r.base.args.Set("--fake-loss-shift", {"0"});
  r.declared = {
      {"speed", "--slow", "", {"1", "0.5"}, LeverClass::kMemory, {}, {}, {}, ""},
      {"shift", "--fake-loss-shift", "", {"0", "0.006"}, LeverClass::kMemory, {}, {}, {}, ""}};
  return Campaign(std::move(r));
}
std::unique_ptr<Proposer> FasterAndShifted() {
  return std::make_unique<OneChange>(Change{
      "speed",
      {{Edit::Op::kSet, "--slow", {"0.5"}}, {Edit::Op::kSet, "--fake-loss-shift", {"0.006"}}},
      {"shift"}});
}

TEST(RunCampaign, AStep0AlarmLeadsOnlyWithAReadback) {
  Campaign read = Alarming();
  read.proposer = FasterAndShifted;
  ASSERT_TRUE(read.Go());
  EXPECT_EQ(StandingOf(read, "one"), Standing::kWin);

  Campaign unread = Alarming();
  unread.proposer = FasterAndShifted;
  unread.recipe.base.args.Set("--fake-no-block", {});
  ASSERT_TRUE(unread.Go());
  EXPECT_EQ(StandingOf(unread, "one"), Standing::kRejected);
  EXPECT_EQ(unread.State().phase, Phase::kNoGain);
}

}  // namespace
}  // namespace attune
