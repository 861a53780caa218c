// The stored form, the printed form, the overlay, the schema.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attune/base/text.h"
#include "attune/recipe_io/recipe_io.h"
#include "keys.h"

namespace attune {
namespace {

constexpr const char* kFull = R"(schema: attune/recipe/1
name: full
description: "line: with, marks"
tags: [a, "010"]
framework: custom
workload:
  {model: gpt, gpus: 16, gpus_per_node: 8, gpu: cpu, seq_length: 128, global_batch: 8,
   precision: fp32, order: layout_free, loss_mask: full, variable_rows: true,
   shape: {layers: 4, hidden: 256}, caches: [/tmp/cache], reads: [data]}
stack: {torch: 2.11.0, cuda: "12.9", core: "0.16"}
ranks: {kind: srun}
command: [/usr/bin/python3, train.py, "{{args}}", --last]
args: {micro-batch-size: 1, lr: 3e-4, fused: true, betas: [0.9, 0.95], data: "it's a \"b\"",
       shuffle: "false", neg: -1, -x: 2}
files: [train.py]
declare:
  - {lever: micro_batch, flag: --micro-batch-size, values: [1, 2], class: batching,
     excludes: [{flag: --fused}], needs: [{env: X, is: "on"}],
     derives: {world_size: "{v}"}, why: fewer kernels}
  - {lever: threads, env: OPENBLAS_NUM_THREADS, values: [1, 2], class: placement}
levers: {allow: [threads], deny: [micro_batch], why: {threads: "two cores"}}
log: {pattern: 'step (?P<step>\d+) loss (?P<loss>[\d.]+) ms (?P<ms>[\d.]+)'}
measure: {warmup_steps: 2, steps: 10, min_seconds: 5.5, calibration_runs: 3, cv_max: 0.1,
          half_drift_max: 0.05, band: {floor_pct: 4, sigma: 3.5}, start_from: ckpt,
          instrument: {set: {exit-interval: "{n}"}, remove: [save]}}
gate: {memory_headroom: 0.9, step0_loss_pct: 1, long_steps: 100,
       component_tests: [{lever: micro_batch, value: 2, command: [true_test, x], gpus: 2, time: 5m}],
       accept: [{lever: threads, why: measured}]}
profile: {ranks: [2, 1], steps: 3, max_mb: 50, off: true, set: {trace: "{run}/t"}}
launcher:
  kind: slurm
  sbatch: {partition: gpu, time: "01:00:00"}
  batch_template: job.sh
  container: {style: pyxis, image: pytorch.sqsh, mounts: ["/data:/data"]}
  login: cluster
  workdir: work
  run_root: /scratch/runs
  env: {OPENBLAS_NUM_THREADS: 1, Z: "no"}
  pass_env: [HF_HOME]
  limits: {startup: 8m, no_progress: 90s}
  poll: 15s
budget: {gpu_hours: 0.5, run_limit: 90s, wall: 2h, llm_usd: 3}
llm: {profile: site, model: big, limits: {usd: 2.5, tokens: 1000, calls: 10}, retries: 2, prompt_bytes: 5000}
price: {gpu_hour_usd: 6.88}
notify: {on: [end, fail]}
)";

Result<LoadedRecipe> Full(const LoadOptions& options = {}) {
  return LoadRecipeText(kFull, "/job/full.yaml", options);
}

TEST(CanonicalJson, ReadsBackToTheSameText) {
  const auto loaded = Full();
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto again = RecipeFromJson(loaded->canonical_json);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(RecipeToJson(*again), loaded->canonical_json);
  EXPECT_EQ(again->launcher.time, Millis{3'600'000});
  EXPECT_EQ(again->llm.usd, 2.5);
  EXPECT_EQ(again->base.args, loaded->recipe.base.args);
}

TEST(CanonicalJson, HoldsEveryFieldOfAFullRecipe) {
  // A field that is forgotten in the list of fields would read back as its default: so a recipe
  // whose every field differs from the default must have no default in its stored form.
  const auto full = Full();
  ASSERT_TRUE(full) << full.error().message;
  const auto stored = nlohmann::json::parse(full->canonical_json).flatten();
  const auto plain = nlohmann::json::parse(RecipeToJson(Recipe())).flatten();
  int same = 0;
  for (const auto& [key, value] : plain.items()) {
    if (stored.contains(key) && stored[key] == value) {
      ++same;
      // What kFull cannot say at once with the rest of it.
      EXPECT_TRUE(key == "/format" || key == "/framework" || key == "/workload/shape_row" ||
                  key == "/launcher/script" || key == "/launcher/script_trusted" ||
                  key == "/launcher/hosts" || key == "/launcher/env" ||
                  key == "/launcher/session_ms" || key == "/budget/auto" ||
                  key == "/notify_command")
          << key << " is the default";
    }
  }
  EXPECT_GT(same, 0);
}

// A new field of the model must be read, stored and shown. Whoever changes a size here adds it to
// keys.cc, its reader, canonical_json.cc, show.cc, kFull above and docs/formats/recipe.md.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
static_assert(sizeof(Workload) == 336 && sizeof(DeclaredLever) == 256 &&
              sizeof(MeasureSpec) == 192);
static_assert(sizeof(GateSpec) == 72 && sizeof(ProfileSpec) == 96 && sizeof(LauncherSpec) == 504);
static_assert(sizeof(BudgetSpec) == 72 && sizeof(LlmSpec) == 112 && sizeof(Recipe) == 1928);
#endif

TEST(CanonicalJson, RefusesWhatItDidNotWrite) {
  const std::string text = Full()->canonical_json;
  const auto code = [](const std::string& t) {
    const auto r = RecipeFromJson(t);
    return r ? ErrorCode::kInternal : r.error().code;
  };
  EXPECT_EQ(code(text.substr(0, text.size() - 1)), ErrorCode::kCorrupt);
  EXPECT_EQ(code(text + " "), ErrorCode::kCorrupt);
  EXPECT_EQ(code("[]"), ErrorCode::kCorrupt);
  EXPECT_EQ(code("{}"), ErrorCode::kCorrupt);
  std::string newer = text;
  newer.insert(1, "\"new_thing\":1,");
  EXPECT_EQ(code(newer), ErrorCode::kNewerFormat);
  std::string next = text;
  next.replace(next.find("recipe-json/1"), 13, "recipe-json/2");
  EXPECT_EQ(code(next), ErrorCode::kNewerFormat);
  std::string twice = text;
  twice.insert(1, "\"name\":\"x\",");
  EXPECT_EQ(code(twice), ErrorCode::kCorrupt);
  std::string word = text;
  word.replace(word.find("\"batching\""), 10, "\"nonsense\"");
  EXPECT_EQ(code(word), ErrorCode::kCorrupt);
}

TEST(CanonicalJson, AFieldThatAnOlderAttuneDidNotWriteHasItsDefault) {
  auto json = nlohmann::ordered_json::parse(Full()->canonical_json);
  json.erase("llm");
  const auto read = RecipeFromJson(json.dump());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->llm.retries, LlmSpec().retries);
}

