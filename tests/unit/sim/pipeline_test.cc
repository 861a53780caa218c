// Stages, pipeline, reduction and update: a step's parts add up, and known limits are reached.
#include <array>
#include <cmath>

#include "jobs.h"
#include "stages.h"

namespace attune::sim {
namespace {

StepModel Model(const TrainingJob& job, std::string_view gpu = "H100",
                const StackProfile& stack = StackProfile{}) {
  return ModelStep(job, MachineOf(gpu), stack, BuiltInCoefficients());
}

int Layers(const StageModel& stage) {
  int n = 0;
  for (const int k : stage.layers) n += k;
  return n;
}

TEST(Stages, UnevenCountsAreObeyed) {
  std::vector<StageModel> stages;
  SplitStages(GlmJob(2, 8, 16, 10, false), stages);
  ASSERT_EQ(stages.size(), 8U);
  EXPECT_EQ(Layers(stages[0]), 10);
  EXPECT_EQ(Layers(stages[3]), 12);
  EXPECT_EQ(Layers(stages[7]), 10);
  EXPECT_TRUE(stages[0].embedding && stages[7].head);
  EXPECT_EQ(stages[0].layers[static_cast<std::size_t>(LayerKind::kDense)], 3);
}

TEST(Stages, EmbeddingAndLossCountAsALayerEachWhereNothingElseDivides) {
  std::vector<StageModel> stages;
  SplitStages(MakeJob("Llama-3.1-405B", 128, {.tp = 4, .pp = 8, .vp = 4}, 256, 1, 8192), stages);
  EXPECT_EQ(Layers(stages[0]), 15);
  EXPECT_EQ(Layers(stages[1]), 16);
  EXPECT_EQ(Layers(stages[7]), 15);
}

TEST(Stages, NoLayerIsLost) {
  for (const ModelRow& row : KnownModels()) {
    for (const int pp : {1, 2, 3, 4, 8, 16}) {
      for (const int vp : {1, 2, 4}) {
        TrainingJob job = MakeJob(row.name, pp * 8, {.pp = pp, .vp = vp}, 256 * 8, 1, 4096);
        std::vector<StageModel> stages;
        SplitStages(job, stages);
        int sum = 0;
        for (const StageModel& s : stages) sum += Layers(s);
        EXPECT_EQ(sum, row.layers) << row.name << " pp " << pp << " vp " << vp;
      }
    }
  }
}

TEST(Stages, LayoutTextDecidesWhereThingsStand) {
  TrainingJob job = MakeJob("DeepSeek-V3", 64, {.pp = 4}, 256, 1, 4096);
  job.shape.mtp_layers = 1;
  job.layout.pipeline_layout = "Et*14|t*16|t*16|t*15mL";
  std::vector<StageModel> stages;
  SplitStages(job, stages);
  EXPECT_EQ(Layers(stages[0]), 14);
  EXPECT_EQ(Layers(stages[3]), 15);
  EXPECT_EQ(stages[3].mtp, 1);
}

TEST(Step, TermsOfEveryStageAddUp) {
  std::vector<TrainingJob> jobs = {
      GlmJob(2, 8, 16, 10, false),
      GlmJob(1, 16, 8, 4, true),
      MakeJob("Llama-3.1-405B", 128, {.tp = 4, .pp = 8, .vp = 4}, 256, 1, 8192),
      MakeJob("Nemotron-3-Nano-30B-A3B", 8, {.ep = 8}, 512, 2, 8192),
      MakeJob("DeepSeek-V3", 256, {.pp = 4, .ep = 16}, 2048, 1, 4096),
      MakeJob("Qwen3.5-122B-A10B", 64, {.pp = 2, .ep = 8}, 128, 1, 8192)};
  jobs[3].switches.optimizer_offload = true;
  jobs[3].switches.offload_fraction = 0.5;
  jobs[4].shape.mtp_layers = 1;
  jobs.push_back(MakeJob("MPT-7b", 8, {}, 64, 1, 2048));
  jobs.back().layout.fsdp = "torch";
  for (const TrainingJob& job : jobs) {
    const StepModel m = Model(job, "B200", SeedStack());
    EXPECT_GT(m.step, 0);
    for (const StageModel& stage : m.stages) {
      double sum = 0;
      for (const double t : stage.terms) sum += t;
      EXPECT_NEAR(sum, m.step, 1e-9 * m.step);
      EXPECT_GE(TermOf(stage, Term::kBubble), -1e-9 * m.step);
    }
    EXPECT_NEAR(m.tokens_per_gpu,
                static_cast<double>(job.batch.gbs * job.batch.seq_len) / m.step / job.world, 1e-6);
  }
}

TEST(Step, AReusedResultIsTheSame) {
  StepModel reused;
  const Machine machine = MachineOf("B200");
  const Coefficients c = BuiltInCoefficients();
  ModelStep(GlmJob(1, 16, 8, 4, true), machine, SeedStack(), c, {}, reused);
  ModelStep(GlmJob(2, 8, 16, 10, false), machine, SeedStack(), c, {}, reused);
  const StepModel fresh = ModelStep(GlmJob(2, 8, 16, 10, false), machine, SeedStack(), c);
  EXPECT_EQ(reused.step, fresh.step);
  EXPECT_EQ(reused.peak_bytes, fresh.peak_bytes);
  EXPECT_EQ(reused.stages.size(), fresh.stages.size());
  EXPECT_EQ(reused.stages[3].terms, fresh.stages[3].terms);
}

// Share of the step that an inner stage waits, everything around the pipeline left out.
double BubbleShare(int pp, int vp, std::int64_t microbatches) {
  TrainingJob job = MakeJob("GPT-177B", pp, {.pp = pp, .vp = vp}, microbatches, 1, 2048);
  job.shape.vocab = job.batch.padded_vocab = 128;  // a head of no weight
  Coefficients c = BuiltInCoefficients();
  c.pp_exposed = c.pp_exposed_overlapped = c.optimizer_bytes = 0;
  c.optimizer_fixed_s = c.step_fixed_s = 0;
  Machine machine = MachineOf("H100");
  machine.gpu.memory_bytes = 1'000'000'000'000;
  const StepModel m = ModelStep(job, machine, StackProfile{}, c);
  return TermOf(m.stages[1], Term::kBubble) / m.step;
}

TEST(Pipeline, BubbleOfEqualStagesIsTheTextbookShare) {
  for (const int pp : {2, 4, 8}) {
    for (const int vp : {1, 2, 4}) {
      const std::int64_t m = 4 * pp;
      const double expected = (pp - 1.0) / (static_cast<double>(m) * vp + pp - 1);
      EXPECT_NEAR(BubbleShare(pp, vp, m), expected, 0.004) << pp << " " << vp;
    }
  }
}

TEST(Pipeline, TheHeadMakesTheLastStageTheSlowestAndLightEndsHelp) {
  const TrainingJob even = GlmJob(2, 16, 8, 6, false);
  TrainingJob light = GlmJob(2, 16, 8, 4, false);
  StackProfile no_launch = SeedStack();
  no_launch.factor = 0.3;
  // 92 layers: 6 at the ends leaves 80 for 14 stages, which does not divide; compare times a stage.
  EXPECT_EQ(Model(light, "B200", no_launch).slowest == 15, false);
  std::vector<StageModel> stages;
  SplitStages(even, stages);
  const StepModel m = Model(MakeJob("Llama-3.1-8B", 8, {.pp = 8}, 64, 1, 8192));
  EXPECT_EQ(m.slowest, 7);
  EXPECT_GT(m.stages[7].head_forward, 0);
}

TEST(DataParallel, OverlapHidesReductionAndGather) {
  TrainingJob job = MakeJob("Llama-3.1-8B", 64, {}, 64, 1, 8192);
  const double hidden = TermOf(Model(job).stages[0], Term::kDpExposed);
  job.switches.overlap_grad_reduce = job.switches.overlap_param_gather = false;
  const double open = TermOf(Model(job).stages[0], Term::kDpExposed);
  EXPECT_LT(hidden, 0.5 * open);
  // 4 bytes of gradient and 2 of weight over eight rails.
  const Coefficients c = BuiltInCoefficients();
  const double bytes = 6 * TotalParameters(job.shape) * 63 / 64;
  EXPECT_NEAR(open, bytes / (8 * 50e9 * c.network_efficiency), 0.01 * open);
}

TEST(DataParallel, MoreMicrobatchesDiluteIt) {
  const auto share = [&](std::int64_t gbs) {
    TrainingJob job = MakeJob("Llama-3.1-8B", 64, {.tp = 8}, gbs, 1, 8192);
    job.switches.overlap_grad_reduce = false;
    const StepModel m = Model(job);
    return TermOf(m.stages[0], Term::kDpExposed) / m.step;
  };
  EXPECT_GT(share(8), 4 * share(64));
}

TEST(Offload, OfMiniMaxTakesTheFourteenSecondsSeen) {
  TrainingJob job = MakeJob("MiniMax-M2", 64, {.tp = 2, .pp = 2, .ep = 8}, 256, 1, 8192);
  job.switches.optimizer_offload = true;
  job.switches.offload_fraction = 1;
  const double seconds = TermOf(Model(job, "B200", SeedStack()).stages[0], Term::kOffload);
  EXPECT_GT(seconds, 12.0);
  EXPECT_LT(seconds, 17.0);
  job.switches.offload_fraction = 0.25;
  EXPECT_NEAR(TermOf(Model(job, "B200", SeedStack()).stages[0], Term::kOffload), seconds / 4, 0.01);
}

TEST(Step, TensorParallelismOneAndFullRecomputeWinWhereLaunchesBind) {
  // Table F1 of the paper: 728 to 1,073 tokens/s/GPU.
  const double base = Model(GlmJob(2, 8, 16, 10, false), "B200", SeedStack()).tokens_per_gpu;
  const double winner = Model(GlmJob(1, 16, 8, 4, true), "B200", SeedStack()).tokens_per_gpu;
  EXPECT_GT(winner, 1.25 * base);
}

TEST(Step, GrowsWithEverySlowdown) {
  const TrainingJob job =
      MakeJob("Qwen3-235B-A22B", 256, {.tp = 2, .pp = 8, .ep = 32}, 2048, 1, 4096);
  const Machine machine = MachineOf("H100");
  const Coefficients c = BuiltInCoefficients();
  const double before = ModelStep(job, machine, StackProfile{}, c).step;
  for (const auto& [member, factor] :
       {std::pair{&Coefficients::gemm_hopper, 0.8}, std::pair{&Coefficients::hbm_efficiency, 0.8},
        std::pair{&Coefficients::attention_hopper, 0.8}, std::pair{&Coefficients::expert_gemm, 0.8},
        std::pair{&Coefficients::network_efficiency, 0.8},
        std::pair{&Coefficients::nvlink_efficiency, 0.8},
        std::pair{&Coefficients::launch_moe_s, 1.3}, std::pair{&Coefficients::pp_exposed, 1.3},
        std::pair{&Coefficients::norm_bytes, 1.3}, std::pair{&Coefficients::permute_bytes, 1.3},
        std::pair{&Coefficients::logit_bytes, 1.3},
        std::pair{&Coefficients::optimizer_fixed_s, 1.3}}) {
    Coefficients worse = c;
    worse.*member *= factor;
    EXPECT_GT(ModelStep(job, machine, StackProfile{}, worse).step, before);
  }
}

TEST(Trouble, FlexDispatchersNeedANetworkThatKernelsCanUse) {
  TrainingJob job = GlmJob(2, 8, 16, 10, false);
  job.switches.dispatcher = "flex";
  const Coefficients c = BuiltInCoefficients();
  EXPECT_EQ(ModelStep(job, MachineOf("B200", "efa"), SeedStack(), c).trouble.failure,
            Failure::kStartCrash);
  EXPECT_EQ(ModelStep(job, MachineOf("B200", "infiniband"), SeedStack(), c).trouble.failure,
            Failure::kNone);
  TrainingJob inside = GlmJob(2, 8, 8, 10, false);
  inside.switches.dispatcher = "flex";
  EXPECT_EQ(ModelStep(inside, MachineOf("B200", "efa"), SeedStack(), c).trouble.failure,
            Failure::kNone);
}

TEST(Trouble, ContextParallelismOfTheSeedStackHangsOrCrawls) {
  TrainingJob job =
      MakeJob("Mixtral-8x22B", 128, {.pp = 4, .vp = 2, .ep = 8, .cp = 8}, 256, 1, 4096);
  EXPECT_EQ(Model(job, "H100", SeedStack()).trouble.failure, Failure::kHang);
  EXPECT_EQ(Model(job, "H100").trouble.failure, Failure::kNone);
  job.layout.vp = 1;
  EXPECT_GE(Model(job, "H100", SeedStack()).step, 1800);
  EXPECT_LT(Model(job, "H100").step, 1800);
}

TEST(Trouble, WhatDoesNotDivideIsRefused) {
  TrainingJob job = MakeJob("MiniMax-M2", 64, {.tp = 32, .ep = 8}, 64, 1, 8192);
  EXPECT_EQ(Model(job, "B200").trouble.failure, Failure::kRefused);
}

}  // namespace
}  // namespace attune::sim
