#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attune/gates/measurement_check.h"

namespace attune {
namespace {

// Thirty steps of 100 ms, 8 sequences of 100 tokens, one slot: 8,000 tokens a second.
struct Job {
  MeasureSpec spec;
  Calibration calibration;
  std::vector<Step> steps;
  MeasureInput input;

  explicit Job(int count = 30) {
    spec.min_seconds = Millis{1'000};
    for (int i = 0; i < count; ++i) {
      Step step;
      step.iteration = 41 + i;
      step.printed_ms = 100;
      step.arrival_ms = 5'000 + 100 * i;
      step.losses["lm loss"] = 2 - 0.01 * i;
      step.global_batch = 8;
      step.consumed_samples = 8 * (41 + i);
      steps.push_back(step);
    }
    input.spec = &spec;
    input.slots = 1;
    input.global_batch = 8;
    input.seq_length = 100;
    input.start_iteration = 40;
  }
  MeasuredRun Measured() {
    input.steps = steps;
    return Measure(input, Thresholds{});
  }
  WindowNeed Need() {
    input.steps = steps;
    return LookAtWindow(input, Thresholds{});
  }
};

std::string FirstRule(const MeasuredRun& run) {
  return run.findings.empty() || run.findings[0].severity != Severity::kRefuse
             ? ""
             : run.findings[0].rule;
}

TEST(Measure, AMeanOverTheWindowPerSlot) {
  Job job;
  job.input.slots = 2;
  const MeasuredRun run = job.Measured();
  ASSERT_EQ(run.validity, Validity::kValid) << run.reason;
  EXPECT_DOUBLE_EQ(run.measurement->tokens_per_s_per_slot, 4'000);
  EXPECT_EQ(run.measurement->steps, 20);
  EXPECT_EQ(run.measurement->first_iteration, 46) << "after five steps of warm-up";
  EXPECT_EQ(run.measurement->last_iteration, 65);
  EXPECT_EQ(run.measurement->step0_loss, 2);
  EXPECT_DOUBLE_EQ(run.measurement->clock_ratio.value(), 1);
  EXPECT_TRUE(run.reason.empty());
}

TEST(Measure, AStallCounts) {
  Job job;
  job.steps[10].printed_ms = 150;
  for (std::size_t i = 10; i < job.steps.size(); ++i) {
    job.steps[i].arrival_ms += 50;
  }
  job.spec.cv_max = 0.2;
  job.spec.half_drift_max = 0.1;
  const MeasuredRun run = job.Measured();
  ASSERT_EQ(run.validity, Validity::kValid) << run.reason;
  EXPECT_NEAR(run.measurement->tokens_per_s_per_slot, 8'000 * 2'000 / 2'050.0, 1e-9);
  EXPECT_EQ(run.measurement->median_step_ms, 100);
}

TEST(Measure, CutStepsAreLeftOutAndCounted) {
  Job job;
  job.steps[12].cut = true;
  job.steps[12].printed_ms = 900;
  for (std::size_t i = 12; i < job.steps.size(); ++i) {
    job.steps[i].arrival_ms += 800;
  }
  const MeasuredRun run = job.Measured();
  ASSERT_EQ(run.validity, Validity::kValid) << run.reason;
  EXPECT_EQ(run.measurement->steps, 20);
  EXPECT_EQ(run.measurement->cut_steps, 1);
  EXPECT_EQ(run.measurement->last_iteration, 66);
  EXPECT_DOUBLE_EQ(run.measurement->tokens_per_s_per_slot, 8'000);
}

// Megatron-LM evaluates and saves between two lines: the next line is late, its printed time isn't.
TEST(Measure, TheLineAfterACutStepMayArriveLate) {
  Job job;
  job.steps[12].cut = true;
  for (std::size_t i = 13; i < job.steps.size(); ++i) {
    job.steps[i].arrival_ms += 5'000;
  }
  EXPECT_EQ(job.Measured().validity, Validity::kValid);
}

TEST(Measure, AJobThatPrintsHalfItsTimesIsInvalid) {
  Job job;
  for (Step& step : job.steps) {
    step.printed_ms = 50;
  }
  const MeasuredRun run = job.Measured();
  EXPECT_EQ(run.validity, Validity::kInvalid);
  EXPECT_EQ(FirstRule(run), "measure.two_clocks");
  EXPECT_DOUBLE_EQ(run.measurement->clock_ratio.value(), 2);
}

TEST(Measure, OneClockIsSaidSo) {
  Job job;
  for (Step& step : job.steps) {
    step.arrival_ms = -1;
  }
  MeasuredRun run = job.Measured();
  EXPECT_EQ(run.validity, Validity::kValid);
  EXPECT_FALSE(run.measurement->clock_ratio);
  bool said = false;
  for (const Finding& finding : run.findings) {
    said = said || (finding.rule == "measure.two_clocks" && finding.severity == Severity::kNote);
  }
  EXPECT_TRUE(said);
  Job arrivals;
  for (Step& step : arrivals.steps) {
    step.printed_ms = 0;
  }
  run = arrivals.Measured();
  EXPECT_EQ(run.validity, Validity::kValid);
  EXPECT_DOUBLE_EQ(run.measurement->tokens_per_s_per_slot, 8'000);
}

TEST(Measure, NoClockIsNoMeasurement) {
  Job job;
  for (Step& step : job.steps) {
    step.printed_ms = 0;
    step.arrival_ms = -1;
  }
  EXPECT_EQ(FirstRule(job.Measured()), "measure.no_clock");
}

TEST(Measure, StepsRiseByOneAndNoneTwice) {
  Job twice;
  twice.steps[8].iteration = twice.steps[7].iteration;
  EXPECT_EQ(FirstRule(twice.Measured()), "measure.sequence");
  EXPECT_FALSE(twice.Measured().measurement);
  Job gap;
  gap.steps.erase(gap.steps.begin() + 9);
  EXPECT_EQ(FirstRule(gap.Measured()), "measure.sequence");
  EXPECT_EQ(gap.Measured().validity, Validity::kInvalid);
}

TEST(Measure, AWrongStartIsTheEnvironmentsFault) {
  Job job;
  job.input.start_iteration = 0;
  const MeasuredRun run = job.Measured();
  EXPECT_EQ(run.validity, Validity::kRetry);
  EXPECT_EQ(FirstRule(run), "measure.wrong_start");
}

TEST(Measure, NoStepIsSkippedOrNotANumberEvenInWarmUp) {
  Job skipped;
  skipped.steps[1].skipped = 1;
  EXPECT_EQ(FirstRule(skipped.Measured()), "measure.skipped");
  Job nan;
  nan.steps[2].nan = true;
  EXPECT_EQ(FirstRule(nan.Measured()), "measure.nan");
}

TEST(Measure, AnotherGlobalBatchIsAnotherQuantity) {
  Job job;
  job.steps[20].global_batch = 16;
  const MeasuredRun run = job.Measured();
  EXPECT_EQ(run.validity, Validity::kInvalid);
  EXPECT_EQ(FirstRule(run), "measure.global_batch");
  EXPECT_EQ(run.findings[0].was, "8");
  EXPECT_EQ(run.findings[0].now, "16");
}

TEST(Measure, ConsumedSamplesCannotLieAboutIt) {
  Job job;
  for (std::size_t i = 0; i < job.steps.size(); ++i) {
    job.steps[i].consumed_samples = 4 * static_cast<std::int64_t>(41 + i);
  }
  EXPECT_EQ(FirstRule(job.Measured()), "measure.samples");
}

TEST(Measure, PrintedTokensMustBeTheWorkloads) {
  Job job;
  for (Step& step : job.steps) {
    step.tokens = 800;
  }
  EXPECT_EQ(job.Measured().validity, Validity::kValid);
  job.steps[15].tokens = 400;
  EXPECT_EQ(FirstRule(job.Measured()), "measure.tokens");
}

TEST(Measure, AnUnknownWorkloadIsNotMeasured) {
  Job job;
  job.input.seq_length = 0;
  const MeasuredRun run = job.Measured();
  EXPECT_EQ(run.validity, Validity::kInvalid);
  EXPECT_FALSE(run.measurement);
}

TEST(Measure, VariableRowsAreComparedOnTheSameSteps) {
  Job job;
  job.input.variable_rows = true;
  job.input.calibration = &job.calibration;
  job.calibration.mean = 6'000;
  for (std::size_t i = 0; i < job.steps.size(); ++i) {
    job.steps[i].tokens = 700 + 10 * static_cast<double>(i);
    job.calibration.steps.emplace_back();
    job.calibration.steps.back().tokens = job.steps[i].tokens;
    job.calibration.steps.back().step_ms = 125;
  }
  MeasuredRun run = job.Measured();
  ASSERT_EQ(run.validity, Validity::kValid) << run.reason;
  EXPECT_DOUBLE_EQ(run.measurement->same_steps_ratio.value(), 1.25);
  EXPECT_DOUBLE_EQ(ScoreOf(*run.measurement, job.calibration), 7'500);
  job.steps[12].tokens = 1;
  EXPECT_EQ(FirstRule(job.Measured()), "measure.tokens");
  job.steps[12].tokens.reset();
  EXPECT_EQ(FirstRule(job.Measured()), "measure.tokens");
  job.steps[12].tokens = job.calibration.steps[12].tokens;
  job.calibration.steps.resize(10);
  EXPECT_EQ(FirstRule(job.Measured()), "measure.tokens") << "the baseline never got that far";
}

TEST(Measure, InstabilityIsWorthARetryAndTheRecipesFaultOutweighsIt) {
  Job job;
  for (std::size_t i = 15; i < job.steps.size(); ++i) {
    job.steps[i].printed_ms = 104;
  }
  MeasuredRun run = job.Measured();
  EXPECT_EQ(run.validity, Validity::kRetry);
  EXPECT_EQ(FirstRule(run), "measure.half_drift");
  EXPECT_TRUE(run.measurement) << "kept for the report";
  job.steps[20].nan = true;
  EXPECT_EQ(job.Measured().validity, Validity::kInvalid);
}

TEST(Measure, NeverSettledIsWorthARetry) {
  Job job;
  for (std::size_t i = 0; i < job.steps.size(); ++i) {
    job.steps[i].printed_ms = i % 2 == 0 ? 100 : 200;
  }
  const MeasuredRun run = job.Measured();
  EXPECT_EQ(run.validity, Validity::kRetry);
  EXPECT_EQ(FirstRule(run), "measure.not_settled");
}

TEST(Measure, AShortWindowIsWhatTheEarlyLookSaw) {
  Job job(25);
  job.input.short_window = true;
  job.spec.min_seconds = Millis{500};
  const MeasuredRun run = job.Measured();
  ASSERT_EQ(run.validity, Validity::kValid) << run.reason;
  EXPECT_TRUE(run.measurement->short_window);
  EXPECT_EQ(run.measurement->steps, 5);
  job.steps.resize(9);
  EXPECT_EQ(FirstRule(job.Measured()), "measure.window");
}

TEST(Measure, RejectsMoreThanTheRoofline) {
  Job job;
  job.input.roofline_tokens_per_s = 8'000;
  EXPECT_EQ(job.Measured().validity, Validity::kValid);
  job.input.roofline_tokens_per_s = 7'999;
  EXPECT_EQ(FirstRule(job.Measured()), "measure.roofline");
}

TEST(Measure, UtilisationIsFlopsOverThePeak) {
  Job job;
  job.input.flops_per_token = 100;
  job.input.peak_flops = 2e6;
  EXPECT_DOUBLE_EQ(job.Measured().measurement->mfu.value(), 0.4);
}

TEST(Measure, ThrottledGpusAndForeignProcessesAreTheEnvironmentsFault) {
  const auto rule_with = [](auto change) {
    Job job;
    std::vector<GpuSeen> gpus(4);
    change(gpus[2]);
    job.input.gpus = gpus;
    const MeasuredRun run = job.Measured();
    EXPECT_NE(run.validity, Validity::kInvalid);
    return FirstRule(run);
  };
  EXPECT_EQ(rule_with([](GpuSeen&) {}), "");
  EXPECT_EQ(rule_with([](GpuSeen& g) { g.thermal = true; }), "measure.throttled");
  EXPECT_EQ(rule_with([](GpuSeen& g) { g.power_brake = true; }), "measure.throttled");
  EXPECT_EQ(rule_with([](GpuSeen& g) { g.hardware_slowdown = true; }), "measure.throttled");
  EXPECT_EQ(rule_with([](GpuSeen& g) { g.foreign_process = true; }), "measure.foreign_process");
}

TEST(Measure, StragglersAreComparedWithinTheirStage) {
  Job job;
  std::vector<GpuSeen> gpus(6);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].id = std::to_string(i);
    gpus[i].peers = i < 3 ? "stage 0" : "stage 1";
    gpus[i].step_ms = i < 3 ? 50 : 90;  // stages differ by design
  }
  job.input.gpus = gpus;
  EXPECT_EQ(job.Measured().validity, Validity::kValid);
  gpus[4].step_ms = 110;
  job.input.gpus = gpus;
  EXPECT_EQ(FirstRule(job.Measured()), "measure.straggler");
}

TEST(Measure, HugeTimesAreNoMeasurement) {
  Job job;
  for (Step& step : job.steps) {
    step.printed_ms = std::numeric_limits<double>::max() / 4;
  }
  const MeasuredRun run = job.Measured();
  EXPECT_EQ(run.validity, Validity::kInvalid);
  Job none(0);
  EXPECT_EQ(none.Measured().validity, Validity::kInvalid);
}

// Live and afterwards by one rule: whatever comes later, a window that was full stays where it was.
TEST(LookAtWindow, MoreStepsNeverMoveTheWindow) {
  Job job(60);
  for (std::size_t i = 0; i < 60; ++i) {
    job.steps[i].printed_ms = 100 + (i < 7 ? 40 : 0) + static_cast<double>(i * 7 % 5);
  }
  const std::vector<Step> all = job.steps;
  job.input.start_iteration.reset();
  std::optional<Measurement> first;
  for (std::size_t n = 1; n <= all.size(); ++n) {
    job.steps.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
    for (std::size_t i = 0; i < n; ++i) {
      job.steps[i].arrival_ms = -1;
    }
    if (!job.Need().full) {
      EXPECT_FALSE(first) << "full once, full ever after";
      continue;
    }
    const MeasuredRun run = job.Measured();
    ASSERT_TRUE(run.measurement);
    if (!first) {
      first = run.measurement;
    }
    EXPECT_EQ(run.measurement->first_iteration, first->first_iteration);
    EXPECT_EQ(run.measurement->last_iteration, first->last_iteration);
    EXPECT_EQ(run.measurement->tokens_per_s_per_slot, first->tokens_per_s_per_slot);
  }
  ASSERT_TRUE(first);
  EXPECT_GE(first->first_iteration, 41 + 7) << "the slow start is not timed";
}

TEST(LookAtWindow, EstimatesWhatIsMissing) {
  Job job(15);
  WindowNeed need = job.Need();
  EXPECT_EQ(need.timed_steps, 10);
  EXPECT_FALSE(need.full);
  EXPECT_EQ(need.steps_missing, 10);
  job.spec.min_seconds = Millis{6'000};
  EXPECT_EQ(job.Need().steps_missing, 50) << "time decides: 5 s at 100 ms a step";
  Job young(7);
  young.spec.min_seconds = Millis{100};
  EXPECT_FALSE(young.Need().look);
  EXPECT_EQ(young.Need().look_missing, 3) << "five timed steps behind five of warm-up";
  EXPECT_EQ(young.Need().steps_missing, 18);
  Job first(1);
  first.spec.min_seconds = Millis{100};
  EXPECT_EQ(first.Need().look_missing, 9) << "what has been seen of the warm-up is not waited for";
  Job none(0);
  EXPECT_FALSE(none.Need().look);
}

TEST(StepsWanted, LeaveRoomToSettleUnlessStepsAreSlow) {
  MeasureSpec spec;
  const Thresholds limits;
  EXPECT_EQ(StepsWanted(spec, 90'000, limits), 15);
  EXPECT_EQ(StepsWanted(spec, 1'000, limits), 5 + 60 + 11);
  spec.steps = 8;
  spec.min_seconds = Millis{3'000};
  EXPECT_EQ(StepsWanted(spec, 1'000, limits), 5 + 8 + 5);
}

// A window of that many steps is full at that pace: what is asked for suffices.
TEST(StepsWanted, AreEnough) {
  for (const double ms : {1.0, 40.0, 100.0, 3'000.0, 29'000.0, 45'000.0}) {
    Job job(0);
    job.spec.min_seconds = Millis{60'000};
    const int wanted = StepsWanted(job.spec, ms, Thresholds{});
    Step step;
    step.printed_ms = ms;
    job.steps.assign(static_cast<std::size_t>(wanted), step);
    EXPECT_TRUE(job.Need().full) << ms;
  }
}

}  // namespace
}  // namespace attune
