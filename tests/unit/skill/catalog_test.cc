// The lever catalog: what the files may say, and that they say it of levers that exist.
#include <gtest/gtest.h>

#include <set>

#include "attune/gates/rules.h"
#include "attune/skill/skill.h"
#include "attune/traces/diagnose.h"

namespace attune {
namespace {

constexpr const char* kSmall = R"(schema: attune/lever/1
lever: recompute
title: What is computed again
helps: [recompute]
when: Memory is free.
costs: Memory.
moves:
  - name: "off"
    unset: [--recompute-granularity]
    needs: ["recompute != off"]
modelled: true
evidence:
  - {claim: a claim, source: a source}
)";

std::string Swap(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}
std::string ErrorOf(const std::string& text) {
  const Result<CatalogLever> r = ParseLever(text, "x.yaml");
  return r ? "read" : r.error().message;
}

TEST(ParseLever, ReadsAFile) {
  const Result<CatalogLever> r = ParseLever(kSmall, "x.yaml");
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->lever, "recompute");
  ASSERT_EQ(r->moves.size(), 1u);
  EXPECT_EQ(r->moves[0].name, "off");
  EXPECT_EQ(r->moves[0].edits,
            (std::vector<Edit>{{Edit::Op::kUnset, "--recompute-granularity", {}}}));
  EXPECT_EQ(r->moves[0].needs[0].Text(), "recompute != off");
}

TEST(ParseLever, ABareFlagIsSetByTrueAndAListKeepsItsOrder) {
  const Result<CatalogLever> r =
      ParseLever(Swap(kSmall, "    unset: [--recompute-granularity]",
                      "    set: {--a: true, --b: [x, y], --c: \"1\"}\n    env: {V: \"1\"}"),
                 "x.yaml");
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->moves[0].edits, (std::vector<Edit>{{Edit::Op::kSet, "--a", {}},
                                                  {Edit::Op::kSet, "--b", {"x", "y"}},
                                                  {Edit::Op::kSet, "--c", {"1"}},
                                                  {Edit::Op::kEnv, "V", {"1"}}}));
}

TEST(ParseLever, SaysWhereAMistakeIs) {
  EXPECT_EQ(ErrorOf(Swap(kSmall, "costs:", "cost:")), "x.yaml:6:1: no key 'cost' here");
  EXPECT_EQ(ErrorOf(Swap(kSmall, "costs: Memory.", "when: Twice.")),
            "x.yaml:6:1: 'when' stands twice");
  EXPECT_EQ(ErrorOf(Swap(kSmall, "attune/lever/1", "attune/lever/9")),
            "x.yaml:1:9: schema must be attune/lever/1");
  EXPECT_EQ(ErrorOf(Swap(kSmall, "recompute != off", "recompute > off")),
            "x.yaml:10:12: 'recompute > off': ' > off' does not go with recompute");
  EXPECT_EQ(ErrorOf(Swap(kSmall, "recompute != off", "colour = red")),
            "x.yaml:10:12: 'colour = red': no key 'colour'");
  EXPECT_EQ(ErrorOf(Swap(kSmall, "modelled: true\n", "")),
            "x.yaml:1:1: 'gain' is needed where the lever is not modelled");
  EXPECT_EQ(ErrorOf(Swap(kSmall, "unset: [--", "unset: [")),
            "x.yaml:9:12: 'recompute-granularity' names no flag");
  EXPECT_EQ(ErrorOf(std::string(kSmall) + "---\nsecond: document\n"),
            "x.yaml: one document is expected");
  EXPECT_TRUE(ErrorOf("lever: [").starts_with("x.yaml:"));
}

TEST(ParseLever, RefusesTextThatIsTooLong) {
  EXPECT_NE(ErrorOf(Swap(kSmall, "Memory is free.", std::string(700, 'x'))), "read");
  EXPECT_NE(ErrorOf(kSmall + std::string(100'000, '#')), "read");
}

TEST(JobCondition, ReadsNumbersWordsAndSets) {
  TrainingJob job;
  job.layout.ep = 8;
  job.switches.dispatcher = "flex";
  job.switches.recompute_modules = {"moe"};
  using Op = JobCondition::Op;
  EXPECT_TRUE((JobCondition{"ep", Op::kGt, "1"}.Holds(job)));
  EXPECT_FALSE((JobCondition{"ep", Op::kLe, "4"}.Holds(job)));
  EXPECT_TRUE((JobCondition{"dispatcher", Op::kEq, "flex"}.Holds(job)));
  EXPECT_TRUE((JobCondition{"recompute_modules", Op::kHas, "moe"}.Holds(job)));
  EXPECT_TRUE((JobCondition{"recompute_modules", Op::kLacks, "mlp"}.Holds(job)));
  EXPECT_TRUE((JobCondition{"cuda_graph", Op::kEq, "off"}.Holds(job)));
}

TEST(BuiltInCatalog, CitesOnlyLeversAndArgumentsOfTheGatesTable) {
  const Rules rules = BuiltInRules();
  for (const CatalogLever& lever : BuiltInCatalog().levers) {
    std::set<std::string_view> names;
    for (const LeverRow& row : rules.levers) {
      if (row.lever == lever.lever) names.insert(row.name);
    }
    EXPECT_FALSE(names.empty()) << lever.lever << " is no lever of the gates' table";
    for (const LeverMove& move : lever.moves) {
      for (const Edit& e : move.edits) {
        EXPECT_TRUE(names.contains(e.name)) << lever.lever << " " << move.name << " " << e.name;
      }
    }
  }
}

TEST(BuiltInCatalog, AnswersOnlyDiagnosisClassesThatExist) {
  std::set<std::string_view> classes = {"memory_tight", "memory_free", "step_time_spread", "stalls",
                                        "drift",        "startup",     "slow_first"};
  for (const DiagnosisThreshold& t : attune::Thresholds()) classes.insert(t.cls);
  for (const CatalogLever& lever : BuiltInCatalog().levers) {
    EXPECT_FALSE(lever.helps.empty()) << lever.lever;
    for (const std::string& cls : lever.helps) {
      EXPECT_TRUE(classes.contains(cls)) << lever.lever << ": " << cls;
    }
  }
}

TEST(BuiltInCatalog, NamesNoModelAndNoCampaignsAnswer) {
  for (const CatalogLever& lever : BuiltInCatalog().levers) {
    std::string text = lever.title + lever.when + lever.costs;
    for (const LeverEvidence& e : lever.evidence) text += e.claim;
    for (const char* name : {"GLM", "MiniMax", "Mixtral", "Llama", "Qwen", "Nemotron", "GPT-OSS"}) {
      EXPECT_EQ(text.find(name), std::string::npos) << lever.lever << " names " << name;
    }
  }
}

TEST(Catalog, FindsLeversByDiagnosis) {
  const std::vector<const CatalogLever*> levers = BuiltInCatalog().Answering("launch_bound");
  std::set<std::string> ids;
  for (const CatalogLever* lever : levers) ids.insert(lever->lever);
  EXPECT_TRUE(ids.contains("tensor_parallel"));
  EXPECT_TRUE(ids.contains("microbatch"));
  EXPECT_FALSE(ids.contains("data_loading"));
  EXPECT_TRUE(BuiltInCatalog().Answering("no such class").empty());
}

}  // namespace
}  // namespace attune
