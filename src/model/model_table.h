// Shapes of public models: the rows of skill/models.tsv, made constexpr at build time.
// `workload.shape` may name one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "attune/model/training_job.h"

namespace attune {

// Members are the columns, in their order.
struct ModelRow {
  std::string_view name, hf_id;
  std::int64_t layers, hidden, heads, kv_groups, head_dim, ffn, vocab;
  std::int64_t gated_mlp, tied, linear_bias;  // 0 or 1
  std::int64_t experts, topk, expert_ffn, shared_ffn, dense_layers, router_groups, group_topk;
  std::int64_t mla, q_lora_rank, kv_lora_rank, qk_head_dim, qk_rope_dim, v_head_dim;
  std::int64_t mtp_layers, window, window_layers, moe_latent;
  std::string_view hybrid_pattern;
  std::int64_t ssm_heads, ssm_head_dim, ssm_state, ssm_groups, delta_layers;
  std::string_view source;
};

std::span<const ModelRow> KnownModels();
// nullptr: no such row.
const ModelRow* FindModel(std::string_view name);
ModelShape ShapeOf(const ModelRow& row);
// A size by its column's name, which is its key in workload.shape; nullopt: no such number.
std::optional<std::int64_t> SizeOf(const ModelRow& row, std::string_view key);

}  // namespace attune
