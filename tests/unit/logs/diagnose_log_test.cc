#include "attune/logs/diagnose_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace attune {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::vector<Step> Steps(const std::vector<double>& ms, double gap = 0) {
  std::vector<Step> steps;
  double clock = 0;
  for (const double x : ms) {
    Step s;
    s.iteration = static_cast<std::int64_t>(steps.size()) + 1;
    s.printed_ms = x;
    clock += x + gap;
    s.arrival_ms = static_cast<std::int64_t>(clock);
    steps.push_back(s);
  }
  return steps;
}

const Bottleneck* Find(const Diagnosis& d, const std::string& cls) {
  for (const Bottleneck& b : d.bottlenecks) {
    if (b.cls == cls) return &b;
  }
  return nullptr;
}
bool Named(const Diagnosis& d, const std::string& cls) {
  const Bottleneck* b = Find(d, cls);
  return b != nullptr && b->named;
}

Diagnosis Of(const std::vector<Step>& steps) {
  LogEvidence e;
  e.steps = steps;
  return DiagnoseLog(e);
}

TEST(DiagnoseLog, ASteadyRunHasNothingNamed) {
  const Diagnosis d = Of(Steps(std::vector<double>(20, 100.0)));
  EXPECT_EQ(d.source, "log");
  for (const Bottleneck& b : d.bottlenecks) EXPECT_FALSE(b.named) << b.cls;
  EXPECT_NE(d.summary.find("Nothing stands out"), std::string::npos);
}

TEST(DiagnoseLog, FewStepsAreNotJudged) {
  const Diagnosis d = Of(Steps({900, 100, 100, 100, 100, 100, 500, 100, 100, 100, 100, 100}));
  EXPECT_EQ(Find(d, "step_time_spread"), nullptr);
  EXPECT_EQ(Find(d, "stalls"), nullptr);
  EXPECT_NE(d.summary.find("too few"), std::string::npos);
  EXPECT_TRUE(DiagnoseLog({}).bottlenecks.empty());
}

TEST(DiagnoseLog, MemoryIsTightAbove92PercentAndFreeBelow75) {
  const auto with = [](std::int64_t peak, std::int64_t device) {
    LogEvidence e;
    e.memory = MemorySeen{peak / 2, peak};
    e.device_bytes = device;
    return DiagnoseLog(e);
  };
  EXPECT_TRUE(Named(with(93 * kGiB, 100 * kGiB), "memory_tight"));
  EXPECT_FALSE(Named(with(92 * kGiB, 100 * kGiB), "memory_tight"));
  EXPECT_FALSE(Named(with(75 * kGiB, 100 * kGiB), "memory_free"));
  EXPECT_TRUE(Named(with(74 * kGiB, 100 * kGiB), "memory_free"));
  // Without the device's size nothing is said.
  EXPECT_EQ(Find(with(93 * kGiB, 0), "memory_tight"), nullptr);
  EXPECT_LT(Find(with(93 * kGiB, 100 * kGiB), "memory_tight")->share, 0);
}

TEST(DiagnoseLog, IsolatedSlowStepsAreStallsWithTheTimeTheyCost) {
  std::vector<double> ms(25, 100.0);
  ms[12] = 300;
  const Diagnosis d = Of(Steps(ms));
  const Bottleneck* stalls = Find(d, "stalls");
  ASSERT_TRUE(stalls != nullptr && stalls->named);
  EXPECT_NEAR(stalls->share, 200.0 / 2200.0, 1e-9);
  EXPECT_NE(stalls->evidence.find("iteration 13"), std::string::npos);
  EXPECT_NE(stalls->evidence.find("does not say why"), std::string::npos);
  EXPECT_FALSE(Named(d, "step_time_spread"));
}

TEST(DiagnoseLog, UnevenStepsAreSpreadAndNoStall) {
  std::vector<double> ms;
  for (int i = 0; i < 30; ++i) ms.push_back(i % 2 == 0 ? 90 : 110);
  const Diagnosis d = Of(Steps(ms));
  EXPECT_TRUE(Named(d, "step_time_spread"));
  EXPECT_FALSE(Named(d, "stalls"));
}

TEST(DiagnoseLog, SlowingDownIsDriftAndSpeedingUpIsNot) {
  std::vector<double> up, down;
  for (int i = 0; i < 30; ++i) {
    up.push_back(100 + 0.3 * i);
    down.push_back(110 - 0.3 * i);
  }
  EXPECT_TRUE(Named(Of(Steps(up)), "drift"));
  EXPECT_FALSE(Named(Of(Steps(down)), "drift"));
}

TEST(DiagnoseLog, ASlowFirstStepIsStartUpAndDoesNotTouchTheRest) {
  std::vector<double> ms(20, 100.0);
  ms[0] = 1000;
  const Diagnosis d = Of(Steps(ms));
  const Bottleneck* first = Find(d, "slow_first_steps");
  ASSERT_TRUE(first != nullptr && first->named);
  EXPECT_NEAR(first->metric, 10, 1e-9);
  EXPECT_NEAR(first->share, 900.0 / 2900.0, 1e-9);
  EXPECT_FALSE(Named(d, "stalls"));
}

TEST(DiagnoseLog, LinesFurtherApartThanTheirStepsShowUntimedWork) {
  const Diagnosis gap = Of(Steps(std::vector<double>(20, 100.0), 25));
  ASSERT_TRUE(Named(gap, "untimed_gap"));
  EXPECT_NEAR(Find(gap, "untimed_gap")->share, 0.2, 1e-9);
  EXPECT_FALSE(Named(Of(Steps(std::vector<double>(20, 100.0), 4)), "untimed_gap"));
  std::vector<Step> unstamped = Steps(std::vector<double>(20, 100.0), 25);
  for (Step& s : unstamped) s.arrival_ms = -1;
  EXPECT_EQ(Find(Of(unstamped), "untimed_gap"), nullptr);
}

TEST(DiagnoseLog, CutSkippedAndNanStepsAreNotTimed) {
  std::vector<Step> steps = Steps(std::vector<double>(30, 100.0));
  for (const std::size_t i : {std::size_t{10}, std::size_t{14}, std::size_t{18}}) {
    steps[i].printed_ms = 5000;
  }
  steps[10].cut = true;
  steps[14].skipped = 1;
  steps[18].nan = true;
  const Diagnosis d = Of(steps);
  EXPECT_FALSE(Named(d, "stalls"));
  ASSERT_TRUE(Named(d, "skipped_steps"));
  EXPECT_NEAR(Find(d, "skipped_steps")->share, 1.0 / 30, 1e-9);
}

TEST(DiagnoseLog, AFailureIsNamedWithItsLineAndNamedOnesComeFirst) {
  std::vector<double> ms(25, 100.0);
  ms[12] = 300;
  const std::vector<Step> steps = Steps(ms);
  LogEvidence e;
  e.steps = steps;
  e.failure_class = "oom_gpu";
  e.failure_evidence = "CUDA out of memory";
  const Diagnosis d = DiagnoseLog(e);
  ASSERT_TRUE(Named(d, "oom_gpu"));
  EXPECT_EQ(Find(d, "oom_gpu")->evidence, "CUDA out of memory");
  EXPECT_TRUE(std::is_partitioned(d.bottlenecks.begin(), d.bottlenecks.end(),
                                  [](const Bottleneck& b) { return b.named; }));
  EXPECT_EQ(d.bottlenecks.front().cls, "stalls");
}

}  // namespace
}  // namespace attune
