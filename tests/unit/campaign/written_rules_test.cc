// Sentences of control_plane.md, sections 1 and 2, each on a whole campaign.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "harness.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::FakeRecipe;
using Kind = fakes::FakeFault::Kind;

int Count(const CampaignState& s, Purpose purpose) {
  return static_cast<int>(std::count_if(
      s.runs.begin(), s.runs.end(), [&](const auto& r) { return r.second.purpose == purpose; }));
}

// Jobs that die before their first step: those of candidates, and from a moment on the baseline's.
struct DeadOnArrival {
  explicit DeadOnArrival(Campaign& c) {
    const Recipe& recipe = c.recipe;
    c.world.play = [this, &recipe](const Stage& stage) {
      const bool baseline = IsBaseline(recipe, stage);
      if (baseline ? baseline_too && candidates >= 3 : true) {
        if (!baseline) ++candidates;
        Stage dead = stage;
        // Without its argument block, which would show that this is not what was meant.
        for (const char* word : {"--fake-no-block", "--fake-die-at", "41"})
          dead.argv.emplace_back(word);
        return fakes::PlayTraining(dead);
      }
      return fakes::PlayTraining(stage);
    };
  }
  static bool IsBaseline(const Recipe& recipe, const Stage& stage) {
    const auto has = [&](std::string_view flag, std::string_view value) {
      const auto it = std::find(stage.argv.begin(), stage.argv.end(), flag);
      return it != stage.argv.end() && it + 1 != stage.argv.end() && *(it + 1) == value;
    };
    const auto recompute = std::find(stage.argv.begin(), stage.argv.end(), "--recompute");
    return has("--micro-batch-size", "1") && has("--num-ranks", "1") &&
           recompute == stage.argv.end() &&
           stage.env.at("OPENBLAS_NUM_THREADS") == recipe.base.env.at("OPENBLAS_NUM_THREADS");
  }
  bool baseline_too = false;
  int candidates = 0;
};

