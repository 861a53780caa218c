// Names of the job keys, one list for the library and for the generator of the rule rows.
#pragma once

#include <cstddef>
#include <string_view>

namespace attune::gates {

// clang-format off
#define ATTUNE_JOB_KEYS(X)                                                                         \
  X(world) X(gpus_per_node) X(tp) X(pp) X(cp) X(ep) X(etp) X(dp) X(vp) X(expert_dp)                \
  X(instances) X(weight_shards) X(layers) X(experts) X(mtp_layers) X(vocab_mod_tp)                 \
  X(gbs) X(mbs) X(microbatches) X(padded_vocab)                                                    \
  X(heads_mod_tp) X(kv_mod_tp) X(tp_mod_kv) X(experts_mod_ep) X(seq_mod_2cp) X(heads_mod_tp_cp)    \
  X(dp_cp_mod_instances) X(expert_dp_mod_instances) X(eval_remainder)                              \
  X(delta_net) X(delta_net_remainder) X(cp_comm_entries) X(cp_hier_product)                        \
  X(first_layers) X(last_layers) X(edges) X(accounts) X(uneven) X(vpp_options) X(layout_error)     \
  X(first_mod_vp) X(last_mod_vp) X(middle_layers) X(middle_stages) X(middle_mod_stages)            \
  X(middle_rank_mod_vp) X(split_remainder) X(even_vp_remainder) X(group_size) X(m_mod_group)       \
  X(hybrid) X(hybrid_pipes) X(hybrid_segments_mod_pp) X(dense_only_stage) X(stage_split) X(stage_layers)           \
  X(sequence_parallel) X(overlap_p2p) X(fsdp) X(dispatcher) X(flex_backend)                        \
  X(recompute) X(recompute_method) X(recompute_layers) X(recompute_modules)                        \
  X(grouped_gemm) X(permute_fusion) X(router_fusion) X(ce_fusion) X(grad_accum_fusion)             \
  X(distributed_optimizer) X(overlap_grad_reduce) X(overlap_param_gather) X(tp_comm_overlap)       \
  X(ep_overlap) X(shared_expert_overlap) X(delay_wgrad) X(optimizer_offload)                       \
  X(activation_offload_layers) X(cuda_graph) X(cuda_graph_modules) X(precision) X(grads_fp32)      \
  X(per_token_loss) X(attention_backend) X(mla) X(tied_embeddings) X(linear_bias) X(dropout)       \
  X(moe_pad) X(optimizer) X(optimizer_state) X(aux_loss) X(gloo)                       \
  X(load) X(ckpt_format) X(dataloader) X(order) X(loss_mask) X(rampup_open) X(variable_rows)       \
  X(network) X(gpu_generation) X(max_connections) X(expandable_segments) X(ep_span_nodes) X(tp_span_domain)          \
  X(te) X(torch) X(ofi_nccl)
// clang-format on

enum class JobKey {
#define ATTUNE_JOB_KEY_ENUM(name) k_##name,
  ATTUNE_JOB_KEYS(ATTUNE_JOB_KEY_ENUM)
#undef ATTUNE_JOB_KEY_ENUM
};

inline constexpr std::string_view kJobKeyNames[] = {
#define ATTUNE_JOB_KEY_NAME(name) #name,
    ATTUNE_JOB_KEYS(ATTUNE_JOB_KEY_NAME)
#undef ATTUNE_JOB_KEY_NAME
};
inline constexpr std::size_t kJobKeyCount = sizeof(kJobKeyNames) / sizeof(kJobKeyNames[0]);

// Keys whose literals are versions ("2.10" is more than "2.9").
constexpr bool IsVersionKey(JobKey key) {
  return key == JobKey::k_te || key == JobKey::k_torch || key == JobKey::k_ofi_nccl;
}

}  // namespace attune::gates
