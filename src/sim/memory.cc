// Static memory as Megatron-LM's theoretical_memory_usage.py counts it: 2 bytes a BF16 weight, 4
// (or 2) a gradient, 12 a parameter of FP32 master and two moments, sharded by the distributed
// optimizer over the ranks that hold the same parameter. Activations are the tensors that autograd
// saves.
#include "memory.h"

#include <cmath>

namespace attune::sim {

Shards ShardsOf(const Setting& s, const StageModel& stage) {
  Shards p;
  for (std::size_t k = 0; k < kLayerKindCount; ++k) {
    if (stage.layers[k] == 0) continue;
    const LayerParameters one = ParametersOf(s.shape, static_cast<LayerKind>(k));
    p.dense += stage.layers[k] * ((one.attention + one.mlp) / s.tp + one.router);
    p.experts += stage.layers[k] * one.experts / (s.ep * s.etp);
  }
  const double table =
      D(s.job.batch.padded_vocab > 0 ? s.job.batch.padded_vocab : s.shape.vocab) * s.hidden / s.tp;
  const bool both = stage.embedding && stage.head;
  if (stage.embedding) p.dense += table;
  if (stage.head && !(both && s.shape.tied_embeddings)) p.dense += table;
  if (stage.mtp > 0) {
    const LayerKind kind = s.shape.experts > 0 ? LayerKind::kMoe : LayerKind::kDense;
    const LayerParameters one = ParametersOf(s.shape, kind);
    p.dense +=
        stage.mtp * ((one.attention + one.mlp + 2 * s.hidden * s.hidden) / s.tp + one.router);
    p.experts += stage.mtp * one.experts / (s.ep * s.etp);
  }
  return p;
}

namespace {

void StaticMemory(const Setting& s, const Shards& p, Memory& m) {
  const Switches& sw = s.job.switches;
  const double gradient = sw.grads_fp32 ? 4 : 2;
  if (s.conditions.frozen_base) {
    const bool sharded = !s.job.layout.fsdp.empty();
    m.weights =
        2 * p.dense / (sharded ? s.dp * s.cp : 1) + 2 * p.experts / (sharded ? s.expert_dp : 1);
    return;  // adapters are well under a percent
  }
  if (!s.job.layout.fsdp.empty()) {
    const double weights = s.job.layout.fsdp_keeps_weights ? 1 : s.dp * s.cp;
    const double expert_weights = s.job.layout.fsdp_keeps_weights ? 1 : s.expert_dp;
    // torch keeps one FP32 copy sharded and casts on gathering; BF16 gathers are buffers.
    m.weights =
        s.job.layout.fsdp_keeps_weights ? 2 * (p.dense / weights + p.experts / expert_weights) : 0;
    m.gradients = gradient * (p.dense / (s.dp * s.cp) + p.experts / s.expert_dp);
    m.optimizer = 12 * (p.dense / (s.dp * s.cp) + p.experts / s.expert_dp);
    return;
  }
  m.weights = 2 * (p.dense + p.experts);
  m.gradients = gradient * (p.dense + p.experts);
  const double shard = sw.distributed_optimizer ? s.dp * s.cp : 1;
  const double expert_shard = sw.distributed_optimizer ? s.expert_dp : 1;
  m.optimizer = 12 * (p.dense / shard + p.experts / expert_shard);
  if (sw.optimizer_offload) m.optimizer *= 1 - sw.offload_fraction;
}

bool Recomputes(const Switches& w, const char* module) {
  return w.recompute == "selective" && w.recompute_modules.contains(module);
}

}  // namespace

Saved SavedTensors(const Setting& s, LayerKind kind, bool full_recompute) {
  const ModelShape& m = s.shape;
  const Switches& sw = s.job.switches;
  const double rows = s.tokens / s.split;  // of a hidden-sized tensor
  Saved out;
  if (full_recompute) {
    out.bytes = 2 * rows * s.hidden;
    return out;
  }
  const double input = s.quantized ? 1 : 2;  // bytes of a saved GEMM input
  const double norm = rows * s.hidden * (2 + (Recomputes(sw, "layernorm") ? 0 : input));
  const double up = m.gated_mlp ? 2 : 1;
  if (HasAttention(kind)) {
    const double heads = D(m.heads) / s.tp;
    double q = heads * D(m.head_dim), kv = 2 * std::max(1.0, D(m.kv_groups) / s.tp) * D(m.head_dim),
           v = q;
    double latent = 0;
    if (m.mla) {
      q = heads * D(m.qk_head_dim + m.qk_rope_dim);
      v = heads * D(m.v_head_dim);
      kv = q + v;
      latent = 2 * (D(m.q_lora_rank) + D(m.kv_lora_rank)) * input * rows;
      if (Recomputes(sw, "mla_up_proj")) q = kv = 0;
    }
    double attention = s.tokens * (2 * (q + kv) + (2 + (s.quantized ? 1 : 0)) * v);
    if (!s.stack.flash_attention && !Recomputes(sw, "core_attn")) {
      attention += 5 * heads * s.tokens * s.seq;  // scores, softmax, dropout mask
    }
    out.bytes += norm + attention + latent;
  }
  if (kind == LayerKind::kMamba || kind == LayerKind::kDeltaMoe) {
    const double inner = InnerWidth(m) / s.tp;
    out.bytes += norm + s.tokens * inner * 12;
  }
  if (kind == LayerKind::kDense || kind == LayerKind::kMlp) {
    const double f = D(m.ffn) / s.tp;
    out.bytes += norm;
    if (!Recomputes(sw, "mlp")) out.bytes += s.tokens * f * (2 * up + input);
  }
  if (HasExperts(kind)) {
    const double width = m.moe_latent > 0 ? D(m.moe_latent) : s.hidden;
    const double f = D(m.expert_ffn) / s.etp;
    const double routed = s.ExpertShare() * s.etp;
    out.bytes += norm;
    if (!Recomputes(sw, "moe")) {
      const double act = Recomputes(sw, "moe_act") ? 0 : input * f;
      out.experts =
          routed * (input * width + 2 * up * f + act + (s.stack.early_probs ? 0 : 2 * width));
      if (!Recomputes(sw, "shared_experts")) {
        out.bytes += s.tokens * D(m.shared_ffn) / s.tp * (2 * up + input);
      }
    }
    out.bytes += out.experts;
  }
  return out;
}

double FullRecomputeShare(const Setting& s, const StageModel& stage) {
  const Switches& w = s.job.switches;
  if (w.recompute != "full") return 0;
  if (w.recompute_method != "block") return 1;
  double layers = 0;
  for (const int n : stage.layers) layers += n;
  // The count is per virtual stage.
  return layers > 0 ? std::min(1.0, w.recompute_layers * s.vp / layers) : 0;
}

namespace {

double InFlight(const Setting& s, int stage) {
  const double m = D(s.job.batch.microbatches);
  if (s.pp <= 1) return 1;
  if (s.vp > 1) {
    const double ahead = s.pp * (1 + (s.pp - 1) / (s.pp * s.vp)) - 2.0 * stage / s.vp;
    return std::min(m, std::max(1.0, ahead));
  }
  return std::min(m, s.pp - stage);
}

void Activations(const Setting& s, StageModel& stage, Memory& m) {
  const double full = FullRecomputeShare(s, stage);
  double held = 0, largest = 0;
  for (std::size_t k = 0; k < kLayerKindCount; ++k) {
    if (stage.layers[k] + (stage.mtp > 0 ? 1 : 0) == 0) continue;
    const auto kind = static_cast<LayerKind>(k);
    const double whole = SavedTensors(s, kind, false).bytes;
    const double kept = full > 0 ? SavedTensors(s, kind, true).bytes : 0;
    held += stage.layers[k] * ((1 - full) * whole + full * kept);
    if (stage.layers[k] > 0) largest = std::max(largest, whole);
    const bool mtp_kind = kind == (s.shape.experts > 0 ? LayerKind::kMoe : LayerKind::kDense);
    if (mtp_kind) held += stage.mtp * ((1 - full) * whole + full * kept);
  }
  // Working set: the layer at work, its gradients, or the whole of it while it is recomputed.
  const double working = full > 0 ? 1.5 * largest : 0.5 * largest;
  m.activations = s.c.activation_share * (held * stage.in_flight + working);
  const double offloaded = s.job.switches.activation_offload_layers;
  if (offloaded > 0 && s.shape.layers > 0) {
    m.activations *= 1 - std::min(1.0, offloaded / D(s.shape.layers));
  }
  if (stage.head) {
    const double vocab = D(s.job.batch.padded_vocab > 0 ? s.job.batch.padded_vocab : s.shape.vocab);
    m.logits = s.tokens * vocab / s.tp * (s.job.switches.ce_fusion ? 4 : 6);
  }
}

void Buffers(const Setting& s, const StageModel& stage, Memory& m) {
  const Switches& sw = s.job.switches;
  if (sw.dispatcher == "flex") m.buffers += s.c.flex_buffer_bytes;
  if (sw.cuda_graph == "full_iteration") {
    m.buffers += s.c.graph_peak_full * m.activations;
  } else if (!sw.cuda_graph.empty()) {
    m.buffers += s.c.graph_bytes;
  }
  if (!s.job.layout.fsdp.empty()) {
    // Two layers gathered at a time, and the gradients of one.
    double largest = 0;
    for (std::size_t k = 0; k < kLayerKindCount; ++k) {
      if (stage.layers[k] == 0) continue;
      const LayerParameters one = ParametersOf(s.shape, static_cast<LayerKind>(k));
      largest = std::max(largest, one.Dense() / s.tp + one.experts / (s.ep * s.etp));
    }
    m.buffers += largest * (2 * 2 + (s.conditions.frozen_base ? 0 : 4));
  }
}

}  // namespace

void PlanMemory(const Setting& s, StepModel& out) {
  const Switches& sw = s.job.switches;
  out.limit_bytes = D(s.machine.gpu.memory_bytes) * s.c.usable_memory;
  out.peak_bytes = -1;
  double build = 0, before_update = 0, unlucky = 0;
  for (std::size_t i = 0; i < out.stages.size(); ++i) {
    StageModel& stage = out.stages[i];
    Memory& m = stage.memory;
    m = Memory{};
    stage.in_flight = InFlight(s, static_cast<int>(i));
    StaticMemory(s, ShardsOf(s, stage), m);
    Activations(s, stage, m);
    Buffers(s, stage, m);
    m.fixed = s.c.fixed_bytes;
    if (!(sw.expandable_segments || s.stack.expandable_segments)) {
      m.fragmentation = s.conditions.varying_shapes
                            ? s.c.fragmentation_varying * m.Allocated()
                            : s.c.fragmentation * (m.activations + m.logits);
    }
    if (m.Total() > out.peak_bytes) {
      out.peak_bytes = m.Total();
      out.fullest = static_cast<int>(i);
    }
    // Moments come to life in the first update; before it there are weights, gradients, masters.
    const double moments = m.optimizer * 8 / 12;
    build = std::max(build, m.Static() - moments + m.fixed);
    before_update = std::max(before_update, m.Total() - moments);
    double experts = 0;
    for (std::size_t k = 0; k < kLayerKindCount; ++k) {
      if (stage.layers[k] == 0 || !HasExperts(static_cast<LayerKind>(k))) continue;
      experts +=
          stage.layers[k] *
          SavedTensors(s, static_cast<LayerKind>(k), FullRecomputeShare(s, stage) > 0).experts;
    }
    const bool natural = s.imbalance > 1;
    unlucky = std::max(unlucky, m.Total() + (natural ? s.c.late_imbalance * experts : 0));
  }
  out.fits = out.peak_bytes <= out.limit_bytes;
  out.oom = OomAt::kNone;
  if (build > out.limit_bytes) {
    out.oom = OomAt::kBuild;
  } else if (before_update > out.limit_bytes) {
    out.oom = OomAt::kForward;
  } else if (!out.fits) {
    out.oom = OomAt::kOptimizer;
  } else if (unlucky > out.limit_bytes) {
    out.oom = OomAt::kLate;
  }
}

}  // namespace attune::sim
