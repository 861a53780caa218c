// Proposals as a model would send them, through the strict reader and the configuration gate of a
// fresh campaign on the GLM-4.5 recipe. A row whose `proposal` is a string is the raw text of the
// reply; any other value is the parsed tool arguments, written out again as text.
#include <nlohmann/json.hpp>
#include <variant>

#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/propose/proposer.h"
#include "corpus.h"
#include "gates/base_recipes.h"

namespace attune::corpus {
namespace {

using nlohmann::json;

// "accept", or "refuse" with the reason code.
std::string Judge(const std::string& raw, const Recipe& recipe,
                  const std::vector<PassedTest>& tests) {
  const ProposerReply reply = ParseProposal(raw);
  if (const auto* bad = std::get_if<BadReply>(&reply)) return "refuse schema: " + bad->error;
  if (std::holds_alternative<StopWish>(reply)) return "refuse schema: a wish to stop";
  ConfigFacts facts;
  facts.passed_tests = tests;
  const GateVerdict verdict =
      CheckConfig(recipe, recipe.base, std::get<Proposal>(reply).change, BuiltInRules(), facts);
  const Finding* refusal = verdict.FirstRefusal();
  if (refusal == nullptr) return "accept";
  return "refuse " + refusal->rule + ": " + refusal->why;
}

}  // namespace

Result<std::vector<Row>> ReadProposals(const std::vector<std::string>& paths) {
  const Recipe recipe = *BaseRecipe("glm45");
  const std::vector<PassedTest> tests = FusionTests();
  std::vector<Row> rows;
  for (const std::string& path : paths) {
    ATTUNE_TRY(const std::string text, ReadFile(path));
    int number = 0;
    for (const std::string_view line : SplitLines(text)) {
      ++number;
      if (Trim(line).empty()) continue;
      const std::string at = path + ":" + std::to_string(number);
      const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!row.is_object() || !row.contains("proposal")) {
        return Fail(ErrorCode::kInvalidInput, at + ": no object with a proposal");
      }
      const json& proposal = row["proposal"];
      const std::string raw = proposal.is_string() ? proposal.get<std::string>() : proposal.dump();
      Row out;
      const json& id = row.contains("id") ? row["id"] : json(at);
      out.id = id.is_string() ? id.get<std::string>() : id.dump();  // it may be a number
      out.input = raw;
      out.answer = Judge(raw, recipe, tests);
      const std::string verdict = out.answer.substr(0, out.answer.find(' '));
      if (!row.contains("expected") || !row["expected"].is_string()) {
        out.why = "no expected verdict";
      } else {
        out.expected = row["expected"].get<std::string>();
        out.outcome = out.expected == verdict ? Outcome::kPassed : Outcome::kFailed;
      }
      rows.push_back(std::move(out));
    }
  }
  return rows;
}

}  // namespace attune::corpus
