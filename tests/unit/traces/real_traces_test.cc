// What real traces say, when they are there ($ATTUNE_CORPORA): the names that a person would give.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "attune/traces/diagnose.h"
#include "attune/traces/trace_reader.h"

namespace attune {
namespace {

class RealTraces : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* corpora = std::getenv("ATTUNE_CORPORA");
    if (corpora == nullptr) GTEST_SKIP() << "ATTUNE_CORPORA is not set";
    folder_ = std::string(corpora) + "/traces/";
  }

  TraceSet Read(const std::vector<std::string>& names) const {
    std::vector<std::string> paths;
    for (const std::string& n : names) paths.push_back(folder_ + n);
    auto set = ReadTraces(paths);
    EXPECT_TRUE(set.has_value()) << (set ? "" : set.error().message);
    return set ? std::move(*set) : TraceSet{};
  }

  static Bottleneck Row(const TraceSet& set, std::string_view cls) {
    for (const Bottleneck& b : DiagnoseTraces(set).bottlenecks) {
      if (b.cls == cls) return b;
    }
    ADD_FAILURE() << "no row " << cls;
    return {};
  }

  std::string folder_;
};

TEST_F(RealTraces, TheDlrmSetNamesRankSevenAsTheOneWaitedFor) {
  std::vector<std::string> names;
  for (int r = 0; r < 8; ++r) names.push_back("param_dlrm8_rank" + std::to_string(r) + ".json.gz");
  const TraceSet set = Read(names);
  ASSERT_EQ(set.across.collectives.size(), 8u);
  const MatchedCollective& first = set.across.collectives.front();
  EXPECT_EQ(first.ranks, 8);
  EXPECT_EQ(first.last_rank, 7);
  EXPECT_EQ(first.transfer, 10'000);
  EXPECT_EQ(first.longest_rank, 1);
  EXPECT_EQ(first.longest, 7'635'000);
  EXPECT_LE(first.end_spread, 7'000);  // clocks of one machine: a check of the matching
  EXPECT_EQ(set.across.lateness.front().rank, 7);
  // In the later ones ranks 4 and 5 come last.
  EXPECT_TRUE(set.across.collectives.back().last_rank == 4 ||
              set.across.collectives.back().last_rank == 5);
  EXPECT_TRUE(Row(set, "straggler").named);
  EXPECT_NE(Row(set, "straggler").evidence.find("rank 7 is last"), std::string::npos);
  EXPECT_TRUE(Row(set, "late_peer").named);
}

TEST_F(RealTraces, TheDataLoaderStallAndItsCure) {
  const TraceSet stalled = Read({"kineto_resnet50_workers0.json.gz"});
  const Bottleneck row = Row(stalled, "data_loader");
  EXPECT_TRUE(row.named);
  EXPECT_NEAR(row.share, 0.40, 0.01);
  EXPECT_FALSE(Row(stalled, "launch_bound").named);
  EXPECT_EQ(DiagnoseTraces(stalled).bottlenecks.front().cls, "data_loader");
  // Over all six steps: 415.8 of 1049.0 ms.
  std::int64_t loader = 0, host = 0;
  for (const StepFigures& s : stalled.ranks[0].steps) {
    loader += s.data_loader;
    host += s.host;
  }
  EXPECT_NEAR(static_cast<double>(loader) / static_cast<double>(host), 0.396, 0.001);

  const TraceSet cured = Read({"kineto_resnet50_workers4.json.gz"});
  EXPECT_FALSE(Row(cured, "data_loader").named);
}

TEST_F(RealTraces, ExposedCommunicationIsNamed) {
  const TraceSet set = Read({"hta_ads128_rank0.json.gz", "hta_ads128_rank1.json.gz"});
  const Bottleneck row = Row(set, "exposed_communication");
  EXPECT_TRUE(row.named);
  EXPECT_NEAR(row.share, 0.275, 0.001);
  EXPECT_NE(row.evidence.find("bottleneck"), std::string::npos);
  EXPECT_TRUE(Row(set, "low_overlap").named);
}

TEST_F(RealTraces, MultimemKernelsAreCommunication) {
  const TraceSet set = Read({"tl_b200_eager.json.gz"});
  bool found = false;
  for (const KernelRow& k : set.ranks[0].top) {
    if (k.name.find("multimem") == std::string::npos) continue;
    found = true;
    EXPECT_EQ(k.cls, "communication");
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(set.ranks[0].whole_file.time.comm, 2'141'501);
}

TEST_F(RealTraces, LaunchBoundJobs) {
  const TraceSet ddp = Read({"hta_ddp_2rank_rank1.json.gz"});
  EXPECT_TRUE(Row(ddp, "launch_bound").named);
  EXPECT_TRUE(Row(ddp, "small_kernels").named);
  // Of the compute stream's idle time 80 % is host wait and 18 % waits for the all-reduce.
  const IdleSplit& idle = ddp.ranks[0].streams[0].idle;
  const auto total = static_cast<double>(idle.total());
  EXPECT_NEAR(static_cast<double>(idle.host_wait) / total, 0.80, 0.01);
  EXPECT_NEAR(static_cast<double>(idle.comm_wait) / total, 0.18, 0.01);
  EXPECT_TRUE(Row(Read({"param_linear_2080ti.json.gz"}), "launch_bound").named);
  EXPECT_FALSE(Row(Read({"tl_sglang_decode_graph.json.gz"}), "launch_bound").named);
}

TEST_F(RealTraces, RecomputeIsToldFromForward) {
  const Bottleneck row = Row(Read({"tl_mi300_resnet_ddp_recompute.json.gz"}), "recompute");
  EXPECT_TRUE(row.named);
  EXPECT_NEAR(row.metric, 0.214, 0.001);
}

TEST_F(RealTraces, TheLegacyFormGivesHostTimes) {
  const TraceSet set = Read({"debian_torch113_legacy_cpu.json.gz"});
  const Diagnosis d = DiagnoseTraces(set);
  EXPECT_NE(d.summary.find("No GPU events"), std::string::npos);
  ASSERT_FALSE(set.ranks[0].host.classes.empty());
  EXPECT_EQ(set.ranks[0].host.classes[0].cls, "gemm");
  EXPECT_EQ(set.ranks[0].steps.size(), 2u);
}

}  // namespace
}  // namespace attune
