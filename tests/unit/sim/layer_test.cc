// Terms of one layer: each moves the way its cause says, and reaches its hand-computed limit.
#include "jobs.h"
#include "layer_time.h"

namespace attune::sim {
namespace {

// Every efficiency 1, nothing but arithmetic: what a hand computes.
Coefficients Ideal() {
  Coefficients c = BuiltInCoefficients();
  c.gemm_hopper = c.gemm_fp8_hopper = c.attention_hopper = c.expert_gemm = 1;
  c.tile_m = c.tile_n = c.tile_k = 0;
  c.attention_head_width = c.attention_short_tokens = 0;
  c.launch_dense_s = c.launch_moe_s = c.launch_mixer_s = 1e-12;
  return c;
}

LayerModel Layer(const TrainingJob& job, LayerKind kind, const Coefficients& c,
                 const StackProfile& stack = {}, std::string_view gpu = "H100",
                 const Conditions& conditions = {}) {
  const Machine machine = MachineOf(gpu);
  const Setting s(job, machine, stack, c, conditions);
  LayerModel out;
  TimeLayer(s, kind, out);
  return out;
}

double Traffics(const Pass& p, Traffic t) { return p.traffic[static_cast<std::size_t>(t)]; }
double Exposed(const Pass& p, Traffic t) { return p.exposed[static_cast<std::size_t>(t)]; }

TEST(Gemm, AtFullRateTakesItsFlopsOverThePeak) {
  const TrainingJob job = MakeJob("Llama-3.1-8B", 8, {}, 8, 1, 8192);
  const LayerModel l = Layer(job, LayerKind::kDense, Ideal());
  const double parameters = 4096.0 * 128 * (2 * 32 + 2 * 8) + 3 * 4096.0 * 14336;
  EXPECT_NEAR(l.forward.gemm, 2 * parameters * 8192 / 989.4e12, 1e-9);
  EXPECT_NEAR(l.backward.gemm, 2 * l.forward.gemm, 1e-12);
  // Causal: half of the score matrix.
  EXPECT_NEAR(l.forward.attention, 4.0 * 32 * 128 * 8192 * 4096 / 989.4e12, 1e-9);
}

TEST(Gemm, TensorParallelismCostsShapeEfficiency) {
  const Coefficients c = BuiltInCoefficients();
  const LayerModel one = Layer(MakeJob("Llama-3.1-8B", 8, {}, 8, 1, 8192), LayerKind::kDense, c);
  const LayerModel eight =
      Layer(MakeJob("Llama-3.1-8B", 8, {.tp = 8}, 8, 1, 8192), LayerKind::kDense, c);
  EXPECT_GT(eight.forward.gemm, one.forward.gemm / 8);
  EXPECT_LT(eight.forward.gemm, one.forward.gemm);
}

TEST(Gemm, Fp8GainsLessThanTwofoldAndLeastOnSmallMatrices) {
  const Coefficients c = BuiltInCoefficients();
  const auto gain = [&](std::string_view model) {
    TrainingJob job = MakeJob(model, 8, {.tp = 8}, 8, 1, 4096);
    const LayerModel bf16 = Layer(job, LayerKind::kDense, c);
    job.switches.precision = "bf16+fp8:tensorwise";
    const LayerModel fp8 = Layer(job, LayerKind::kDense, c);
    EXPECT_GT(fp8.forward.memory, bf16.forward.memory);  // quantising moves bytes
    return bf16.forward.Kernels() / fp8.forward.Kernels();
  };
  EXPECT_LT(gain("Llama-3.1-405B"), 2.6);
  EXPECT_LT(gain("Llama-3.1-8B"), gain("Llama-3.1-405B"));
}

TEST(Gemm, AnAmpereCardHasNoFp8) {
  TrainingJob job = MakeJob("Llama-3.1-8B", 8, {}, 8, 1, 4096);
  const double bf16 = Layer(job, LayerKind::kDense, Ideal(), {}, "A100-80").forward.gemm;
  job.switches.precision = "bf16+fp8:delayed";
  EXPECT_DOUBLE_EQ(Layer(job, LayerKind::kDense, Ideal(), {}, "A100-80").forward.gemm, bf16);
}

TEST(Power, ABoardWithFewerWattsAFlopIsSlower) {
  const TrainingJob job = MakeJob("Llama-3.1-405B", 8, {.tp = 8}, 8, 1, 8192);
  const Coefficients c = BuiltInCoefficients();
  const double gb200 = Layer(job, LayerKind::kDense, c, {}, "GB200").forward.gemm;
  const double gb300 = Layer(job, LayerKind::kDense, c, {}, "GB300").forward.gemm;
  EXPECT_GT(gb200, gb300);  // equal peaks, 1200 and 1400 W
}

TEST(Experts, MoreTokensEachMeansBetterGemms) {
  const Coefficients c = BuiltInCoefficients();
  const auto efficiency = [&](int ep, int mbs) {
    TrainingJob job = MakeJob("Qwen3-30B-A3B", 64, {.ep = ep}, 64 * mbs, mbs, 4096);
    job.switches.forced_balance = true;
    return mbs / Layer(job, LayerKind::kMoe, c).forward.experts;
  };
  EXPECT_GT(efficiency(8, 4), efficiency(8, 1));
  EXPECT_GT(efficiency(64, 1), efficiency(8, 1));
}

TEST(Experts, NaturalRoutingMakesTheSlowestRankSlower) {
  TrainingJob job = MakeJob("Qwen3-235B-A22B", 64, {.ep = 8}, 64, 1, 4096);
  const Coefficients c = BuiltInCoefficients();
  const double natural = Layer(job, LayerKind::kMoe, c).forward.experts;
  job.switches.forced_balance = true;
  const double balanced = Layer(job, LayerKind::kMoe, c).forward.experts;
  EXPECT_GT(natural, 1.05 * balanced);
  const Conditions even{.imbalance = 1.0};
  job.switches.forced_balance = false;
  EXPECT_DOUBLE_EQ(Layer(job, LayerKind::kMoe, c, {}, "H100", even).forward.experts, balanced);
}

TEST(Experts, FusedOnesMoveLessAndNeedNoHost) {
  TrainingJob job = MakeJob("Qwen3-30B-A3B", 8, {.ep = 8}, 64, 8, 4096);
  job.switches.precision = "bf16+fp8:mxfp8";
  const Coefficients c = BuiltInCoefficients();
  StackProfile fused;
  fused.fused_experts = true;
  const LayerModel plain = Layer(job, LayerKind::kMoe, c, {}, "GB200");
  const LayerModel better = Layer(job, LayerKind::kMoe, c, fused, "GB200");
  EXPECT_LT(better.forward.memory, plain.forward.memory);
  EXPECT_LT(better.forward.launch, plain.forward.launch);
  // Only Blackwell has the kernels.
  EXPECT_DOUBLE_EQ(Layer(job, LayerKind::kMoe, c, fused, "H100").forward.total,
                   Layer(job, LayerKind::kMoe, c, {}, "H100").forward.total);
}

TEST(Launch, APassTakesTheLongerOfDeviceAndHost) {
  TrainingJob job = MakeJob("GLM-4.5", 8, {.ep = 8}, 8, 1, 4096);
  Coefficients c = BuiltInCoefficients();
  c.launch_moe_s = 8e-3;
  c.launch_dense_s = 1e-3;
  job.batch.seq_len = 128;  // hardly any work
  const Pass p = Layer(job, LayerKind::kMoe, c, {}, "B200").forward;
  EXPECT_NEAR(p.total, p.launch, 0.05 * p.launch);
  EXPECT_GT(p.wait, 0.8 * p.total);
  job.batch.seq_len = 131072;
  const Pass q = Layer(job, LayerKind::kMoe, c, {}, "B200").forward;
  EXPECT_LT(q.wait, 0.01 * q.total);
}

TEST(Launch, GraphsAndFlexDispatchersShortenIt) {
  TrainingJob job = MakeJob("Qwen3-30B-A3B", 8, {.ep = 8}, 8, 1, 4096);
  const Coefficients c = BuiltInCoefficients();
  const double eager = Layer(job, LayerKind::kMoe, c).forward.launch;
  job.switches.dispatcher = "flex";
  const double flex = Layer(job, LayerKind::kMoe, c).forward.launch;
  job.switches.cuda_graph = "full_iteration";
  EXPECT_LT(flex, eager);
  EXPECT_NEAR(Layer(job, LayerKind::kMoe, c).forward.launch, c.launch_graph_full * flex, 1e-12);
}

TEST(TensorParallel, SequenceParallelTrafficIsTwoPairsALayer) {
  const TrainingJob job = MakeJob("Llama-3.1-70B", 8, {.tp = 8}, 8, 1, 8192);
  const Coefficients c = Ideal();
  const LayerModel l = Layer(job, LayerKind::kDense, c);
  const Group g = MakeGroup(MachineOf("H100"), c, 8, 1);
  EXPECT_NEAR(Traffics(l.forward, Traffic::kTp), 4 * RingTime(g, 8192.0 * 8192 * 2), 1e-9);
  EXPECT_NEAR(Traffics(l.backward, Traffic::kTp), 1.5 * Traffics(l.forward, Traffic::kTp), 1e-9);
}

TEST(TensorParallel, OverlapHidesPartOfIt) {
  TrainingJob job = MakeJob("Llama-3.1-70B", 8, {.tp = 8}, 8, 1, 8192);
  const Coefficients c = BuiltInCoefficients();
  const double plain = Exposed(Layer(job, LayerKind::kDense, c).forward, Traffic::kTp);
  job.switches.tp_comm_overlap = true;
  EXPECT_LT(Exposed(Layer(job, LayerKind::kDense, c).forward, Traffic::kTp), plain);
}

TEST(TensorParallel, BeyondNvlinkCollapses) {
  const Coefficients c = BuiltInCoefficients();
  const double eight = Traffics(
      Layer(MakeJob("Llama-3.1-405B", 16, {.tp = 8}, 16, 1, 8192), LayerKind::kDense, c).forward,
      Traffic::kTp);
  const double sixteen = Traffics(
      Layer(MakeJob("Llama-3.1-405B", 16, {.tp = 16}, 16, 1, 8192), LayerKind::kDense, c).forward,
      Traffic::kTp);
  EXPECT_GE(sixteen, eight);
}

TEST(ExpertParallel, OverlapHidesNoMoreThanThereIsToCompute) {
  TrainingJob job = MakeJob("Qwen3-235B-A22B", 256, {.ep = 32}, 256, 1, 4096);
  Coefficients c = BuiltInCoefficients();
  const double open = Exposed(Layer(job, LayerKind::kMoe, c).forward, Traffic::kEp);
  job.switches.ep_overlap = true;
  const LayerModel l = Layer(job, LayerKind::kMoe, c);
  EXPECT_LT(Exposed(l.forward, Traffic::kEp), open);
  c.ep_overlap_hidden = 1;
  const LayerModel all = Layer(job, LayerKind::kMoe, c);
  EXPECT_GE(Exposed(all.forward, Traffic::kEp) + 1e-12,
            Traffics(all.forward, Traffic::kEp) - all.forward.Kernels());
}

TEST(ContextParallel, RingHidesBehindAttentionOfLongSequences) {
  const Coefficients c = BuiltInCoefficients();
  const auto exposed_share = [&](std::int64_t seq) {
    const LayerModel l =
        Layer(MakeJob("Llama-3.1-8B", 64, {.cp = 8}, 8, 1, seq), LayerKind::kDense, c);
    return Exposed(l.forward, Traffic::kCp) / Traffics(l.forward, Traffic::kCp);
  };
  EXPECT_GE(exposed_share(8192), exposed_share(262144));
}

TEST(Recompute, FullAddsOneForward) {
  TrainingJob job = MakeJob("Llama-3.1-70B", 8, {.tp = 8}, 8, 1, 8192);
  const LayerModel l = Layer(job, LayerKind::kDense, Ideal());
  EXPECT_NEAR(l.backward_full.recompute, l.forward.Kernels() + Exposed(l.forward, Traffic::kTp),
              1e-9);
  const double none = l.forward.total + l.backward.total;
  const double full = l.forward.total + l.backward_full.total;
  EXPECT_GT(full / none, 1.25);
  EXPECT_LT(full / none, 1.42);
}

TEST(Recompute, OfModulesCostsWhatTheModuleCosts) {
  TrainingJob job = MakeJob("Llama-3.1-70B", 8, {.tp = 4}, 8, 1, 4096);
  const Coefficients c = BuiltInCoefficients();
  const double none = Layer(job, LayerKind::kDense, c).backward.total;
  job.switches.recompute = "selective";
  job.switches.recompute_modules = {"core_attn"};
  const double attention = Layer(job, LayerKind::kDense, c).backward.total;
  job.switches.recompute_modules = {"mlp"};
  const double mlp = Layer(job, LayerKind::kDense, c).backward.total;
  EXPECT_GT(attention, none);
  EXPECT_GT(mlp, attention);
}

TEST(Fsdp, ALayerTakesTheLongerOfComputeAndGathers) {
  TrainingJob job = MakeJob("MPT-7b", 8, {}, 8, 1, 2048);
  job.layout.fsdp = "torch";
  Machine machine = MachineOf("A100-40");
  const Coefficients c = BuiltInCoefficients();
  const auto forward = [&] {
    const StackProfile stack;
    const Conditions conditions;
    const Setting s(job, machine, stack, c, conditions);
    LayerModel l;
    TimeLayer(s, LayerKind::kDense, l);
    return l.forward;
  };
  machine.network.nvlink_rate = 1e9;  // a gather far longer than the layer
  const Pass slow = forward();
  EXPECT_NEAR(slow.Kernels() + Exposed(slow, Traffic::kDp), Traffics(slow, Traffic::kDp),
              2 * c.fsdp_exposed * slow.Kernels());
  machine.network.nvlink_rate = 1e15;
  EXPECT_LT(Exposed(forward(), Traffic::kDp), 0.05 * slow.Kernels());
}

TEST(Fsdp, KeepingWeightsSavesTheGatherOfBackward) {
  TrainingJob job = MakeJob("MPT-7b", 64, {}, 64, 1, 2048);
  job.layout.fsdp = "torch";
  const Coefficients c = BuiltInCoefficients();
  const double again = Traffics(Layer(job, LayerKind::kDense, c).backward, Traffic::kDp);
  job.layout.fsdp_keeps_weights = true;
  EXPECT_LT(Traffics(Layer(job, LayerKind::kDense, c).backward, Traffic::kDp), again);
}

TEST(FrozenBase, NeedsNoWeightGradients) {
  const TrainingJob job = MakeJob("Llama-3.1-8B", 1, {}, 2, 2, 4096);
  Conditions lora;
  lora.frozen_base = true;
  const LayerModel l = Layer(job, LayerKind::kDense, BuiltInCoefficients(), {}, "H100", lora);
  EXPECT_DOUBLE_EQ(l.backward.gemm, l.forward.gemm);
}

TEST(Scan, StateSpaceLayersAreBoundByBandwidth) {
  const TrainingJob job = MakeJob("Nemotron-3-Nano-30B-A3B", 8, {.ep = 8}, 8, 1, 8192);
  Coefficients c = BuiltInCoefficients();
  const double before = Layer(job, LayerKind::kMamba, c).forward.scan;
  EXPECT_GT(before, 0);
  c.hbm_efficiency /= 2;
  EXPECT_GT(Layer(job, LayerKind::kMamba, c).forward.scan, 1.3 * before);
}

TEST(Pass, PartsAddUpToItsTotal) {
  for (const char* model : {"GLM-4.5", "DeepSeek-V3", "GPT-OSS-120B", "Llama-3.1-70B"}) {
    const TrainingJob job = MakeJob(model, 64, {.tp = 2, .ep = 8}, 64, 1, 4096);
    const LayerKind kind = job.shape.experts > 0 ? LayerKind::kMoe : LayerKind::kDense;
    const LayerModel l = Layer(job, kind, BuiltInCoefficients());
    for (const Pass& p : {l.forward, l.backward, l.backward_full}) {
      double sum = p.Kernels() + p.recompute + p.wait;
      for (const double x : p.exposed) sum += x;
      EXPECT_NEAR(sum, p.total, 1e-12) << model;
      EXPECT_GE(p.wait, 0) << model;
    }
  }
}

}  // namespace
}  // namespace attune::sim
