// Names only past thresholds, and what several ranks tell together.
#include "attune/traces/diagnose.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "across_ranks.h"
#include "kineto_text.h"

namespace attune::traces {
namespace {

const Bottleneck* Find(const Diagnosis& d, std::string_view cls) {
  for (const Bottleneck& b : d.bottlenecks) {
    if (b.cls == cls) return &b;
  }
  return nullptr;
}

bool Named(const TraceSet& set, std::string_view cls, const DiagnoseOptions& options = {}) {
  const Diagnosis d = DiagnoseTraces(set, options);
  const Bottleneck* b = Find(d, cls);
  return b != nullptr && b->named;
}

// A step of one second in which nothing is wrong.
RankTrace Healthy() {
  RankTrace t;
  t.rank = 0;
  t.steps_marked = true;
  t.whole_file.counts.events = 1000;
  t.analysed = {.span = 1'000'000'000,
                .busy = 960'000'000,
                .compute = 950'000'000,
                .comm = 100'000'000,
                .mem = 10'000'000,
                .overlap = 95'000'000,
                .exposed = 5'000'000};
  t.kernels_in_comm_classes = 10;
  t.sums.compute_kernels = 950'000'000;
  t.sums.kernel_count = 1000;
  t.sums.median_kernel = 500'000;
  t.sums.median_launch_delay = 5'000'000;
  t.sums.gemm = 600'000'000;
  StepFigures first, step;
  first.name = "ProfilerStep#0";
  step.name = "ProfilerStep#1";
  step.host = 1'000'000'000;
  step.analysed = true;
  step.time = t.analysed;
  t.steps = {first, step};
  t.host.span = 1'000'000'000;
  return t;
}

TraceSet SetOf(RankTrace t) {
  TraceSet set;
  set.ranks.push_back(std::move(t));
  return set;
}

TEST(Diagnose, NamesNothingInAHealthyStep) {
  const Diagnosis d = DiagnoseTraces(SetOf(Healthy()));
  for (const Bottleneck& b : d.bottlenecks) EXPECT_FALSE(b.named) << b.cls << ": " << b.evidence;
  EXPECT_NE(d.summary.find("Nothing is past its threshold"), std::string::npos);
  EXPECT_EQ(d.source, "trace");
}

TEST(Diagnose, GivesTheMetricAlways) {
  const Diagnosis d = DiagnoseTraces(SetOf(Healthy()));
  for (const DiagnosisThreshold& t : Thresholds()) {
    // These need several ranks, or a pipeline.
    if (t.cls == "late_peer" || t.cls == "straggler" || t.cls == "rank_imbalance" ||
        t.cls == "pipeline_bubble") {
      continue;
    }
    EXPECT_NE(Find(d, t.cls), nullptr) << t.cls;
  }
}

struct Edge {
  const char* cls;
  void (*change)(RankTrace&, std::int64_t);
  std::int64_t below, past;  // the last value that is not named and the first that is
};

TEST(Diagnose, NamesAClassExactlyPastItsThreshold) {
  const Edge edges[] = {
      {"launch_bound",
       [](RankTrace& t, std::int64_t v) {
         t.analysed_idle.host_wait = v;
         t.sums.median_launch_delay = 29'999;
       },
       149'999'999, 150'000'000},
      {"launch_bound",
       [](RankTrace& t, std::int64_t v) {
         t.analysed_idle.host_wait = 400'000'000;
         t.sums.median_launch_delay = -v;
       },
       -30'000, -29'999},
      {"small_kernels",
       [](RankTrace& t, std::int64_t v) {
         t.analysed_idle.in_short_gaps = v;
         t.sums.median_kernel = 9'999;
       },
       149'999'999, 150'000'000},
      {"small_kernels",
       [](RankTrace& t, std::int64_t v) {
         t.analysed_idle.in_short_gaps = 300'000'000;
         t.sums.median_kernel = -v;
       },
       -10'000, -9'999},
      {"exposed_communication", [](RankTrace& t, std::int64_t v) { t.analysed.exposed = v; },
       99'999'999, 100'000'000},
      {"low_overlap",
       [](RankTrace& t, std::int64_t v) {
         t.analysed.comm = 200'000'000;
         t.analysed.overlap = -v;
       },
       -100'000'000, -99'999'999},
      {"low_overlap",
       [](RankTrace& t, std::int64_t v) {
         t.analysed.comm = v;
         t.analysed.overlap = 10;
       },
       149'999'999, 150'000'000},
      {"memory_bound_kernels", [](RankTrace& t, std::int64_t v) { t.sums.memory_bound = v; },
       239'999'999, 240'000'000},
      {"small_gemms", [](RankTrace& t, std::int64_t v) { t.sums.small_gemm = v; }, 180'000'000,
       180'000'001},
      {"fp32_gemms", [](RankTrace& t, std::int64_t v) { t.sums.fp32_gemm = v; }, 30'000'000,
       30'000'001},
      {"recompute", [](RankTrace& t, std::int64_t v) { t.sums.recompute = v; }, 142'499'999,
       142'500'000},
      {"optimizer", [](RankTrace& t, std::int64_t v) { t.steps[1].optimizer_kernels = v; },
       79'999'999, 80'000'000},
      {"host_sync", [](RankTrace& t, std::int64_t v) { t.steps[1].host_sync = v; }, 49'999'999,
       50'000'000},
      {"host_sync", [](RankTrace& t, std::int64_t v) { t.steps[1].host_syncs = v; }, 10, 11},
      {"allocator", [](RankTrace& t, std::int64_t v) { t.steps[1].allocations = v; }, 0, 1},
      {"data_loader", [](RankTrace& t, std::int64_t v) { t.steps[1].data_loader = v; }, 49'999'999,
       50'000'000},
      {"pageable_copies", [](RankTrace& t, std::int64_t v) { t.steps[1].pageable_exposed = v; },
       19'999'999, 20'000'000},
      {"profiler_overhead", [](RankTrace& t, std::int64_t v) { t.steps[1].profiler_overhead = v; },
       19'999'999, 20'000'000},
      {"profiler_overhead", [](RankTrace& t, std::int64_t v) { t.host.python_events = v; }, 0, 1},
  };
  for (const Edge& e : edges) {
    RankTrace below = Healthy(), past = Healthy();
    e.change(below, e.below);
    e.change(past, e.past);
    EXPECT_FALSE(Named(SetOf(below), e.cls)) << e.cls << " " << e.below;
    EXPECT_TRUE(Named(SetOf(past), e.cls)) << e.cls << " " << e.past;
  }
}

TEST(Diagnose, ASlowDataLoaderIsNotLaunchBound) {
  RankTrace t = Healthy();
  t.analysed.busy = 600'000'000;
  t.analysed_idle.host_wait = 400'000'000;
  t.sums.median_launch_delay = 9'500'000;
  t.steps[1].data_loader = 400'000'000;
  EXPECT_FALSE(Named(SetOf(t), "launch_bound"));
  EXPECT_TRUE(Named(SetOf(t), "data_loader"));
}

TEST(Diagnose, KernelsOfAGraphAreNotLaunchBound) {
  RankTrace t = Healthy();
  t.analysed_idle.host_wait = 400'000'000;
  t.sums.median_launch_delay = 10'000;
  t.sums.graph_kernels = 900;
  t.sums.graph_launches = 2;
  EXPECT_FALSE(Named(SetOf(t), "launch_bound"));
}

TEST(Diagnose, AllocationsOfTheFirstStepAreStartUp) {
  RankTrace t = Healthy();
  t.steps[0].allocations = 50;
  EXPECT_FALSE(Named(SetOf(t), "allocator"));
}

TEST(Diagnose, ABubbleIsJudgedAgainstItsSchedule) {
  RankTrace t = Healthy();
  t.analysed.busy = 800'000'000;
  t.analysed.exposed = 100'000'000;
  CollectiveRow recv;
  recv.type = "recv";
  recv.exposed = 100'000'000;
  recv.count = 8;
  t.collectives = {recv};
  // Idle 20 % and waiting 10 %: past 10 %; four stages of eight micro-batches cost 3/11.
  EXPECT_TRUE(Named(SetOf(t), "pipeline_bubble"));
  EXPECT_FALSE(Named(SetOf(t), "pipeline_bubble", {PipelineShape{4, 8, 1}}));
  EXPECT_TRUE(Named(SetOf(t), "pipeline_bubble", {PipelineShape{4, 8, 2}}));
}

TEST(Diagnose, NamedOnesComeFirstByShare) {
  RankTrace t = Healthy();
  t.analysed.exposed = 200'000'000;
  t.steps[1].data_loader = 300'000'000;
  const Diagnosis d = DiagnoseTraces(SetOf(t));
  ASSERT_GE(d.bottlenecks.size(), 2u);
  EXPECT_EQ(d.bottlenecks[0].cls, "data_loader");
  EXPECT_EQ(d.bottlenecks[1].cls, "exposed_communication");
  EXPECT_NE(d.summary.find("data_loader"), std::string::npos);
}

TEST(Diagnose, ATruncatedTraceIsSaidFirst) {
  RankTrace t = Healthy();
  t.whole = false;
  t.path = "/x/rank0.json";
  EXPECT_EQ(DiagnoseTraces(SetOf(t)).summary.rfind("rank0.json is not whole", 0), 0u);
}

TEST(Diagnose, WithoutAGpuTheHostIsDiagnosed) {
  RankTrace t;
  t.host.span = 1'000'000;
  t.host.operators = 900'000;
  t.host.optimizer = 100'000;
  const Diagnosis d = DiagnoseTraces(SetOf(t));
  EXPECT_NE(d.summary.find("No GPU events"), std::string::npos);
  EXPECT_TRUE(Find(d, "optimizer")->named);
  EXPECT_EQ(Find(d, "launch_bound"), nullptr);
}

TEST(Diagnose, AnEmptyTraceSaysThereIsNothing) {
  EXPECT_NE(DiagnoseTraces(SetOf(RankTrace{})).summary.find("nothing to analyse"),
            std::string::npos);
}

// Rank r enters a collective of 100 us transfer `late` after the others.
RankTrace RankIn(std::int64_t rank, std::initializer_list<std::int64_t> durations) {
  RankTrace t = Healthy();
  t.rank = rank;
  int n = 0;
  for (const std::int64_t d : durations) {
    const std::int64_t end = 10'000'000 * (n + 1);
    t.collective_events.push_back(
        {fmt::format("s/allreduce/0//{}", n), "allreduce", "0", end - d, end, false});
    ++n;
  }
  return t;
}

TEST(CompareRanks, TheShortestStayIsTheTransferAndTheRestIsWaiting) {
  std::vector<std::string> remarks;
  const AcrossRanks a =
      CompareRanks({RankIn(0, {5'000'000, 100'000}), RankIn(1, {4'000'000, 300'000}),
                    RankIn(2, {10'000, 200'000})},
                   remarks);
  ASSERT_EQ(a.collectives.size(), 2u);
  EXPECT_EQ(a.collectives[0].last_rank, 2);
  EXPECT_EQ(a.collectives[0].transfer, 10'000);
  EXPECT_EQ(a.collectives[0].longest, 5'000'000);
  EXPECT_EQ(a.collectives[0].longest_rank, 0);
  EXPECT_EQ(a.collectives[0].waiting, 4'990'000 + 3'990'000);
  EXPECT_EQ(a.collectives[1].last_rank, 0);
  EXPECT_EQ(a.waiting, 8'980'000 + 300'000);
  ASSERT_EQ(a.lateness.size(), 3u);
  EXPECT_EQ(a.lateness[0].rank, 2);
  EXPECT_EQ(a.lateness[0].caused, 8'980'000);
  EXPECT_EQ(a.lateness[0].waited, 100'000);
}

TEST(CompareRanks, ClocksThatDisagreeChangeNothing) {
  std::vector<std::string> remarks;
  RankTrace other = RankIn(1, {4'000'000});
  for (CollectiveEvent& c : other.collective_events) {
    c.start += 987'654'321;
    c.end += 987'654'321;
  }
  const AcrossRanks a = CompareRanks({RankIn(0, {10'000}), other}, remarks);
  ASSERT_EQ(a.collectives.size(), 1u);
  EXPECT_EQ(a.collectives[0].last_rank, 0);
  EXPECT_EQ(a.collectives[0].waiting, 3'990'000);
  EXPECT_EQ(a.collectives[0].end_spread, 987'654'321);
}

TEST(CompareRanks, NeverEmptyWithoutAReason) {
  std::vector<std::string> remarks;
  EXPECT_FALSE(CompareRanks({Healthy()}, remarks).why_empty.empty());
  EXPECT_NE(CompareRanks({RankIn(0, {}), RankIn(1, {})}, remarks)
                .why_empty.find("no communication kernels"),
            std::string::npos);
  RankTrace elsewhere = RankIn(1, {100});
  elsewhere.collective_events[0].key = "other";
  EXPECT_NE(CompareRanks({RankIn(0, {100}), elsewhere}, remarks).why_empty.find("2 communication"),
            std::string::npos);
}

TEST(CompareRanks, PointToPointIsNoCollective) {
  std::vector<std::string> remarks;
  RankTrace a = RankIn(0, {100}), b = RankIn(1, {900});
  a.collective_events[0].point_to_point = b.collective_events[0].point_to_point = true;
  EXPECT_TRUE(CompareRanks({a, b}, remarks).collectives.empty());
}

TEST(CompareRanks, ComputeImbalance) {
  std::vector<std::string> remarks;
  RankTrace a = RankIn(0, {}), b = RankIn(1, {});
  a.analysed.compute = 900;
  b.analysed.compute = 1000;
  const AcrossRanks across = CompareRanks({a, b}, remarks);
  ASSERT_TRUE(across.compute_imbalance.has_value());
  EXPECT_DOUBLE_EQ(*across.compute_imbalance, 0.05);
  EXPECT_EQ(across.slowest_rank, 1);
}

TEST(Diagnose, AStragglerIsNamedWithItsEvidence) {
  TraceSet set;
  set.ranks = {RankIn(0, {50'000'000, 100'000}), RankIn(1, {50'000'000, 90'000}),
               RankIn(2, {10'000, 100'000})};
  set.across = CompareRanks(set.ranks, set.remarks);
  const Diagnosis d = DiagnoseTraces(set);
  ASSERT_NE(Find(d, "straggler"), nullptr);
  EXPECT_TRUE(Find(d, "straggler")->named);
  EXPECT_NE(Find(d, "straggler")->evidence.find("rank 2 is last"), std::string::npos);
  EXPECT_TRUE(Find(d, "late_peer")->named);
}

TEST(TracesText, NoLineIsWiderThanAsked) {
  TraceSet set;
  set.ranks.push_back(MustRead(Document(BusyEvents(4, 9))));
  const Diagnosis d = DiagnoseTraces(set);
  for (const int width : {60, 80, 120}) {
    const std::string text = TracesText(set, d, width);
    std::size_t from = 0;
    while (from < text.size()) {
      const std::size_t end = text.find('\n', from);
      ASSERT_NE(end, std::string::npos);
      EXPECT_LE(end - from, static_cast<std::size_t>(width)) << text.substr(from, end - from);
      from = end + 1;
    }
    EXPECT_NE(text.find("ProfilerStep#1"), std::string::npos);
  }
}

TEST(TracesText, ABarFillsItsWidth) {
  TraceSet set;
  set.ranks.push_back(MustRead(Document(
      {KernelEvent("gemm", 0, 500'000, 1, 7), KernelEvent("nccl", 500'000, 500'000, 2, 8)})));
  const std::string text = TracesText(set, DiagnoseTraces(set), 100);
  const std::size_t bar = text.find("|#");
  ASSERT_NE(bar, std::string::npos);
  const std::string line = text.substr(bar + 1, text.find('|', bar + 1) - bar - 1);
  const auto compute = std::count(line.begin(), line.end(), '#');
  const auto exposed = std::count(line.begin(), line.end(), 'x');
  EXPECT_EQ(compute + exposed, static_cast<std::ptrdiff_t>(line.size()));
  EXPECT_LE(std::abs(compute - exposed), 1);
}

TEST(StepSvg, DrawsEveryStreamOfOneStep) {
  const std::string path = testing::TempDir() + "svg_trace.json";
  {
    std::FILE* f = std::fopen(path.c_str(), "wb");
    const std::string text = Document(BusyEvents(5, 9));
    std::fwrite(text.data(), 1, text.size(), f);
    std::fclose(f);
  }
  const auto svg = StepSvg(path, {}, "ProfilerStep#2");
  ASSERT_TRUE(svg.has_value());
  EXPECT_EQ(svg->rfind("<svg ", 0), 0u);
  EXPECT_EQ(svg->substr(svg->size() - 7), "</svg>\n");
  for (const char* part : {"ProfilerStep#2", "device 0 stream 7", "device 0 stream 20",
                           "ncclDevKernel_AllReduce", "vectorized_elementwise_kernel&lt;4&gt;"}) {
    EXPECT_NE(svg->find(part), std::string::npos) << part;
  }
  EXPECT_EQ(StepSvg(path, {}, "ProfilerStep#99").error().code, ErrorCode::kNotFound);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace attune::traces
