// Memory against what was measured: Megatron-Bridge's Moonlight study, the outcomes of the paper's
// GLM-4.5 campaigns, and Megatron-Bridge's memory-tuning study.
#include "memory.h"

#include "jobs.h"

namespace attune::sim {
namespace {

StepModel Model(const TrainingJob& job, std::string_view gpu,
                const StackProfile& stack = StackProfile{}, const Conditions& conditions = {}) {
  return ModelStep(job, MachineOf(gpu), stack, BuiltInCoefficients(), conditions);
}

TEST(StaticMemory, OfMoonlightIsThePublishedPeak) {
  const TrainingJob job = MakeJob("Moonlight-16B-A3B", 8, {.tp = 2, .ep = 8}, 4, 1, 4096);
  const StepModel m = Model(job, "H100");
  EXPECT_NEAR(m.stages[0].memory.Static() / (1024.0 * 1024 * 1024), 36.7, 0.4);
}

TEST(StaticMemory, WithoutADistributedOptimizerIsEighteenBytesAParameter) {
  TrainingJob job = MakeJob("Llama-3.1-8B", 8, {}, 64, 1, 8192);
  job.switches.distributed_optimizer = false;
  const StepModel m = Model(job, "H200");
  EXPECT_NEAR(m.stages[0].memory.Static(), 18 * TotalParameters(job.shape), 1e6);
  job.switches.distributed_optimizer = true;
  EXPECT_NEAR(Model(job, "H200").stages[0].memory.Static(),
              (6 + 12 / 8.0) * TotalParameters(job.shape), 1e6);
}

TEST(Outcomes, OfTheSevenGlmLayoutsAreAsReported) {
  const struct {
    int tp, pp, ep, edge;
    bool full, fits;
  } rows[] = {{2, 8, 16, 10, false, true}, {1, 8, 16, 10, false, false},
              {1, 16, 8, 4, false, false}, {1, 16, 8, 4, true, true},
              {1, 8, 16, 10, true, true},  {2, 16, 8, 4, false, true},
              {2, 8, 8, 10, false, true}};
  for (const auto& r : rows) {
    const StepModel m = Model(GlmJob(r.tp, r.pp, r.ep, r.edge, r.full), "B200", SeedStack());
    EXPECT_EQ(m.fits, r.fits) << "tp" << r.tp << " pp" << r.pp << " ep" << r.ep << " full "
                              << r.full << ": " << m.peak_bytes / 1e9 << " GB";
    EXPECT_EQ(m.oom != OomAt::kNone && m.oom != OomAt::kLate, !r.fits);
  }
}

TEST(Outcomes, WorstStageOfAPipelineIsNotTheLightFirstOne) {
  const StepModel m = Model(GlmJob(2, 8, 16, 10, false), "B200", SeedStack());
  EXPECT_EQ(m.fullest, 1);  // full depth, and seven micro-batches in flight
  EXPECT_EQ(m.stages[1].in_flight, 7);
}

TEST(Fragmentation, OfVaryingShapesIsWhatExpandableSegmentsRemove) {
  TrainingJob job = MakeJob("Llama-3.1-70B", 32, {.tp = 4, .pp = 4, .vp = 5}, 32, 1, 4096);
  job.switches.precision = "bf16+fp8:tensorwise";
  job.switches.grads_fp32 = false;
  job.switches.ce_fusion = true;
  Conditions varying;
  varying.varying_shapes = true;
  EXPECT_FALSE(Model(job, "H100", {}, varying).fits);
  job.switches.expandable_segments = true;
  EXPECT_TRUE(Model(job, "H100", {}, varying).fits);
}

TEST(Activations, FallWithEachKindOfRecomputation) {
  TrainingJob job = GlmJob(1, 8, 8, 10, false);
  double before = Model(job, "B300").stages[1].memory.activations;
  for (const char* module : {"layernorm", "moe_act", "shared_experts", "moe"}) {
    job.switches.recompute_modules.insert(module);
    const double after = Model(job, "B300").stages[1].memory.activations;
    EXPECT_LT(after, before) << module;
    before = after;
  }
  EXPECT_LT(Model(GlmJob(1, 8, 8, 10, true), "B300").stages[1].memory.activations, before);
}

TEST(Activations, OfBlockRecomputationLieBetweenNoneAndFull) {
  TrainingJob job = GlmJob(1, 8, 8, 10, true);
  const double full = Model(job, "B300").stages[1].memory.activations;
  job.switches.recompute_method = "block";
  job.switches.recompute_layers = 6;
  const double block = Model(job, "B300").stages[1].memory.activations;
  const double none = Model(GlmJob(1, 8, 8, 10, false), "B300").stages[1].memory.activations;
  EXPECT_GT(block, full);
  EXPECT_LT(block, none);
}

TEST(Oom, StrikesLaterTheLessIsMissing) {
  const TrainingJob job = GlmJob(1, 16, 8, 4, false);
  Machine machine = MachineOf("B200");
  const auto at = [&](double gigabytes) {
    machine.gpu.memory_bytes = static_cast<std::int64_t>(gigabytes * 1e9);
    return ModelStep(job, machine, SeedStack(), BuiltInCoefficients()).oom;
  };
  EXPECT_EQ(at(30), OomAt::kBuild);
  EXPECT_EQ(at(150), OomAt::kForward);
  EXPECT_EQ(at(195), OomAt::kOptimizer);
  EXPECT_EQ(at(204.4), OomAt::kLate);
  EXPECT_EQ(at(400), OomAt::kNone);
}

TEST(Memory, OfFsdpIsShardedOverTheDataParallelRanks) {
  TrainingJob job = MakeJob("MPT-70b", 32, {}, 1024, 2, 2048);
  job.layout.fsdp = "torch";
  const StepModel few = Model(job, "H100");
  job.world = job.layout.dp = 64;
  job.batch.microbatches /= 2;
  EXPECT_NEAR(few.stages[0].memory.optimizer, 2 * Model(job, "H100").stages[0].memory.optimizer,
              1e6);
}

}  // namespace
}  // namespace attune::sim
