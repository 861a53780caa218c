#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "attune/recipe_io/recipe_io.h"

namespace attune {
namespace {

constexpr const char* kSmall = R"(schema: attune/recipe/1
name: small
framework: custom
workload: {model: gpt, gpus: 2, gpu: cpu, seq_length: 128, global_batch: 8, precision: fp32}
ranks: {kind: env}
command: [/usr/bin/python3, train.py, "{{args}}"]
args: {micro-batch-size: 1, lr: 3e-4, fused: true, betas: [0.9, 0.95], data: "a b"}
declare:
  - {lever: micro_batch, flag: --micro-batch-size, values: [1, 2], class: batching,
     excludes: [{flag: --fused}, {env: X, is: 1}], why: fewer kernels}
  - {lever: fused, flag: --fused, values: [true, false], class: kernel}
log: {dialect: megatron-lm}
launcher: {env: {OPENBLAS_NUM_THREADS: 1}, pass_env: [HF_HOME], limits: {startup: 8m}}
measure: {warmup_steps: 2, steps: 10, min_seconds: 5, instrument: {set: {exit-interval: "{n}"}}}
budget: {gpu_hours: 0.5, run_limit: 90s}
)";

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "recipeXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
      remove(file->c_str());
    }
    rmdir(folder_.c_str());
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    if (const std::size_t slash = name.rfind('/'); slash != std::string::npos) {
      const std::string below = folder_ + "/" + name.substr(0, slash);
      if (mkdir(below.c_str(), 0700) == 0) {
        files_.push_back(below);
      }
    }
    std::ofstream(path, std::ios::binary) << text;
    files_.push_back(path);
    return path;
  }

  std::string folder_;
  std::vector<std::string> files_;
};
using Load = Files;

std::vector<std::string> Tokens(const LoadedRecipe& loaded) {
  return loaded.recipe.base.args.Render();
}

std::string At(const LoadedRecipe& loaded, const std::string& key) {
  for (const Origin& origin : loaded.origins) {
    if (origin.key == key) {
      return origin.at;
    }
  }
  return "";
}

LoadedRecipe Must(Result<LoadedRecipe> loaded) {
  if (!loaded) {
    ADD_FAILURE() << loaded.error().message << " / " << loaded.error().help;
    return {};
  }
  return std::move(*loaded);
}

