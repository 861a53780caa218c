// What simulated jobs print is read as from a real job: by the readers of logs and traces.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "attune/logs/log_parser.h"
#include "attune/traces/trace_reader.h"
#include "job_script.h"
#include "log_text.h"
#include "setup.h"
#include "trace_text.h"
#include "unit/sim/sim_recipes.h"

namespace attune::sim {
namespace {

std::string ClassOf(const std::string& last_words) {
  LogSpec spec;
  spec.dialect = "megatron-lm";
  const auto parser = MakeLogParser(spec).value();
  parser->Feed("training ...\n" + last_words, 1);
  parser->Finish();
  const LogNews news = parser->Take();
  return news.failure ? news.failure->cls : "";
}

TEST(LastWords, AreReadAsTheirClass) {
  EXPECT_EQ(ClassOf(OutOfMemory(3, 2e9, 80e9, 79e9)), "oom_gpu");
  EXPECT_EQ(ClassOf(Refused("heads do not divide")), "config_rejected");
  EXPECT_EQ(ClassOf(DeepEpFailed(0)), "init_failure");
  EXPECT_EQ(ClassOf(Watchdog(1, 10)), "hang");
  EXPECT_EQ(ClassOf(NanFound(2)), "nan");
  EXPECT_EQ(ClassOf(Segfault("node1")), "crash_signal");
  EXPECT_EQ(ClassOf(PreemptedLine("12", "node1", kSimStart)), "preempted");
  EXPECT_EQ(ClassOf(NodeFailedLine("node1")), "node_fail");
}

struct Made {
  Site site;
  TrainingJob job;
  Truth truth;
};
Made Make(const ClusterSetup& setup, const std::vector<std::string>& extra = {}) {
  Made m{PrepareSite(setup).value(), {}, {}};
  Arguments args = setup.recipe.base.args;
  const Arguments more = ParseArguments(extra);
  for (const Argument& a : more.items()) args.Set(a.flag, a.values);
  m.job = std::get<TrainingJob>(ResolveMegatron(args, {}, setup.recipe.workload));
  TruthOf(m.site, m.job, m.truth);
  return m;
}

TEST(TermsOfAJob, AddUpToItsStep) {
  const ClusterSetup setup = SetupFor(ExpertRecipe(), "default:2");
  const Made m = Make(setup);
  double sum = 0;
  for (const double t : m.truth.terms) sum += t;
  EXPECT_NEAR(sum, m.truth.step, 1e-9 * m.truth.step);
  const Shares s = SharesOf(m.truth.terms);
  EXPECT_NEAR(s.compute + s.exposed + s.memory_copies + s.idle, 1, 1e-9);
}

TEST(TraceOfAStep, ShowsTheSharesOfItsTermsWithinTwoPoints) {
  const std::vector<std::vector<std::string>> jobs = {
      {},
      {"--tensor-model-parallel-size", "4", "--pipeline-model-parallel-size", "4"},
      {"--pipeline-model-parallel-size", "1"},
      {"--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers",
       "1"}};
  for (const char* world : {"default:2", "cloud:1", "no-launch:3"}) {
    const ClusterSetup setup = SetupFor(ExpertRecipe(), world);
    for (const auto& extra : jobs) {
      const Made m = Make(setup, extra);
      const std::string path = testing::TempDir() + "/step.pt.trace.json";
      std::ofstream(path) << KinetoTrace(m.job, m.truth, {12, m.truth.step, kSimStart, 0});
      const Result<RankTrace> trace = ReadTraceFile(path);
      ASSERT_TRUE(trace.has_value()) << trace.error().message;
      EXPECT_TRUE(trace->whole);
      EXPECT_LE(trace->events, kMostTraceEvents);
      EXPECT_EQ(trace->whole_file.same_stream_overlaps, 0);
      ASSERT_EQ(trace->steps.size(), 1U);
      EXPECT_EQ(trace->steps[0].name, "ProfilerStep#12");
      const Breakdown& t = trace->analysed;
      const auto span = static_cast<double>(t.span);
      EXPECT_NEAR(span / 1e9, m.truth.step, 0.02 * m.truth.step);
      const Shares s = SharesOf(m.truth.terms);
      EXPECT_NEAR(static_cast<double>(t.compute) / span, s.compute, 0.02) << world;
      EXPECT_NEAR(static_cast<double>(t.exposed) / span, s.exposed, 0.02) << world;
      EXPECT_NEAR(static_cast<double>(t.idle()) / span, s.idle, 0.02) << world;
    }
  }
}

TEST(Losses, MoveLittleByPlacementAndMoreByRouting) {
  const ClusterSetup dense = SetupFor(DenseRecipe(), "default:1");
  const auto shift = [](const ClusterSetup& setup, std::vector<std::string> extra) {
    const auto cluster = MakeCluster(setup).value();
    Effective e = setup.recipe.base;
    const Arguments more = ParseArguments(extra);
    for (const Argument& a : more.items()) e.args.Set(a.flag, a.values);
    return std::abs(cluster->FirstLoss(e) / cluster->FirstLoss(setup.recipe.base) - 1);
  };
  EXPECT_LT(shift(dense, {"--pipeline-model-parallel-size", "4"}), 0.003);
  EXPECT_GT(shift(dense, {"--pipeline-model-parallel-size", "4"}), 0);
  const ClusterSetup experts = SetupFor(ExpertRecipe(), "default:1");
  for (const char* tp : {"1", "4"}) {
    EXPECT_LT(shift(experts, {"--tensor-model-parallel-size", tp}), 0.0225);
  }
  EXPECT_GT(shift(experts, {"--moe-expert-capacity-factor", "1.0"}), 0.05);
}

}  // namespace
}  // namespace attune::sim
