// The hostile proposals through the wire: each is the tool arguments of a provider's reply, read by
// the real client, in a campaign of its own on the fake cluster. Nothing that is refused starts
// anything, and each refusal has its reason; what is legal is launched. Needs $ATTUNE_CORPORA.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attune/propose/policy.h"
#include "gates/base_recipes.h"
#include "harness.h"
#include "wire_agent.h"

namespace attune {
namespace {

using nlohmann::json;
using testing::Campaign;
using testing::ReplyWith;
using testing::WireAgent;

// The corpus' recipe as a job of the fake cluster. The two fusions have passed their tests.
Recipe CorpusRecipe() {
  Recipe recipe = *BaseRecipe("glm45");
  recipe.command = {"fake_train", "{{args}}"};
  recipe.log.dialect = "megatron-lm";
  recipe.measure.calibration_runs = 2;
  recipe.measure.steps = 10;
  for (const char* flag : {"--fake-step-ms", "--fake-no-block"}) {
    recipe.base.args.Append({flag, flag == std::string_view("--fake-step-ms")
                                       ? std::vector<std::string>{"40000"}
                                       : std::vector<std::string>{}});
  }
  for (const PassedTest& test : FusionTests()) {
    recipe.gate.component_tests.push_back({.lever = test.lever,
                                           .value = test.value,
                                           .command = {"fake_train", "--train-iters", "2"}});
  }
  return recipe;
}

// The arguments as the provider sends them. Rows that are text go as they are; to the others the
// test adds what the agent's schema demands beside the corpus' own keys.
std::string ArgumentsOf(const json& proposal) {
  if (proposal.is_string()) return proposal.get<std::string>();
  if (!proposal.is_object()) return proposal.dump();
  json whole = {{"enablers", json::array()},  {"label", "corpus"},
                {"hypothesis", "as the row"}, {"bottleneck", "launch_bound"},
                {"evidence", {"r001"}},       {"expected_gain", {0.0, 0.1}},
                {"expected_peak_gb", 100}};
  for (const auto& [key, value] : proposal.items()) whole[key] = value;
  return whole.dump();
}

struct Verdict {
  int launched = 0;
  std::string reason;  // of the first proposal, when it was turned back
};

Verdict Play(const std::string& arguments, const std::string& folder) {
  Campaign c(CorpusRecipe());
  c.opening.budget = FromGpuHours(1e6);
  c.opening.start_iteration = 0;
  c.opening.checkpoint.clear();
  ApplyRecord(*FindPolicy("paper"), c.opening.policy);
  fakes::FakeHttp http;
  // Three times, as a reply that can't be read is asked for again; then wishes to stop.
  for (int i = 0; i < 3; ++i) http.Reply(200, ReplyWith("propose", arguments));
  http.Reply(200, ReplyWith("stop", R"({"reason":"the row is over","classes":[]})"));
  http.repeat_last = true;
  c.proposer = [&] { return std::make_unique<WireAgent>(&http, &c.clock, c.recipe, folder); };
  const Result<CampaignEnd> end = c.Go();
  EXPECT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  Verdict verdict;
  verdict.launched = CountsOf(s).launched;
  if (s.proposals.empty()) {
    ADD_FAILURE() << "no proposal: " << s.phase_reason << (end ? " " + end->why : "");
  } else {
    verdict.reason = s.proposals.front().reason;
  }
  return verdict;
}

TEST(HostileProposals, ThroughTheWireLaunchNothingAndTheLegalOnesAreAdmitted) {
  const char* corpora = std::getenv("ATTUNE_CORPORA");
  if (corpora == nullptr) GTEST_SKIP() << "ATTUNE_CORPORA is not set";
  std::ifstream in(std::string(corpora) + "/facts/hostile_proposals.jsonl");
  ASSERT_TRUE(in) << "no hostile_proposals.jsonl";
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("attune_hostile_" + std::to_string(::getpid()));
  int refused = 0, admitted = 0;
  std::string line;
  while (std::getline(in, line)) {
    const json row = json::parse(line);
    const std::string id = row["id"];
    const Verdict verdict = Play(ArgumentsOf(row["proposal"]), (root / id).string());
    if (row["expected"] == "accept") {
      EXPECT_EQ(verdict.launched, 1) << id << ": " << verdict.reason;
      ++admitted;
    } else {
      EXPECT_EQ(verdict.launched, 0) << id;
      EXPECT_NE(verdict.reason, "") << id;
      ++refused;
    }
  }
  std::filesystem::remove_all(root);
  EXPECT_EQ(refused, 58);
  EXPECT_EQ(admitted, 12);
}

}  // namespace
}  // namespace attune
