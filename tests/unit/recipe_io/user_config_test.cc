#include "attune/recipe_io/user_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

namespace attune {
namespace {

class UserConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "configXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    for (const std::string& file : files_) {
      unlink(file.c_str());
    }
    rmdir(folder_.c_str());
  }
  ConfigSource File(const std::string& name, const std::string& text, bool trusted) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << "schema: attune/config/1\n" << text;
    files_.push_back(path);
    return {path, trusted, true};
  }
  static GetEnv Variables(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const std::string& name) {
      const auto it = values.find(name);
      return it == values.end() ? std::nullopt : std::optional<std::string>(it->second);
    };
  }
  static std::string At(const UserConfig& config, const std::string& key) {
    for (const ConfigValue& value : config.origins) {
      if (value.key == key) {
        return value.at;
      }
    }
    return "";
  }
  std::string folder_;
  std::vector<std::string> files_;
};

TEST_F(UserConfigTest, StrongerSourcesWinAndEachValueSaysItsOwn) {
  const auto mine = File("mine.yaml", "color: never\nbudget: 5\nprice: {gpu_hour_usd: 2}\n", true);
  const auto site =
      File("site.yaml", "color: always\nprogress: plain\nallow_env: [HF_TOKEN]\n", true);
  const auto config = LoadUserConfig({mine, site}, Variables({{"ATTUNE_BUDGET", "auto"}}));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->color, "never");
  EXPECT_EQ(config->progress, "plain");
  EXPECT_EQ(config->budget, "auto");
  EXPECT_EQ(config->price_gpu_hour_usd, 2);
  EXPECT_EQ(config->allow_env, std::vector<std::string>{"HF_TOKEN"});
  EXPECT_EQ(At(*config, "color"), mine.path + ":2:8");
  EXPECT_EQ(At(*config, "progress"), site.path + ":3:11");
  EXPECT_EQ(At(*config, "budget"), "ATTUNE_BUDGET");
  EXPECT_EQ(At(*config, "on_interrupt"), "built-in");
}

TEST_F(UserConfigTest, ModelsMergeAndAKeySourceRemembersItsEndpoint) {
  const auto site = File("site.yaml",
                         "llm:\n  endpoint: https://site/v1\n  api_key_file: /k\n  model: a\n"
                         "  tries: 3\n  backoff: 20ms\n  price: {in: 2, out: 8}\n"
                         "  profiles: [{name: x, model: old}, {name: other, model: m}]\n",
                         true);
  const auto mine = File("mine.yaml",
                         "llm:\n  endpoint: https://mine/v1\n  fallback: [x, b]\n"
                         "  profiles: [{name: x, model: new, api: anthropic, api_key_env: K}]\n",
                         true);
  const auto config =
      LoadUserConfig({mine, site}, Variables({{"ATTUNE_LLM_MODEL", "from-variable"}}));
  ASSERT_TRUE(config) << config.error().message;
  const LlmConfig& llm = config->llm;
  EXPECT_EQ(llm.main.endpoint, "https://mine/v1");
  EXPECT_EQ(llm.main.model, "from-variable");
  EXPECT_EQ(llm.main.key_file, "/k");
  EXPECT_EQ(llm.main.key_endpoint, "https://site/v1");  // not where the stronger file points
  EXPECT_EQ(llm.main.price->cached, 2);
  EXPECT_EQ(llm.tries, 3);
  EXPECT_EQ(llm.backoff, Millis{20});
  EXPECT_EQ(llm.fallback, (std::vector<std::string>{"x", "b"}));
  ASSERT_EQ(llm.profiles.size(), 2u);
  EXPECT_EQ(llm.profiles[1].name, "x");
  EXPECT_EQ(llm.profiles[1].model, "new");
  EXPECT_EQ(llm.profiles[1].key_env, "K");
  EXPECT_EQ(At(*config, "llm.model"), "ATTUNE_LLM_MODEL");
}

TEST_F(UserConfigTest, AKeyInAFileIsRefusedAndNotShown) {
  for (const char* text : {"llm: {api_key: canary-0123456789}\n",
                           "llm: {headers: {authorization: canary-0123456789}}\n",
                           "llm: {endpoint: \"https://u:canary-0123456789@host/v1\"}\n"}) {
    const auto config = LoadUserConfig({File("mine.yaml", text, true)}, Variables({}));
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().message.find("canary"), std::string::npos) << config.error().message;
  }
}

TEST_F(UserConfigTest, AProjectsFileMayRunNothingAndLetNothingThrough) {
  for (const char* text :
       {"allow_env: [HF_TOKEN]\n", "notify: {command: [curl]}\n", "state_dir: /tmp/x\n",
        "log_file: /tmp/x\n", "llm: {endpoint: \"https://host/v1\"}\n"}) {
    EXPECT_FALSE(LoadUserConfig({File("attune.yaml", text, false)}, Variables({}))) << text;
    EXPECT_TRUE(LoadUserConfig({File("attune.yaml", text, true)}, Variables({}))) << text;
  }
  EXPECT_TRUE(LoadUserConfig({File("attune.yaml", "color: never\n", false)}, Variables({})));
}

TEST_F(UserConfigTest, MistakesAreNamedWithTheirPlace) {
  const auto colour = LoadUserConfig({File("c.yaml", "colour: never\n", true)}, Variables({}));
  ASSERT_FALSE(colour);
  EXPECT_EQ(colour.error().message, folder_ + "/c.yaml:2:1: unknown key 'colour' in the recipe");
  const auto key = LoadUserConfig({File("c.yaml", "notify: {token: abc}\n", true)}, Variables({}));
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().message.find("abc"), std::string::npos);
  EXPECT_FALSE(LoadUserConfig({File("c.yaml", "budget: much\n", true)}, Variables({})));
  EXPECT_FALSE(LoadUserConfig({}, Variables({{"ATTUNE_BUDGET", "-1"}})));
}

TEST_F(UserConfigTest, MissingFilesAreFineUnlessNamed) {
  EXPECT_TRUE(LoadUserConfig({{folder_ + "/none", true, false}}, Variables({})));
  EXPECT_FALSE(LoadUserConfig({{folder_ + "/none", true, true}}, Variables({})));
}

TEST(ConfigSources, AreProjectThenUserThenSite) {
  const auto sources = ConfigSources(
      [](const std::string& name) {
        return name == "XDG_CONFIG_HOME" ? std::optional<std::string>("/x") : std::nullopt;
      },
      "/job");
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].path, "/job/attune.yaml");
  EXPECT_FALSE(sources[0].trusted);
  EXPECT_EQ(sources[1].path, "/x/attune/config.yaml");
  EXPECT_TRUE(sources[1].trusted);
  EXPECT_EQ(sources[2].path, "/etc/xdg/attune/config.yaml");
}

}  // namespace
}  // namespace attune