TEST(Breaker, ThreeDeadCandidatesAskTheBaselineOnceAndTheSearchGoesOn) {
  Campaign c(FakeRecipe());
  DeadOnArrival dead(c);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 0) << end->why;
  const CampaignState s = c.State();
  EXPECT_EQ(s.phase, Phase::kNoGain);
  ASSERT_GE(dead.candidates, 4);
  // What failed before the baseline ran is answered: three new failures ask again, no fewer.
  EXPECT_EQ(Count(s, Purpose::kProbe), dead.candidates / 3);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(Breaker, ABaselineThatFailsTooEndsItWithBothCauses) {
  Campaign c(FakeRecipe());
  DeadOnArrival dead(c);
  dead.baseline_too = true;
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 7) << end->why;
  EXPECT_EQ(dead.candidates, 3);
  EXPECT_NE(end->why.find("three candidates in a row failed before their first step"),
            std::string::npos)
      << end->why;
  EXPECT_NE(end->why.find("the baseline failed too: "), std::string::npos) << end->why;
  EXPECT_EQ(c.State().stop, "baseline_fails");
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(Calibration, RunsThatTheEnvironmentSpoilsAreReplaced) {
  Campaign c(FakeRecipe());
  int launches = 0;
  c.world.fault = [&](const LaunchSpec&, int) {
    return ++launches == 2 ? fakes::FakeFault{Kind::kPreempted, Millis{500}} : fakes::FakeFault{};
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  ASSERT_TRUE(s.calibration.has_value());
  EXPECT_EQ(s.calibration->runs.size(), 3u);
  EXPECT_EQ(Count(s, Purpose::kCalibration), 4);
}

TEST(Calibration, TwoInARowThatAreSpoiledTheSameWayEndItAsUnstable) {
  Campaign c(FakeRecipe());
  int launches = 0;
  c.world.fault = [&](const LaunchSpec&, int) {
    return ++launches >= 2 ? fakes::FakeFault{Kind::kPreempted, Millis{500}} : fakes::FakeFault{};
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 7) << end->why;
  EXPECT_EQ(c.State().stop, "unstable_cluster");
  EXPECT_NE(end->why.find("preempted"), std::string::npos) << end->why;
  EXPECT_EQ(launches, 3);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(Calibration, WhereFiveCostMoreThanAFifthOfTheBudgetTwoThatAgreeAreEnough) {
  Recipe r = FakeRecipe();
  r.measure.calibration_runs = 5;
  r.budget.run_limit = std::chrono::seconds(20);
  Campaign rich(r), poor(r);
  rich.opening.budget = FromGpuHours(50);
  ASSERT_TRUE(rich.Go());
  const CampaignState all = rich.State();
  EXPECT_EQ(all.calibration->runs.size(), 5u);
  // A launch takes its share of an hour: enough for the final stage, and not for five times five.
  poor.opening.budget = GpuMillis{all.calibration->launch_cost.value * 20};
  const Result<CampaignEnd> end = poor.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = poor.State();
  ASSERT_TRUE(s.calibration.has_value());
  EXPECT_EQ(s.calibration->runs.size(), 2u) << s.calibration->how;
  EXPECT_GT(s.calibration->band, all.calibration->band - 1e-9);
  EXPECT_EQ(BrokenBooks(poor), "");
}

// One process's work on a campaign whose invariants the harness would not let pass.
Result<CampaignEnd> Work(Campaign& c) {
  fakes::FakeLauncher launcher(&c.world);
  const std::unique_ptr<Proposer> proposer = MakeRulesProposer();
  if (c.journal.events.empty()) {
    ATTUNE_TRY(const auto opened, c.journal.Append({c.opening}, c.clock.Now()));
    (void)opened;
  } else {
    ATTUNE_TRY(const auto resumed, c.journal.Append({Resumed{"the test"}}, c.clock.Now()));
    (void)resumed;
  }
  CampaignState state = c.State();
  CampaignParts parts{.journal = c.journal,
                      .launcher = launcher,
                      .proposer = *proposer,
                      .clock = c.clock,
                      .ship = [](const CampaignState& s) -> Result<Shipped> {
                        return Shipped{s.ship->bundle, "/fake/recipe.tuned.yaml", s.leader.gain};
                      },
                      .notify = {},
                      .interrupted = {},
                      .on_event = {},
                      .check_inputs = {},
                      .passed_env = {},
                      .limits = {}};
  return RunCampaign(state, parts);
}

// A node that does not let go of a job: what that costs beyond the hold stops the campaign.
TEST(Overrun, IsBookedApartAndNothingMoreIsLaunched) {
  Recipe r = FakeRecipe();
  r.base.args.Set("--fake-ignore-term", {});
  r.base.args.Set("--fake-end-hang", {});  // it does not end by itself either
  Campaign c(r);
  c.opening.budget = FromGpuHours(100);
  c.world.kill_grace = std::chrono::hours(3);
  const Result<CampaignEnd> end = Work(c);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 5) << end->why;
  EXPECT_NE(end->why.find("longer than the "), std::string::npos) << end->why;
  const CampaignState s = c.State();
  EXPECT_GT(s.ledger.overrun.value, 0);
  EXPECT_EQ(s.ledger.held.value, 0);
  EXPECT_FALSE(s.Ended());
  EXPECT_EQ(c.world.Tokens().size(), 1u);
  // Somebody looked: it goes on.
  c.world.kill_grace = std::chrono::seconds(1);
  const Result<CampaignEnd> again = Work(c);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(c.State().Ended()) << again->why;
  EXPECT_EQ(c.State().ledger.overrun, s.ledger.overrun);
}

// What holds in the search and not in the final stage: a loss that moves in the blocks only.
void ShiftLossInBlocks(Campaign& c, const std::function<bool(const Stage&)>& whose) {
  c.world.play = [&c, whose](const Stage& stage) {
    const CampaignState s = c.State();
    const RunRecord* run = s.FindRun(stage.run);
    Stage played = stage;
    if (run != nullptr && run->purpose == Purpose::kFinal && whose(stage)) {
      for (const char* word : {"--fake-no-block", "--fake-loss-shift", "0.03"})
        played.argv.emplace_back(word);
    }
    return fakes::PlayTraining(played);
  };
}

std::string ValueOf(const Stage& stage, std::string_view flag) {
  const auto it = std::find(stage.argv.begin(), stage.argv.end(), flag);
  return it == stage.argv.end() || it + 1 == stage.argv.end() ? std::string() : *(it + 1);
}

TEST(FinalStage, AWinnerThatIsRejectedThereFallsBackToTheLeaderBeforeIt) {
  Campaign plain(FakeRecipe());
  ASSERT_TRUE(plain.Go());
  const CampaignState was = plain.State();
  ASSERT_EQ(was.phase, Phase::kShipped);
  ASSERT_GE(was.past_leaders.size(), 2u);
  const RunRecord& winner = was.runs.at(was.leader.run);

  Campaign c(FakeRecipe());
  ShiftLossInBlocks(c, [&](const Stage& stage) {
    const bool recomputes =
        std::find(stage.argv.begin(), stage.argv.end(), "--recompute") != stage.argv.end();
    return recomputes == winner.plan.user.args.Has("--recompute") &&
           ValueOf(stage, "--micro-batch-size") ==
               winner.plan.user.args.Value("--micro-batch-size").value_or("") &&
           ValueOf(stage, "--num-ranks") ==
               winner.plan.user.args.Value("--num-ranks").value_or("") &&
           stage.env.at("OPENBLAS_NUM_THREADS") == winner.plan.user.env.at("OPENBLAS_NUM_THREADS");
  });
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  ASSERT_GE(s.finals.size(), 2u);
  EXPECT_FALSE(s.finals.front().passed);
  EXPECT_NE(s.finals.back().leader, s.finals.front().leader);
  EXPECT_TRUE(s.finals.back().passed) << s.finals.back().reason;
  EXPECT_EQ(s.phase, Phase::kShipped);
  EXPECT_EQ(end->code, 0);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(FinalStage, AfterTwoFallsTheBaselineShipsWithTheCodeOfAGate) {
  Campaign c(FakeRecipe());
  ShiftLossInBlocks(
      c, [&](const Stage& stage) { return !DeadOnArrival::IsBaseline(c.recipe, stage); });
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  EXPECT_EQ(s.phase, Phase::kNoGain);
  EXPECT_EQ(end->code, 6) << end->why;  // refused by a gate, and nothing else passed
  EXPECT_LE(s.finals.size(), 3u);       // the winner and at most two falls
  EXPECT_EQ(Count(s, Purpose::kRehearsal), 0);
  for (const FinalResult& f : s.finals) {
    EXPECT_NE(f.reason.find("was rejected: "), std::string::npos) << f.reason;
  }
  EXPECT_GE(s.finals.size(), 2u);
  ASSERT_TRUE(s.ship.has_value());
  EXPECT_EQ(s.ship->verdict, "no_gain");
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(Inputs, ThatChangeWhileARunGoesOnMakeItVoidAndPause) {
  Campaign c(FakeRecipe());
  int asked = 0;
  bool changed = false;
  c.check_inputs = [&](const CampaignState&) -> Status {
    // Before each launch and after it: the second run reads something else.
    if (++asked == 4) changed = true;
    if (changed) return Fail(ErrorCode::kInvalidInput, "train.py is not what it was");
    return {};
  };
  Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 75);
  EXPECT_EQ(end->why, "train.py is not what it was");
  const CampaignState s = c.State();
  ASSERT_TRUE(s.runs.contains(RunId("r002")));
  EXPECT_EQ(s.runs.at(RunId("r002")).judged->standing, Standing::kEnvironment);
  EXPECT_EQ(c.world.Tokens().size(), 2u);
  // Restored: the void run is made again, and it all ends as it would have.
  changed = false;
  asked = 100;
  end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(c.State().phase, Phase::kShipped);
  EXPECT_EQ(c.State().calibration->runs.size(), 3u);
  EXPECT_EQ(BrokenBooks(c), "");
}

TEST(Inputs, ThatCannotBeReadJustNowSpoilNoRun) {
  Campaign c(FakeRecipe());
  int asked = 0;
  c.check_inputs = [&](const CampaignState&) -> Status {
    if (++asked == 4) return Fail(ErrorCode::kUnavailable, "stale file handle");
    return {};
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 0) << end->why;
  EXPECT_EQ(c.State().runs.at(RunId("r002")).judged->standing, Standing::kReference);
}

}  // namespace
}  // namespace attune
