#include "unit/sim/sim_recipes.h"

#include <gtest/gtest.h>

#include "attune/base/text.h"

namespace attune::sim {
namespace {

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view word : Split(text, ' ')) {
    if (!word.empty()) out.emplace_back(word);
  }
  return out;
}

Recipe Base(std::string name, int gpus, std::string gpu, std::string_view args) {
  Recipe r;
  r.name = std::move(name);
  r.framework = Framework::kMegatronLm;
  r.workload.model = r.name;
  r.workload.gpus = gpus;
  r.workload.gpus_per_node = 8;
  r.workload.gpu = std::move(gpu);
  r.workload.order = "layout_free";
  r.workload.shape = {{"vocab", "128256"}};
  r.stack = {{"megatron-lm", "1dcf0da"}};
  r.command = {"python3", "pretrain_gpt.py", "{{args}}"};
  r.base.args = ParseArguments(Words(args));
  r.log.dialect = "megatron-lm";
  return r;
}

}  // namespace

Recipe DenseRecipe() {
  return Base("dense", 8, "H100",
              "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
              "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --swiglu "
              "--disable-bias-linear --untie-embeddings-and-output-weights --attention-dropout 0 "
              "--hidden-dropout 0 --tensor-model-parallel-size 2 --sequence-parallel "
              "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64 "
              "--seq-length 4096 --max-position-embeddings 4096 --lr 1e-5 --bf16 "
              "--use-distributed-optimizer --overlap-grad-reduce --calculate-per-token-loss "
              "--accumulate-allreduce-grads-in-fp32 --train-iters 1000 --eval-iters 0 "
              "--log-throughput");
}

Recipe ExpertRecipe() {
  return Base("experts", 64, "H100",
              "--num-layers 48 --hidden-size 2048 --num-attention-heads 32 "
              "--group-query-attention --num-query-groups 4 --kv-channels 128 --num-experts 128 "
              "--moe-router-topk 8 --moe-ffn-hidden-size 768 --moe-grouped-gemm --swiglu "
              "--disable-bias-linear --untie-embeddings-and-output-weights --attention-dropout 0 "
              "--hidden-dropout 0 --tensor-model-parallel-size 2 --sequence-parallel "
              "--pipeline-model-parallel-size 2 --expert-model-parallel-size 8 "
              "--expert-tensor-parallel-size 1 --micro-batch-size 1 --global-batch-size 512 "
              "--seq-length 4096 --max-position-embeddings 4096 --moe-token-dispatcher-type "
              "alltoall --moe-aux-loss-coeff 1e-3 --lr 1e-5 --bf16 --use-distributed-optimizer "
              "--overlap-grad-reduce --overlap-param-gather --calculate-per-token-loss "
              "--accumulate-allreduce-grads-in-fp32 --train-iters 1000 --eval-iters 0");
}

ClusterSetup SetupFor(Recipe recipe, const std::string& world, std::uint64_t seed) {
  ClusterSetup setup;
  Result<WorldRef> opened = OpenWorld(world);
  EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().message);
  setup.world = opened.value();
  setup.seed = seed;
  setup.recipe = std::move(recipe);
  return setup;
}

LaunchSpec SpecFor(const Recipe& recipe, const std::string& token,
                   const std::vector<std::vector<std::string>>& stages) {
  LaunchSpec spec;
  spec.token = Token(token);
  spec.slots = recipe.workload.gpus;
  spec.limit = std::chrono::hours(2);
  for (const std::vector<std::string>& extra : stages) {
    Stage& stage = spec.stages.emplace_back();
    stage.run = RunId("r" + std::to_string(spec.stages.size()));
    Arguments args = recipe.base.args;
    const Arguments more = ParseArguments(extra);
    for (const Argument& a : more.items()) args.Set(a.flag, a.values);
    stage.argv = RenderCommand(recipe, args);
    stage.workdir = "/";
  }
  return spec;
}

}  // namespace attune::sim
