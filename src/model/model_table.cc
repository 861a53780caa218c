#include "model_table.h"

#include <utility>

namespace attune {

const ModelRow* FindModel(std::string_view name) {
  for (const ModelRow& row : KnownModels()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::optional<std::int64_t> SizeOf(const ModelRow& row, std::string_view key) {
  using Size = std::int64_t ModelRow::*;
  static constexpr std::pair<std::string_view, Size> kSizes[] = {
      {"layers", &ModelRow::layers},
      {"hidden", &ModelRow::hidden},
      {"heads", &ModelRow::heads},
      {"kv_groups", &ModelRow::kv_groups},
      {"head_dim", &ModelRow::head_dim},
      {"ffn", &ModelRow::ffn},
      {"vocab", &ModelRow::vocab},
      {"gated_mlp", &ModelRow::gated_mlp},
      {"linear_bias", &ModelRow::linear_bias},
      {"experts", &ModelRow::experts},
      {"topk", &ModelRow::topk},
      {"expert_ffn", &ModelRow::expert_ffn},
      {"shared_ffn", &ModelRow::shared_ffn},
      {"dense_layers", &ModelRow::dense_layers},
      {"router_groups", &ModelRow::router_groups},
      {"group_topk", &ModelRow::group_topk},
      {"q_lora_rank", &ModelRow::q_lora_rank},
      {"kv_lora_rank", &ModelRow::kv_lora_rank},
      {"qk_head_dim", &ModelRow::qk_head_dim},
      {"qk_rope_dim", &ModelRow::qk_rope_dim},
      {"v_head_dim", &ModelRow::v_head_dim},
      {"window_layers", &ModelRow::window_layers},
      {"moe_latent", &ModelRow::moe_latent},
      {"ssm_heads", &ModelRow::ssm_heads},
      {"ssm_head_dim", &ModelRow::ssm_head_dim},
      {"ssm_state", &ModelRow::ssm_state},
      {"ssm_groups", &ModelRow::ssm_groups},
      {"delta_layers", &ModelRow::delta_layers}};
  for (const auto& [name, member] : kSizes) {
    if (name == key) return row.*member;
  }
  return std::nullopt;
}

ModelShape ShapeOf(const ModelRow& r) {
  ModelShape s;
  s.layers = r.layers;
  s.hidden = r.hidden;
  s.heads = r.heads;
  s.kv_groups = r.kv_groups;
  s.head_dim = r.head_dim;
  s.ffn = r.ffn;
  s.vocab = r.vocab;
  s.gated_mlp = r.gated_mlp != 0;
  s.tied_embeddings = r.tied != 0;
  s.linear_bias = r.linear_bias != 0;
  s.router_groups = r.router_groups;
  s.group_topk = r.group_topk;
  s.experts = r.experts;
  s.topk = r.topk;
  s.expert_ffn = r.expert_ffn;
  s.shared_ffn = r.shared_ffn;
  s.dense_layers = r.dense_layers;
  s.hybrid_pattern = std::string(r.hybrid_pattern);
  s.mla = r.mla != 0;
  s.q_lora_rank = r.q_lora_rank;
  s.kv_lora_rank = r.kv_lora_rank;
  s.qk_head_dim = r.qk_head_dim;
  s.qk_rope_dim = r.qk_rope_dim;
  s.v_head_dim = r.v_head_dim;
  s.mtp_layers = r.mtp_layers;
  s.window = r.window;
  s.window_layers = r.window_layers;
  s.moe_latent = r.moe_latent;
  s.ssm_heads = r.ssm_heads;
  s.ssm_head_dim = r.ssm_head_dim;
  s.ssm_state = r.ssm_state;
  s.ssm_groups = r.ssm_groups;
  s.delta_layers = r.delta_layers;
  return s;
}

}  // namespace attune
