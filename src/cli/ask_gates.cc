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

Result<std::vector<Finding>> AskGates(const LoadedRecipe& loaded) {
  std::vector<Finding> findings = CheckBaseline(loaded.recipe, BuiltInRules(), ConfigFacts{});
  const MeasuredWindow window{.steps = 1, .run_dir = "RUN_FOLDER"};
  const Effective measured =
      Instrument(loaded.recipe, loaded.recipe.base, window, BuiltInRules()).effective;
  for (Finding& finding : CheckPaths(loaded.recipe, measured, window.run_dir, BuiltInRules())) {
    findings.push_back(std::move(finding));
  }
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
