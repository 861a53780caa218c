// The rules proposer over declared levers: what it asks next, given a record.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "attune/propose/proposer.h"

namespace attune {
namespace {

Recipe TwoLevers() {
  Recipe r;
  r.base.args =
      ParseArguments(std::vector<std::string>{"--mbs", "1", "--ranks", "1", "--form", "plain"});
  r.base.env = {{"THREADS", "1"}};
  r.declared = {
      {"mbs", "--mbs", "", {"1", "2", "4", "8"}, LeverClass::kBatching, {}, {}, {}, ""},
      {"threads",
       "",
       "THREADS",
       {"1", "2"},
       LeverClass::kPlacement,
       {{"--ranks", "", "2"}},
       {},
       {},
       ""},
      {"ranks", "--ranks", "", {"1", "2"}, LeverClass::kPlacement, {}, {}, {}, ""},
  };
  return r;
}

// A record written by hand: what the campaign would have committed.
class Record {
 public:
  explicit Record(Recipe recipe) {
    s.recipe = std::move(recipe);
    Opened opened;
    opened.id = CampaignId{"c-1"};
    Put(opened);
  }
  void Put(Fact fact) {
    s = Apply(std::move(s), Event{s.seq + 1, Instant{s.seq}, std::move(fact)});
  }

  // Asks, and answers with how the launch went.
  std::string Step(Standing standing, double gain, RunEnd end = RunEnd::kCompleted) {
    const ProposerReply reply = *proposer->Propose(s, vet);
    if (const auto* stop = std::get_if<StopWish>(&reply)) return "stop: " + stop->reason;
    const Proposal& p = std::get<Proposal>(reply);
    const ProposalId id{fmt::format("p{:03}", s.next_proposal)};
    const Effective candidate = ApplyEdits(s.leader.user, p.change.edits);
    Put(Proposed{id, p, "rules", "", candidate, CanonicalHash(candidate), VerdictOf({})});
    const LaunchId launch{fmt::format("l{:03}", s.next_launch)};
    const RunId run{fmt::format("r{:03}", s.next_run)};
    RunPlan plan;
    plan.id = run;
    plan.label = p.label;
    plan.proposal = id;
    plan.user = plan.executed = candidate;
    LaunchIntended intended;
    intended.id = launch;
    intended.runs = {plan};
    Put(intended);
    Put(LaunchBound{launch, {}});
    EndDetail detail;
    detail.end = end;
    Put(RunEnded{run, detail, {}, {}});
    LaunchEnded ended;
    ended.id = launch;
    Put(ended);
    Judged judged;
    judged.id = run;
    judged.standing = standing;
    judged.gain = gain;
    judged.leads = standing == Standing::kWin;
    judged.measurement = Measurement{};
    Put(judged);
    return p.label;
  }

  CampaignState s;
  std::unique_ptr<Proposer> proposer = MakeRulesProposer();
  Vet vet = [](const Change&) { return VerdictOf({}); };
};

TEST(RulesProposer, TriesLeversInDeclaredOrder) {
  Record r(TwoLevers());
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "mbs-2");
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "threads-2");
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "ranks-2");
  EXPECT_TRUE(r.Step(Standing::kLoss, 0).starts_with("stop: converged"));
}

// What the leader's trace names decides which lever comes first; without it the declared order
// does.
TEST(RulesProposer, LeversAgainstTheLargestNamedBottleneckComeFirst) {
  Recipe recipe = TwoLevers();
  recipe.declared.push_back(
      {"overlap", "--overlap", "", {"on"}, LeverClass::kOverlap, {}, {}, {}, ""});
  Record r(recipe);
  EXPECT_EQ(r.Step(Standing::kWin, 0.2), "mbs-2");
  EXPECT_EQ(r.Step(Standing::kLoss, -0.2), "mbs-8");
  EXPECT_EQ(r.Step(Standing::kLoss, -0.2), "mbs-4");
  Diagnosis d;
  d.source = "trace";
  d.bottlenecks = {{"exposed_communication", 0.4, 0.4, 0.1, true, "AllReduce 40 %"},
                   {"data_loader", 0.5, 0.01, 0.05, false, ""}};
  r.Put(Diagnosed{r.s.leader.run, d});
  const ProposerReply reply = *r.proposer->Propose(r.s, r.vet);
  EXPECT_EQ(std::get<Proposal>(reply).bottleneck, "exposed_communication");
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "overlap-on");
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "threads-2");
}

