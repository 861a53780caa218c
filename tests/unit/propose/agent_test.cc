// The agent's steps: intend, send, read; what each kind of answer becomes; what a crash repeats.
#include "attune/propose/agent.h"

#include <gtest/gtest.h>

#include "attune/propose/policy.h"
#include "fakes/fake_model.h"
#include "record.h"

namespace attune {
namespace {

using fakes::Action;
using fakes::Failed;
using fakes::FakeModel;
using fakes::ModelWorld;
using llm::TurnKind;
using testing::Move;
using testing::Record;

constexpr char kProposal[] =
    R"({"lever":"mbs","changes":[{"op":"set","flag":"--mbs","value":"2"}],"enablers":[],)"
    R"("label":"mbs2","hypothesis":"more rows","bottleneck":"launch_bound","evidence":["r001"],)"
    R"("expected_gain":[0.0,0.1],"expected_peak_gb":10})";

std::string ProposalOf(const std::string& label) {
  std::string text = kProposal;
  return text.replace(text.find("mbs2"), 4, label);
}

const Vet kAdmits = [](const Change&) { return VerdictOf({}); };

// A campaign in its search, its agent and the model's side.
struct Desk {
  explicit Desk(const char* policy = "full", int prompt_bytes = 8'000)
      : record(MakeRecipe(prompt_bytes), Frozen(policy)) {
    record.Calibrate(2, 100, {});
    world.answer = [this](std::size_t nth, const llm::Prepared&) { return answers.at(nth); };
  }
  static Recipe MakeRecipe(int prompt_bytes) {
    Recipe r;
    r.base.args = ParseArguments(std::vector<std::string>{"--mbs", "1", "--threads", "1"});
    r.declared = {
        {"mbs", "--mbs", "", {"1", "2", "4"}, LeverClass::kBatching, {}, {}, {}, ""},
        {"threads", "--threads", "", {"1", "2", "4"}, LeverClass::kPlacement, {}, {}, {}, ""}};
    r.llm.prompt_bytes = prompt_bytes;
    return r;
  }
  static Policy Frozen(const char* policy) {
    Policy p;
    ApplyRecord(*FindPolicy(policy), p);
    return p;
  }

  ProposerStep Step() {
    FakeModel model(&world);
    AgentDesk things;
    things.levers = {{"mbs", "batching", {{"--mbs", "1|2|4", "", false}}, ""},
                     {"threads", "placement", {{"--threads", "1|2|4", "", false}}, ""}};
    things.answers["estimate"] = [](const CampaignState&, const Question&) {
      return Result<std::string>("peak 12 GB");
    };
    Result<ProposerStep> step = MakeAgentProposer(model, things)->Step(record.s, vet, {});
    EXPECT_TRUE(step) << step.error().message;
    for (const Fact& fact : step->facts) record.Put(fact);
    return std::move(*step);
  }
  // Steps until there is a reply, or a pause.
  ProposerStep Decide() {
    for (int i = 0; i < 40; ++i) {
      ProposerStep step = Step();
      if (step.reply || record.s.paused) return step;
    }
    ADD_FAILURE() << "no reply in 40 steps";
    return {};
  }

  ModelWorld world;
  Vet vet = kAdmits;
  std::vector<llm::Turn> answers;
  Record record;
};

TEST(AgentStep, CommitsTheRequestBeforeItIsSent) {
  Desk d;
  d.answers = {Action("propose", kProposal)};
  const ProposerStep first = d.Step();
  ASSERT_EQ(first.facts.size(), 1u);
  const auto& ask = std::get<AskIntended>(first.facts[0]);
  EXPECT_EQ(ask.call, "q001");
  EXPECT_EQ(ask.bound_usd_micros, 1'000);
  EXPECT_TRUE(d.world.sent.empty());
  EXPECT_EQ(d.world.kept.at("q001").body_hash, ask.body_hash);
  const ProposerStep second = d.Step();
  ASSERT_TRUE(second.reply);
  EXPECT_EQ(std::get<Proposal>(*second.reply).label, "mbs2");
  EXPECT_EQ(second.llm_call, "q001");
  EXPECT_EQ(std::get<Answered>(second.facts[0]).outcome, "action");
  ASSERT_EQ(d.world.sent.size(), 1u);
  EXPECT_EQ(d.world.sent[0].body_hash, ask.body_hash);
}

TEST(AgentStep, ARequestOfUnknownFateIsSentOnceMoreByteForByteAndBothAreCounted) {
  Desk d;
  d.answers = {Action("propose", kProposal), Action("propose", kProposal)};
  d.Step();
  d.record.Put(Resumed{"another process"});
  const ProposerStep again = d.Step();
  ASSERT_EQ(again.facts.size(), 2u);
  EXPECT_EQ(std::get<Answered>(again.facts[0]).outcome, "unknown");
  const auto& ask = std::get<AskIntended>(again.facts[1]);
  EXPECT_EQ(ask.call, "q002");
  EXPECT_EQ(ask.repeats, "q001");
  EXPECT_EQ(d.world.kept.at("q002").body, d.world.kept.at("q001").body);
  ASSERT_TRUE(d.Step().reply);
  EXPECT_EQ(d.record.s.llm_usd_micros, 1'000 + 500);
}

TEST(AgentStep, ARequestIsNotRepeatedBeyondTheBudget) {
  Desk d;
  d.answers = {Action("propose", kProposal)};
  d.record.s.llm_budget_usd_micros = 1'500;  // one bound, not two
  d.Step();
  d.record.Put(Resumed{"another process"});
  const ProposerStep over = d.Step();
  ASSERT_EQ(over.facts.size(), 2u);
  EXPECT_EQ(std::get<Answered>(over.facts[0]).outcome, "unknown");
  EXPECT_EQ(std::get<Paused>(over.facts[1]).exit_code, 5);
  EXPECT_TRUE(d.world.sent.empty());
  EXPECT_EQ(d.record.s.llm_usd_micros, 1'000);
  // Where there is money again, the same bytes go out.
  d.record.s.llm_budget_usd_micros = 10'000;
  d.record.Put(Resumed{"a third process"});
  d.Step();
  EXPECT_EQ(d.world.kept.at("q002").body, d.world.kept.at("q001").body);
}

TEST(AgentStep, SameStateAndAnswersGiveTheSameNextRequest) {
  std::vector<std::string> bodies;
  for (int i = 0; i < 2; ++i) {
    Desk d;
    d.answers = {Action("inspect", R"({"what":"run","of":"r001","changes":[]})"),
                 Action("propose", kProposal)};
    d.Decide();
    bodies.push_back(d.world.sent.back().body);
  }
  EXPECT_EQ(bodies[0], bodies[1]);
  EXPECT_NE(bodies[0].find("## inspect run r001"), std::string::npos);
}

TEST(AgentStep, AnswersQuestionsUpToTheirNumberAndShowsWhatWasRead) {
  Desk d;
  for (int i = 0; i < 6; ++i) {
    d.answers.push_back(Action("inspect", R"({"what":"estimate","of":"","changes":)"
                                          R"([{"op":"set","flag":"--mbs","value":"4"}]})"));
  }
  d.answers.push_back(Action("inspect", R"({"what":"run","of":"r001","changes":[]})"));
  d.answers.push_back(Action("propose", kProposal));
  const ProposerStep step = d.Decide();
  EXPECT_TRUE(std::holds_alternative<Proposal>(*step.reply));
  EXPECT_NE(d.record.s.calls[0].answer->shown.find("peak 12 GB"), std::string::npos);
  EXPECT_EQ(d.record.s.calls[6].answer->outcome, "format_error") << "the seventh is not offered";
  EXPECT_NE(d.record.s.calls[6].answer->error.find("no tool"), std::string::npos);
}

TEST(AgentStep, TellsWhereEachTracedRankSpentItsTime) {
  Desk d;
  Diagnosis traced;
  traced.source = "trace";
  traced.times = {
      {.rank = 3, .steps = 2, .span = 1'000, .compute = 600, .exposed = 250, .host_wait = 150}};
  d.record.Try(Move("mbs", "--mbs", "4", "mbs4"), {Standing::kTie, 100, 0.0}, traced);
  d.answers = {Action("inspect", R"({"what":"trace","of":"r003","changes":[]})"),
               Action("inspect", R"({"what":"trace","of":"r001","changes":[]})"),
               Action("propose", kProposal)};
  d.Decide();
  const std::string& shown = d.record.s.calls[0].answer->shown;
  EXPECT_NE(shown.find("rank 3: 2 steps"), std::string::npos) << shown;
  EXPECT_NE(shown.find("exposed communication 25.0%"), std::string::npos) << shown;
  EXPECT_NE(d.record.s.calls[1].answer->shown.find("left no trace"), std::string::npos);
}

TEST(AgentStep, ThreeFormatErrorsInARowEndTheTurn) {
  Desk d;
  d.answers = {Failed(TurnKind::kFormatError, "two tool calls"), Action("propose", "{\"lever\":"),
               Action("propose", "{}")};
  const ProposerStep step = d.Decide();
  ASSERT_TRUE(std::holds_alternative<BadReply>(*step.reply));
  EXPECT_EQ(step.refused_as, "");
  EXPECT_EQ(d.world.sent.size(), 3u);
  EXPECT_NE(d.world.sent[1].body.find("two tool calls"), std::string::npos);
}

// Each of the two counts for itself, but neither begins the other one again: a provider that
// spoils answers in turn is paid for five requests, not for ever.
TEST(AgentStep, CutAndMalformedAnswersInTurnEndTheTurnToo) {
  Desk d;
  for (int i = 0; i < 40; ++i) {
    d.answers.push_back(Failed(i % 2 == 0 ? TurnKind::kFormatError : TurnKind::kTruncated, "x"));
  }
  const ProposerStep step = d.Decide();
  ASSERT_TRUE(step.reply);
  EXPECT_TRUE(std::holds_alternative<BadReply>(*step.reply));
  EXPECT_EQ(d.world.sent.size(), 5u);
}

TEST(AgentStep, WhatSaysNothingOfAnAnswerIsNotToldAsItsError) {
  Desk d;
  d.world.models = {"model-a", "model-b"};
  d.answers = {Failed(TurnKind::kFormatError, "two tool calls"),
               Failed(TurnKind::kRefusal, "frontier_llm"), Action("propose", kProposal)};
  d.Decide();
  EXPECT_EQ(d.world.sent[2].body.find("frontier_llm"), std::string::npos);
  EXPECT_NE(d.world.sent[2].body.find("two tool calls"), std::string::npos);
}

TEST(AgentStep, AGoodAnswerBetweenBeginsTheCountAgain) {
  Desk d;
  d.answers = {Failed(TurnKind::kFormatError, "a"), Failed(TurnKind::kFormatError, "b"),
               Action("inspect", R"({"what":"run","of":"r001","changes":[]})"),
               Failed(TurnKind::kFormatError, "c"), Action("propose", kProposal)};
  EXPECT_TRUE(std::holds_alternative<Proposal>(*d.Decide().reply));
}

TEST(AgentStep, ACutAnswerIsAskedForAgainWithMoreTokens) {
  Desk d;
  d.answers = {Failed(TurnKind::kTruncated, "cut"), Failed(TurnKind::kTruncated, "cut"),
               Failed(TurnKind::kTruncated, "cut")};
  const ProposerStep step = d.Decide();
  EXPECT_EQ(step.refused_as, "truncated");
  EXPECT_EQ(d.world.sent[0].max_tokens, 4'096);
  EXPECT_EQ(d.world.sent[1].max_tokens, 8'192);
  EXPECT_EQ(d.world.sent[2].max_tokens, 16'384);
}

TEST(AgentStep, ARefusalGoesToTheNextModelAndAfterTheLastThePauseIsResumable) {
  Desk d;
  d.world.models = {"model-a", "model-b"};
  d.answers = {Failed(TurnKind::kRefusal, "frontier_llm"), Failed(TurnKind::kOverloaded, "529"),
               Action("propose", kProposal)};
  d.Decide();
  ASSERT_TRUE(d.record.s.paused);
  EXPECT_EQ(d.record.s.paused->exit_code, 75);
  EXPECT_EQ(d.world.sent[0].model, "model-a");
  EXPECT_EQ(d.world.sent[1].model, "model-b");
  d.record.Put(Resumed{"later"});
  EXPECT_TRUE(d.Decide().reply);
  EXPECT_EQ(d.world.sent[2].model, "model-a") << "a resumed decision begins with the first choice";
}

TEST(AgentStep, EndsThatNoModelCanHelpPauseWithTheirCode) {
  const std::pair<TurnKind, int> ends[] = {
      {TurnKind::kDenied, 4}, {TurnKind::kRejected, 2}, {TurnKind::kExhausted, 75}};
  for (const auto& [kind, code] : ends) {
    Desk d;
    d.world.models = {"model-a", "model-b"};
    d.answers = {Failed(kind, "why")};
    d.Decide();
    ASSERT_TRUE(d.record.s.paused) << llm::Word(kind);
    EXPECT_EQ(d.record.s.paused->exit_code, code);
  }
}

TEST(AgentStep, APromptThatIsTooLongIsHalvedOnce) {
  Desk d;
  d.answers = {Failed(TurnKind::kTooLong, "window"), Failed(TurnKind::kTooLong, "window")};
  d.Decide();
  ASSERT_TRUE(d.record.s.paused);
  EXPECT_EQ(d.record.s.paused->exit_code, 2);
  EXPECT_LT(d.world.prepared[1].user.size() + d.world.prepared[1].system.size(), 4'001u);
}

TEST(AgentStep, TheModelBudgetIsCheckedBeforeARequestIsIntended) {
  Desk d;
  d.record.Put(LlmBudgetSet{1'400, "--llm-budget"});
  d.answers = {Action("inspect", R"({"what":"run","of":"r001","changes":[]})")};
  d.Decide();
  ASSERT_TRUE(d.record.s.paused);
  EXPECT_EQ(d.record.s.paused->exit_code, 5);
  EXPECT_EQ(d.world.sent.size(), 1u);
  EXPECT_EQ(d.record.s.calls.size(), 1u);
}

TEST(AgentStep, AModelWithoutAPriceIsNotAskedUnderABudget) {
  Desk d;
  d.world.bound_usd_micros.reset();
  d.record.Put(LlmBudgetSet{1'000'000, "--llm-budget"});
  d.Decide();
  ASSERT_TRUE(d.record.s.paused);
  EXPECT_EQ(d.record.s.paused->exit_code, 2);
  EXPECT_TRUE(d.world.sent.empty());
}

TEST(AgentStep, LimitsOfTheRecipeEndWithALimit) {
  Desk d;
  d.record.s.recipe.llm.calls = 1;
  d.answers = {Action("inspect", R"({"what":"run","of":"r001","changes":[]})")};
  d.Decide();
  ASSERT_TRUE(d.record.s.paused);
  EXPECT_EQ(d.record.s.paused->exit_code, 5);
}

TEST(AgentStep, AnEarlyStopComesBackAsARefusal) {
  Desk d;
  d.answers = {Action("stop", R"({"reason":"tired","classes":[]})")};
  const ProposerStep step = d.Decide();
  ASSERT_TRUE(std::holds_alternative<BadReply>(*step.reply));
  EXPECT_EQ(step.refused_as, "stop");
}

TEST(AgentStep, AStopThatMayBeIsAWish) {
  Desk d;
  for (const char* label : {"a", "b", "c"}) {
    d.record.Try(Move("mbs", "--mbs", label, label), {Standing::kTie, 100, 0.0});
  }
  d.answers = {Action("stop", R"({"reason":"converged","classes":[]})")};
  EXPECT_TRUE(std::holds_alternative<StopWish>(*d.Decide().reply));
}

TEST(AgentStep, AFixedSpaceTurnsOtherLeversBack) {
  Desk d("fixed-knobs");
  d.answers = {Action("propose", kProposal)};
  const ProposerStep step = d.Decide();
  EXPECT_TRUE(std::holds_alternative<BadReply>(*step.reply));
  EXPECT_EQ(step.refused_as, "policy.space");
}

std::string WithEnabler(const char* evidence = "r001") {
  return std::string(
             R"({"lever":"mbs","changes":[{"op":"set","flag":"--mbs","value":"2"},)"
             R"({"op":"set","flag":"--threads","value":"2"}],"enablers":["threads"],)"
             R"("label":"both","hypothesis":"x","bottleneck":"launch_bound","evidence":[")") +
         evidence + R"("],"expected_gain":[0.0,0.1],"expected_peak_gb":10})";
}

// One lever at a time: calling further levers enablers does not make them so.
TEST(AgentStep, AnEnablerThatNothingNeedsIsTurnedBack) {
  Desk d;
  d.answers = {Action("propose", WithEnabler())};
  const ProposerStep step = d.Decide();
  ASSERT_TRUE(std::holds_alternative<BadReply>(*step.reply));
  EXPECT_EQ(step.refused_as, "policy.one_lever");
  EXPECT_NE(std::get<BadReply>(*step.reply).error.find("threads may not ride along"),
            std::string::npos);
}

TEST(AgentStep, AnEnablerIsTakenWhereTheLeverFailedAlone) {
  Desk d;
  d.record.Try(Move("mbs", "--mbs", "2", "alone"), {Standing::kFailed, 0, {}, RunEnd::kOomGpu});
  d.answers = {Action("propose", WithEnabler())};
  EXPECT_TRUE(std::holds_alternative<Proposal>(*d.Decide().reply));
}

TEST(AgentStep, AnEnablerIsTakenWhereTheEvidenceNamesAFailureOfTheLever) {
  Desk d;
  d.record.Try(Move("mbs", "--mbs", "4", "four"), {Standing::kFailed, 0, {}, RunEnd::kOomGpu});
  d.answers = {Action("propose", WithEnabler("r003"))};
  EXPECT_TRUE(std::holds_alternative<Proposal>(*d.Decide().reply));
}

TEST(AgentStep, AnEnablerIsTakenWhereTheLeverAloneIsRefused) {
  Desk d;
  d.answers = {Action("propose", WithEnabler())};
  d.vet = [](const Change& change) {
    return VerdictOf(change.edits.size() > 1
                         ? std::vector<Finding>{}
                         : std::vector<Finding>{
                               {Severity::kRefuse, "legality.mbs", "", "", "", "needs threads"}});
  };
  EXPECT_TRUE(std::holds_alternative<Proposal>(*d.Decide().reply));
}

TEST(AgentStep, MinorGainsMayBeStacked) {
  Desk d;
  d.record.Try(Move("mbs", "--mbs", "4", "a"), {Standing::kTie, 102, 0.02});
  d.answers = {Action("propose", WithEnabler())};
  EXPECT_TRUE(std::holds_alternative<BadReply>(*d.Decide().reply)) << "the other is not known";
  d.record.Try(Move("threads", "--threads", "4", "b"), {Standing::kTie, 101, 0.01});
  d.answers.push_back(Action("propose", WithEnabler()));
  EXPECT_TRUE(std::holds_alternative<Proposal>(*d.Decide().reply));
}

TEST(AgentStep, ALeverThatDoesNotMoveHasNoEnablers) {
  Desk d;
  std::string text = WithEnabler();
  text.replace(text.find("\"value\":\"2\""), 11, "\"value\":\"1\"");
  d.answers = {Action("propose", text)};
  const ProposerStep step = d.Decide();
  EXPECT_EQ(step.refused_as, "policy.one_lever");
}

TEST(AgentStep, ACommitteeProposesCriticisesAndTheMostVotedIsTaken) {
  Desk d("committee");
  const auto vote = [](const char* letter) {
    return Action("vote",
                  std::string(R"({"criticism":[{"proposal":"A","text":"too bold"}],"vote":")") +
                      letter + "\"}");
  };
  d.answers = {Action("propose", ProposalOf("one")),
               Action("propose", ProposalOf("two")),
               Action("propose", ProposalOf("three")),
               vote("B"),
               vote("C"),
               vote("B")};
  const ProposerStep step = d.Decide();
  ASSERT_TRUE(std::holds_alternative<Proposal>(*step.reply));
  EXPECT_EQ(std::get<Proposal>(*step.reply).label, "two");
  EXPECT_EQ(step.llm_call, "q002");
  EXPECT_EQ(d.record.s.calls[0].asked.role, "propose 1");
  EXPECT_EQ(d.record.s.calls[5].asked.role, "vote 3");
  EXPECT_NE(d.world.sent[4].body.find("on A: \"too bold\""), std::string::npos);
}

TEST(AgentStep, AStopFromOutsideLeavesTheDecisionWhereItIs) {
  Desk d;
  FakeModel model(&d.world);
  d.Step();
  AgentDesk things;
  const Result<ProposerStep> step =
      MakeAgentProposer(model, things)->Step(d.record.s, kAdmits, [] { return false; });
  ASSERT_TRUE(step);
  EXPECT_EQ(std::get<Answered>(step->facts[0]).outcome, "interrupted");
  EXPECT_FALSE(step->reply);
}

TEST(AgentPropose, MakesAWholeDecisionForCallersWithoutARecord) {
  Desk d;
  d.answers = {Action("inspect", R"({"what":"run","of":"r001","changes":[]})"),
               Action("propose", kProposal)};
  FakeModel model(&d.world);
  const Result<ProposerReply> reply =
      MakeAgentProposer(model, AgentDesk{})->Propose(d.record.s, kAdmits);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(std::holds_alternative<Proposal>(*reply));
}

}  // namespace
}  // namespace attune
