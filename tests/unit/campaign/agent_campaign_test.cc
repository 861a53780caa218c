// Whole campaigns with an agent: a model in memory, a fake launcher, a virtual clock.
#include <gtest/gtest.h>

#include <algorithm>

#include "attune/propose/agent.h"
#include "attune/propose/policy.h"
#include "attune/skill/skill.h"
#include "fakes/fake_model.h"
#include "gates/base_recipes.h"
#include "harness.h"
#include "unit/propose/record.h"

namespace attune {
namespace {

using fakes::Action;
using fakes::FakeModel;
using fakes::ModelWorld;
using testing::BrokenBooks;
using testing::Campaign;
using testing::Cut;
using testing::FakeRecipe;

std::string Propose(const std::string& lever, const std::string& change, const std::string& label) {
  return R"({"lever":")" + lever + R"(","changes":[)" + change + R"(],"enablers":[],"label":")" +
         label +
         R"(","hypothesis":"it is idle","bottleneck":"launch_bound","evidence":["r001"],)"
         R"("expected_gain":[0.1,0.5],"expected_peak_gb":1})";
}
std::string SetTo(const std::string& flag, const std::string& value) {
  return R"({"op":"set","flag":")" + flag + R"(","value":")" + value + "\"}";
}

const char kStop[] =
    R"({"reason":"converged","classes":[{"class":"memory_free","tried":"micro_batch"},)"
    R"({"class":"step_time_spread","tried":"none"},{"class":"slow_first_steps","tried":"none"},)"
    R"({"class":"memory_tight","tried":"none"}]})";

// The proposer owns nothing that a crash must keep: a new one is made for each process.
class AgentOverFake final : public Proposer {
 public:
  AgentOverFake(ModelWorld* world, AgentDesk desk)
      : model_(world), agent_(MakeAgentProposer(model_, std::move(desk))) {}
  std::string Name() const override { return agent_->Name(); }
  Result<ProposerStep> Step(const CampaignState& s, const Vet& vet, const Pulse& pulse) override {
    return agent_->Step(s, vet, pulse);
  }
  Result<ProposerReply> Propose(const CampaignState& s, const Vet& vet) override {
    return agent_->Propose(s, vet);
  }

 private:
  FakeModel model_;
  std::unique_ptr<Proposer> agent_;
};

struct AgentCampaign {
  AgentCampaign() : campaign(FakeRecipe()) {
    ApplyRecord(*FindPolicy("full"), campaign.opening.policy);
    campaign.proposer = [this] {
      AgentDesk desk;
      desk.levers = LeverOffersOf(campaign.recipe);
      return std::make_unique<AgentOverFake>(&model, std::move(desk));
    };
    // By what is asked, not by how often: a request that is sent twice gets one answer.
    model.answer = [this](std::size_t, const llm::Prepared& asked) {
      for (std::size_t i = replies.size(); i-- > 0;) {
        if (i == 0 || asked.body.find(replies[i].first) != std::string::npos) {
          return Action(replies[i].second.starts_with("{\"reason\"") ? "stop" : "propose",
                        replies[i].second);
        }
      }
      return Action("stop", kStop);
    };
    replies = {
        {"", Propose("micro_batch", SetTo("--micro-batch-size", "2"), "mbs2")},
        {"mbs2", Propose("learning_rate", SetTo("--lr", "1"), "lr")},
        {"gate.", Propose("micro_batch", SetTo("--micro-batch-size", "4"), "mbs4")},
        {"mbs4", Propose("recompute", R"({"op":"set","flag":"--recompute","value":true})", "rec")},
        {"rec:", Propose("micro_batch", SetTo("--micro-batch-size", "8"), "mbs8")},
        {"mbs8", Propose("ranks", SetTo("--num-ranks", "2"), "ranks2")},
        {"ranks2", kStop},
    };
    // The needles stand in the brief forms only.
    campaign.recipe.llm.prompt_bytes = 3'000;
  }

  Campaign campaign;
  ModelWorld model;
  std::vector<std::pair<std::string, std::string>> replies;  // needle in the request, answer
};

TEST(AgentCampaign, SearchesVerifiesAndShipsWithItsCallsOnRecord) {
  AgentCampaign a;
  const Result<CampaignEnd> end = a.campaign.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = a.campaign.State();
  EXPECT_EQ(s.phase, Phase::kShipped) << s.phase_reason;
  EXPECT_EQ(s.stop, "agent");
  int launched = 0;
  for (const ProposalRecord& p : s.proposals) {
    EXPECT_FALSE(p.llm_call.empty()) << p.id.value;
    if (!p.run.empty()) ++launched;
  }
  EXPECT_GE(launched, 4);
  const bool refused = std::any_of(s.proposals.begin(), s.proposals.end(),
                                   [](const auto& p) { return p.reason.starts_with("gate."); });
  EXPECT_TRUE(refused) << "the learning rate";
  EXPECT_EQ(BrokenBooks(a.campaign), "");
}

