// The rules proposer for Megatron-LM, against worlds that differ from its estimate.
#include <gtest/gtest.h>

#include <set>

#include "attune/propose/experience.h"
#include "unit/propose/examples.h"
#include "unit/propose/fake_world.h"
#include "unit/propose/record.h"

namespace attune {
namespace {

using testing::ExampleRecipe;
using testing::FakeCampaign;
using testing::FakeTruth;

constexpr int kMostTurns = 20;
const char* const kDevelopment[] = {"mixtral-8x22b-h100x128", "glm-4.7-flash-h200x8",
                                    "qwen3-30b-a3b-h100x8-mlm"};

// Factors drawn around the estimate's own, by seed.
FakeTruth World(std::uint64_t seed, double spread = 0.35) {
  FakeTruth t;
  t.seed = seed;
  Random random(seed * 31);
  for (const std::string_view term : Correction::Terms()) {
    t.factor[std::string(term)] = std::exp(spread * random.Normal());
  }
  t.memory = std::exp(0.05 * random.Normal());
  return t;
}

void RunToTheEnd(FakeCampaign& campaign, Proposer& proposer) {
  for (int i = 0; i < kMostTurns && campaign.Step(proposer); ++i) {
  }
}

TEST(MegatronRules, GainsInFewLaunchesThatFit) {
  std::size_t launches = 0;
  int failed = 0;
  double gain = 0;
  for (const char* name : kDevelopment) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      FakeCampaign campaign(ExampleRecipe(name), World(seed));
      const auto proposer = MakeRulesProposer();
      RunToTheEnd(campaign, *proposer);
      EXPECT_TRUE(campaign.stopped.has_value()) << name << " " << seed;
      EXPECT_GE(campaign.TrueGain(), 0) << name << " " << seed;
      launches += campaign.proposals.size();
      failed += campaign.failed;
      gain += campaign.TrueGain();
    }
  }
  EXPECT_LE(launches, 9u * 9u);
  EXPECT_LE(failed, 3);
  EXPECT_GT(gain / 9, 0.3);  // two of the three baselines recompute all of a model that need not
}

TEST(MegatronRules, GivesUpWithinFiveLaunchesWhereNothingGains) {
  for (const std::uint64_t seed : {4, 5, 6}) {
    FakeTruth flat = World(seed);
    flat.flat = true;
    FakeCampaign campaign(ExampleRecipe("mixtral-8x22b-h100x128"), flat);
    const auto proposer = MakeRulesProposer();
    RunToTheEnd(campaign, *proposer);
    EXPECT_TRUE(campaign.stopped.has_value());
    EXPECT_LE(campaign.proposals.size(), 5u) << seed;
    EXPECT_TRUE(campaign.s.leader.run.empty()) << seed;
  }
}

// A record of launches that were to gain 20 % and moved nothing.
testing::Record Still(const std::vector<std::vector<Edit>>& changes) {
  testing::Record record(ExampleRecipe("glm-4.5-b200x128"));
  record.Calibrate(3, 800, {});
  for (const std::vector<Edit>& edits : changes) {
    Proposal p = testing::Move("microbatch", "--micro-batch-size", "2", "still");
    p.change.edits = edits;
    p.expected_gain = {0.1, 0.3};
    record.Try(p, {Standing::kTie, 800, 0.0});
  }
  return record;
}

TEST(MegatronRules, EndsWhereUnlikeLaunchesMoveNothing) {
  const auto set = [](const char* flag, const char* value) {
    return Edit{Edit::Op::kSet, flag, {value}};
  };
  const Edit mbs = set("--micro-batch-size", "2");
  const Edit ep = set("--expert-model-parallel-size", "8");
  const Edit pp = set("--pipeline-model-parallel-size", "4");
  const Edit tp = set("--tensor-model-parallel-size", "8");
  const auto ends = [](const testing::Record& record) {
    const auto reply =
        *MakeRulesProposer()->Propose(record.s, [](const Change&) { return VerdictOf({}); });
    return std::holds_alternative<StopWish>(reply);
  };
  EXPECT_FALSE(ends(Still({{mbs}})));
  // Twice nearly the same says that the estimate is wrong there.
  EXPECT_FALSE(ends(Still({{mbs}, {mbs, ep}})));
  EXPECT_TRUE(ends(Still({{mbs}, {ep, pp, tp}})));
}