TEST(RulesProposer, AWinGoesOnTwiceAsFar) {
  Record r(TwoLevers());
  EXPECT_EQ(r.Step(Standing::kWin, 0.2), "mbs-2");
  EXPECT_EQ(r.Step(Standing::kTie, 0.01), "mbs-8");
  EXPECT_EQ(r.Step(Standing::kWin, 0.1), "mbs-4");
}

TEST(RulesProposer, AValueThatRanOutOfMemoryIsNotExceeded) {
  Record r(TwoLevers());
  EXPECT_EQ(r.Step(Standing::kWin, 0.2), "mbs-2");
  EXPECT_EQ(r.Step(Standing::kFailed, 0, RunEnd::kOomGpu), "mbs-8");
  EXPECT_EQ(r.Step(Standing::kFailed, 0, RunEnd::kOomGpu), "mbs-4");
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "threads-2");
}

TEST(RulesProposer, AnExcludedValueBringsItsEnabler) {
  Record r(TwoLevers());
  r.Step(Standing::kLoss, -0.1);
  EXPECT_EQ(r.Step(Standing::kWin, 0.3), "threads-2");
  // mbs is tried again after a related win, then ranks, which threads 2 excludes.
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "mbs-2");
  const ProposerReply reply = *r.proposer->Propose(r.s, r.vet);
  const Proposal& p = std::get<Proposal>(reply);
  EXPECT_EQ(p.change.lever, "ranks");
  ASSERT_EQ(p.change.enablers, std::vector<std::string>{"threads"});
  const Effective candidate = ApplyEdits(r.s.leader.user, p.change.edits);
  EXPECT_EQ(candidate.env.at("THREADS"), "1");
}

TEST(RulesProposer, StacksMinorLeversOnce) {
  Recipe recipe = TwoLevers();
  recipe.declared[1].excludes.clear();
  Record r(recipe);
  EXPECT_EQ(r.Step(Standing::kTie, 0.02), "mbs-2");
  EXPECT_EQ(r.Step(Standing::kTie, 0.02), "threads-2");
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "ranks-2");
  const ProposerReply reply = *r.proposer->Propose(r.s, r.vet);
  const Proposal& p = std::get<Proposal>(reply);
  EXPECT_EQ(p.label, "stack");
  EXPECT_EQ(p.change.edits.size(), 2u);
  EXPECT_EQ(r.Step(Standing::kTie, 0.01), "stack");
  EXPECT_TRUE(r.Step(Standing::kLoss, 0).starts_with("stop: converged"));
}

TEST(RulesProposer, NeverAsksForWhatTheGateRefuses) {
  Record r(TwoLevers());
  r.vet = [](const Change& c) {
    if (c.lever == "mbs") return GateVerdict{};
    return VerdictOf({});
  };
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "threads-2");
}

TEST(RulesProposer, RespectsTheRecipesRestriction) {
  Recipe recipe = TwoLevers();
  recipe.deny = {"mbs", "threads"};
  Record r(recipe);
  EXPECT_EQ(r.Step(Standing::kLoss, -0.1), "ranks-2");
  EXPECT_TRUE(r.Step(Standing::kLoss, 0).starts_with("stop: converged"));
}

TEST(RandomProposer, DrawsTheSameAgainAndOnlyWhatIsLegal) {
  Record r(TwoLevers());
  r.proposer = MakeRandomProposer();
  const ProposerReply first = *r.proposer->Propose(r.s, r.vet);
  EXPECT_EQ(std::get<Proposal>(first), std::get<Proposal>(*r.proposer->Propose(r.s, r.vet)));
  r.vet = [](const Change&) { return GateVerdict{}; };
  EXPECT_TRUE(std::holds_alternative<StopWish>(*r.proposer->Propose(r.s, r.vet)));
}

}  // namespace
}  // namespace attune
