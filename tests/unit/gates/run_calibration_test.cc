#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "attune/gates/calibration.h"
#include "attune/gates/comparison.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

constexpr GpuMillis kHour{3'600'000};

// Replicas of one baseline with the given losses per step; borrowed parts live here.
struct Replicas {
  std::vector<std::vector<Step>> steps;
  std::vector<std::map<std::string, std::string>> blocks;
  std::vector<CalibrationRun> runs;

  void Add(double score, std::vector<double> losses, std::map<std::string, std::string> block) {
    std::vector<Step> run;
    for (const double loss : losses) {
      Step& step = run.emplace_back();
      step.iteration = static_cast<std::int64_t>(run.size());
      step.printed_ms = 100;
      step.losses["lm loss"] = loss;
      step.learning_rate = 1e-4;
      step.consumed_samples = 8 * step.iteration;
    }
    steps.push_back(std::move(run));
    blocks.push_back(std::move(block));
    CalibrationRun& made = runs.emplace_back();
    made.id = RunId("r" + std::to_string(runs.size()));
    made.measurement.tokens_per_s_per_slot = score;
    made.measurement.steps = 20;
    made.measurement.median_step_ms = 100;
    made.measurement.cv = 0.01;
    made.nodes = "node" + std::to_string(runs.size());
    made.startup = Millis{1'000 * static_cast<int>(runs.size())};
    made.charge = kHour;
  }
  Calibration Made() {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      runs[i].steps = steps[i];
      runs[i].argument_block = &blocks[i];
    }
    return Calibrate(runs, MeasureSpec{}, Framework::kMegatronLm, Thresholds{});
  }
};

TEST(NoiseOf, WideningIsTheRatioOfTBounds) {
  // The chance that a run without gain passes three sigma of five runs, kept for fewer runs.
  const double q = StudentCdf(3 / std::sqrt(1.2), 4);
  const auto widening = [&](int runs) {
    return StudentQuantile(q, runs - 1) * std::sqrt(1 + 1.0 / runs) / 3;
  };
  const Thresholds limits;
  EXPECT_NEAR(widening(5), 1, 1e-12);
  EXPECT_NEAR(limits.widen_4, widening(4), 0.006);
  EXPECT_NEAR(limits.widen_3, widening(3), 0.006);
  EXPECT_NEAR(limits.widen_2, widening(2), 0.006);
}

TEST(NoiseOf, ARecipeCanOnlyWidenTheBand) {
  const double scores[] = {98, 100, 102, 100, 100};
  MeasureSpec spec;
  spec.band_floor = 0.001;
  spec.sigma_factor = 0.1;
  const Thresholds limits;
  EXPECT_NEAR(NoiseOf(scores, spec, Framework::kCustom, limits).band, 0.0424264, 1e-7);
  spec.band_floor = 0.05;
  EXPECT_EQ(NoiseOf(scores, spec, Framework::kCustom, limits).band, 0.05);
  spec.sigma_factor = 6;
  EXPECT_NEAR(NoiseOf(scores, spec, Framework::kCustom, limits).band, 0.0848528, 1e-7);
}

TEST(NoiseOf, SaysHowTheBandCameAbout) {
  const Thresholds limits;
  const double three[] = {98, 100, 102};
  const double one[] = {100};
  const Noise pooled = NoiseOf(three, MeasureSpec{}, Framework::kMegatronLm, limits);
  EXPECT_EQ(pooled.how, "3 runs, pooled with the prior sigma 1.29%");
  EXPECT_EQ(NoiseOf(three, MeasureSpec{}, Framework::kCustom, limits).how,
            "3 runs, factor widened by 1.62");
  const Noise quick = NoiseOf(one, MeasureSpec{}, Framework::kCustom, limits);
  EXPECT_TRUE(quick.quick);
  EXPECT_EQ(quick.how, "1 run (quick): band 3.88%");
}

