#include "ask_gates.h"

#include <fmt/core.h>

#include <utility>

#include "attune/gates/config_check.h"
#include "attune/gates/instrument.h"
#include "attune/gates/rules.h"

namespace attune::cli {

std::string PlaceOf(const LoadedRecipe& loaded, std::string_view key) {
  for (const Origin& origin : loaded.origins) {
    if (origin.key == key) {
      return origin.at;
    }
  }
  return loaded.path;
}

namespace {

// Read, so that recipes keep their keys; acting on them is another version's.
Status RefuseUnbuilt(const LoadedRecipe& loaded) {
  if (loaded.recipe.gate.long_steps) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: gate.long_steps: this version has no long comparison",
                            PlaceOf(loaded, "gate.long_steps")),
                "remove it: the final runs are compared over every step they have");
  }
  return {};
}

}  // namespace

std::vector<Finding> GateFindings(const Recipe& recipe) {
  std::vector<Finding> findings = CheckBaseline(recipe, BuiltInRules(), ConfigFacts{});
  const MeasuredWindow window{.steps = 1, .profile = IsProfiled(recipe), .run_dir = "RUN_FOLDER"};
  const Effective measured = Instrument(recipe, recipe.base, window, BuiltInRules()).effective;
  for (Finding& finding : CheckPaths(recipe, measured, window.run_dir, BuiltInRules())) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

Result<std::vector<Finding>> AskGates(const LoadedRecipe& loaded) {
  ATTUNE_RETURN_IF_ERROR(RefuseUnbuilt(loaded));
  std::vector<Finding> findings = GateFindings(loaded.recipe);
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::kRefuse) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{}: {}: {}", PlaceOf(loaded, "args." + finding.key), finding.rule,
                              finding.why),
                  fmt::format("attune gate explain {}", finding.rule));
    }
  }
  return findings;
}

}  // namespace attune::cli