TEST(RecipeHash, DependsOnTheJobAndNotOnItsPriceOrName) {
  const std::string base = Full()->hash;
  const auto with = [](const std::string& set) {
    LoadOptions options;
    options.set = {set};
    const auto loaded = Full(options);
    return loaded ? loaded->hash : loaded.error().message;
  };
  for (const char* free :
       {"name=other", "description=x", "budget.gpu_hours=9", "price.gpu_hour_usd=1",
        "notify.on=[end]", "llm.model=small", "launcher.poll=20s", "tags=[b]"}) {
    EXPECT_EQ(with(free), base) << free;
  }
  for (const char* decisive : {"args.lr=1e-4", "launcher.env.Z=1", "measure.steps=11",
                               "workload.gpus=8", "command=[a]", "gate.step0_loss_pct=1.5"}) {
    EXPECT_NE(with(decisive), base) << decisive;
  }
}

TEST(Allocation, OfASessionIsReadStoredShownAndNoPartOfTheJob) {
  LoadOptions options;  // what has no place beside it is taken out
  options.set = {"launcher.batch_template=", "launcher.login="};
  const auto per_run = Full(options);
  ASSERT_TRUE(per_run) << per_run.error().message;
  EXPECT_FALSE(per_run->recipe.launcher.session);
  options.set.emplace_back("launcher.allocation={held: {session: 4h}}");
  const auto held = Full(options);
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(held->recipe.launcher.session, Millis(std::chrono::hours(4)));
  EXPECT_EQ(held->hash, per_run->hash);
  const auto changes = CompareRecipes(per_run->recipe, held->recipe);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].free) << "resume takes it over";
  const auto stored = RecipeFromJson(held->canonical_json);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->launcher.session, held->recipe.launcher.session);
  const auto shown = LoadRecipeText(ShowRecipe(*held, false), "/job/full.yaml");
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_EQ(shown->recipe.launcher.session, held->recipe.launcher.session);
  options.set.back() = "launcher.allocation=per_run";
  const auto again = Full(options);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->recipe.launcher.session);
}

