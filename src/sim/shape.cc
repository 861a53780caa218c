// Sources: cost model of Megatron-LM (theoretical_memory_usage.py), the models' own configurations.
#include "shape.h"

#include <algorithm>

namespace attune::sim {
namespace {

double D(std::int64_t n) { return static_cast<double>(n); }

double AttentionParameters(const ModelShape& s) {
  const double h = D(s.hidden), a = D(s.heads);
  if (s.mla) {
    const double qk = D(s.qk_head_dim + s.qk_rope_dim);
    const double q =
        s.q_lora_rank > 0 ? h * D(s.q_lora_rank) + D(s.q_lora_rank) * a * qk : h * a * qk;
    const double kv = h * D(s.kv_lora_rank + s.qk_rope_dim) +
                      D(s.kv_lora_rank) * a * D(s.qk_head_dim + s.v_head_dim);
    return q + kv + a * D(s.v_head_dim) * h;
  }
  const double d = D(s.head_dim);
  return h * d * (2 * a + 2 * D(s.kv_groups));
}

// A gated delta net: query and key of the groups, value, output gate, output.
double DeltaParameters(const ModelShape& s) {
  const double value = D(s.ssm_heads) * D(s.ssm_head_dim),
               key = D(s.ssm_groups) * D(s.ssm_head_dim);
  return D(s.hidden) * (2 * value + 2 * key) + value * D(s.hidden);
}

double MambaParameters(const ModelShape& s) {
  const double inner = InnerWidth(s);
  return D(s.hidden) * (2 * inner + 2 * D(s.ssm_groups) * D(s.ssm_state) + D(s.ssm_heads)) +
         inner * D(s.hidden);
}

}  // namespace

double InnerWidth(const ModelShape& s) { return D(s.ssm_heads) * D(s.ssm_head_dim); }

double AttendedTokens(const ModelShape& s, double seq_len) {
  const double full = seq_len / 2;
  if (s.window <= 0 || s.layers <= 0) return full;
  const double windowed = std::min(full, D(s.window));
  const double share = s.window_layers > 0 ? std::min(1.0, D(s.window_layers) / D(s.layers)) : 1.0;
  return share * windowed + (1 - share) * full;
}

bool HasAttention(LayerKind k) {
  return k == LayerKind::kDense || k == LayerKind::kMoe || k == LayerKind::kAttention;
}

bool HasExperts(LayerKind k) {
  return k == LayerKind::kMoe || k == LayerKind::kExperts || k == LayerKind::kDeltaMoe;
}

LayerKind LayerOrder::At(int layer, std::size_t& cursor) const {
  if (!shape_.hybrid_pattern.empty()) {
    const std::string& p = shape_.hybrid_pattern;
    while (cursor < p.size() && p[cursor] == '|') ++cursor;
    const char c = cursor < p.size() ? p[cursor++] : '-';
    switch (c) {
      case 'M':
        return LayerKind::kMamba;
      case '*':
        return LayerKind::kAttention;
      case 'E':
        return LayerKind::kExperts;
      default:
        return LayerKind::kMlp;
    }
  }
  if (shape_.experts <= 0 || layer < shape_.dense_layers) return LayerKind::kDense;
  if (shape_.delta_layers > 0) {
    // Full attention once in every (layers / full layers), as the last of its period.
    const std::int64_t full = std::max<std::int64_t>(1, shape_.layers - shape_.delta_layers);
    const std::int64_t period = std::max<std::int64_t>(1, shape_.layers / full);
    return (layer + 1) % period == 0 ? LayerKind::kMoe : LayerKind::kDeltaMoe;
  }
  return LayerKind::kMoe;
}

LayerParameters ParametersOf(const ModelShape& s, LayerKind kind) {
  LayerParameters p;
  const double h = D(s.hidden), matrices = s.gated_mlp ? 3 : 2;
  if (HasAttention(kind)) p.attention = AttentionParameters(s);
  if (kind == LayerKind::kDeltaMoe) p.attention = DeltaParameters(s);
  if (kind == LayerKind::kMamba) p.attention = MambaParameters(s);
  if (kind == LayerKind::kDense || kind == LayerKind::kMlp) p.mlp = matrices * h * D(s.ffn);
  if (HasExperts(kind)) {
    const double width = s.moe_latent > 0 ? D(s.moe_latent) : h;
    const double one = matrices * width * D(s.expert_ffn);
    p.mlp = matrices * h * D(s.shared_ffn) + (s.moe_latent > 0 ? 2 * h * width : 0);
    p.router = h * D(s.experts);
    p.experts = one * D(s.experts);
    p.active_experts = one * D(s.topk);
  }
  return p;
}

namespace {

template <class Add>
void ForEachLayer(const ModelShape& s, Add add) {
  const LayerOrder order(s);
  std::size_t cursor = 0;
  for (int i = 0; i < order.size(); ++i) add(order.At(i, cursor));
}

}  // namespace

double TotalParameters(const ModelShape& s) {
  double sum = D(s.vocab) * D(s.hidden) * (s.tied_embeddings ? 1 : 2);
  ForEachLayer(s, [&](LayerKind k) {
    const LayerParameters p = ParametersOf(s, k);
    sum += p.Dense() + p.experts;
  });
  return sum;
}

double ActiveMatmulParameters(const ModelShape& s) {
  double sum = D(s.vocab) * D(s.hidden);
  ForEachLayer(s, [&](LayerKind k) {
    const LayerParameters p = ParametersOf(s, k);
    sum += p.Dense() + p.active_experts;
  });
  return sum;
}

double FlopsPerToken(const ModelShape& s, double seq_len) {
  double flops = 6 * ActiveMatmulParameters(s);
  const double qk = s.mla ? D(s.qk_head_dim + s.qk_rope_dim) : D(s.head_dim);
  const double v = s.mla ? D(s.v_head_dim) : D(s.head_dim);
  ForEachLayer(s, [&](LayerKind k) {
    if (HasAttention(k)) flops += 6 * D(s.heads) * (qk + v) * AttendedTokens(s, seq_len);
    if (k == LayerKind::kMamba) flops += 3 * 6 * InnerWidth(s) * D(s.ssm_state);
    if (k == LayerKind::kDeltaMoe) flops += 3 * 8 * InnerWidth(s) * D(s.ssm_state);
  });
  return flops;
}

}  // namespace attune::sim
