// attune_gate_bench: microseconds of the configuration gate a candidate, on the GLM-4.5 recipe, for
// admitted and refused changes alike. Prints figures; fails on none.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "attune/gates/config_check.h"
#include "gates/base_recipes.h"

namespace attune {
namespace {

Edit Set(const char* flag, std::vector<std::string> values = {}) {
  return {Edit::Op::kSet, flag, std::move(values)};
}

std::vector<std::pair<const char*, Change>> Changes() {
  return {
      {"micro-batch 2", {"microbatch", {Set("--micro-batch-size", {"2"})}, {}}},
      {"PP 16, EP 8, 4/4 layers",
       {"pipeline_layout",
        {Set("--pipeline-model-parallel-size", {"16"}), Set("--expert-model-parallel-size", {"8"}),
         Set("--decoder-first-pipeline-num-layers", {"4"}),
         Set("--decoder-last-pipeline-num-layers", {"4"})},
        {}}},
      {"full recomputation",
       {"recompute",
        {Set("--recompute-granularity", {"full"}),
         Set("--recompute-method", {"uniform"}),
         Set("--recompute-num-layers", {"1"}),
         {Edit::Op::kUnset, "--recompute-modules", {}}},
        {}}},
      {"cross-entropy fusion", {"fusion", {Set("--cross-entropy-loss-fusion")}, {}}},
      {"env", {"env_nccl", {{Edit::Op::kEnv, "NCCL_MIN_NCHANNELS", {"16"}}}, {}}},
      {"EP 1, ETP 8: a defect",
       {"experts",
        {Set("--expert-model-parallel-size", {"1"}), Set("--expert-tensor-parallel-size", {"8"})},
        {}}},
      {"learning rate: refused", {"microbatch", {Set("--lr", {"1e-4"})}, {}}},
  };
}

void Run() {
  const Recipe recipe = *BaseRecipe("glm45");
  const std::vector<PassedTest> tests = FusionTests();
  std::set<std::string> known;
  for (int i = 0; i < 30; ++i) known.insert(CanonicalHash({{}, {{"N", std::to_string(i)}}}));
  ConfigFacts facts;
  facts.passed_tests = tests;
  facts.known = &known;
  constexpr int kRounds = 200;
  double worst = 0;
  for (const auto& [name, change] : Changes()) {
    bool admitted = false;
    double best = 1e9;
    for (int repeat = 0; repeat < 60; ++repeat) {
      const std::clock_t start = std::clock();  // of this process: others' load is no part of it
      for (int i = 0; i < kRounds; ++i) {
        admitted = CheckConfig(recipe, recipe.base, change, BuiltInRules(), facts).admitted;
      }
      const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC * 1e6;
      best = std::min(best, took / kRounds);
    }
    worst = std::max(worst, best);
    std::printf("%-28s %-8s %6.1f us\n", name, admitted ? "admitted" : "refused", best);
  }
  std::printf("config gate: %.1f us a candidate at most (bar: 50 us)\n", worst);
}

}  // namespace
}  // namespace attune

int main() { attune::Run(); }
