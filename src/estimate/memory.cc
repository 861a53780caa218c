// Peak memory of each pipeline rank. Weights, gradients and optimizer as in Megatron-LM's
// theoretical_memory_usage.py; activations as the tensors that the backward pass keeps
// (Korthikanti et al., arXiv 2205.05198, extended by the routed copies of a MoE layer), times the
// microbatches in flight; logits on the last rank; a fixed part for CUDA, NCCL and buffers.
#include <algorithm>

#include "sizes.h"
#include "terms.h"

namespace attune::estimate {
namespace {

constexpr double kGb = 1e9;
constexpr double kImbalance = 1.15;  // routed copies on the fullest rank over the mean
constexpr double kFixedBytes = 3.5 * kGb, kFlexBytes = 1.5 * kGb, kGraphBytes = 4 * kGb;

// Bytes that one layer keeps of one microbatch.
struct Kept {
  double layer = 0;  // without full recomputation
  double input = 0;  // with it
};

Kept KeptOf(const TrainingJob& job, Kind kind) {
  const ModelShape& s = job.shape;
  const Switches& w = job.switches;
  const double tokens = TokensOf(job), tp = job.layout.tp;
  const double local = job.layout.sequence_parallel ? tokens / tp : tokens;
  const double h = D(s.hidden);
  const auto again = [&](const char* m) {
    return w.recompute == "selective" && w.recompute_modules.contains(m);
  };
  Kept kept;
  kept.input = 2 * local * h;
  double& b = kept.layer;
  if (HasAttention(s, kind)) {
    const AttentionSizes a = SizesOf(s);
    const bool up_again = s.mla && again("mla_up_proj");
    b += local * h * (again("layernorm") ? 2 : 4);
    b += 2 * tokens / tp * ((up_again ? 0 : a.q + a.kv) + a.out);
    if (s.mla) b += 2 * tokens * (a.q_rank + a.kv_rank);
  }
  if (kind == kMixer) {
    const MixerSizes m = MixerOf(s);
    b += local * h * 4 + 2 * tokens / tp * (m.in + 2 * m.inner);
  }
  if (kind == kDense) {
    b += local * h * (again("layernorm") ? 2 : 4);
    if (!again("mlp")) b += 2 * tokens / tp * D(s.ffn) * MlpMatrices(s);
  }
  if (kind == kMoe || kind == kMoeOnly) {
    b += local * h * (again("layernorm") ? 2 : 4);
    const double fe = D(s.expert_ffn) / job.layout.etp, k = D(s.topk);
    const double copies = local * k * job.layout.etp * kImbalance;
    if (!again("moe")) {
      const double act = again("moe_act") ? 0 : 2 * fe;
      const double wide = s.moe_latent > 0 ? D(s.moe_latent) : h;
      b += copies * (2 * wide + 2 * (MlpMatrices(s) - 1) * fe + act + 2 * wide);
      if (!again("shared_experts")) b += 2 * tokens / tp * D(s.shared_ffn) * MlpMatrices(s);
    }
    b += local * D(s.experts) * 8;
  }
  return kept;
}

// Microbatches whose activations rank `i` holds at once, in units of all its layers.
double InFlight(const TrainingJob& job, int i) {
  const double pp = job.layout.pp, vp = job.layout.vp, m = D(job.batch.microbatches);
  if (pp <= 1) return 1;
  if (vp <= 1) return std::min(m, pp - i);
  const double chunks = (pp - i - 1) * 2 + (vp - 1) * pp + 1;
  return std::min(m * vp, chunks) / vp;
}

}  // namespace

std::vector<MemoryShape> MemoryOf(const TrainingJob& job, const GpuSpec&) {
  const Layout& l = job.layout;
  const Switches& w = job.switches;
  const std::vector<StageTerms> stages = StagesOf(job);
  const double replicas = std::max(1, l.dp * l.cp), expert_replicas = std::max(1, l.expert_dp);
  const bool fsdp = !l.fsdp.empty();
  const bool sharded = w.distributed_optimizer || fsdp;
  const double away = w.optimizer_offload ? w.offload_fraction : 0;
  const double grad = w.grads_fp32 ? 4 : 2;
  const auto bytes_each = [&](double shards) {
    const double states = 12 * (1 - away) / (sharded ? shards : 1);
    return fsdp ? (2 + grad + 12 * (1 - away)) / shards : 2 + grad + states;
  };
  std::vector<MemoryShape> out;
  std::array<Kept, kKinds> kept;
  std::array<LayerParameters, kKinds> parameters;
  for (std::size_t k = 0; k < kKinds; ++k) {
    kept[k] = KeptOf(job, static_cast<Kind>(k));
    parameters[k] = ParametersOf(job, static_cast<Kind>(k));
  }
  const double vocab = D(job.batch.padded_vocab) * D(job.shape.hidden) / l.tp;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageTerms& st = stages[i];
    const bool first = i == 0, last = i + 1 == stages.size();
    MemoryShape m;
    m.stage = static_cast<int>(i);
    double dense = 0, experts = 0, per_microbatch = 0, widest = 0;
    for (std::size_t k = 0; k < kKinds; ++k) {
      dense += st.layers[k] * parameters[k].dense;
      experts += st.layers[k] * parameters[k].experts;
      const double again = st.repeated[k];
      per_microbatch += (st.layers[k] - again) * kept[k].layer + again * kept[k].input;
      if (again > 0) widest = std::max(widest, kept[k].layer);
    }
    if (first) dense += vocab;
    if (last && !(first && job.shape.tied_embeddings)) dense += vocab;
    m.weights = dense * bytes_each(replicas) + experts * bytes_each(expert_replicas);
    if (fsdp) m.weights += 3 * 2 * (parameters[kMoe].dense + parameters[kDense].dense);
    m.activations = per_microbatch * InFlight(job, static_cast<int>(i)) + widest;
    if (last) {
      const double logits = TokensOf(job) * D(job.batch.padded_vocab) / l.tp;
      m.activations += logits * (w.ce_fusion ? 4 : 8);
    }
    m.fixed = kFixedBytes + (w.dispatcher == "flex" ? kFlexBytes : 0);
    if (w.cuda_graph == "full_iteration") {
      m.fixed += 0.7 * m.activations;
    } else if (!w.cuda_graph.empty()) {
      m.fixed += kGraphBytes;
    }
    out.push_back(m);
  }
  return out;
}

}  // namespace attune::estimate
