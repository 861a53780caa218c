// The recipes of examples/gpt, as a user's first contact with the reader.
#include <algorithm>
#include <string>
#include <vector>

#include "attune/model/lever.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune {
namespace {

const std::string kGpt = std::string(ATTUNE_SOURCE_DIR) + "/examples/gpt/";
const std::string kHere = std::string(ATTUNE_SOURCE_DIR) + "/tests/real/torch/";

Recipe Load(const std::string& path) {
  const Result<LoadedRecipe> loaded = LoadRecipe(path);
  EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
  if (!loaded) return {};
  EXPECT_TRUE(loaded->warnings.empty()) << loaded->warnings.front().text;
  return loaded->recipe;
}

TEST(ExampleRecipes, AllLoadWithoutAWarning) {
  for (const std::string& path :
       {kGpt + "recipe.yaml", kGpt + "recipe-moe.yaml", kGpt + "recipe-tuned.yaml",
        kGpt + "recipe-slurm.yaml",
        kHere + "recipe-faults.yaml", kHere + "recipe-unproven.yaml"}) {
    const Recipe recipe = Load(path);
    EXPECT_EQ(recipe.framework, Framework::kCustom) << path;
    // Without these two a micro-batch or rank lever is refused.
    EXPECT_EQ(recipe.workload.order, "layout_free") << path;
    EXPECT_EQ(recipe.workload.loss_mask, "full") << path;
    EXPECT_FALSE(recipe.measure.start_from.empty()) << path;
  }
}

// A lever that offers its own starting value would otherwise be tried as a change to itself.
TEST(ExampleRecipes, EveryOfferedStartingValueIsWrittenOut) {
  for (const char* name : {"recipe.yaml", "recipe-moe.yaml", "recipe-tuned.yaml"}) {
    const Recipe recipe = Load(kGpt + name);
    for (const DeclaredLever& lever : recipe.declared) {
      const bool starts_unset = lever.id == "bucket_size" || lever.id == "recompute";
      const Edit::Op op = lever.flag.empty() ? Edit::Op::kEnv : Edit::Op::kSet;
      const std::string& what = lever.flag.empty() ? lever.env : lever.flag;
      const bool has_start =
          std::any_of(lever.values.begin(), lever.values.end(), [&](const std::string& value) {
            return Difference(recipe.base, ApplyEdits(recipe.base, {{op, what, {value}}})).empty();
          });
      EXPECT_EQ(has_start, !starts_unset) << name << ": " << lever.id;
    }
  }
}

TEST(ExampleRecipes, TunedIsTheDenseRecipeWithLeversChanged) {
  const Recipe dense = Load(kGpt + "recipe.yaml");
  const Recipe tuned = Load(kGpt + "recipe-tuned.yaml");
  std::vector<std::string> levers;
  for (const Edit& edit : Difference(dense.base, tuned.base)) {
    const auto lever =
        std::find_if(dense.declared.begin(), dense.declared.end(),
                     [&](const DeclaredLever& declared) { return declared.flag == edit.name; });
    ASSERT_NE(lever, dense.declared.end()) << edit.name << " is no lever";
    ASSERT_EQ(edit.values.size(), 1u);
    EXPECT_NE(std::find(lever->values.begin(), lever->values.end(), edit.values.front()),
              lever->values.end())
        << edit.name;
    levers.push_back(lever->id);
  }
  EXPECT_FALSE(levers.empty());
}

}  // namespace
}  // namespace attune
