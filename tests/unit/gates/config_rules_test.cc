#include <algorithm>
#include <set>

#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "gates/base_recipes.h"

namespace attune {
namespace {

TEST(BuiltInRules, EveryLeverFlagBelongsToALever) {
  const Rules& rules = BuiltInRules();
  std::set<std::string_view> grouped;
  for (const LeverRow& row : rules.levers) grouped.insert(row.name);
  for (const FlagRow& row : rules.flags) {
    EXPECT_EQ(row.lever || row.derived, grouped.contains(row.flag)) << row.flag;
  }
  for (const EnvRow& row : rules.env) {
    if (!row.allow) continue;
    EXPECT_TRUE(grouped.contains(row.name)) << row.name;
  }
}

TEST(BuiltInRules, EveryLeverNameIsAKnownArgument) {
  for (const LeverRow& row : BuiltInRules().levers) {
    if (row.name.starts_with("--")) {
      EXPECT_NE(FindFlag(BuiltInRules(), row.name), nullptr) << row.name;
    } else {
      const EnvRow* env = FindEnv(BuiltInRules(), row.name);
      EXPECT_TRUE(env != nullptr && env->allow) << row.name;
    }
  }
}

TEST(BuiltInRules, ALeverStandsTogetherAndHasSomethingToLead) {
  std::set<std::string_view> done;
  std::string_view current;
  std::set<std::string_view> leads;
  for (const LeverRow& row : BuiltInRules().levers) {
    if (row.lever != current) {
      EXPECT_TRUE(done.insert(row.lever).second) << row.lever;
      current = row.lever;
    }
    if (row.role != LeverRole::kTied) leads.insert(row.lever);
  }
  EXPECT_EQ(leads, done);
}

TEST(BuiltInRules, NoForbiddenClassIsALever) {
  for (const FlagRow& row : BuiltInRules().flags) {
    if (!row.lever) continue;
    EXPECT_NE(row.cls, LeverClass::kObjective) << row.flag;
    EXPECT_NE(row.cls, LeverClass::kIoLogging) << row.flag;
    EXPECT_NE(row.cls, LeverClass::kUnsafe) << row.flag;
    EXPECT_NE(row.cls, LeverClass::kUnknown) << row.flag;
    EXPECT_NE(row.kind, ValueKind::kString) << row.flag;
    EXPECT_NE(row.kind, ValueKind::kPath) << row.flag;
    EXPECT_NE(row.kind, ValueKind::kAny) << row.flag;
  }
}

TEST(BuiltInRules, LookUpIsExact) {
  const Rules& rules = BuiltInRules();
  EXPECT_NE(FindFlag(rules, "--lr"), nullptr);
  EXPECT_EQ(FindFlag(rules, "--l"), nullptr);
  EXPECT_EQ(FindFlag(rules, "--LR"), nullptr);
  EXPECT_EQ(FindFlag(rules, ""), nullptr);
  for (const FlagRow& row : rules.flags) EXPECT_EQ(FindFlag(rules, row.flag), &row) << row.flag;
  EXPECT_TRUE(FindEnv(rules, "NVTE_FWD_LAYERNORM_SM_MARGIN")->allow);  // before the NVTE_* refusal
  EXPECT_FALSE(FindEnv(rules, "NVTE_FUSED_ATTN")->allow);
  EXPECT_FALSE(FindEnv(rules, "LD_PRELOAD")->allow);
  EXPECT_EQ(FindEnv(rules, "ANYTHING_ELSE"), nullptr);
}

TEST(LeverIds, CoverTheCorpusAndTheDeclared) {
  const std::vector<std::string> ids = LeverIds(*BaseRecipe("glm45"), BuiltInRules());
  for (const char* id :
       {"recompute", "microbatch", "pipeline_layout", "dispatcher", "dp_overlap",
        "virtual_pipeline", "env_nccl", "env_alloc", "tensor_parallel", "fusion", "experts"}) {
    EXPECT_NE(std::find(ids.begin(), ids.end(), id), ids.end()) << id;
  }
  EXPECT_EQ(LeverIds(*BaseRecipe("custom"), BuiltInRules()).front(), "micro_batch");
  EXPECT_EQ(ClassOfLever(*BaseRecipe("glm45"), BuiltInRules(), "microbatch"),
            LeverClass::kBatching);
  EXPECT_EQ(ClassOfLever(*BaseRecipe("custom"), BuiltInRules(), "attention"), LeverClass::kKernel);
  EXPECT_EQ(ClassOfLever(*BaseRecipe("custom"), BuiltInRules(), "tensor_parallel"),
            LeverClass::kUnknown);
}

TEST(CheckDifference, EveryDifferenceIsAnEditAndEveryEditArrived) {
  const Effective base = BaseRecipe("glm45")->base;
  const std::vector<Edit> edits = {{Edit::Op::kSet, "--micro-batch-size", {"2"}}};
  EXPECT_TRUE(CheckDifference(base, ApplyEdits(base, edits), edits).admitted);
  EXPECT_FALSE(CheckDifference(base, base, edits).admitted);
  Effective more = ApplyEdits(base, edits);
  more.args.Set("--lr", {"1e-3"});
  EXPECT_EQ(CheckDifference(base, more, edits).FirstRefusal()->rule, "difference.--lr");
  more = ApplyEdits(base, edits);
  more.env["LD_PRELOAD"] = "/x";
  EXPECT_EQ(CheckDifference(base, more, edits).FirstRefusal()->rule, "difference.LD_PRELOAD");
  // A repeat of the same flag with the same value is a difference too.
  more = ApplyEdits(base, edits);
  more.args.Append({"--micro-batch-size", {"2"}});
  EXPECT_FALSE(CheckDifference(base, more, edits).admitted);
}

TEST(RoundTrips, SeesWhatParsesBackDifferently) {
  Effective e;
  e.args.Append({"--scale", {"-1.5"}});
  EXPECT_TRUE(RoundTrips(e));
  e.args.Append({"--name", {"--looks-like-a-flag"}});
  EXPECT_FALSE(RoundTrips(e));
}

// Whatever the proposer writes, an admitted candidate differs from the baseline in levers only.
TEST(CheckConfig, AdmittedCandidatesDifferInLeversOnly) {
  const Recipe recipe = *BaseRecipe("glm45");
  const Rules& rules = BuiltInRules();
  int admitted = 0;
  for (const LeverRow& lever : rules.levers) {
    for (const FlagRow& flag : rules.flags) {
      // Each lever with each flag in turn, one foreign in most pairs.
      if ((flag.flag.size() + lever.name.size()) % 41 != 0) continue;
      std::vector<std::string> values;
      if (flag.kind != ValueKind::kBool) {
        values.emplace_back(flag.choices.empty() ? "2"
                                                 : flag.choices.substr(0, flag.choices.find('|')));
      }
      const Change change{.lever = std::string(lever.lever),
                          .edits = {{Edit::Op::kSet, std::string(flag.flag), values}},
                          .enablers = {}};
      if (!CheckConfig(recipe, recipe.base, change, rules, {}).admitted) continue;
      ++admitted;
      for (const Edit& d : Difference(recipe.base, ApplyEdits(recipe.base, change.edits))) {
        const FlagRow* row = FindFlag(rules, d.name);
        ASSERT_TRUE(row != nullptr && row->lever) << d.name;
      }
    }
  }
  EXPECT_GT(admitted, 0);
}

}  // namespace
}  // namespace attune