TEST(CompareRecipes, NamesWhatChangedAndWhetherResumeMayTakeItOver) {
  LoadOptions options;
  options.set = {"args.lr=1e-4", "budget.gpu_hours=9"};
  const auto changes = CompareRecipes(Full()->recipe, Full(options)->recipe);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].key, "base.args.--lr");
  EXPECT_EQ(changes[0].was, "3e-4");
  EXPECT_EQ(changes[0].now, "1e-4");
  EXPECT_FALSE(changes[0].free);
  EXPECT_EQ(changes[1].key, "budget.gpu_hours");
  EXPECT_TRUE(changes[1].free);
}

TEST(ShowRecipe, GivesARecipeThatReadsAsTheSame) {
  const auto loaded = Full();
  const std::string shown = ShowRecipe(*loaded, false);
  const auto again = LoadRecipeText(shown, "/job/full.yaml");
  ASSERT_TRUE(again) << again.error().message << "\n" << shown;
  EXPECT_EQ(again->canonical_json, loaded->canonical_json) << shown;
}

TEST(ShowRecipe, WithOriginsEachLineSaysWhereItComesFrom) {
  LoadOptions options;
  options.set = {"measure.steps=11"};
  const std::string shown = ShowRecipe(*Full(options), true);
  EXPECT_NE(shown.find("  steps: 11  # --set measure.steps\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("  lr: 3e-4  # /job/full.yaml:13:29\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("name: full  # /job/full.yaml:2:7\n"), std::string::npos) << shown;
  const auto again = LoadRecipeText(shown, "/job/full.yaml");
  EXPECT_TRUE(again) << again.error().message;
}

class Overlay : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "overlayXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    unlink((folder_ + "/recipe.yaml").c_str());
    unlink((folder_ + "/base.args").c_str());
    rmdir(folder_.c_str());
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string folder_;
};

TEST_F(Overlay, SaysOnlyWhatChanged) {
  OverlayRequest request;
  request.user_path = Write("recipe.yaml", kFull);
  request.out_path = folder_ + "/out/recipe.tuned.yaml";
  request.comments = {"gain +26.4%\nname: evil"};
  request.shipped = LoadRecipe(request.user_path)->recipe.base;
  request.shipped.args.Set("--micro-batch-size", {"2"});
  request.shipped.args.Unset("--fused");
  request.shipped.args.Set("--new", {"a", "yes"});
  request.shipped.env["Z"] = "1";
  request.shipped.env.erase("OPENBLAS_NUM_THREADS");
  const auto text = TunedOverlay(request);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text,
            "schema: attune/recipe/1\n"
            "# gain +26.4%\\x0aname: evil\n"
            "extends: ../recipe.yaml\n"
            "args:\n"
            "  fused: false\n"
            "  micro-batch-size: 2\n"
            "  new: [a, \"yes\"]\n"
            "launcher:\n"
            "  env:\n"
            "    OPENBLAS_NUM_THREADS:\n"
            "    Z: \"1\"\n");
  const auto again = LoadRecipeText(*text, request.out_path);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->recipe.folder, folder_);
  EXPECT_EQ(CanonicalHash(again->recipe.base), CanonicalHash(request.shipped));
}