TEST(AgentCampaign, CutAtEveryCommitItEndsAsTheUncutOne) {
  AgentCampaign whole;
  ASSERT_TRUE(whole.campaign.Go());
  const std::vector<std::string> table = whole.campaign.RunTable();
  const int commits = whole.campaign.journal.commits;
  for (int n = 1; n <= commits; n += 3) {
    for (const bool after : {false, true}) {
      AgentCampaign a;
      (after ? a.campaign.journal.cut_after : a.campaign.journal.cut_before) = n;
      try {
        ASSERT_TRUE(a.campaign.Go());
      } catch (const Cut&) {
        a.campaign.journal.cut_after = a.campaign.journal.cut_before = 0;
        ASSERT_TRUE(a.campaign.Go());
      }
      EXPECT_EQ(a.campaign.RunTable(), table) << "cut " << (after ? "after " : "before ") << n;
      EXPECT_EQ(BrokenBooks(a.campaign), "");
    }
  }
}

TEST(AgentCampaign, KilledWhileTheReplyIsHeldTheSameBodyIsSentOnceMore) {
  AgentCampaign a;
  a.model.hook = [&](const char*) {
    if (a.model.sent.size() == 1) throw Cut{};
  };
  EXPECT_THROW((void)a.campaign.Go(), Cut);
  ASSERT_TRUE(a.campaign.Go());
  ASSERT_GE(a.model.sent.size(), 3u);
  EXPECT_EQ(a.model.sent[0].body, a.model.sent[1].body);
  EXPECT_NE(a.model.sent[1].body, a.model.sent[2].body);
  const CampaignState s = a.campaign.State();
  EXPECT_EQ(s.calls[0].answer->outcome, "unknown");
  EXPECT_EQ(s.calls[0].answer->usd_micros, 1'000);
  EXPECT_EQ(s.calls[1].asked.repeats, "q001");
  EXPECT_EQ(s.calls[1].answer->outcome, "action");
}

TEST(AgentCampaign, TenRepliesInARowThatLaunchNothingEndTheSearch) {
  AgentCampaign a;
  a.replies = {{"", "{\"lever\":"}};
  const Result<CampaignEnd> end = a.campaign.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = a.campaign.State();
  EXPECT_EQ(s.stop, "no_launch");
  EXPECT_EQ(CountsOf(s).launched, 0);
  EXPECT_EQ(s.proposals.size(), 10u);
  EXPECT_EQ(s.proposals[0].reason, "schema");
}

TEST(AgentCampaign, PausesWhenNoModelAnswersAndGoesOnWhenOneDoes) {
  AgentCampaign a;
  const auto answer = a.model.answer;
  a.model.answer = [](std::size_t, const llm::Prepared&) {
    return fakes::Failed(llm::TurnKind::kRefusal, "declined");
  };
  const Result<CampaignEnd> paused = a.campaign.Go();
  ASSERT_TRUE(paused);
  EXPECT_EQ(paused->code, 75);
  EXPECT_NE(paused->why.find("declined"), std::string::npos);
  a.model.answer = answer;
  const Result<CampaignEnd> end = a.campaign.Go();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 0) << end->why;
}

TEST(AgentCampaign, AnInterruptEndsTheWaitForAModel) {
  AgentCampaign a;
  bool asked = false;
  a.campaign.interrupted = [&]() -> std::optional<std::string> {
    // The first time that a request is out.
    if (a.model.kept.empty() || std::exchange(asked, true)) return std::nullopt;
    return "drain";
  };
  const Result<CampaignEnd> end = a.campaign.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 130);
  EXPECT_EQ(a.campaign.State().calls.back().answer->outcome, "interrupted");
}

// ----- the prompt of a large campaign

Diagnosis LaunchBound(double share) {
  Diagnosis d;
  d.source = "trace";
  d.summary = "Rank 0, step 12: the host is late; the all-to-all is exposed.";
  d.bottlenecks = {
      {"launch_bound", share, share, 0.15, true, "GPU idle while the host launches"},
      {"exposed_communication", 0.22, 0.22, 0.10, true, "expert all-to-all over two nodes"},
      {"pipeline_bubble", 0.04, 0.04, 0.10, false, "128 micro-batches over 8 stages"}};
  return d;
}

constexpr char kKey[] = "sk-ant-api03-Abcdefghij0123456789Abcdefghij0123456789Abcdefghij01";

