// What a model may answer, read strictly.
#include "agent_action.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "record.h"

namespace attune {
namespace {

using nlohmann::json;

CampaignState State() {
  Recipe recipe;
  testing::Record record(recipe);
  record.Calibrate(2, 100, {});
  return record.s;
}

json GoodProposal() {
  return {{"lever", "microbatch"},
          {"changes", {{{"op", "set"}, {"flag", "--micro-batch-size"}, {"value", 2}}}},
          {"enablers", json::array()},
          {"label", "mbs2"},
          {"hypothesis", "more rows a launch"},
          {"bottleneck", "launch_bound"},
          {"evidence", {"r001"}},
          {"expected_gain", {0.05, 0.2}},
          {"expected_peak_gb", 70}};
}

std::string ErrorOf(const AgentAction& action) {
  const auto* bad = std::get_if<BadReply>(&action);
  return bad == nullptr ? "" : bad->error;
}

AgentAction Read(const std::string& tool, const std::string& arguments) {
  ActionRules rules;
  rules.questions = {"run", "estimate"};
  return ReadAction(rules, State(), tool, arguments);
}

TEST(ReadAction, TakesAWholeProposal) {
  const AgentAction action = Read("propose", GoodProposal().dump());
  const auto* p = std::get_if<Proposal>(&action);
  ASSERT_NE(p, nullptr) << ErrorOf(action);
  EXPECT_EQ(p->change.lever, "microbatch");
  EXPECT_EQ(p->expected_gain->second, 0.2);
}

TEST(ReadAction, DemandsEveryKeyOfTheSchema) {
  for (const char* key : {"lever", "changes", "enablers", "label", "hypothesis", "bottleneck",
                          "evidence", "expected_gain", "expected_peak_gb"}) {
    json p = GoodProposal();
    p.erase(key);
    EXPECT_NE(ErrorOf(Read("propose", p.dump())).find(key), std::string::npos) << key;
  }
}

TEST(ReadAction, RefusesKeysThatNobodyKnows) {
  json p = GoodProposal();
  p["gate_override"] = true;
  EXPECT_NE(ErrorOf(Read("propose", p.dump())).find("gate_override"), std::string::npos);
}

TEST(ReadAction, RefusesEvidenceThatIsNoRun) {
  json p = GoodProposal();
  p["evidence"] = {"r999"};
  EXPECT_NE(ErrorOf(Read("propose", p.dump())).find("r999"), std::string::npos);
  p["evidence"] = json::array();
  EXPECT_NE(ErrorOf(Read("propose", p.dump())), "");
}

TEST(ReadAction, RefusesEmptyWordsAndPercentagesForFractions) {
  json p = GoodProposal();
  p["hypothesis"] = "  ";
  EXPECT_NE(ErrorOf(Read("propose", p.dump())), "");
  p = GoodProposal();
  p["expected_gain"] = {5, 20};
  EXPECT_NE(ErrorOf(Read("propose", p.dump())).find("fractions"), std::string::npos);
}

TEST(ReadAction, RefusesTwoKeysOfOneName) {
  std::string raw = GoodProposal().dump();
  raw.insert(1, "\"lever\":\"other\",");
  EXPECT_NE(ErrorOf(Read("propose", raw)).find("lever"), std::string::npos);
}

TEST(ReadAction, NamesTheToolsThereAre) {
  const std::string error = ErrorOf(Read("launch", "{}"));
  EXPECT_NE(error.find("propose, inspect, stop"), std::string::npos) << error;
}

TEST(ReadAction, TakesAStopWithAReasonForEachClass) {
  const AgentAction action = Read(
      "stop", R"({"reason":"converged","classes":[{"class":"launch_bound","tried":"recompute"}]})");
  const auto* wish = std::get_if<StopWish>(&action);
  ASSERT_NE(wish, nullptr) << ErrorOf(action);
  EXPECT_EQ(wish->per_class.front().second, "recompute");
  EXPECT_NE(ErrorOf(Read("stop", R"({"reason":"converged"})")), "");
  EXPECT_NE(ErrorOf(Read("stop", R"({"reason":"","classes":[]})")), "");
  EXPECT_NE(ErrorOf(Read("stop", R"({"reason":"x","classes":[{"class":"a"}]})")), "");
  EXPECT_NE(ErrorOf(Read("stop", R"({"reason":"x","classes":{}})")), "");
}

TEST(ReadAction, TakesQuestionsThatAreOffered) {
  const AgentAction action = Read("inspect", R"({"what":"run","of":"r001","changes":[]})");
  ASSERT_NE(std::get_if<Question>(&action), nullptr) << ErrorOf(action);
  EXPECT_NE(
      ErrorOf(Read("inspect", R"({"what":"shell","of":"ls","changes":[]})")).find("run, estimate"),
      std::string::npos);
  EXPECT_NE(ErrorOf(Read("inspect", R"({"what":"estimate","of":"","changes":[]})")), "");
  EXPECT_EQ(ErrorOf(Read("inspect", R"({"what":"estimate","of":"","changes":[)"
                                    R"({"op":"set","flag":"--x","value":1}]})")),
            "");
}

TEST(ReadAction, AVoteIsForAProposalThatThereIs) {
  ActionRules rules;
  rules.ballot = {"A", "B"};
  const auto read = [&](const std::string& text) {
    return ErrorOf(ReadAction(rules, State(), "vote", text));
  };
  EXPECT_EQ(read(R"({"criticism":[{"proposal":"A","text":"no"}],"vote":"B"})"), "");
  EXPECT_NE(read(R"({"criticism":[],"vote":"C"})"), "");
  EXPECT_NE(ErrorOf(ReadAction(rules, State(), "propose", GoodProposal().dump())), "");
}

TEST(ToolsOf, SchemasAreStrictJsonObjects) {
  ActionRules rules;
  rules.questions = {"run"};
  ActionRules vote;
  vote.ballot = {"A"};
  std::vector<llm::Tool> tools = ToolsOf(rules);
  tools.push_back(ToolsOf(vote).front());
  ASSERT_EQ(tools.size(), 4u);
  for (const llm::Tool& tool : tools) {
    const json schema = json::parse(tool.schema);
    EXPECT_EQ(schema.at("type"), "object") << tool.name;
    EXPECT_EQ(schema.at("additionalProperties"), false);
    // Strict output wants every property in `required`.
    EXPECT_EQ(schema.at("required").size(), schema.at("properties").size()) << tool.name;
  }
}

}  // namespace
}  // namespace attune
