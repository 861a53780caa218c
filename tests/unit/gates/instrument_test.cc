#include "attune/gates/instrument.h"

#include <algorithm>

#include "attune/base/random.h"
#include "attune/base/text.h"
#include "gates/base_recipes.h"

namespace attune {
namespace {

Effective With(const Recipe& recipe, const std::string& tokens) {
  Effective e = recipe.base;
  const Arguments more = ParseArguments(Tokens(tokens));
  for (const Argument& a : more.items()) e.args.Append(a);
  return e;
}

std::string Value(const Effective& e, std::string_view flag) {
  const Argument* a = e.args.Find(flag);
  if (a == nullptr) return "off";
  return a->values.empty() ? "on" : Join(a->values, " ");
}

TEST(Instrument, StripGivesTheUsersRecipeBackExactly) {
  const Recipe recipe = *BaseRecipe("glm45");
  const Effective user =
      With(recipe,
           "--save /x --save-interval 5 --exit-interval 2000 --eval-interval 10 "
           "--eval-iters 3 --wandb-project p --tensorboard-dir /tb --log-interval 10 "
           "--load /x --my-own a b --save /y --exit-duration-in-mins 10");
  const Instrumented m = Instrument(recipe, user,
                                    {.start_iteration = 100,
                                     .steps = 25,
                                     .profile = true,
                                     .profile_after = 25,
                                     .profile_steps = 2,
                                     .profile_ranks = {0, 1},
                                     .run_dir = "/run"},
                                    BuiltInRules());
  EXPECT_EQ(Value(m.effective, "--save"), "off");
  EXPECT_EQ(Value(m.effective, "--profile-ranks"), "0 1");
  EXPECT_EQ(Strip(m), user);
}

// Over random recipes: any subset of instrumented flags in any order, some repeated.
TEST(Instrument, StripUndoesAnySubsetInAnyOrder) {
  const Recipe recipe = *BaseRecipe("glm45");
  Random random(20261130);
  for (int round = 0; round < 300; ++round) {
    Effective user;
    for (int i = 0; i < 12; ++i) {
      const auto rows = BuiltInRules().instrument;
      const InstrumentRow& row =
          rows[static_cast<std::size_t>(random.Below(static_cast<std::uint64_t>(rows.size())))];
      if (!row.name.starts_with("--")) continue;
      user.args.Append({std::string(row.name), {std::to_string(i)}});
      if (random.Below(3) == 0) user.args.Append({"--other" + std::to_string(i), {}});
    }
    if (random.Below(2) == 0) user.env["WANDB_MODE"] = "online";
    if (random.Below(2) == 0) user.env["NCCL_DEBUG_FILE"] = "/x";
    const MeasuredWindow window{.start_iteration = static_cast<std::int64_t>(random.Below(3)) * 50,
                                .steps = 20,
                                .profile = random.Below(2) == 0,
                                .profile_after = 20,
                                .profile_steps = 2,
                                .profile_ranks = {0},
                                .run_dir = "/run"};
    EXPECT_EQ(Strip(Instrument(recipe, user, window, BuiltInRules())), user) << round;
  }
}

TEST(Instrument, TwiceIsOnce) {
  const Recipe recipe = *BaseRecipe("glm45");
  const MeasuredWindow window{.start_iteration = 0,
                              .steps = 25,
                              .profile = false,
                              .profile_after = 0,
                              .profile_steps = 2,
                              .profile_ranks = {0},
                              .run_dir = "/run"};
  const Effective once = Instrument(recipe, recipe.base, window, BuiltInRules()).effective;
  const Instrumented twice = Instrument(recipe, once, window, BuiltInRules());
  EXPECT_EQ(twice.effective, once);
  EXPECT_TRUE(twice.rows.empty());
}

// Measured against candidate: instrumenting commutes with the change.
TEST(Instrument, CommutesWithAChange) {
  const Recipe recipe = *BaseRecipe("glm45");
  const MeasuredWindow window{.start_iteration = 0,
                              .steps = 25,
                              .profile = false,
                              .profile_after = 0,
                              .profile_steps = 2,
                              .profile_ranks = {0},
                              .run_dir = "/run"};
  const std::vector<Edit> edits = {{Edit::Op::kSet, "--micro-batch-size", {"2"}},
                                   {Edit::Op::kUnset, "--overlap-param-gather", {}}};
  const Effective a =
      Instrument(recipe, ApplyEdits(recipe.base, edits), window, BuiltInRules()).effective;
  const Effective b =
      ApplyEdits(Instrument(recipe, recipe.base, window, BuiltInRules()).effective, edits);
  EXPECT_EQ(CanonicalHash(a), CanonicalHash(b));
}

TEST(Instrument, CustomRowsOfTheProfileOnlyWhereOneIsWanted) {
  Recipe recipe = *BaseRecipe("custom");
  recipe.measure.instrument_set = {{"--exit-interval", "{n}"}};
  recipe.profile.set = {{"--trace", "true"},
                        {"--from", "{p}"},
                        {"--to", "{q}"},
                        {"--ranks", "{ranks}"},
                        {"--dir", "{run}/t"}};
  const Effective user = With(recipe, "--dir /mine --from 3");
  MeasuredWindow window{.start_iteration = 40,
                        .steps = 35,
                        .profile = false,
                        .profile_after = 30,
                        .profile_steps = 3,
                        .profile_ranks = {0, 4},
                        .run_dir = "/run/r3"};
  EXPECT_EQ(Value(Instrument(recipe, user, window, BuiltInRules()).effective, "--dir"), "/mine");
  window.profile = true;
  const Instrumented m = Instrument(recipe, user, window, BuiltInRules());
  EXPECT_EQ(Value(m.effective, "--trace"), "on");
  EXPECT_EQ(Value(m.effective, "--from"), "32");
  EXPECT_EQ(Value(m.effective, "--to"), "75");  // three steps: 73, 74, 75
  EXPECT_EQ(Value(m.effective, "--ranks"), "0 4");
  EXPECT_EQ(Value(m.effective, "--dir"), "/run/r3/t");
  EXPECT_EQ(Value(m.effective, "--exit-interval"), "76");  // the one that shows they are written
  EXPECT_EQ(Strip(m), user);
  window.steps = 90;
  EXPECT_EQ(Value(Instrument(recipe, user, window, BuiltInRules()).effective, "--exit-interval"),
            "130");
}

TEST(Instrument, CustomRowsFillInTheLastIteration) {
  Recipe recipe = *BaseRecipe("custom");
  recipe.measure.instrument_set = {{"--exit-interval", "{n}"},
                                   {"--log-interval", "1"},
                                   {"--quiet", "true"},
                                   {"--out", "{run}/out"}};
  recipe.measure.instrument_remove = {"--save", "--save-interval"};
  const Effective user = With(recipe, "--save /x --save-interval 500 --exit-interval 2000");
  const Instrumented m = Instrument(recipe, user,
                                    {.start_iteration = 40,
                                     .steps = 35,
                                     .profile = false,
                                     .profile_after = 0,
                                     .profile_steps = 0,
                                     .profile_ranks = {},
                                     .run_dir = "/run/r3"},
                                    BuiltInRules());
  EXPECT_EQ(Value(m.effective, "--exit-interval"), "75");
  EXPECT_EQ(Value(m.effective, "--save"), "off");
  EXPECT_EQ(Value(m.effective, "--save-interval"), "off");
  EXPECT_EQ(Value(m.effective, "--quiet"), "on");
  EXPECT_EQ(Value(m.effective, "--out"), "/run/r3/out");
  // The table of another framework touches nothing.
  EXPECT_EQ(Value(m.effective, "--log-throughput"), "off");
  EXPECT_FALSE(m.effective.env.contains("WANDB_MODE"));
  EXPECT_EQ(Strip(m), user);
  const std::vector<std::string> names = InstrumentedNames(m);
  EXPECT_NE(std::find(names.begin(), names.end(), "--save"), names.end());
}

TEST(InstrumentCommand, RestartsNothing) {
  EXPECT_EQ(InstrumentCommand({"torchrun", "--max-restarts", "3", "x.py"}),
            (std::vector<std::string>{"torchrun", "--max-restarts", "0", "x.py"}));
  EXPECT_EQ(InstrumentCommand({"torchrun", "--max_restarts=3", "x.py"}),
            (std::vector<std::string>{"torchrun", "--max_restarts=0", "x.py"}));
  EXPECT_EQ(InstrumentCommand({"python3", "x.py"}), (std::vector<std::string>{"python3", "x.py"}));
}

TEST(CheckPaths, RelativePathsStartAtTheRecipe) {
  Recipe recipe = *BaseRecipe("custom");
  recipe.folder = "/home/u/recipe";
  recipe.workload.reads = {"work"};
  Effective e = With(recipe, "--corpus work/text.bin --tensorboard-dir ./tb");
  const std::vector<Finding> found = CheckPaths(recipe, e, "/run/r1", BuiltInRules());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rule, "paths.write");
  EXPECT_EQ(found[0].key, "--tensorboard-dir");
  e = With(recipe, "--corpus work/../other/text.bin");
  EXPECT_EQ(CheckPaths(recipe, e, "/run/r1", BuiltInRules()).at(0).rule, "paths.unknown");
  e = With(recipe, "--tensorboard-dir /run/r1/tb");
  EXPECT_TRUE(CheckPaths(recipe, e, "/run/r1", BuiltInRules()).empty());
  e = With(recipe, "--tensorboard-dir /run/r11/tb");
  EXPECT_FALSE(CheckPaths(recipe, e, "/run/r1", BuiltInRules()).empty());
  // A blend of data sets: weights are no paths.
  EXPECT_EQ(FindPaths(recipe, With(recipe, "--data-path 0.3 /a 0.7 /b"), BuiltInRules()).size(),
            2U);
}

// ----- rehearsal

RehearsalForms Rehearse(const Recipe& recipe, const Effective& user, std::int64_t start,
                        int steps = 20) {
  return RehearsalForm(recipe, user,
                       {.start_iteration = start, .steps = steps, .run_dir = "/run/r9"},
                       BuiltInRules());
}

TEST(RehearsalForm, ShortensIntervalsAndRedirectsTheSave) {
  const Recipe recipe = *BaseRecipe("glm45");
  const Effective user =
      With(recipe,
           "--save /user/ckpt --save-interval 500 --load /user/ckpt --eval-interval 200 "
           "--eval-iters 5 --tensorboard-dir /user/tb --log-throughput");
  const RehearsalForms f = Rehearse(recipe, user, 1000);
  EXPECT_FALSE(f.IsVoid());
  EXPECT_EQ(Value(f.first, "--save"), "/run/r9/rehearsal");
  EXPECT_EQ(Value(f.first, "--load"), "/user/ckpt");
  EXPECT_EQ(Value(f.first, "--ckpt-step"), "1000");
  EXPECT_EQ(Value(f.first, "--save-interval"), "1020");
  EXPECT_EQ(Value(f.first, "--eval-interval"), "1010");
  EXPECT_EQ(Value(f.first, "--eval-iters"), "5");
  EXPECT_EQ(Value(f.first, "--exit-interval"), "1020");
  EXPECT_EQ(Value(f.first, "--tensorboard-dir"), "/run/r9/rehearsal-tensorboard-dir");
  EXPECT_EQ(Value(f.first, "--log-throughput"), "on");
  EXPECT_EQ(f.last_iteration, 1020);
  EXPECT_EQ(f.first_steps, 20);
  ASSERT_TRUE(f.second.has_value());
  EXPECT_EQ(Value(*f.second, "--load"), "/run/r9/rehearsal");
  EXPECT_EQ(Value(*f.second, "--ckpt-step"), "off");
  EXPECT_EQ(Value(*f.second, "--log-interval"), "1");
  EXPECT_EQ(Value(*f.second, "--exit-interval"), "1022");
}

TEST(RehearsalForm, AnIntervalThatFallsInsideStaysTheUsers) {
  const Recipe recipe = *BaseRecipe("glm45");
  const Effective user =
      With(recipe, "--save /u --save-interval 7 --eval-interval 5 --eval-iters 5 --log-interval 4");
  const RehearsalForms f = Rehearse(recipe, user, 100);
  EXPECT_EQ(Value(f.first, "--save-interval"), "7");
  EXPECT_EQ(f.last_iteration, 119);  // the last multiple of 7 up to 120: it ends on a save
  EXPECT_EQ(Value(f.first, "--eval-interval"), "5");
  EXPECT_EQ(Value(f.first, "--log-interval"), "4");
  EXPECT_EQ(Value(f.first, "--ckpt-step"), "off");  // nothing is loaded
}

TEST(RehearsalForm, RestartForgetsWhatResetsTheCounter) {
  const Recipe recipe = *BaseRecipe("glm45");
  const Effective user =
      With(recipe, "--save /u --save-interval 100 --load /pre --finetune --no-load-optim");
  const RehearsalForms f = Rehearse(recipe, user, 0);
  EXPECT_EQ(Value(f.first, "--finetune"), "on");
  ASSERT_TRUE(f.second.has_value());
  EXPECT_EQ(Value(*f.second, "--finetune"), "off");
  EXPECT_EQ(Value(*f.second, "--no-load-optim"), "off");
}

TEST(RehearsalForm, NothingToSaveOrEvaluateIsVoid) {
  const Recipe recipe = *BaseRecipe("glm45");
  EXPECT_TRUE(Rehearse(recipe, recipe.base, 0).IsVoid());
  const RehearsalForms f = Rehearse(recipe, With(recipe, "--eval-interval 1000 --eval-iters 5"), 0);
  EXPECT_TRUE(f.evaluates);
  EXPECT_FALSE(f.second.has_value());
  EXPECT_TRUE(Rehearse(recipe, With(recipe, "--eval-interval 1000 --eval-iters 0"), 0).IsVoid());
}

TEST(RehearsalForm, ACustomTrainerGetsNoFlagItDoesNotShow) {
  Recipe recipe = *BaseRecipe("custom");
  const Effective user = With(recipe, "--save work/x --save-interval 500 --load work/x");
  const RehearsalForms f = Rehearse(recipe, user, 30, 10);
  EXPECT_EQ(Value(f.first, "--exit-interval"), "off");
  EXPECT_EQ(Value(f.first, "--log-interval"), "off");
  EXPECT_EQ(Value(f.first, "--ckpt-step"), "off");
  recipe.measure.instrument_set = {{"--exit-interval", "{n}"}, {"--log-interval", "1"}};
  const RehearsalForms g = Rehearse(recipe, user, 30, 10);
  EXPECT_EQ(Value(g.first, "--exit-interval"), "40");
  EXPECT_EQ(Value(*g.second, "--exit-interval"), "42");
}

}  // namespace
}  // namespace attune
