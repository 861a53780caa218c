// A scripted expert, a file of replies in wire format, plays the launches of a published campaign
// on GLM-4.5 (paper, Table F1): through the wire, the gates, the pre-filter and the comparison, on
// a fake cluster whose speeds and memory are the table's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attune/propose/policy.h"
#include "gates/base_recipes.h"
#include "harness.h"
#include "wire_agent.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::ReplyWith;
using testing::WireAgent;

// tokens/s/GPU of the table, by what tells the configurations apart; 0: out of memory.
double SpeedOf(const std::vector<std::string>& argv) {
  const auto value = [&](const char* flag) { return fakes::FlagValue(argv, flag); };
  const bool tp1 = value("tensor-model-parallel-size") == "1";
  const bool pp16 = value("pipeline-model-parallel-size") == "16";
  const bool full = value("recompute-granularity") == "full";
  if (!tp1) return pp16 ? 707.6 : 728.2;
  if (!full) return 0;
  if (!pp16) return 668;
  return value("decoder-first-pipeline-num-layers") == "5" ? 1'083 : 1'072.7;
}

fakes::FakeTraining Play(const Stage& stage) {
  Stage played = stage;
  const double speed = SpeedOf(stage.argv);
  constexpr double kTokensOfAStep = 2'048.0 * 4'096 / 128;  // of one GPU
  const double step_ms = 1'000 * kTokensOfAStep / (speed > 0 ? speed : 700);
  const auto add = [&](const char* flag, const std::string& value) {
    played.argv.insert(played.argv.end(), {flag, value});
  };
  add("--fake-step-ms", std::to_string(static_cast<int>(step_ms)));
  // The fake knows factors of its own for these; the table's speeds have them in.
  add("--micro-batch-size", "1");
  add("--fake-run-noise", "0.003");
  played.argv.push_back("--fake-no-block");
  if (speed == 0) add("--fake-oom-at", "1");
  fakes::FakeTraining training = fakes::PlayTraining(played);
  // The fake's memory is no GPU's; the estimate would learn from it.
  std::erase_if(training.events, [](const fakes::FakeEvent& event) {
    return event.line.find("memory (MB)") != std::string::npos;
  });
  return training;
}

// The corpus' GLM-4.5 at the table's batch, with the sizes of its experts and of its shared one.
Recipe Glm45() {
  Recipe recipe = *BaseRecipe("glm45");
  recipe.base.args.Set("--global-batch-size", {"2048"});
  for (const auto& [flag, value] : {std::pair("--ffn-hidden-size", "12288"),
                                    {"--kv-channels", "128"},
                                    {"--moe-ffn-hidden-size", "1536"},
                                    {"--moe-shared-expert-intermediate-size", "1536"},
                                    {"--moe-layer-freq", "([0]*3+[1]*89)"},
                                    {"--vocab-size", "151552"}}) {
    recipe.base.args.Append({flag, {value}});
  }
  recipe.base.args.Append({"--swiglu", {}});
  recipe.base.args.Append({"--untie-embeddings-and-output-weights", {}});
  recipe.log.dialect = "megatron-lm";
  return recipe;
}

struct Expert {
  explicit Expert(const char* policy)
      : folder(std::filesystem::temp_directory_path() /
               ("attune_expert_" + std::to_string(::getpid()))),
        campaign(Glm45()) {
    campaign.recipe.command = {"fake_train", "{{args}}"};
    campaign.opening.budget = FromGpuHours(1'880);
    campaign.opening.start_iteration = 0;
    campaign.opening.checkpoint.clear();
    ApplyRecord(*FindPolicy(policy), campaign.opening.policy);
    campaign.world.play = Play;
    std::ifstream in(ATTUNE_SOURCE_DIR "/tests/cases/agent/table_f1.jsonl");
    std::string line;
    while (std::getline(in, line)) {
      const nlohmann::json row = nlohmann::json::parse(line);
      http.Reply(200, ReplyWith(row["tool"], row["arguments"].dump()));
    }
    http.repeat_last = true;
    campaign.proposer = [this] {
      return std::make_unique<WireAgent>(&http, &campaign.clock, campaign.recipe, folder.string());
    };
  }
  ~Expert() { std::filesystem::remove_all(folder); }

  std::string StandingOf(const std::string& label) const {
    const CampaignState s = campaign.State();
    const RunRecord* run = campaign.Run(s, label);
    if (run == nullptr || !run->judged) return "not launched";
    return std::string(run->judged->standing == Standing::kFailed ? Word(run->end->detail.end)
                                                                  : Word(run->judged->standing));
  }
  std::string ReasonOf(const std::string& label) const {
    const CampaignState s = campaign.State();
    for (const ProposalRecord& p : s.proposals) {
      if (p.proposal && p.proposal->label == label) return p.reason;
    }
    return "not proposed";
  }

  std::filesystem::path folder;
  fakes::FakeHttp http;
  Campaign campaign;
};

TEST(ScriptedExpert, PlaysTableF1WithoutThePreFilter) {
  Expert expert("paper");
  const Result<CampaignEnd> end = expert.campaign.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 0) << end->why;
  EXPECT_EQ(expert.StandingOf("pp16ep8"), "tie");
  EXPECT_EQ(expert.StandingOf("tp1pp8"), "oom_gpu");
  EXPECT_EQ(expert.StandingOf("tp1pp16"), "oom_gpu");
  EXPECT_EQ(expert.StandingOf("tp1pp16fr"), "win");
  // Two calibration runs, pooled with the prior: an early look may end what is clearly slower.
  EXPECT_EQ(expert.campaign.State().calibration->runs.size(), 2u);
  EXPECT_EQ(expert.StandingOf("tp1pp8fr"), "stopped_early");
  EXPECT_NE(expert.StandingOf("tp1pp16s53"), "win");
  const CampaignState s = expert.campaign.State();
  EXPECT_EQ(s.stop, "agent");
  EXPECT_EQ(s.phase, Phase::kShipped) << s.phase_reason;
  EXPECT_EQ(BrokenBooks(expert.campaign), "");
}

TEST(ScriptedExpert, ThePreFilterTurnsBackWhatDoesNotFit) {
  Expert expert("full");
  const Result<CampaignEnd> end = expert.campaign.Go();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(expert.ReasonOf("tp1pp8"), "prefilter.memory");
  EXPECT_EQ(expert.ReasonOf("tp1pp16"), "prefilter.memory");
  EXPECT_EQ(expert.StandingOf("tp1pp8"), "not launched");
  EXPECT_EQ(expert.StandingOf("tp1pp16"), "not launched");
  EXPECT_EQ(expert.StandingOf("tp1pp16fr"), "win");
}

}  // namespace
}  // namespace attune
