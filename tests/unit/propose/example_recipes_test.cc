// The example recipes for Megatron-LM: whole, legal, and something the estimate can speak of.
#include <gtest/gtest.h>

#include <filesystem>

#include "attune/estimate/estimate.h"
#include "attune/gates/config_check.h"
#include "unit/propose/examples.h"

namespace attune {
namespace {

using testing::ExampleRecipe;

std::vector<std::string> MegatronExamples() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ATTUNE_SOURCE_DIR "/examples")) {
    const std::string name = entry.path().filename().string();
    // examples/gpt is a trainer of its own, with its own tests.
    if (name != "gpt" && std::filesystem::exists(entry.path() / "recipe.yaml"))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ExampleRecipes, AreThoseOfThePapersTables) {
  EXPECT_EQ(MegatronExamples(),
            (std::vector<std::string>{"glm-4.5-b200x128", "glm-4.7-flash-h200x8",
                                      "gpt-oss-20b-h100x8-mlm", "llama-3.1-405b-b200x128",
                                      "llama-3.1-70b-h100x64-mlm", "minimax-m2-b200x64",
                                      "mixtral-8x22b-h100x128", "nemotron-3-nano-h100x8-mlm",
                                      "nemotron-3-nano-h200x8", "qwen3-30b-a3b-h100x8-mlm"}));
}

TEST(ExampleRecipes, CheckCleanAndFitTheirGpu) {
  for (const std::string& name : MegatronExamples()) {
    const Recipe recipe = ExampleRecipe(name);
    EXPECT_EQ(recipe.name, name);
    for (const Finding& f : CheckBaseline(recipe, BuiltInRules(), {})) {
      EXPECT_NE(f.severity, Severity::kRefuse) << name << ": " << f.rule << ": " << f.why;
    }
    const auto job = ResolveMegatron(recipe.base.args, recipe.base.env, recipe.workload);
    ASSERT_TRUE(std::holds_alternative<TrainingJob>(job)) << name << std::get<Finding>(job).why;
    const std::optional<Estimate> e = Project(std::get<TrainingJob>(job));
    ASSERT_TRUE(e.has_value()) << name;
    EXPECT_LT(e->OutOfMemoryChance(), 0.5) << name << " at " << e->MemoryShare();
  }
}

}  // namespace
}  // namespace attune
