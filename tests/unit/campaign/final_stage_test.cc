// The final stage and leaders that the gate will not ship.
#include "final_stage.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <variant>

#include "attune/campaign/campaign.h"
#include "gates/base_recipes.h"
#include "pace.h"

namespace attune {
namespace {

RunRecord& AddRun(CampaignState& s, Effective user, Standing standing, RunEnd end) {
  RunRecord run;
  run.plan.id = RunId{fmt::format("r{:03}", s.runs.size() + 1)};
  run.plan.user = std::move(user);
  run.end.emplace().detail.end = end;
  run.judged.emplace().standing = standing;
  const RunId id = run.plan.id;
  return s.runs.emplace(id, std::move(run)).first->second;
}

Leader LeaderOf(RunId run, Effective user) {
  Leader leader;
  leader.run = std::move(run);
  leader.user = std::move(user);
  return leader;
}

// A search whose leader has virtual stages, after `hangs` candidates with virtual stages stood
// still; the leader before it has none.
CampaignState Searched(int hangs) {
  CampaignState s;
  s.recipe = *BaseRecipe("glm45");
  s.calibration.emplace();
  s.calibration->step_ms = 1000;
  Effective other = s.recipe.base, staged = s.recipe.base;
  other.args.Set("--micro-batch-size", {"2"});
  staged.args.Set("--num-virtual-stages-per-pipeline-rank", {"2"});
  const RunId first = AddRun(s, other, Standing::kWin, RunEnd::kStopped).plan.id;
  const RunId last = AddRun(s, staged, Standing::kWin, RunEnd::kStopped).plan.id;
  s.past_leaders.push_back(LeaderOf({}, s.recipe.base));
  s.past_leaders.push_back(LeaderOf(first, other));
  s.leader = LeaderOf(last, staged);
  for (int i = 0; i < hangs; ++i) {
    ProposalRecord proposal;
    proposal.proposal = Proposal{};
    proposal.verdict.findings = {{Severity::kCaution, "defect.E4", "", "", "", ""}};
    proposal.run = AddRun(s, staged, Standing::kFailed, RunEnd::kHung).plan.id;
    s.proposals.push_back(std::move(proposal));
  }
  s.phase = Phase::kFinalizing;
  return s;
}

template <class F>
const F* Only(const Action& action) {
  const auto* record = std::get_if<Record>(&action);
  if (record == nullptr || record->facts.size() != 1) return nullptr;
  return std::get_if<F>(&record->facts.front());
}

TEST(FinalStage, MeasuresALeaderThatMayBeShipped) {
  const Action action = DecideFinal(Searched(1), "");
  const auto* launch = Only<LaunchIntended>(action);
  ASSERT_TRUE(launch != nullptr);
  EXPECT_EQ(launch->purpose, Purpose::kFinal);
}

TEST(FinalStage, MeasuresNothingThatTheGateWillNotShip) {
  const Action action = DecideFinal(Searched(2), "");
  const auto* fell = Only<FinalResult>(action);
  ASSERT_TRUE(fell != nullptr);
  EXPECT_FALSE(fell->passed);
  EXPECT_TRUE(fell->reason.starts_with("defect.E4: ")) << fell->reason;
}

// A campaign may fall back twice. A leader that was not measured is no such fall.
TEST(FinalStage, FallsThatCostNothingAreNotCounted) {
  CampaignState s = Searched(2);
  const Leader staged = s.leader;
  for (int i = 0; i < 3; ++i) s.past_leaders.push_back(staged);
  for (int falls = 0; falls < 4; ++falls) {
    const Action action = DecideFinal(s, "");
    const auto* fell = Only<FinalResult>(action);
    ASSERT_TRUE(fell != nullptr) << falls;
    s.finals.push_back(*fell);
    s.leader = s.past_leaders.back();
    s.past_leaders.pop_back();
    // Each of them would be a run of its own.
    if (s.leader.run == staged.run) {
      s.leader.run = AddRun(s, staged.user, Standing::kWin, RunEnd::kStopped).plan.id;
    }
  }
  const Action action = DecideFinal(s, "");
  const auto* launch = Only<LaunchIntended>(action);
  ASSERT_TRUE(launch != nullptr);
  EXPECT_EQ(launch->runs.front().user, s.recipe.base);
  EXPECT_EQ(launch->runs.back().user, s.leader.user);
}

TEST(FinalStage, ALeaderThatNothingStandsBehindEndsTheCampaign) {
  CampaignState s = Searched(2);
  const Action action = DecideFinal(s, "");
  s.finals.push_back(*Only<FinalResult>(action));
  const Action next = DecideFinal(s, "");
  const auto* ship = Only<ShipIntended>(next);
  ASSERT_TRUE(ship != nullptr);
  EXPECT_EQ(ship->verdict, "no_gain");
}

// What builds on a leader that will not ship would be refused, or fall in its turn.
TEST(Search, ALeaderThatTheGateWouldNotShipFallsAtOnce) {
  for (const int hangs : {1, 2}) {
    CampaignState s = Searched(hangs);
    s.phase = Phase::kSearching;
    for (auto& [id, run] : s.runs) {
      run.diagnosis.emplace();
      run.launch = LaunchId{"l" + id.value.substr(1)};
      s.launches[run.launch].state = LaunchState::kEnded;
    }
    const Action action = Decide(s, Instant{}, {}, nullptr);
    const auto* fell = Only<FinalResult>(action);
    EXPECT_EQ(std::holds_alternative<Ask>(action), hangs < 2);
    EXPECT_EQ(fell != nullptr, hangs == 2);
    if (fell != nullptr) {
      EXPECT_EQ(fell->leader, s.leader.run);
      EXPECT_TRUE(fell->reason.starts_with("defect.E4: ")) << fell->reason;
    }
  }
}

// The leader of a search, so many times as fast as the baseline and `gain` ahead of it.
CampaignState Led(double times, double gain) {
  CampaignState s = Searched(0);
  s.calibration->band = 0.03;
  s.calibration->step_ms = 100'000;  // so long that each window has as many steps
  s.calibration->startup = std::chrono::seconds(100);
  s.leader.gain = gain;
  RunRecord& run = s.runs.at(s.leader.run);
  Step step;
  step.printed_ms = s.calibration->step_ms / times;
  run.steps.assign(10, step);
  return s;
}

TEST(FinalStage, KeepsTwoBlocksUnderAClearLeaderAndThreeElse) {
  CampaignState s = Led(1, 0.12);
  EXPECT_EQ(KeptForFinal(s), Reserve(s)) << "four bands ahead is not more";
  s.leader.gain = 0.13;
  EXPECT_EQ(3 * KeptForFinal(s).value, 2 * Reserve(s).value);
  s.opened.emplace().policy.final_blocks = 3;
  EXPECT_EQ(KeptForFinal(s), Reserve(s)) << "the user asked for three";
}

TEST(FinalStage, LimitCountsTheWinnerAtHalfAsMuchAgainAsItsOwnPace) {
  const Millis same = FinalLimit(Led(1, 0)), faster = FinalLimit(Led(1.25, 0.25)),
               twice = FinalLimit(Led(2, 1)), thrice = FinalLimit(Led(3, 2));
  EXPECT_EQ(faster, same) << "at most the baseline's";
  EXPECT_LT(twice, same);
  EXPECT_LT(thrice, twice);
  // Two start-ups, a minute for each profile, and the baseline's steps stay: of n steps of 100 s,
  // 1.2 (320 + 100 n + 50 n) seconds.
  const double n = (static_cast<double>(same.count()) / 1200 - 320) / 200;
  EXPECT_NEAR(static_cast<double>(thrice.count()), 1200 * (320 + 150 * n), 1000);
}

}  // namespace
}  // namespace attune
