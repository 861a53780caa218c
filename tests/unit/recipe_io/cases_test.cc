// tests/cases/recipes: a bad recipe each, and the message that a person gets for it. NAME.yaml is
// read (with the --set options of NAME.set, one a line), NAME.expected holds message and help.
// A new case needs no C++: write NAME.yaml, run with ATTUNE_WRITE_EXPECTED=1, read what was
// written.
#include <dirent.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"

namespace attune {
namespace {

std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> CaseNames(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  EXPECT_NE(dir, nullptr) << folder;
  while (dir != nullptr) {
    const dirent* entry = readdir(dir);
    if (entry == nullptr) {
      break;
    }
    const std::string name = entry->d_name;
    if (name.ends_with(".yaml")) {
      names.push_back(name.substr(0, name.size() - 5));
    }
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

LoadOptions CaseOptions(const std::string& name) {
  LoadOptions options;
  options.known_flags = {"--seq-length", "--lr", "--tensor-model-parallel-size",
                         "--micro-batch-size", "--sequence-parallel"};
  options.lever_ids = {"context_parallel", "tensor_parallel"};
  options.getenv = [](const std::string&) { return std::nullopt; };
  const std::string sets = Slurp(name + ".set");
  for (const std::string_view line : SplitLines(sets)) {
    options.set.emplace_back(line);
  }
  return options;
}

TEST(BadRecipes, GetTheirOneLineMessage) {
  const std::string folder = ATTUNE_SOURCE_DIR "/tests/cases/recipes";
  ASSERT_EQ(chdir(folder.c_str()), 0);  // so that messages name files as a person would
  const std::vector<std::string> names = CaseNames(".");
  ASSERT_GE(names.size(), 30u);
  for (const std::string& name : names) {
    const Result<LoadedRecipe> loaded = LoadRecipe(name + ".yaml", CaseOptions(name));
    ASSERT_FALSE(loaded) << name << " was read without complaint";
    const Error& error = loaded.error();
    std::string seen = fmt::format("error: {}\n", error.message);
    if (!error.help.empty()) {
      seen += fmt::format("  help: {}\n", error.help);
    }
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << name;
    EXPECT_EQ(error.help.find('\n'), std::string::npos) << name;
    EXPECT_TRUE(error.code == ErrorCode::kInvalidInput || error.code == ErrorCode::kNotFound ||
                error.code == ErrorCode::kNewerFormat)
        << name;
    if (std::getenv("ATTUNE_WRITE_EXPECTED") != nullptr) {
      std::ofstream(name + ".expected", std::ios::binary) << seen;
    }
    EXPECT_EQ(seen, Slurp(name + ".expected")) << name;
  }
}

}  // namespace
}  // namespace attune