TEST(MegatronRules, NeverRepeatsAndNeverAsksWhatTheGateRefuses) {
  FakeCampaign campaign(ExampleRecipe("qwen3-30b-a3b-h100x8-mlm"), World(7));
  const auto proposer = MakeRulesProposer();
  RunToTheEnd(campaign, *proposer);
  ASSERT_FALSE(campaign.proposals.empty());
  std::set<std::string> hashes;
  for (const ProposalRecord& p : campaign.s.proposals) {
    EXPECT_TRUE(hashes.insert(p.hash).second) << p.proposal->label;
    EXPECT_TRUE(p.verdict.admitted)
        << p.proposal->label << ": "
        << (p.verdict.FirstRefusal() != nullptr ? p.verdict.FirstRefusal()->why : "");
  }
}

TEST(MegatronRules, AProposalSaysWhatItExpects) {
  FakeCampaign campaign(ExampleRecipe("glm-4.7-flash-h200x8"), World(8));
  const auto proposer = MakeRulesProposer();
  RunToTheEnd(campaign, *proposer);
  for (const Proposal& p : campaign.proposals) {
    EXPECT_FALSE(p.label.empty());
    EXPECT_LE(p.label.size(), 24u);
    EXPECT_NE(p.hypothesis.find("projected"), std::string::npos);
    ASSERT_TRUE(p.expected_gain.has_value());
    EXPECT_LT(p.expected_gain->first, p.expected_gain->second);
    EXPECT_GT(p.expected_peak_gb.value_or(0), 1);
    EXPECT_FALSE(p.evidence.empty());
    EXPECT_LE(p.change.enablers.size(), 3u);
  }
}

TEST(MegatronRules, IsTheSameAskedTwiceAndByAnother) {
  const FakeCampaign campaign(ExampleRecipe("mixtral-8x22b-h100x128"), World(9));
  const Vet vet = [&](const Change& c) { return campaign.Judge(c); };
  const auto one = MakeRulesProposer(), other = MakeRulesProposer();
  const ProposerReply first = *one->Propose(campaign.s, vet);
  EXPECT_EQ(first, *one->Propose(campaign.s, vet));
  EXPECT_EQ(first, *other->Propose(campaign.s, vet));
}

TEST(MegatronRules, LeavesDeniedLeversAlone) {
  Recipe recipe = ExampleRecipe("glm-4.7-flash-h200x8");
  recipe.deny = {"recompute", "tensor_parallel"};
  FakeCampaign campaign(std::move(recipe), World(10));
  const auto proposer = MakeRulesProposer();
  RunToTheEnd(campaign, *proposer);
  for (const Proposal& p : campaign.proposals) {
    for (const Edit& e : p.change.edits) {
      EXPECT_FALSE(e.name.starts_with("--recompute")) << p.label;
      EXPECT_NE(e.name, "--tensor-model-parallel-size") << p.label;
    }
  }
}

// Leaves one lever's edits out.
std::optional<TrainingJob> Without(const Effective& leader, const Change& change,
                                   const std::string& lever, const Workload& workload) {
  std::set<std::string> own;
  for (const LeverRow& row : BuiltInRules().levers) {
    if (row.lever == lever) own.insert(std::string(row.name));
  }
  Effective rest = leader;
  for (const Edit& e : change.edits) {
    if (!own.contains(e.name)) rest = ApplyEdits(rest, {e});
  }
  const auto job = ResolveMegatron(rest.args, rest.env, workload);
  const auto* resolved = std::get_if<TrainingJob>(&job);
  return resolved == nullptr ? std::nullopt : std::optional(*resolved);
}

