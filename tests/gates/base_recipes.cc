#include "gates/base_recipes.h"

namespace attune {
namespace {

constexpr std::string_view kGlm45Args = R"(
--num-layers 92 --hidden-size 5120 --num-attention-heads 96 --group-query-attention
--num-query-groups 8 --num-experts 160 --moe-router-topk 8
--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 8
--expert-model-parallel-size 16 --expert-tensor-parallel-size 1 --context-parallel-size 1
--micro-batch-size 1 --global-batch-size 1024 --seq-length 4096
--decoder-first-pipeline-num-layers 10 --decoder-last-pipeline-num-layers 10
--recompute-granularity selective --recompute-modules core_attn
--moe-token-dispatcher-type alltoall --moe-aux-loss-coeff 1e-3 --lr 1e-5 --bf16
--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
--accumulate-allreduce-grads-in-fp32 --calculate-per-token-loss --train-iters 30
--log-interval 1)";

constexpr std::string_view kDenseArgs = R"(
--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
--group-query-attention --num-query-groups 8 --swiglu --disable-bias-linear
--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0
--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2
--micro-batch-size 1 --global-batch-size 128 --seq-length 8192 --max-position-embeddings 8192
--lr 1e-5 --bf16 --use-distributed-optimizer --overlap-grad-reduce --calculate-per-token-loss
--train-iters 1000)";

constexpr std::string_view kHybridArgs = R"(
--hybrid-override-pattern M-M*M-M*M-M*M-M* --num-layers 16 --is-hybrid-model
--hidden-size 2048 --num-attention-heads 32 --group-query-attention --num-query-groups 8
--disable-bias-linear --attention-dropout 0 --hidden-dropout 0
--micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --bf16
--use-distributed-optimizer --calculate-per-token-loss --lr 1e-5)";

constexpr std::string_view kMlaArgs = R"(
--num-layers 16 --hidden-size 2048 --num-attention-heads 16 --multi-latent-attention
--num-experts 32 --moe-router-topk 4 --moe-grouped-gemm --disable-bias-linear
--moe-layer-freq ([0]*1+[1]*15) --moe-aux-loss-coeff 1e-3 --mtp-num-layers 1
--no-rope-fusion --attention-dropout 0 --hidden-dropout 0
--expert-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64 --seq-length 4096
--moe-token-dispatcher-type alltoall --bf16 --use-distributed-optimizer --overlap-grad-reduce
--calculate-per-token-loss --lr 1e-5)";

Recipe Megatron(std::string name, std::string model, int gpus, std::string gpu,
                std::string_view args) {
  Recipe r;
  r.name = std::move(name);
  r.framework = Framework::kMegatronLm;
  r.workload.model = std::move(model);
  r.workload.gpus = gpus;
  r.workload.gpus_per_node = 8;
  r.workload.gpu = std::move(gpu);
  r.stack = {{"megatron-lm", "1dcf0da"}, {"network", "infiniband"}};
  r.base.args = ParseArguments(Tokens(args));
  return r;
}

Recipe Custom() {
  Recipe r;
  r.name = "custom";
  r.framework = Framework::kCustom;
  r.workload.model = "gpt-small";
  r.workload.gpus = 2;
  r.workload.gpu = "cpu";
  r.workload.order = "layout_free";
  r.workload.loss_mask = "full";
  r.base.args =
      ParseArguments(Tokens("--micro-batch-size 1 --num-ranks 1 --lr 3e-4 --seed 1 --fused"));
  r.base.env = {{"OPENBLAS_NUM_THREADS", "1"}};
  const auto lever = [&](std::string id, std::string flag, std::string env,
                         std::vector<std::string> values, LeverClass cls) -> DeclaredLever& {
    DeclaredLever& made = r.declared.emplace_back();
    made.id = std::move(id);
    made.flag = std::move(flag);
    made.env = std::move(env);
    made.values = std::move(values);
    made.cls = cls;
    return made;
  };
  lever("micro_batch", "--micro-batch-size", "", {"1", "2", "4", "8"}, LeverClass::kBatching);
  lever("ranks", "--num-ranks", "", {"1", "2"}, LeverClass::kPlacement);
  lever("threads", "", "OPENBLAS_NUM_THREADS", {"1", "2"}, LeverClass::kPlacement).excludes = {
      {.flag = "--num-ranks", .env = {}, .is = "2"}};
  lever("recompute", "--recompute", "", {"true", "false"}, LeverClass::kMemory);
  lever("sync", "--grad-sync", "", {"bucket", "flat"}, LeverClass::kOverlap).needs = {
      {.flag = "--num-ranks", .env = {}, .is = "2"}};
  lever("attention", "--attention", "", {"math", "fused"}, LeverClass::kKernel);
  lever("fused", "--fused", "", {"true", "false"}, LeverClass::kMemory);
  lever("rate", "--lr", "", {"3e-4", "1e-3"}, LeverClass::kObjective);
  return r;
}

}  // namespace

std::vector<std::string> Tokens(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  for (char c : text) {
    if (c != ' ' && c != '\n') {
      word += c;
      continue;
    }
    if (!word.empty()) out.push_back(std::move(word));
    word.clear();
  }
  if (!word.empty()) out.push_back(std::move(word));
  return out;
}

std::optional<Recipe> BaseRecipe(std::string_view name) {
  if (name == "glm45") {
    Recipe r = Megatron("glm45", "GLM-4.5", 128, "B200", kGlm45Args);
    r.workload.order = "layout_free";
    r.workload.shape = {{"vocab", "151552"}};
    r.base.env = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
    return r;
  }
  if (name == "dense") {
    Recipe r = Megatron("dense", "Llama-3.1-8B", 16, "H100", kDenseArgs);
    r.workload.shape = {{"vocab", "128256"}};
    r.base.env = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
    return r;
  }
  if (name == "hybrid") {
    Recipe r = Megatron("hybrid", "Nemotron-3-Nano", 8, "H200", kHybridArgs);
    r.workload.shape = {{"vocab", "131072"}};
    return r;
  }
  if (name == "mla") {
    Recipe r = Megatron("mla", "Moonlight-16B", 16, "H100", kMlaArgs);
    r.workload.shape = {{"vocab", "163840"}};
    return r;
  }
  if (name == "custom") return Custom();
  return std::nullopt;
}

std::vector<PassedTest> FusionTests() {
  return {{"fusion", "--cross-entropy-loss-fusion"}, {"fusion", "--moe-permute-fusion"}};
}

}  // namespace attune