TEST(Calibrate, StartUpLeavesTheFirstRunOut) {
  Replicas replicas;
  for (int i = 0; i < 5; ++i) {
    replicas.Add(100, {2}, {});
  }
  replicas.runs[0].startup = Millis{900'000};  // builds the caches
  EXPECT_EQ(replicas.Made().startup, Millis{3'500}) << "median of 2, 3, 4, 5 seconds";
}

TEST(Calibrate, KeepsReferencesWithTheirReplicaSpread) {
  Replicas replicas;
  replicas.Add(100, {2.0, 1.8}, {});
  replicas.Add(102, {2.2, 1.8}, {});
  const Calibration made = replicas.Made();
  ASSERT_EQ(made.losses.size(), 2U);
  const auto& first = made.losses[0].at("lm loss");
  EXPECT_NEAR(first.mean, 2.1, 1e-12);
  EXPECT_NEAR(first.sd, std::sqrt(2.0) * 0.1 / 2.1, 1e-12);
  EXPECT_EQ(first.n, 2);
  EXPECT_NEAR(first.e_sd, 0, 1e-12) << "e_0 is 0 in every replica";
  EXPECT_NEAR(made.losses[1].at("lm loss").e_sd, std::sqrt(2.0) * 0.1 / 2.1, 1e-12)
      << "step 1 agrees, so e_1 spreads as step 0 does";
}

TEST(Calibrate, ALossThatOneReplicaLacksIsNoReference) {
  Replicas replicas;
  replicas.Add(100, {2.0}, {});
  replicas.Add(100, {2.0}, {});
  replicas.steps[0][0].losses["z_loss"] = 0.1;
  EXPECT_FALSE(replicas.Made().losses[0].contains("z_loss"));
}

TEST(Calibrate, JudgesLossesOnlyUpToTheShortestRun) {
  Replicas replicas;
  replicas.Add(100, {2.0, 1.9, 1.8}, {});
  replicas.Add(100, {2.0, 1.9}, {});
  EXPECT_EQ(replicas.Made().losses.size(), 2U);
  EXPECT_EQ(replicas.Made().steps.size(), 2U);
}

TEST(Calibrate, KeepsWhatEveryRunPrintedAndDropsWhatDiffers) {
  Replicas replicas;
  replicas.Add(100, {2.0, 1.9}, {});
  replicas.Add(100, {2.0, 1.9}, {});
  replicas.steps[1][1].learning_rate = 2e-4;
  const Calibration made = replicas.Made();
  EXPECT_EQ(made.steps[0].learning_rate, 1e-4);
  EXPECT_FALSE(made.steps[1].learning_rate);
  EXPECT_EQ(made.steps[1].consumed_samples, 16);
  EXPECT_EQ(made.steps[0].step_ms, 100);
}

TEST(Calibrate, KeysThatVaryBetweenReplicasSayNothingAboutCandidates) {
  Replicas replicas;
  replicas.Add(100, {2.0}, {{"lr", "0.1"}, {"run_dir", "/a"}, {"once", "1"}});
  replicas.Add(100, {2.0}, {{"lr", "0.1"}, {"run_dir", "/b"}});
  const Calibration made = replicas.Made();
  EXPECT_EQ(made.argument_block, (std::map<std::string, std::string>{{"lr", "0.1"}}));
  EXPECT_EQ(made.varying_keys, (std::vector<std::string>{"once", "run_dir"}));
}

TEST(Calibrate, WithoutABlockFromEveryRunThereIsNone) {
  Replicas replicas;
  replicas.Add(100, {2.0}, {{"lr", "0.1"}});
  replicas.Add(100, {2.0}, {});
  EXPECT_TRUE(replicas.Made().argument_block.empty());
  EXPECT_TRUE(replicas.Made().varying_keys.empty());
}

TEST(Calibrate, NodesAreDistinctOnlyWhenAllDiffer) {
  Replicas replicas;
  replicas.Add(100, {2}, {});
  replicas.Add(100, {2}, {});
  EXPECT_TRUE(replicas.Made().distinct_nodes);
  replicas.runs[1].nodes = "node1";
  EXPECT_FALSE(replicas.Made().distinct_nodes);
  replicas.runs[0].nodes = replicas.runs[1].nodes = "";
  EXPECT_FALSE(replicas.Made().distinct_nodes) << "not known is not distinct";
}

TEST(Calibrate, ShortWindowBiasIsTheSystematicPart) {
  Replicas replicas;
  replicas.Add(100, {2}, {});
  replicas.Add(100, {2}, {});
  replicas.runs[0].short_measurement = replicas.runs[0].measurement;
  replicas.runs[1].short_measurement = replicas.runs[1].measurement;
  replicas.runs[0].short_measurement->tokens_per_s_per_slot = 98;
  replicas.runs[1].short_measurement->tokens_per_s_per_slot = 102;
  EXPECT_NEAR(replicas.Made().short_window_bias, 0, 1e-12) << "noise of either sign is none";
  replicas.runs[1].short_measurement->tokens_per_s_per_slot = 98;
  EXPECT_NEAR(replicas.Made().short_window_bias, 0.02, 1e-12);
}

TEST(Calibrate, StabilityIsTheWorstOfItsRuns) {
  Replicas replicas;
  replicas.Add(100, {2}, {});
  replicas.Add(100, {2}, {});
  replicas.runs[0].measurement.half_drift = -0.05;
  replicas.runs[1].measurement.half_drift = 0.01;
  replicas.runs[1].measurement.cv = 0.04;
  const Calibration made = replicas.Made();
  EXPECT_EQ(made.own_half_drift, 0.05);
  EXPECT_EQ(made.own_cv, 0.04);
  EXPECT_NEAR(made.step_sd, std::sqrt((1e-4 + 16e-4) / 2), 1e-12) << "pooled over the runs";
}

TEST(Calibrate, LaunchCostIsTheMeanCharge) {
  Replicas replicas;
  replicas.Add(100, {2}, {});
  replicas.Add(100, {2}, {});
  replicas.runs[1].charge = {3 * kHour.value};
  EXPECT_EQ(replicas.Made().launch_cost.value, 2 * kHour.value);
}

TEST(ProbeConfirms, WithinTheBandEitherWay) {
  Calibration calibration;
  calibration.mean = 100;
  calibration.band = 0.03;
  EXPECT_TRUE(ProbeConfirms(103, calibration));
  EXPECT_TRUE(ProbeConfirms(97.1, calibration));
  EXPECT_FALSE(ProbeConfirms(103.1, calibration));
  EXPECT_FALSE(ProbeConfirms(96, calibration));
  EXPECT_FALSE(ProbeConfirms(0, calibration));
}

TEST(PlannedCalibrationRuns, AnAutomaticBudgetAffordsAll) {
  EXPECT_EQ(PlannedCalibrationRuns(MeasureSpec{}, kHour, std::nullopt, Thresholds{}), 5);
}

TEST(NeedMoreCalibration, AsksForAThirdOnlyWhenTheBudgetChoseTwo) {
  const double far[] = {100, 110};
  EXPECT_TRUE(NeedMoreCalibration(far, 2, true, Thresholds{}));
  EXPECT_FALSE(NeedMoreCalibration(far, 2, false, Thresholds{})) << "the recipe wanted two";
  EXPECT_TRUE(NeedMoreCalibration(far, 5, false, Thresholds{}));
}

TEST(UnstableCluster, NamesTheCause) {
  const CalibrationAttempt attempts[] = {{true, ""}, {false, "measure.cv"}, {false, "measure.cv"}};
  EXPECT_EQ(UnstableCluster(attempts, Thresholds{}),
            "2 calibration runs in a row are invalid with one cause: measure.cv");
}

TEST(RunsForBand, NoiseFallsWithTheRootOfRuns) {
  EXPECT_EQ(RunsForBand(0.01, 0.03, Thresholds{}), 1);
  EXPECT_EQ(RunsForBand(0.02, 0.03, Thresholds{}), 4);
  EXPECT_EQ(RunsForBand(0.021, 0.03, Thresholds{}), 5);
}

// ----- held allocations

TEST(Calibrate, RunsOfAHeldAllocationAreOneOfThem) {
  Replicas made;
  for (const double score : {100.0, 101.0, 99.0, 100.0, 100.0}) made.Add(score, {2, 2}, {});
  const Calibration own = made.Made();
  EXPECT_EQ(own.allocations, 5);
  EXPECT_EQ(own.within_runs, 0);
  EXPECT_TRUE(own.distinct_nodes);
  for (CalibrationRun& run : made.runs) {
    run.allocation = "77-1";
    run.nodes = "n1,n2";
  }
  const Calibration held = made.Made();
  EXPECT_EQ(held.allocations, 1);
  EXPECT_FALSE(held.distinct_nodes);
  EXPECT_TRUE(held.quick) << "one allocation says nothing of the next";
  EXPECT_NEAR(held.band, 0.0388, 1e-12);
  EXPECT_EQ(held.mean, own.mean);
  EXPECT_EQ(held.within_runs, 5);
  EXPECT_NEAR(held.within_sigma, own.sigma, 1e-12);
  EXPECT_EQ(held.within_band, own.band);
}

TEST(Calibrate, OfTwoHeldAllocationsEachIsTakenAtItsOwnLevel) {
  Replicas made;
  for (const double score : {100.0, 101.0, 99.0, 120.0, 121.2, 118.8}) made.Add(score, {2}, {});
  for (std::size_t i = 0; i < made.runs.size(); ++i) {
    made.runs[i].allocation = i < 3 ? "77-1" : "78-1";
  }
  const Calibration k = made.Made();
  EXPECT_EQ(k.allocations, 2);
  EXPECT_EQ(k.mean, 110);
  EXPECT_EQ(k.within_runs, 5) << "four degrees of freedom: one is spent on each level";
  EXPECT_NEAR(k.within_sigma, 0.01, 1e-9) << "what lies between the two is no part of it";
  EXPECT_GT(k.sigma, 0.05);
  EXPECT_GT(k.band, 5 * k.within_band);
}

TEST(WithinAllocation, IsNarrowerWhereItIsKnownAndTheSameWhereItIsNot) {
  Replicas made;
  for (const double score : {100.0, 101.0, 99.0, 100.0, 100.0}) made.Add(score, {2}, {});
  const Calibration own = made.Made();
  EXPECT_EQ(WithinAllocation(own).sigma, own.sigma);
  EXPECT_EQ(WithinAllocation(own).band, own.band);
  for (CalibrationRun& run : made.runs) run.allocation = "77-1";
  const Calibration held = made.Made();
  const Calibration inside = WithinAllocation(held);
  EXPECT_EQ(inside.sigma, held.within_sigma);
  EXPECT_EQ(inside.band, held.within_band);
  EXPECT_LT(inside.band, held.band);
  EXPECT_FALSE(EarlyMargin(held, 10, 5, Thresholds{})) << "from one allocation to the next: R = 1";
  EXPECT_TRUE(EarlyMargin(inside, 10, 5, Thresholds{}));
}

}  // namespace
}  // namespace attune