TEST(MegatronRules, WithoutAnEnablerItIsIllegalOrDoesNotFitOrIsSlower) {
  // A tight device: most moves to fewer model-parallel ranks need room made for them.
  int looked_at = 0;
  for (const std::uint64_t seed : {11, 12, 13, 14}) {
    FakeCampaign campaign(ExampleRecipe("glm-4.5-b200x128"), World(seed));
    const auto proposer = MakeRulesProposer();
    for (int i = 0; i < 4; ++i) {
      const Effective leader = campaign.s.leader.user;
      const Correction known = Fit(ExperienceOf(campaign.s));  // what the proposal is judged by
      if (!campaign.Step(*proposer)) break;
      const Proposal& p = campaign.proposals.back();
      if (p.label == "stack") continue;
      const auto whole = Without(leader, p.change, "no lever", campaign.s.recipe.workload);
      ASSERT_TRUE(whole.has_value());
      for (const std::string& enabler : p.change.enablers) {
        const auto rest = Without(leader, p.change, enabler, campaign.s.recipe.workload);
        if (!rest) continue;  // illegal without it
        ++looked_at;
        EXPECT_TRUE(Project(*rest, known)->OutOfMemoryChance() > 0.05 ||
                    Project(*rest, known)->step_seconds > Project(*whole, known)->step_seconds)
            << p.label << " without " << enabler;
      }
    }
  }
  EXPECT_GT(looked_at, 3);
}

TEST(MegatronRules, StopsWithAWordOnEachBottleneck) {
  FakeCampaign campaign(ExampleRecipe("mixtral-8x22b-h100x128"), World(15));
  Diagnosis d;
  d.source = "trace";
  d.bottlenecks = {{"exposed_communication", 0.3, 0.3, 0.1, true, "30 %"},
                   {"host_sync", 0.1, 0.1, 0.05, true, "10 %"}};
  campaign.Put(Diagnosed{campaign.s.calibration->runs.front(), d});
  const auto proposer = MakeRulesProposer();
  RunToTheEnd(campaign, *proposer);
  ASSERT_TRUE(campaign.stopped.has_value());
  std::set<std::string> classes;
  for (const auto& [cls, word] : campaign.stopped->per_class) {
    classes.insert(cls);
    EXPECT_FALSE(word.empty());
  }
  EXPECT_TRUE(classes.contains("exposed_communication") || !campaign.s.leader.run.empty());
}

TEST(Experience, AnOutOfMemoryLineTellsHowLargeTheDeviceIs) {
  FakeCampaign campaign(ExampleRecipe("mixtral-8x22b-h100x128"), World(16));
  RunRecord& run = campaign.s.runs.begin()->second;
  run.end.emplace();
  run.end->detail.end = RunEnd::kOomGpu;
  run.end->detail.evidence =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total "
      "capacity of 74.50 GiB of which 1.00 GiB is free.";
  ASSERT_EQ(ExperienceOf(campaign.s).size(), 1U);
  EXPECT_EQ(ExperienceOf(campaign.s)[0].device_bytes, 74.5 * 1024 * 1024 * 1024);
  for (const char* other : {"CUDA out of memory", "total capacity of no GiB", "total capacity of 7",
                            "total capacity of -1 GiB"}) {
    run.end->detail.evidence = other;
    EXPECT_FALSE(ExperienceOf(campaign.s)[0].device_bytes) << other;
  }
}

TEST(MegatronRules, SaysThatAnUnknownGpuCanNotBeProjected) {
  Recipe recipe = ExampleRecipe("mixtral-8x22b-h100x128");
  FakeCampaign campaign(recipe, World(16));
  campaign.s.recipe.workload.gpu = "abacus";
  const auto proposer = MakeRulesProposer();
  EXPECT_FALSE(campaign.Step(*proposer));
  EXPECT_NE(campaign.stopped->reason.find("abacus"), std::string::npos);
}

}  // namespace
}  // namespace attune
