// One resolved training job: what the framework will really do, defaults and silent adjustments
// applied (DESIGN decision 8). Gates, estimate, simulator and report all read this one form.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "attune/model/arguments.h"
#include "attune/model/recipe.h"
#include "attune/model/verdict.h"

namespace attune {

struct ModelShape {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_groups = 0, head_dim = 0, ffn = 0, vocab = 0;
  bool gated_mlp = true;
  bool tied_embeddings = false;
  bool linear_bias = false;  // biases in MLP and experts
  std::int64_t experts = 0, topk = 0, expert_ffn = 0, shared_ffn = 0;
  std::int64_t dense_layers = 0;  // leading dense layers of a MoE model
  std::string hybrid_pattern;     // Mamba hybrids: M, *, -, E a layer; empty else
  bool mla = false;
  std::int64_t q_lora_rank = 0, kv_lora_rank = 0, qk_head_dim = 0, qk_rope_dim = 0, v_head_dim = 0;
  std::int64_t mtp_layers = 0;
  std::int64_t window = 0;         // sliding-window attention; 0: full
  std::int64_t window_layers = 0;  // how many layers have the window; all when it is set and this 0
  // Group-limited routing: a token's experts come from `group_topk` of `router_groups` groups.
  std::int64_t router_groups = 0, group_topk = 0;
  std::int64_t moe_latent = 0;  // width in which routed experts work; 0: hidden
  // State-space layers (M of hybrid_pattern), and layers whose attention is a gated delta net.
  std::int64_t ssm_heads = 0, ssm_head_dim = 0, ssm_state = 0, ssm_groups = 0;
  std::int64_t delta_layers = 0;
};

struct Layout {
  int tp = 1, pp = 1, ep = 1, etp = 1, cp = 1, dp = 1, vp = 1;
  int expert_dp = 1;
  std::optional<int> first_layers, last_layers;
  bool account_embedding = false, account_loss = false;
  std::string pipeline_layout;
  bool sequence_parallel = false;
  std::string fsdp;                 // "", "torch", "megatron"
  bool fsdp_keeps_weights = false;  // weights stay gathered between forward and backward (ZeRO-2)
  int dist_opt_instances = 1;
};

struct Batch {
  std::int64_t gbs = 0, mbs = 0, seq_len = 0;
  std::int64_t microbatches = 0;  // per step and pipeline
  std::int64_t padded_vocab = 0;
};

struct Switches {
  std::string recompute;  // "", "selective", "full"
  std::string recompute_method;
  int recompute_layers = 0;
  std::set<std::string> recompute_modules;
  std::string dispatcher;    // allgather | alltoall | flex
  std::string flex_backend;  // "", deepep, hybridep, ncclep
  bool distributed_optimizer = false, overlap_grad_reduce = false, overlap_param_gather = false;
  bool tp_comm_overlap = false, ep_overlap = false, shared_expert_overlap = false;
  bool delay_wgrad = false, overlap_p2p = true;
  bool optimizer_offload = false;
  double offload_fraction = 0;
  int activation_offload_layers = 0;
  std::string cuda_graph;  // "", local, transformer_engine, full_iteration
  std::set<std::string> cuda_graph_modules;
  std::string precision;  // fp32 | bf16 | fp16, with "+fp8:<recipe>"
  bool grads_fp32 = true, per_token_loss = false;
  bool grouped_gemm = false, permute_fusion = false, router_fusion = false, ce_fusion = false;
  bool grad_accum_fusion = true;
  std::string attention_backend;
  std::optional<double> capacity_factor;
  bool moe_pad_to_capacity = false;
  bool forced_balance = false;       // benchmark routing: every expert gets the same
  bool expandable_segments = false;  // PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF says so
};

struct TrainingJob {
  ModelShape shape;
  Layout layout;
  Batch batch;
  Switches switches;
  int world = 1, gpus_per_node = 8;
  std::string gpu;
  // Values that the framework changes without stopping, with what it makes of them:
  // "sequence_parallel: on -> off (TP 1)".
  std::vector<std::string> silent;
};

// Applies Megatron-LM's defaults and silent adjustments (facts of its validate_args and core
// configuration; version in gates/rules). A value that is needed and missing is refused by name.
std::variant<TrainingJob, Finding> ResolveMegatron(const Arguments& args, const Env& env,
                                                   const Workload& workload);

}  // namespace attune
