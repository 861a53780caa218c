// The real program in a folder of its own, with an environment that says nothing of this machine.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "attune/os/process.h"

namespace attune::cli {

inline std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class Program : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cliXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    os::PosixProcessRunner runner;
    const std::vector<std::string> argv = {"rm", "-rf", "--", folder_};
    EXPECT_TRUE(runner.Run(std::span<const std::string>(argv), Millis{10'000}));
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }

  os::CommandResult Attune(std::vector<std::string> words, const os::Environment& more = {}) {
    os::Command command;
    command.argv = {ATTUNE_BINARY};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    command.workdir = folder_;
    command.env = os::Environment{{"PATH", "/usr/bin:/bin"},
                                  {"HOME", folder_},
                                  {"XDG_STATE_HOME", folder_ + "/state"},
                                  {"LC_ALL", "C.UTF-8"}};
    for (const auto& [key, value] : more) {
      (*command.env)[key] = value;
    }
    os::PosixProcessRunner runner;
    Result<os::CommandResult> result = runner.Run(command);
    if (!result) {
      ADD_FAILURE() << result.error().message;
      return {};
    }
    return std::move(*result);
  }

  std::string folder_;
};

inline constexpr const char* kGoodRecipe = R"(schema: attune/recipe/1
name: small
framework: custom
workload: {model: gpt, gpus: 2, gpu: cpu, seq_length: 128, global_batch: 8, precision: fp32,
           order: layout_free, loss_mask: full}
command: [/bin/true, "{{args}}"]
args: {micro-batch-size: 1, lr: 3e-4}
declare:
  - {lever: micro_batch, flag: --micro-batch-size, values: [1, 2, 4], class: batching}
log: {dialect: megatron-lm}
measure: {steps: 10, min_seconds: 5}
)";

}  // namespace attune::cli
