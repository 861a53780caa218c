#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "attune/recipe_io/recipe_io.h"

namespace attune::testing {

inline Recipe ExampleRecipe(const std::string& name) {
  const Result<LoadedRecipe> loaded =
      LoadRecipe(fmt::format("{}/examples/{}/recipe.yaml", ATTUNE_SOURCE_DIR, name));
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : loaded.error().message);
  return loaded ? loaded->recipe : Recipe{};
}

}  // namespace attune::testing