TEST_F(Overlay, WorksOverAListAndOverAFileOfArguments) {
  for (const std::string& form : {std::string("args: [--micro-batch-size, 1, --fused, --lr, 3e-4]"),
                                  std::string("args_file: base.args")}) {
    Write("base.args", "--micro-batch-size 1 \\\n --fused --lr 3e-4\n");
    std::string user = kFull;
    const std::size_t begin = user.find("args: {");
    user.replace(begin, user.find("files:") - begin, form + "\n");
    OverlayRequest request;
    request.user_path = Write("recipe.yaml", user);
    request.out_path = folder_ + "/recipe.tuned.yaml";
    const auto loaded = LoadRecipe(request.user_path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    request.shipped = loaded->recipe.base;
    request.shipped.args.Set("--micro-batch-size", {"2"});
    request.shipped.args.Unset("--fused");
    const auto text = TunedOverlay(request);
    ASSERT_TRUE(text) << text.error().message;
    const auto again = LoadRecipeText(*text, request.out_path);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(Join(again->recipe.base.args.Render(), " "), "--micro-batch-size 2 --lr 3e-4");
  }
}

TEST_F(Overlay, NoChangeIsAnOverlayThatOnlyExtends) {
  OverlayRequest request;
  request.user_path = Write("recipe.yaml", kFull);
  request.out_path = folder_ + "/recipe.tuned.yaml";
  request.shipped = LoadRecipe(request.user_path)->recipe.base;
  const auto text = TunedOverlay(request);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "schema: attune/recipe/1\nextends: recipe.yaml\n");
}

TEST_F(Overlay, RefusesToWriteWhatWouldReadBackOtherwise) {
  OverlayRequest request;
  request.user_path = Write("recipe.yaml", kFull);
  request.out_path = folder_ + "/recipe.tuned.yaml";
  request.shipped = LoadRecipe(request.user_path)->recipe.base;
  request.shipped.args.Set("--lr", {"--oops"});
  EXPECT_FALSE(TunedOverlay(request));
}

TEST(RecipeJsonSchema, NamesEveryKeyThatTheReaderKnows) {
  const auto schema = nlohmann::json::parse(RecipeJsonSchema());
  for (const Key& key : RecipeKeys()) {
    ASSERT_TRUE(schema["properties"].contains(std::string(key.name))) << key.name;
    if (key.kind == KeyKind::kSection) {
      const auto& section = schema["properties"][std::string(key.name)];
      EXPECT_EQ(section["properties"].size(), key.keys.size()) << key.name;
      EXPECT_EQ(section["additionalProperties"], false) << key.name;
    }
  }
  EXPECT_EQ(schema["properties"].size(), RecipeKeys().size());
}

// Names as the page writes them: `key`, `section.key`, or within {...}.
bool Mentions(const std::string& page, std::string_view key) {
  for (const std::string& form :
       {fmt::format("`{}`", key), fmt::format("`{}:", key), fmt::format("{{{}", key),
        fmt::format(" {},", key), fmt::format(" {}:", key), fmt::format(" {}}}", key),
        fmt::format(".{}`", key), fmt::format("{{{}}}", key)}) {
    if (page.find(form) != std::string::npos) {
      return true;
    }
  }
  return false;
}

void ExpectAllMentioned(std::span<const Key> keys, const std::string& page) {
  for (const Key& key : keys) {
    EXPECT_TRUE(Mentions(page, key.name)) << key.name;
    ExpectAllMentioned(key.keys, page);
  }
}

TEST(RecipePage, NamesEveryKey) {
  std::ifstream in(ATTUNE_SOURCE_DIR "/docs/formats/recipe.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(page.empty());
  ExpectAllMentioned(RecipeKeys(), page);
}

TEST(RecipePage, ItsExampleIsARecipe) {
  std::ifstream in(ATTUNE_SOURCE_DIR "/docs/formats/recipe.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  const std::size_t begin = page.find("```yaml\n") + 8;
  const auto loaded =
      LoadRecipeText(page.substr(begin, page.find("```", begin) - begin), "/job/recipe.yaml");
  EXPECT_TRUE(loaded) << loaded.error().message;
}

// The recipes that come with attune.
TEST(Examples, AreRecipes) {
  for (const char* name : {"recipe.yaml", "recipe-moe.yaml", "recipe-tuned.yaml"}) {
    const auto loaded = LoadRecipe(std::string(ATTUNE_SOURCE_DIR "/examples/gpt/") + name);
    EXPECT_TRUE(loaded) << loaded.error().message;
    if (loaded) {
      EXPECT_EQ(loaded->recipe.folder, ATTUNE_SOURCE_DIR "/examples/gpt");
      EXPECT_GE(loaded->recipe.declared.size(), 5u);
    }
  }
}

}  // namespace
}  // namespace attune