TEST_F(Load, FillsEveryField) {
  const LoadedRecipe loaded = Must(LoadRecipe(Write("recipe.yaml", kSmall)));
  const Recipe& r = loaded.recipe;
  EXPECT_EQ(r.name, "small");
  EXPECT_EQ(r.folder, folder_);
  EXPECT_EQ(r.framework, Framework::kCustom);
  EXPECT_EQ(r.workload.gpus, 2);
  EXPECT_EQ(r.workload.gpus_per_node, 2);
  EXPECT_EQ(r.workload.seq_length, 128);
  EXPECT_EQ(r.ranks, RanksKind::kEnv);
  EXPECT_EQ(Tokens(loaded),
            (std::vector<std::string>{"--micro-batch-size", "1", "--lr", "3e-4", "--fused",
                                      "--betas", "0.9", "0.95", "--data", "a b"}));
  EXPECT_EQ(r.base.env, (Env{{"OPENBLAS_NUM_THREADS", "1"}}));
  EXPECT_EQ(r.launcher.pass_env, std::vector<std::string>{"HF_HOME"});
  EXPECT_EQ(r.launcher.startup, Millis{480'000});
  ASSERT_EQ(r.declared.size(), 2u);
  EXPECT_EQ(r.declared[0].excludes[1].env, "X");
  EXPECT_EQ(r.declared[0].excludes[1].is, "1");
  EXPECT_EQ(r.declared[0].cls, LeverClass::kBatching);
  EXPECT_EQ(r.declared[1].values, (std::vector<std::string>{"true", "false"}));
  EXPECT_EQ(r.measure.min_seconds, Millis{5'000});
  EXPECT_EQ(r.measure.instrument_set.at("--exit-interval"), "{n}");
  EXPECT_EQ(r.measure.relaxed, (std::vector<std::string>{"warmup_steps", "steps", "min_seconds"}));
  EXPECT_EQ(r.budget.gpu_hours, 0.5);
  EXPECT_EQ(r.budget.run_limit, Millis{90'000});
  EXPECT_TRUE(loaded.warnings.empty());
}

TEST_F(Load, SaysWhereEachValueStands) {
  const std::string path = Write("recipe.yaml", kSmall);
  LoadOptions options;
  options.set = {"measure.steps=15"};
  const LoadedRecipe loaded = Must(LoadRecipe(path, options));
  EXPECT_EQ(At(loaded, "name"), path + ":2:7");
  EXPECT_EQ(At(loaded, "args.--lr"), path + ":7:29");
  EXPECT_EQ(At(loaded, "measure.steps"), "--set measure.steps");
  EXPECT_EQ(loaded.recipe.measure.steps, 15);
}

TEST_F(Load, NumbersInArgumentsKeepTheirSpelling) {
  LoadOptions options;
  options.set = {"args.lr=1e-4", "args.eps=1.50"};
  const LoadedRecipe loaded = Must(LoadRecipe(Write("recipe.yaml", kSmall), options));
  EXPECT_EQ(loaded.recipe.base.args.Value("--lr"), "1e-4");
  EXPECT_EQ(loaded.recipe.base.args.Value("--eps"), "1.50");
}

TEST_F(Load, FalseLeavesAFlagOutAndAQuotedFalseIsItsValue) {
  LoadOptions options;
  options.set = {"args.fused=false", "args.shuffle=\"false\""};
  const LoadedRecipe loaded = Must(LoadRecipe(Write("recipe.yaml", kSmall), options));
  EXPECT_FALSE(loaded.recipe.base.args.Has("--fused"));
  EXPECT_EQ(loaded.recipe.base.args.Value("--shuffle"), "false");
}

TEST_F(Load, ExtendsMergesMapsAndReplacesLists) {
  Write("base.yaml", kSmall);
  Write("more/site.yaml", "schema: attune/recipe/1\nprice: {gpu_hour_usd: 2}\ntags: [site]\n");
  const std::string path = Write("mine.yaml", R"(schema: attune/recipe/1
extends: [base.yaml, more/site.yaml]
name: mine
tags: [a]
args: {lr: 1e-4, data:}
launcher: {env: {OPENBLAS_NUM_THREADS:, Y: 2}}
)");
  const LoadedRecipe loaded = Must(LoadRecipe(path));
  EXPECT_EQ(loaded.recipe.name, "mine");
  EXPECT_EQ(loaded.recipe.tags, std::vector<std::string>{"a"});
  EXPECT_EQ(loaded.recipe.price_gpu_hour_usd, 2);
  EXPECT_EQ(loaded.recipe.base.args.Value("--lr"), "1e-4");
  EXPECT_FALSE(loaded.recipe.base.args.Has("--data"));
  EXPECT_EQ(loaded.recipe.base.env, (Env{{"Y", "2"}}));
  EXPECT_EQ(loaded.recipe.measure.steps, 10);
  EXPECT_EQ(loaded.sources,
            (std::vector<std::string>{path, folder_ + "/base.yaml", folder_ + "/more/site.yaml"}));
}

TEST_F(Load, ACommandStartsInTheFolderOfItsFile) {
  Write("job/base.yaml", std::string(kSmall) + "files: [train.py]\nargs_file: base.args\n");
  Write("job/base.args", "--seed 1\n");
  const std::string path = Write("top.yaml", R"(schema: attune/recipe/1
extends: job/base.yaml
files: [top.txt]
)");
  const LoadedRecipe loaded = Must(LoadRecipe(path));
  EXPECT_EQ(loaded.recipe.folder, folder_ + "/job");
  EXPECT_EQ(loaded.recipe.files, std::vector<std::string>{folder_ + "/top.txt"});
  EXPECT_EQ(loaded.recipe.base.args.Value("--seed"), "1");
  EXPECT_EQ(At(loaded, "args.--seed"), folder_ + "/job/base.args:1");
}

TEST_F(Load, AMapOverAListOfArgumentsEditsByFlag) {
  std::string list = kSmall;
  const std::size_t args = list.find("args: {");
  list.replace(args, list.find('\n', args) - args, "args: [--a, 1, --fused, --a, 2, pos, --lr, 3]");
  Write("base.yaml", list);
  const std::string path = Write("mine.yaml", R"(schema: attune/recipe/1
extends: base.yaml
args: {lr: 4, fused:, extra: true}
)");
  EXPECT_EQ(Tokens(Must(LoadRecipe(path))),
            (std::vector<std::string>{"--a", "1", "--a", "2", "pos", "--lr", "4", "--extra"}));
}

TEST_F(Load, TheEnvironmentIsReadInPathsAndVariablesOnly) {
  const std::string path =
      Write("recipe.yaml", std::string(kSmall) + "files: [\"${ENV:DATA}/x\"]\n");
  LoadOptions options;
  options.getenv = [](const std::string& name) {
    return name == "DATA" ? std::optional<std::string>("/data") : std::nullopt;
  };
  options.set = {"launcher.env.HOMES=\"${ENV:DATA}:${ENV:DATA}\""};
  const LoadedRecipe loaded = Must(LoadRecipe(path, options));
  EXPECT_EQ(loaded.recipe.files, std::vector<std::string>{"/data/x"});
  EXPECT_EQ(loaded.recipe.base.env.at("HOMES"), "/data:/data");
}

TEST_F(Load, TheUsersConfigMayLetASecretNameThrough) {
  const std::string path = Write("recipe.yaml", kSmall);
  LoadOptions options;
  options.set = {"launcher.pass_env=[HF_TOKEN]"};
  ASSERT_FALSE(LoadRecipe(path, options));
  options.allow_env = {"HF_TOKEN"};
  EXPECT_EQ(Must(LoadRecipe(path, options)).recipe.launcher.pass_env,
            std::vector<std::string>{"HF_TOKEN"});
}

TEST_F(Load, AScriptIsScannedForWordsThatTouchOtherJobs) {
  std::string text = kSmall;
  const std::size_t command = text.find("command:");
  text.erase(command, text.find('\n', command) - command + 1);
  const std::size_t launcher = text.find("launcher: {");
  text.insert(launcher + 11, "script: {file: run.sh}, ");
  text.erase(text.find("ranks:"), std::string("ranks: {kind: env}\n").size());
  Write("run.sh", "#!/bin/sh\n# sbatch\npkill x\nscontrol requeue 1\n/usr/bin/ssh n\nusshd\n");
  const LoadedRecipe loaded = Must(LoadRecipe(Write("recipe.yaml", text)));
  ASSERT_EQ(loaded.script_findings.size(), 3u);
  EXPECT_EQ(loaded.script_findings[0].at, "run.sh:3");
  EXPECT_EQ(loaded.script_findings[1].word, "scontrol requeue");
  EXPECT_EQ(loaded.script_findings[2].word, "ssh");
  EXPECT_EQ(loaded.recipe.launcher.script, "run.sh");
}

TEST_F(Load, SetFileTakesTheTextOfAFile) {
  const std::string note = Write("note.txt", "two\nlines: [\n");
  LoadOptions options;
  options.set_file = {"description=" + note};
  EXPECT_EQ(Must(LoadRecipe(Write("recipe.yaml", kSmall), options)).recipe.description,
            "two\nlines: [");
}

TEST_F(Load, EightFilesDeepIsAllowedAndNineIsNot) {
  for (int i = 0; i < 9; ++i) {
    std::string text = kSmall;
    if (i > 0) {
      text =
          fmt::format("schema: attune/recipe/1\nextends: f{}.yaml\ndescription: d{}\n", i - 1, i);
    }
    Write(fmt::format("f{}.yaml", i), text);
  }
  EXPECT_TRUE(LoadRecipe(folder_ + "/f7.yaml"));
  EXPECT_FALSE(LoadRecipe(folder_ + "/f8.yaml"));
}

TEST_F(Load, AFolderOrAPipeIsNoRecipe) {
  EXPECT_FALSE(LoadRecipe(folder_));
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  files_.push_back(pipe);
  EXPECT_FALSE(LoadRecipe(pipe));  // and does not wait for a writer
}

TEST_F(Load, AliasesCountAsWhatTheyExpandTo) {
  std::string bomb = "schema: attune/recipe/1\na: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const char before = static_cast<char>(c - 1);
    bomb += fmt::format("{0}: &{0} [*{1}, *{1}, *{1}, *{1}, *{1}, *{1}, *{1}, *{1}, *{1}]\n", c,
                        before);
  }
  const auto loaded = LoadRecipe(Write("bomb.yaml", bomb));
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("more than 20000 values"), std::string::npos);
}

TEST_F(Load, TheWholeTextIsBounded) {
  const auto loaded =
      LoadRecipe(Write("big.yaml", std::string(kSmall) + std::string(kMaxRecipeBytes, '#')));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace attune
