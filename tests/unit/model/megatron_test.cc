#include <algorithm>

#include "attune/base/text.h"
#include "attune/model/training_job.h"

namespace attune {
namespace {

constexpr const char* kSmall =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --micro-batch-size 1 "
    "--global-batch-size 64 --seq-length 4096 --bf16";

Arguments Args(const std::string& text) {
  std::vector<std::string> tokens;
  for (const std::string_view t : Split(text, ' ')) {
    if (!t.empty()) tokens.emplace_back(t);
  }
  return ParseArguments(tokens);
}

Workload Cluster(int gpus) {
  Workload w;
  w.gpus = gpus;
  w.gpus_per_node = 8;
  return w;
}

std::variant<TrainingJob, Finding> Resolve(const std::string& text, int gpus = 16,
                                           std::map<std::string, std::string> shape = {}) {
  Workload w = Cluster(gpus);
  w.shape = std::move(shape);
  return ResolveMegatron(Args(text), {}, w);
}

TrainingJob Job(const std::string& text, int gpus = 16,
                std::map<std::string, std::string> shape = {}) {
  auto job = Resolve(text, gpus, std::move(shape));
  if (const Finding* f = std::get_if<Finding>(&job)) {
    ADD_FAILURE() << f->rule << ": " << f->why;
    return {};
  }
  return std::get<TrainingJob>(job);
}

std::string Rule(const std::string& text, int gpus = 16,
                 std::map<std::string, std::string> shape = {}) {
  auto job = Resolve(text, gpus, std::move(shape));
  const Finding* f = std::get_if<Finding>(&job);
  return f == nullptr ? "resolved" : f->rule + " " + f->key;
}

bool Silent(const TrainingJob& job, std::string_view start) {
  return std::any_of(job.silent.begin(), job.silent.end(),
                     [&](const std::string& s) { return s.starts_with(start); });
}

const std::string kBase = kSmall;

TEST(ResolveMegatron, TakesDeclaredDefaults) {
  const TrainingJob job = Job(kBase);
  EXPECT_EQ(job.layout.tp, 1);
  EXPECT_EQ(job.layout.pp, 1);
  EXPECT_EQ(job.layout.dp, 16);
  EXPECT_EQ(job.layout.vp, 1);
  EXPECT_EQ(job.batch.microbatches, 4);
  EXPECT_EQ(job.shape.kv_groups, 32);
  EXPECT_EQ(job.shape.head_dim, 128);
  EXPECT_EQ(job.shape.ffn, 4 * 4096);
  EXPECT_EQ(job.switches.recompute, "");
  EXPECT_EQ(job.switches.attention_backend, "auto");
  EXPECT_TRUE(job.switches.grad_accum_fusion);
  EXPECT_TRUE(job.shape.tied_embeddings);
}

TEST(ResolveMegatron, SwigluNarrowsTheDefaultFfn) {
  EXPECT_EQ(Job(kBase + " --swiglu").shape.ffn, 10880);  // int(4 h * 2/3) down to a multiple of 64
  EXPECT_EQ(Job(kBase + " --swiglu --ffn-hidden-size 14336").shape.ffn, 14336);
}

TEST(ResolveMegatron, DenseAndExpertGridsShareTheRanks) {
  const TrainingJob job =
      Job(kBase +
          " --num-experts 32 --tensor-model-parallel-size 2 --sequence-parallel "
          "--pipeline-model-parallel-size 2 --expert-model-parallel-size 4 "
          "--expert-tensor-parallel-size 1");
  EXPECT_EQ(job.layout.dp, 4);         // 16 / (2 x 2): EP does not divide the dense grid
  EXPECT_EQ(job.layout.expert_dp, 2);  // 16 / (1 x 4 x 2)
}

TEST(ResolveMegatron, WorldThatDoesNotDivideIsRefused) {
  EXPECT_EQ(Rule(kBase + " --tensor-model-parallel-size 3"), "legality.world world");
  EXPECT_EQ(Rule(kBase + " --context-parallel-size 32"), "legality.world world");
  EXPECT_EQ(Rule(kBase + " --num-experts 32 --expert-model-parallel-size 32"),
            "legality.expert_world world");
  EXPECT_EQ(Rule(kBase + " --tensor-model-parallel-size 4000000000"),
            "resolve.value --tensor-model-parallel-size");
  EXPECT_EQ(Rule(kBase + " --tensor-model-parallel-size 0"),
            "resolve.value --tensor-model-parallel-size");
}

TEST(ResolveMegatron, GlobalBatchMustDivide) {
  EXPECT_EQ(Rule("--global-batch-size 65 " + kBase.substr(0, kBase.find("--global")) +
                 "--seq-length 4096"),
            "legality.global_batch --global-batch-size");
  const TrainingJob rounded =
      Job(kBase + " --global-batch-size 70 --decrease-batch-size-if-needed");
  EXPECT_EQ(rounded.batch.gbs, 64);
  EXPECT_TRUE(Silent(rounded, "global_batch_size: 70 -> 64"));
}

TEST(ResolveMegatron, OmittedGlobalBatchFollowsTheLayout) {
  const TrainingJob job =
      Job("--num-layers 8 --hidden-size 512 --num-attention-heads 8 --micro-batch-size 2 "
          "--seq-length 128");
  EXPECT_EQ(job.batch.gbs, 32);
  EXPECT_TRUE(Silent(job, "global_batch_size: unset -> 32"));
}

TEST(ResolveMegatron, TheLastOfARepeatedFlagHolds) {
  EXPECT_EQ(Job(kBase + " --micro-batch-size 2").batch.mbs, 2);
}

TEST(ResolveMegatron, MissingValuesAreNamed) {
  EXPECT_EQ(Rule("--hidden-size 512 --num-attention-heads 8 --micro-batch-size 1 --seq-length 8"),
            "resolve.missing --num-layers");
  EXPECT_EQ(Rule("--num-layers 2 --hidden-size 512 --num-attention-heads 8 --seq-length 8"),
            "resolve.missing --micro-batch-size");
  EXPECT_EQ(Rule("--num-layers 2 --hidden-size 512 --num-attention-heads 8 --micro-batch-size 1"),
            "resolve.missing --seq-length");
  EXPECT_EQ(Rule("--num-layers two --hidden-size 512 --num-attention-heads 8"),
            "resolve.value --num-layers");
}

TEST(ResolveMegatron, ShapeComesFromTheWorkloadWhereArgumentsAreSilent) {
  const TrainingJob job =
      Job("--micro-batch-size 1 --seq-length 128", 2,
          {{"layers", "4"}, {"hidden", "256"}, {"heads", "4"}, {"vocab", "1000"}});
  EXPECT_EQ(job.shape.layers, 4);
  EXPECT_EQ(job.shape.heads, 4);
  EXPECT_EQ(job.batch.padded_vocab, 1024);
  EXPECT_EQ(Rule("--micro-batch-size 1 --seq-length 128", 2,
                 {{"layers", "many"}, {"hidden", "256"}, {"heads", "4"}}),
            "resolve.value workload.shape.layers");
}

TEST(ResolveMegatron, ShapeMayNameARowOfTheModelTable) {
  Workload w = Cluster(8);
  w.shape_row = "DeepSeek-V3";
  const auto job = ResolveMegatron(Args("--micro-batch-size 1 --seq-length 4096"), {}, w);
  ASSERT_TRUE(std::holds_alternative<TrainingJob>(job));
  const ModelShape& s = std::get<TrainingJob>(job).shape;
  EXPECT_EQ(s.layers, 61);
  EXPECT_EQ(s.experts, 256);
  EXPECT_EQ(s.dense_layers, 3);
  EXPECT_EQ(s.group_topk, 4);
  w.shape_row = "DeepSeek-V4";
  const auto typo = ResolveMegatron(Args("--micro-batch-size 1 --seq-length 4096"), {}, w);
  ASSERT_TRUE(std::holds_alternative<Finding>(typo));
  EXPECT_EQ(std::get<Finding>(typo).key, "workload.shape");
  EXPECT_NE(std::get<Finding>(typo).why.find("did you mean DeepSeek-V3?"), std::string::npos);
}

TEST(ResolveMegatron, EveryNthLayerWithoutAWindowIsCounted) {
  EXPECT_EQ(Job(kBase + " --window-size (127,0)").shape.window_layers, 32);
  EXPECT_EQ(Job(kBase + " --window-size (127,0) --window-attn-skip-freq 4").shape.window_layers,
            24);
  EXPECT_EQ(Job(kBase).shape.window_layers, 0);
}

TEST(ResolveMegatron, StateSpaceLayersHaveTheirSizes) {
  const TrainingJob job =
      Job("--hybrid-override-pattern MEM* --hidden-size 2688 --num-attention-heads 32 "
          "--micro-batch-size 1 --seq-length 4096 --mamba-num-heads 64 --num-experts 8");
  EXPECT_EQ(job.shape.ssm_heads, 64);
  EXPECT_EQ(job.shape.ssm_head_dim, 64);
  EXPECT_EQ(job.shape.ssm_state, 128);
  EXPECT_EQ(Job(kBase).shape.ssm_heads, 0);
}

TEST(ResolveMegatron, AllocatorSettingComesFromTheEnvironment) {
  const Workload w = Cluster(16);
  const auto with = [&](const Env& env) {
    return std::get<TrainingJob>(ResolveMegatron(Args(kBase), env, w)).switches.expandable_segments;
  };
  EXPECT_FALSE(with({}));
  EXPECT_TRUE(with({{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}));
  EXPECT_TRUE(with({{"PYTORCH_ALLOC_CONF", "max_split_size_mb:64,expandable_segments:True"}}));
}

TEST(ResolveMegatron, BiasesAreOnUnlessSwitchedOff) {
  EXPECT_TRUE(Job(kBase).shape.linear_bias);
  EXPECT_FALSE(Job(kBase + " --disable-bias-linear").shape.linear_bias);
  EXPECT_FALSE(Job(kBase).switches.forced_balance);
  EXPECT_TRUE(
      Job(kBase + " --num-experts 8 --moe-router-force-load-balancing").switches.forced_balance);
}

TEST(ResolveMegatron, SequenceParallelVanishesAtTp1) {
  const TrainingJob job = Job(kBase + " --sequence-parallel");
  EXPECT_FALSE(job.layout.sequence_parallel);
  EXPECT_TRUE(Silent(job, "sequence_parallel: on -> off"));
}

TEST(ResolveMegatron, ExpertTensorParallelFollowsTp) {
  const TrainingJob job = Job(kBase + " --num-experts 8 --tensor-model-parallel-size 4");
  EXPECT_EQ(job.layout.etp, 4);
  EXPECT_TRUE(Silent(job, "expert_tensor_parallel_size: unset -> 4"));
}

TEST(ResolveMegatron, PaddedVocabularyMovesWithTp) {
  const std::map<std::string, std::string> vocab = {{"vocab", "50257"}};
  EXPECT_EQ(Job(kBase, 16, vocab).batch.padded_vocab, 50304);
  EXPECT_EQ(Job(kBase + " --tensor-model-parallel-size 8", 16, vocab).batch.padded_vocab, 51200);
  EXPECT_EQ(Job(kBase + " --make-vocab-size-divisible-by 1", 16, vocab).batch.padded_vocab, 50257);
  EXPECT_EQ(Job(kBase + " --no-pad-vocab-size", 16, vocab).batch.padded_vocab, 50257);
}

TEST(ResolveMegatron, VirtualStagesThreeWays) {
  const std::string pp4 = kBase + " --pipeline-model-parallel-size 4";
  EXPECT_EQ(Job(pp4 + " --num-virtual-stages-per-pipeline-rank 2").layout.vp, 2);
  EXPECT_EQ(Job(pp4 + " --num-layers-per-virtual-pipeline-stage 2").layout.vp, 4);
  EXPECT_EQ(Job(pp4 + " --pipeline-model-parallel-layout Et*4|(t*4|)*7L").layout.vp, 2);
  EXPECT_EQ(Rule(pp4 + " --num-layers-per-virtual-pipeline-stage 3"),
            "legality.virtual_layers --num-layers-per-virtual-pipeline-stage");
  const TrainingJob one = Job(pp4 + " --num-virtual-stages-per-pipeline-rank 1");
  EXPECT_EQ(one.layout.vp, 1);
  EXPECT_TRUE(Silent(one, "virtual stages: 1 -> off"));
  EXPECT_FALSE(one.switches.overlap_p2p);
  EXPECT_TRUE(Silent(one, "overlap_p2p_comm: on -> off"));
}

TEST(ResolveMegatron, GradientsAreFp32UnderBf16UnlessSaidOtherwise) {
  EXPECT_TRUE(Job(kBase).switches.grads_fp32);
  EXPECT_TRUE(Silent(Job(kBase), "accumulate_allreduce_grads_in_fp32: off -> on"));
  EXPECT_FALSE(Job(kBase + " --grad-reduce-in-bf16").switches.grads_fp32);
  EXPECT_TRUE(Job(kBase + " --grad-reduce-in-bf16 --accumulate-allreduce-grads-in-fp32")
                  .switches.grads_fp32);
}

TEST(ResolveMegatron, SelectiveRecomputationHasADefaultModule) {
  const TrainingJob job = Job(kBase + " --recompute-granularity selective");
  EXPECT_EQ(job.switches.recompute_modules, std::set<std::string>{"core_attn"});
  EXPECT_EQ(Job(kBase + " --recompute-activations").switches.recompute, "selective");
  EXPECT_TRUE(Job(kBase + " --recompute-granularity full --recompute-modules mlp")
                  .switches.recompute_modules.empty());
}

TEST(ResolveMegatron, FlexDispatcherHasADefaultBackend) {
  const std::string moe = kBase + " --num-experts 8";
  EXPECT_EQ(Job(moe).switches.dispatcher, "allgather");
  EXPECT_EQ(Job(moe + " --moe-token-dispatcher-type flex").switches.flex_backend, "deepep");
  EXPECT_EQ(Job(moe + " --moe-token-dispatcher-type alltoall").switches.flex_backend, "");
}

TEST(ResolveMegatron, NegativeCapacityIsDropless) {
  const std::string moe = kBase + " --num-experts 8 --moe-expert-capacity-factor";
  EXPECT_EQ(Job(moe + " 1.25").switches.capacity_factor, 1.25);
  EXPECT_EQ(Job(moe + " -1").switches.capacity_factor, std::nullopt);
}

TEST(ResolveMegatron, MegatronFsdpForcesTheDistributedOptimizer) {
  EXPECT_TRUE(Job(kBase + " --use-megatron-fsdp").switches.distributed_optimizer);
  EXPECT_FALSE(
      Job(kBase + " --use-megatron-fsdp --megatron-fsdp-version 2").switches.distributed_optimizer);
  EXPECT_FALSE(Job(kBase + " --use-distributed-optimizer --freeze-all-layers")
                   .switches.distributed_optimizer);
}

TEST(ResolveMegatron, HybridPatternDefinesTheLayers) {
  const TrainingJob job =
      Job("--hybrid-override-pattern M-M*|M-M* --num-layers 12 --hidden-size 512 "
          "--num-attention-heads 8 --micro-batch-size 1 --global-batch-size 64 --seq-length 128");
  EXPECT_EQ(job.shape.layers, 8);
  EXPECT_TRUE(Silent(job, "num_layers: 12 -> 8"));
}

TEST(ResolveMegatron, LeadingDenseLayersAreReadFromTheExpression) {
  const std::string moe = kBase + " --num-experts 8 --moe-layer-freq ";
  EXPECT_EQ(Job(moe + "([0]*3+[1]*29)").shape.dense_layers, 3);
  EXPECT_EQ(Job(moe + "[0,1,1,1]").shape.dense_layers, 1);
  EXPECT_EQ(Job(moe + "1").shape.dense_layers, 0);
  EXPECT_EQ(Job(moe + "[0]*0+[1]*32").shape.dense_layers, 0);
  EXPECT_EQ(Job(moe + "[0,0]*2+[0,1]+[1]*26").shape.dense_layers, 5);
  // Dense layers in between have no place in the shape: say what to reckon with.
  EXPECT_EQ(Rule(moe + "2"), "resolve.value --moe-layer-freq");
  EXPECT_EQ(Rule(moe + "[1,0]*16"), "resolve.value --moe-layer-freq");
  EXPECT_EQ(Rule(moe + "[0,1]*16"), "resolve.value --moe-layer-freq");
  EXPECT_EQ(Rule(moe + "[0,1]+[0]*2"), "resolve.value --moe-layer-freq");
  EXPECT_EQ(Rule(moe + "__import__('os')"), "resolve.value --moe-layer-freq");
  EXPECT_EQ(Job(moe + "2", 16, {{"dense_layers", "16"}}).shape.dense_layers, 16);
}

TEST(ResolveMegatron, WeightShardsEnlargeTheGrid) {
  const TrainingJob job =
      Job(kBase + " --tensor-model-parallel-size 2 --tensor-parallel-num-weight-shards 4");
  EXPECT_EQ(job.layout.dp, 4);
  EXPECT_EQ(Rule(kBase + " --tensor-model-parallel-size 2 --tensor-parallel-num-weight-shards 3"),
            "resolve.value --tensor-parallel-num-weight-shards");
}

}  // namespace
}  // namespace attune
