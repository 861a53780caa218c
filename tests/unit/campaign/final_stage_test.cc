// The final stage and leaders that the gate will not ship.
#include "final_stage.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <utility>
#include <variant>

#include "gates/base_recipes.h"

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

}  // namespace
}  // namespace attune
