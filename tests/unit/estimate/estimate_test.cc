// The estimate: what its figures mean, and what runs teach it. Checked against the formulas'
// known consequences and against published outcomes, never against the simulated cluster.
#include "attune/estimate/estimate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attune {
namespace {

// A 355B expert model (160 experts, 32B active) on 128 B200.
TrainingJob Large(int tp, int pp, int ep) {
  TrainingJob j;
  j.world = 128;
  j.gpu = "B200";
  ModelShape& s = j.shape;
  s.layers = 92;
  s.hidden = 5120;
  s.ffn = 12288;
  s.heads = 96;
  s.kv_groups = 8;
  s.head_dim = 128;
  s.vocab = 151552;
  s.experts = 160;
  s.topk = 8;
  s.expert_ffn = s.shared_ffn = 1536;
  s.dense_layers = 3;
  Layout& l = j.layout;
  l.tp = tp;
  l.pp = pp;
  l.ep = ep;
  l.etp = 1;
  l.dp = 128 / tp / pp;
  l.expert_dp = 128 / pp / ep;
  l.sequence_parallel = tp > 1;
  l.first_layers = l.last_layers = pp == 8 ? 10 : 4;
  j.batch = {2048, 1, 4096, 2048 / l.dp, 151552};
  Switches& w = j.switches;
  w.precision = "bf16";
  w.dispatcher = "alltoall";
  w.grouped_gemm = w.permute_fusion = w.distributed_optimizer = true;
  w.overlap_grad_reduce = w.overlap_param_gather = true;
  w.recompute = "selective";
  w.recompute_modules = {"core_attn"};
  return j;
}
TrainingJob WithFullRecompute(TrainingJob j) {
  j.switches.recompute = "full";
  j.switches.recompute_method = "uniform";
  j.switches.recompute_layers = 1;
  j.switches.recompute_modules.clear();
  return j;
}

// What a run's profile says of the experts' traffic holds where it was run, and less elsewhere.
TEST(Fit, AFactorDiffersBetweenLayouts) {
  const TrainingJob here = Large(2, 8, 16);
  Measured seen;
  seen.job = here;
  seen.exposed_communication = 0.8;
  const Correction c = Fit(std::span(&seen, 1));
  const auto times = [&](const TrainingJob& job) {
    return Project(job, c)->parts.ep / Project(job)->parts.ep;
  };
  EXPECT_GT(c.Factor("all_to_all"), 1.1) << "of every layout";
  EXPECT_GT(times(here), 1.03 * c.Factor("all_to_all")) << "and more of the one that was run";
}

TEST(Project, KnowsNothingOfAGpuOutsideTheTable) {
  TrainingJob j = Large(2, 8, 16);
  j.gpu = "cpu";
  EXPECT_FALSE(Project(j).has_value());
}

TEST(Project, PartsAddUpToTheStepAndToThePeak) {
  for (const TrainingJob& j : {Large(2, 8, 16), WithFullRecompute(Large(1, 16, 8))}) {
    const Estimate e = *Project(j);
    EXPECT_NEAR(e.parts.Sum(), e.step_seconds, 1e-9 * e.step_seconds);
    EXPECT_NEAR(e.weights_bytes + e.activation_bytes + e.other_bytes, e.peak_bytes,
                1e-9 * e.peak_bytes);
    EXPECT_NEAR(e.tokens_per_second_per_gpu * 128 * e.step_seconds, 2048.0 * 4096, 1);
  }
}

// The seven outcomes that the paper reports for this model on this cluster (Tables D2 and F1).
TEST(Project, TellsPublishedOutOfMemoryEndsFromRunsThatFit) {
  EXPECT_GT(Project(Large(1, 8, 16))->OutOfMemoryChance(), 0.5);
  EXPECT_GT(Project(Large(1, 16, 8))->OutOfMemoryChance(), 0.5);
  for (const TrainingJob& fits :
       {Large(2, 8, 16), Large(2, 16, 8), Large(2, 8, 8), WithFullRecompute(Large(1, 8, 16)),
        WithFullRecompute(Large(1, 16, 8))}) {
    EXPECT_LT(Project(fits)->OutOfMemoryChance(), 0.5) << fits.layout.tp << " " << fits.layout.pp;
  }
}

TEST(Project, FullRecomputationTradesTimeForMemory) {
  const Estimate plain = *Project(Large(2, 8, 8)),
                 full = *Project(WithFullRecompute(Large(2, 8, 8)));
  EXPECT_LT(full.peak_bytes, 0.7 * plain.peak_bytes);
  EXPECT_GT(full.step_seconds, plain.step_seconds);
}

TEST(Project, MoreMicrobatchesShrinkTheBubble) {
  TrainingJob few = Large(2, 8, 8), many = few;
  few.batch.gbs = 128;
  few.batch.microbatches = 16;
  const Estimate a = *Project(few), b = *Project(many);
  EXPECT_GT(a.parts.bubble / a.step_seconds, 2 * b.parts.bubble / b.step_seconds);
}

TEST(Project, ExpertsBeyondANodeCostNetworkTime) {
  EXPECT_GT(Project(Large(2, 8, 16))->parts.ep, 3 * Project(Large(2, 8, 8))->parts.ep);
}

TEST(Project, TheQuickFormGivesTheSameMeans) {
  const std::vector<Measured> runs = {{Large(2, 8, 16), 90.0, 120e9, false, {}, {}}};
  const Correction c = Fit(runs);
  const Estimate full = *Project(Large(1, 16, 8), c);
  const QuickEstimate quick = *ProjectQuickly(Large(1, 16, 8), c);
  EXPECT_DOUBLE_EQ(quick.step_seconds, full.step_seconds);
  EXPECT_NEAR(quick.peak_bytes, full.peak_bytes, 1);
}

TEST(Fit, WithoutRunsChangesNothing) {
  const Correction none = Fit({});
  EXPECT_EQ(none.runs, 0);
  EXPECT_FALSE(none.raw_error.has_value());
  EXPECT_DOUBLE_EQ(Project(Large(2, 8, 16), none)->step_seconds,
                   Project(Large(2, 8, 16))->step_seconds);
}

TEST(Fit, AMeasuredJobIsProjectedAsMeasuredAndMoreSurely) {
  const TrainingJob j = Large(2, 8, 16);
  const Estimate before = *Project(j);
  const std::vector<Measured> runs = {{j, 2.2 * before.step_seconds, 130e9, false, {}, {}}};
  const Correction c = Fit(runs);
  const Estimate after = *Project(j, c);
  EXPECT_NEAR(after.step_seconds, 2.2 * before.step_seconds, 0.03 * after.step_seconds);
  EXPECT_NEAR(after.peak_bytes, 130e9, 3e9);
  EXPECT_LT(after.step_sd, 0.3 * before.step_sd);
  EXPECT_NEAR(*c.raw_error, 1 - 1 / 2.2, 1e-6);
  // A neighbour learns from it, a stranger less.
  const double near = Project(Large(2, 16, 8), c)->step_sd / Project(Large(2, 16, 8))->step_sd;
  EXPECT_LT(near, 1);
  EXPECT_GT(Project(Large(2, 16, 8), c)->step_sd, after.step_sd);
}

TEST(Fit, FindsTheTermThatExplainsTheRuns) {
  // In this world launching is three times as slow as the formulas say, all else is as they say.
  Correction world;
  world.step.log_factor.assign(Correction::Terms().size(), 0);
  for (std::size_t i = 0; i < Correction::Terms().size(); ++i) {
    if (Correction::Terms()[i] == "launch") world.step.log_factor[i] = std::log(3);
  }
  std::vector<Measured> runs;
  for (const TrainingJob& j :
       {Large(2, 8, 8), WithFullRecompute(Large(1, 16, 8)), Large(4, 8, 8)}) {
    runs.push_back({j, Project(j, world)->step_seconds, {}, false, {}, {}});
  }
  const Correction c = Fit(runs);
  EXPECT_GT(c.Factor("launch"), 1.7);
  EXPECT_NEAR(c.Factor("gemm"), 1, 0.25);
  // A job that was never run is then foreseen better than by the bare formulas.
  const TrainingJob unseen = Large(2, 16, 8);
  const double truth = Project(unseen, world)->step_seconds;
  EXPECT_LT(std::abs(std::log(Project(unseen, c)->step_seconds / truth)),
            0.5 * std::abs(std::log(Project(unseen)->step_seconds / truth)));
}

TEST(Fit, ATraceTellsHostTimeFromTraffic) {
  const TrainingJob j = Large(2, 8, 8);
  const double seconds = 1.6 * Project(j)->step_seconds;
  const std::vector<Measured> host = {{j, seconds, {}, false, 0.05, 0.60}};
  const std::vector<Measured> traffic = {{j, seconds, {}, false, 0.55, 0.05}};
  EXPECT_GT(Fit(host).Factor("launch"), 1.1 * Fit(traffic).Factor("launch"));
  EXPECT_GT(Fit(traffic).Factor("all_to_all"), 1.5 * Fit(host).Factor("all_to_all"));
}

TEST(Fit, AnOutOfMemoryEndRaisesTheNeighbourhood) {
  const TrainingJob j = Large(2, 8, 8);  // projected to fit
  ASSERT_LT(Project(j)->OutOfMemoryChance(), 0.5);
  const std::vector<Measured> runs = {{j, {}, {}, true, {}, {}}};
  const Correction c = Fit(runs);
  EXPECT_GT(Project(j, c)->OutOfMemoryChance(), 0.5);
  EXPECT_GT(Project(Large(2, 8, 16), c)->peak_bytes, Project(Large(2, 8, 16))->peak_bytes);
}

TEST(Fit, AnOutOfMemoryEndThatWasForeseenSaysNothingNew) {
  const TrainingJob j = Large(1, 8, 16);
  const std::vector<Measured> runs = {{j, {}, {}, true, {}, {}}};
  EXPECT_DOUBLE_EQ(Project(j, Fit(runs))->peak_bytes, Project(j)->peak_bytes);
}

TEST(Fit, ADeviceThatToldItsSizeIsTakenAtItsWord) {
  const TrainingJob j = Large(2, 8, 16);
  const double sheet = Project(j)->device_bytes;
  std::vector<Measured> runs = {{Large(2, 8, 8), {}, {}, true, {}, {}}};
  runs[0].device_bytes = 0.6 * sheet;
  const Correction c = Fit(runs);
  EXPECT_DOUBLE_EQ(Project(j, c)->device_bytes, 0.6 * sheet);
  EXPECT_DOUBLE_EQ(ProjectQuickly(j, c)->device_bytes, 0.6 * sheet);
  EXPECT_GT(Project(j, c)->OutOfMemoryChance(), Project(j)->OutOfMemoryChance());
  // The end on a small device is no sign that the job needs more than a large one has.
  runs[0].device_bytes.reset();
  EXPECT_GT(Project(j, Fit(runs))->peak_bytes, Project(j, c)->peak_bytes);
}

TEST(FitMemory, IsFitWithoutTheSteps) {
  const std::vector<Measured> runs = {{Large(2, 8, 16), 90.0, 120e9, false, {}, {}},
                                      {Large(2, 8, 8), {}, {}, true, {}, {}},
                                      {Large(1, 16, 8), 70.0, 150e9, false, {}, {}}};
  const Correction whole = Fit(runs), memory = FitMemory(runs);
  EXPECT_EQ(memory.runs, whole.runs);
  for (const TrainingJob& j : {Large(2, 8, 16), Large(4, 8, 8), Large(1, 16, 16)}) {
    EXPECT_DOUBLE_EQ(Project(j, memory)->peak_bytes, Project(j, whole)->peak_bytes);
    EXPECT_DOUBLE_EQ(Project(j, memory)->peak_sd, Project(j, whole)->peak_sd);
    EXPECT_DOUBLE_EQ(Project(j, memory)->step_seconds, Project(j)->step_seconds);
  }
}

TEST(LayoutLikeness, FallsWithEveryDoublingAndSwitch) {
  const TrainingJob j = Large(2, 8, 16);
  EXPECT_DOUBLE_EQ(LayoutLikeness(j, j), 1);
  const double one = LayoutLikeness(j, Large(2, 8, 8));
  EXPECT_LT(one, 1);
  EXPECT_LT(LayoutLikeness(j, Large(2, 16, 8)), one);
  EXPECT_LT(LayoutLikeness(j, WithFullRecompute(j)), 1);
}

}  // namespace
}  // namespace attune