// 30 launches of GLM-4.5 on 128 GPUs, every third one failed.
testing::Record ThirtyRuns() {
  Recipe recipe = *BaseRecipe("glm45");
  recipe.base.args.Append({"--data-path", {"/fsx/private/corpus"}});
  recipe.deny = {"context_parallel"};
  recipe.why = {{"context_parallel", "a step takes 1,800 s above 4"}};
  Policy policy;
  ApplyRecord(*FindPolicy("full"), policy);
  testing::Record record(recipe, policy);
  record.Calibrate(5, 728.2, LaunchBound(0.41));
  for (int i = 0; i < 30; ++i) {
    Proposal p = testing::Move("tensor_parallel", "--tensor-model-parallel-size",
                               std::to_string(1 << (i % 4)), "run" + std::to_string(i));
    p.change.edits.push_back({Edit::Op::kSet, "--pipeline-model-parallel-size", {"16"}});
    if (i == 3) {  // the one that wins is a layout that could run
      p.change.edits.front().values = {"1"};
      p.change.edits.push_back({Edit::Op::kSet, "--expert-model-parallel-size", {"8"}});
      p.change.edits.push_back({Edit::Op::kSet, "--decoder-first-pipeline-num-layers", {"4"}});
      p.change.edits.push_back({Edit::Op::kSet, "--decoder-last-pipeline-num-layers", {"4"}});
    }
    p.change.edits.push_back({Edit::Op::kSet, "--recompute-granularity", {"full"}});
    p.hypothesis =
        "many one-row micro-batches leave the GPUs idle between launches; full "
        "recomputation is nearly free here and makes room for TP 1";
    if (i % 3 == 1) {
      record.Try(p, {Standing::kFailed,
                     0,
                     {},
                     RunEnd::kOomGpu,
                     std::string("rank 3: tried 2.1 GiB, 0.4 free; token ") + kKey,
                     9.3});
    } else if (i == 3) {
      record.Try(p, {Standing::kWin, 1'072.7, 0.473, RunEnd::kCompleted, "won", 62.4, 171},
                 LaunchBound(0.31));
    } else {
      record.Try(p, {Standing::kTie, 1'080, 0.007, RunEnd::kCompleted, "inside the band", 61, 168},
                 LaunchBound(0.30));
    }
    if (i % 5 == 0) {
      record.Refuse(testing::Move("loss", "--moe-aux-loss-coeff", "0", "aux"),
                    "gate.objective.--moe-aux-loss-coeff", "sets what is learned");
    }
  }
  return record;
}

TEST(AgentPrompt, OfGlm45After30RunsHoldsWhatAnExpertWouldAskForIn40KiloBytes) {
  const testing::Record record = ThirtyRuns();
  AgentDesk desk;
  desk.levers = LeverOffersOf(record.s.recipe);
  desk.rules = BuiltInSkill().rules;
  desk.reserve = [](const CampaignState&) { return FromGpuHours(216); };
  const Result<llm::Request> request = AgentRequest(record.s, desk);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_LE(RequestBytes(*request), 40'000u);
  const std::string& user = request->user;
  const auto has = [&](const std::string& what) {
    EXPECT_NE(user.find(what), std::string::npos) << what << "\n" << user;
  };
  has("# leader");
  has("run3 1072.7 tok/s/GPU (+47.3% over the baseline)");
  has("diff to the baseline: decoder-first-pipeline-num-layers 10->4");
  has("pipeline-model-parallel-size 8->16");
  has("layout tp 1 pp 16 (first/last stage 4/4 layers)");
  for (const auto& [id, run] : record.s.runs) {
    if (run.judged->standing == Standing::kFailed)
      has(id.value + " " + run.plan.label + " oom_gpu");
  }
  has("# last diagnosis");
  has("launch_bound 30% of the step");
  has("expert all-to-all over two nodes");
  has("of 1880.0");
  has("more launches");
  has("peak memory 171.0 GB of ");
  has("by the estimate: of the step: compute ");
  has("of the leader, r009 run3");
  has("levers in no launch yet: ");
  has("gate.objective.--moe-aux-loss-coeff");
  has("# your forecasts against outcomes");
  has("scored runs inside the expected range");
  has("classes that a stop must answer for: launch_bound, exposed_communication");
  const std::string all = request->system + user;
  EXPECT_NE(all.find("tensor_parallel (placement): --tensor-model-parallel-size"),
            std::string::npos);
  EXPECT_NE(all.find("context_parallel (\"a step takes 1,800 s above 4\")"), std::string::npos);
  EXPECT_NE(all.find("# Search rules"), std::string::npos);
  EXPECT_EQ(all.find(kKey), std::string::npos);
  EXPECT_EQ(all.find("/fsx/private"), std::string::npos);
}

TEST(LeverOffersOf, NameEveryOpenLeverWithItsLegalValues) {
  Recipe recipe = *BaseRecipe("glm45");
  recipe.deny = {"microbatch"};
  const std::vector<LeverOffer> offers = LeverOffersOf(recipe);
  const auto find = [&](std::string_view id) {
    return std::find_if(offers.begin(), offers.end(),
                        [&](const LeverOffer& o) { return o.id == id; });
  };
  EXPECT_EQ(find("microbatch"), offers.end());
  ASSERT_NE(find("dispatcher"), offers.end());
  const LeverOffer& dispatcher = *find("dispatcher");
  EXPECT_EQ(dispatcher.names.front().name, "--moe-token-dispatcher-type");
  EXPECT_NE(dispatcher.names.front().values.find("alltoall|flex"), std::string::npos);
  ASSERT_NE(find("env_nccl"), offers.end());
  EXPECT_EQ(find("env_nccl")->names.front().values, "1..64");
  const std::vector<LeverOffer> declared = LeverOffersOf(FakeRecipe());
  ASSERT_EQ(declared.size(), 4u);
  EXPECT_EQ(declared[0].names[0].values, "1|2|4|8");
  EXPECT_EQ(find("tensor_parallel")->names.front().values, "1 or more");
}

}  // namespace
}  // namespace attune
