// A layer is a mixer (attention or state space) and a feed-forward part (dense or experts), each
// with its norm; hybrid models have one of them a layer. Forward is summed up term by term;
// backward is the same work with the ratios of the cost model: twice the GEMMs, once when nothing
// is learned from them, more for attention and memory-bound work. Per pass the device takes kernels
// plus what communication is exposed; when the host launches slower than that, it waits.
#include "layer_time.h"

#include <cmath>

namespace attune::sim {
namespace {

constexpr std::size_t At(Traffic t) { return static_cast<std::size_t>(t); }

// Forward work of a layer in pieces that recomputation can name.
struct Work {
  double gemm = 0, experts = 0, attention = 0, memory = 0, scan = 0;
  double tp = 0, ep = 0, cp = 0;  // whole collectives, seconds
  double launch = 0;
  int kernels = 0;
  // What selective recomputation of a module does again.
  double again_norm = 0, again_mlp = 0, again_moe = 0, again_moe_act = 0, again_up = 0,
         again_shared = 0;
  double parameters = 0;  // of the layer on this rank, for FSDP
};

double NormTime(const Setting& s) {
  return s.Moved(s.c.norm_bytes * s.tokens / s.split * s.hidden);
}

// Gather before, scatter after (or one all-reduce: the same volume).
double TensorTraffic(const Setting& s, double times) {
  return times * RingTime(s.tp_group, s.tokens * s.hidden * 2);
}

double HeadWidthFactor(const Setting& s, double width) {
  const double x = s.c.attention_head_width;
  return width / (width + x) * (128 + x) / 128;
}

void AddAttention(const Setting& s, Work& w) {
  const ModelShape& m = s.shape;
  const double heads = D(m.heads) / s.tp;
  double qk = D(m.head_dim), v = D(m.head_dim), kv_width = 0;
  if (m.mla) {
    qk = D(m.qk_head_dim + m.qk_rope_dim);
    v = D(m.v_head_dim);
    const double kv_rank = D(m.kv_lora_rank), rope = D(m.qk_rope_dim);
    // Down projections are not sharded; under sequence parallelism each rank does its tokens.
    const double rows = s.tokens / s.split;
    double up = s.Gemm(s.tokens, kv_rank, heads * (D(m.qk_head_dim) + v), true);
    w.gemm += s.Gemm(rows, s.hidden, kv_rank + rope, true);
    if (m.q_lora_rank > 0) {
      w.gemm += s.Gemm(rows, s.hidden, D(m.q_lora_rank), true);
      up += s.Gemm(s.tokens, D(m.q_lora_rank), heads * qk, true);
    } else {
      w.gemm += s.Gemm(s.tokens, s.hidden, heads * qk, true);
    }
    w.gemm += up;
    w.again_up = up;
    w.kernels += 6;
    kv_width = heads * (qk + v);
  } else {
    const double groups = std::max(1.0, D(m.kv_groups) / s.tp);
    kv_width = groups * 2 * qk;
    w.gemm += s.Gemm(s.tokens, s.hidden, heads * qk + kv_width, true);
  }
  w.gemm += s.Gemm(s.tokens, heads * v, s.hidden, true);
  const double wide = s.tokens * (heads * qk + kv_width + heads * v);
  const double fresh = s.Moved(s.c.wide_bytes * wide);
  w.memory += fresh + s.Quantize(s.tokens * (s.hidden + heads * v));
  w.again_up += fresh;
  const double pairs = heads * s.tokens * AttendedTokens(m, s.seq);
  const double flops = 2 * pairs * (qk + v);
  if (s.stack.flash_attention) {
    const double fill = s.seq / (s.seq + s.c.attention_short_tokens);
    w.attention += flops / (s.attention_rate * HeadWidthFactor(s, (qk + v) / 2) * fill);
  } else {
    // Whole score matrix, above the diagonal too.
    w.attention +=
        2 * flops / (s.peak_bf16 * s.gemm_bf16 * 0.6) + s.Moved(s.c.score_bytes * 2 * pairs);
  }
  if (s.cp > 1) {
    // A ring of K/V blocks: (CP - 1) messages of this rank's own block.
    const double block = s.tokens * kv_width * 2;
    w.cp += (s.cp - 1) * (block / s.cp_group.rate + s.cp_group.latency);
  }
  w.tp += TensorTraffic(s, 2);
  w.kernels += 8;
}

void AddScan(const Setting& s, LayerKind kind, Work& w) {
  const ModelShape& m = s.shape;
  const double inner = InnerWidth(m) / s.tp, state = D(m.ssm_state);
  double per_element = 6;
  if (kind == LayerKind::kMamba) {
    const double in = 2 * inner + (2 * D(m.ssm_groups) * state + D(m.ssm_heads)) / s.tp;
    w.gemm += s.Gemm(s.tokens, s.hidden, in, true) + s.Gemm(s.tokens, inner, s.hidden, true);
  } else {
    const double key = D(m.ssm_groups) * D(m.ssm_head_dim) / s.tp;
    per_element = 8;
    w.gemm += s.Gemm(s.tokens, s.hidden, 2 * inner + 2 * key, true) +
              s.Gemm(s.tokens, inner, s.hidden, true);
  }
  w.memory += s.Quantize(s.tokens * (s.hidden + inner));
  w.scan += per_element * inner * state * s.tokens / (s.peak_bf16 * s.c.scan_efficiency) +
            s.Moved(s.c.scan_bytes * s.tokens * inner);
  w.tp += TensorTraffic(s, 2);
  w.launch += s.c.launch_mixer_s;
  w.kernels += 14;
}

void AddMlp(const Setting& s, Work& w) {
  const double width = D(s.shape.ffn) / s.tp, up = s.shape.gated_mlp ? 2 : 1;
  const double math =
      s.Gemm(s.tokens, s.hidden, up * width, true) + s.Gemm(s.tokens, width, s.hidden, true);
  const double moved = s.Moved(s.c.wide_bytes * s.tokens * width * (up + 1) / 2) +
                       s.Quantize(s.tokens * (s.hidden + width));
  w.gemm += math;
  w.memory += moved;
  w.again_mlp = math + moved;
  w.tp += TensorTraffic(s, 2);
  w.kernels += 5;
}

// Nodes that group-limited routing lets one token reach.
double NodesOfToken(const Setting& s) {
  if (s.shape.router_groups <= 0 || s.shape.group_topk <= 0) return s.ep_group.domains;
  return std::ceil(s.ep_group.domains * D(s.shape.group_topk) / D(s.shape.router_groups));
}

bool FusedExperts(const Setting& s) {
  return s.stack.fused_experts && s.block_scaled && s.shape.gated_mlp && !s.shape.linear_bias &&
         s.machine.architecture == Architecture::kBlackwell;
}

double DispatchTraffic(const Setting& s, double width) {
  const Switches& w = s.job.switches;
  const double slowest =
      1 + (s.imbalance - 1) / 2;  // its own sends are average, what it gets is not
  const double bytes = s.own_tokens * width * 2;
  if (w.dispatcher == "allgather") return RingTime(s.ep_group, bytes * s.ep * s.etp);
  const bool flex = w.dispatcher == "flex";
  double time = AllToAllTime(s.machine, s.c, s.ep_group,
                             {.bytes = bytes * D(s.shape.topk) * slowest,
                              .topk = D(s.shape.topk),
                              .places = NodesOfToken(s),
                              .efficiency = flex ? s.c.ep_flex : s.c.ep_alltoall,
                              .flex = flex});
  // Expert tensor parallelism gathers what each of its ranks received.
  if (s.etp > 1) time += RingTime(s.etp_group, bytes * D(s.shape.topk) * slowest * s.etp);
  return time;
}

void AddExperts(const Setting& s, Work& w) {
  const ModelShape& m = s.shape;
  const double up = m.gated_mlp ? 2 : 1;
  const double width = m.moe_latent > 0 ? D(m.moe_latent) : s.hidden;
  const double local = std::max(1.0, D(m.experts) / s.ep);
  const double inner = D(m.expert_ffn) / s.etp;
  const double routed = s.ExpertShare() * s.etp;  // tokens this rank's experts work on
  const double each = routed / local;
  w.gemm += s.Gemm(s.own_tokens, s.hidden, D(m.experts), false);
  const double math =
      s.GroupedGemm(local, each, width, up * inner) + s.GroupedGemm(local, each, inner, width);
  const bool fused = FusedExperts(s);
  const double left = fused ? s.c.fused_experts : 1;
  const double activation = left * s.Moved(s.c.wide_bytes * routed * inner * (up + 1) / 2);
  const double quantize = left * s.c.expert_quantize_ratio * s.Quantize(routed * (width + inner));
  double bias = 0;
  if (m.linear_bias) bias = s.Moved(s.c.bias_bytes * routed * (up * inner + width));
  const double permute = s.Moved(s.c.permute_bytes * routed * width);
  w.experts += math;
  w.memory += activation + quantize + permute + bias;
  w.again_moe_act = activation + quantize / 2;
  const double dispatch = DispatchTraffic(s, width);
  w.ep += 2 * dispatch;
  double shared = 0;
  if (m.shared_ffn > 0) {
    const double f = D(m.shared_ffn) / s.tp;
    shared = s.Gemm(s.tokens, s.hidden, up * f, true) + s.Gemm(s.tokens, f, s.hidden, true);
    w.gemm += shared;
    const double moved = s.Moved(s.c.wide_bytes * s.tokens * f * (up + 1) / 2) +
                         s.Quantize(s.tokens * (s.hidden + f));
    w.memory += moved;
    shared += moved;
    w.tp += TensorTraffic(s, 2);
    w.kernels += 5;
  }
  if (m.moe_latent > 0) {
    w.gemm +=
        s.Gemm(s.own_tokens, s.hidden, width, true) + s.Gemm(s.own_tokens, width, s.hidden, true);
  }
  w.again_shared = shared;
  w.again_moe = math + activation + quantize + permute + bias + shared + w.ep;
  const bool flex = s.job.switches.dispatcher == "flex";
  w.launch += s.c.launch_moe_s * (flex ? s.c.launch_flex : 1) * (fused ? s.c.launch_sync_free : 1);
  w.kernels += 24 + static_cast<int>(up);
}

// Weights of the layer on one rank before FSDP shards them.
double LayerWeights(const Setting& s, LayerKind kind) {
  const LayerParameters p = ParametersOf(s.shape, kind);
  return (p.attention + p.mlp) / s.tp + p.router + p.experts / (s.ep * s.etp);
}

Work ForwardWork(const Setting& s, LayerKind kind) {
  Work w;
  if (HasAttention(kind)) {
    AddAttention(s, w);
    w.memory += NormTime(s);
    w.again_norm += NormTime(s) / 2;
    w.launch += s.c.launch_dense_s / 2;
  }
  if (kind == LayerKind::kMamba || kind == LayerKind::kDeltaMoe) {
    AddScan(s, kind, w);
    w.memory += NormTime(s);
    w.again_norm += NormTime(s) / 2;
  }
  if (kind == LayerKind::kDense || kind == LayerKind::kMlp) {
    AddMlp(s, w);
    w.memory += NormTime(s);
    w.again_norm += NormTime(s) / 2;
    w.launch += s.c.launch_dense_s / 2;
  }
  if (HasExperts(kind)) {
    AddExperts(s, w);
    w.memory += NormTime(s);
    w.again_norm += NormTime(s) / 2;
  }
  if (s.stack.compiled) w.memory *= s.c.compiled_memory;
  w.parameters = LayerWeights(s, kind);
  // The stack's scalar: how much more this stack spends on what is no plain GEMM.
  w.memory *= s.stack.factor;
  w.scan *= s.stack.factor;
  w.launch *= s.stack.factor;
  return w;
}

void Expose(const Setting& s, const Work& w, double ratio, bool forward, Pass& p) {
  const Switches& sw = s.job.switches;
  p.traffic[At(Traffic::kTp)] = w.tp * (forward ? 1 : 1.5);
  p.traffic[At(Traffic::kEp)] = w.ep;
  p.traffic[At(Traffic::kCp)] = w.cp * ratio;
  double tp_share = sw.tp_comm_overlap ? s.c.tp_exposed_overlapped : s.c.tp_exposed;
  p.exposed[At(Traffic::kTp)] = p.traffic[At(Traffic::kTp)] * tp_share;
  double ep_share = 1;
  if (sw.ep_overlap) {
    ep_share = 1 - s.c.ep_overlap_hidden;
  } else if (sw.shared_expert_overlap && s.shape.shared_ffn > 0) {
    ep_share = 1 - s.c.ep_shared_hidden;
  }
  // Overlap hides no more than there is to compute.
  const double ep = p.traffic[At(Traffic::kEp)];
  p.exposed[At(Traffic::kEp)] = std::max(ep * ep_share, ep - p.Kernels());
  const double cp = p.traffic[At(Traffic::kCp)];
  p.exposed[At(Traffic::kCp)] =
      std::max(0.0, cp - p.attention) + s.c.cp_exposed * std::min(cp, p.attention);
}

// FSDP: a gather of the layer's weights a pass, a reduce-scatter of its gradients in backward.
void AddSharding(const Setting& s, const Work& w, bool forward, Pass& p) {
  if (s.job.layout.fsdp.empty()) return;
  const double bytes = w.parameters * 2;
  const bool keep = s.job.layout.fsdp_keeps_weights;
  double comm = 0;
  if (forward || !keep) comm += RingTime(s.dp_group, bytes);
  if (!forward && !s.conditions.frozen_base) {
    comm += RingTime(s.dp_group, bytes * (s.job.switches.grads_fp32 ? 2 : 1));
  }
  p.traffic[At(Traffic::kDp)] = comm;
  const double cover = p.Kernels() + p.recompute;
  p.exposed[At(Traffic::kDp)] =
      std::max(0.0, comm - cover) + s.c.fsdp_exposed * std::min(comm, cover);
}

void Close(const Setting& s, double launch, Pass& p) {
  double busy = p.Kernels() + p.recompute;
  for (const double x : p.exposed) busy += x;
  p.launch = launch * LaunchFactor(s);
  const double n = s.c.launch_sharpness;
  p.total = busy * std::pow(1 + std::pow(p.launch / std::max(busy, 1e-9), n), 1 / n);
  p.wait = p.total - busy;
}

}  // namespace

double LaunchFactor(const Setting& s) {
  const std::string& graph = s.job.switches.cuda_graph;
  double f = s.stack.compiled ? s.c.launch_compiled : 1;
  if (graph == "full_iteration") {
    f *= s.c.launch_graph_full;
  } else if (!graph.empty()) {
    f *= s.c.launch_graph_partial;
  }
  return f;
}

namespace {

bool Recomputes(const Switches& w, const char* module) {
  return w.recompute == "selective" && w.recompute_modules.contains(module);
}

}  // namespace

void TimeLayer(const Setting& s, LayerKind kind, LayerModel& out) {
  const Work w = ForwardWork(s, kind);
  const Switches& sw = s.job.switches;
  Pass f;
  f.gemm = w.gemm;
  f.experts = w.experts;
  f.attention = w.attention;
  f.memory = w.memory;
  f.scan = w.scan;
  f.kernels = w.kernels;
  Expose(s, w, 1, true, f);
  AddSharding(s, w, true, f);
  Close(s, w.launch, f);

  Pass b;
  const double gemms = s.conditions.frozen_base ? 1 : 2;
  b.gemm = gemms * w.gemm;
  b.experts = gemms * w.experts;
  b.attention = s.c.attention_backward_ratio * w.attention;
  b.memory = s.c.memory_backward_ratio * w.memory;
  b.scan = s.c.attention_backward_ratio * w.scan;
  b.kernels = 2 * w.kernels;
  double launch = s.c.launch_backward_ratio * w.launch;
  Expose(s, w, 2, false, b);

  Pass full = b;
  int modules = 0;
  const auto again = [&](const char* module, double seconds) {
    if (!Recomputes(sw, module) || seconds <= 0) return;
    b.recompute += seconds;
    ++modules;
  };
  again("core_attn", w.attention);
  again("layernorm", w.again_norm);
  again("mla_up_proj", w.again_up);
  again("mlp", w.again_mlp);
  again("moe_act", w.again_moe_act);
  again("moe", w.again_moe);
  again("shared_experts", w.again_shared);
  const double modules_launch = modules * s.c.launch_module_s * s.stack.factor +
                                (Recomputes(sw, "moe") && HasExperts(kind) ? w.launch * 0.7 : 0);
  AddSharding(s, w, false, b);
  Close(s, launch + modules_launch, b);

  full.recompute = f.Kernels() + f.exposed[At(Traffic::kTp)] + f.exposed[At(Traffic::kEp)] +
                   f.exposed[At(Traffic::kCp)];
  full.kernels += w.kernels;
  AddSharding(s, w, false, full);
  Close(s, launch + w.launch, full);

  out.forward = f;
  out.backward = b;
  out.backward_full = full;
}

void TimeHead(const Setting& s, Pass& forward, Pass& backward) {
  const double vocab = D(s.job.batch.padded_vocab > 0 ? s.job.batch.padded_vocab : s.shape.vocab);
  forward = backward = {};
  forward.gemm = s.Gemm(s.tokens, s.hidden, vocab / s.tp, false);
  forward.memory = s.Moved(s.c.logit_bytes / 2 * s.tokens * vocab / s.tp) + NormTime(s);
  if (s.tp > 1) {
    forward.traffic[At(Traffic::kTp)] = forward.exposed[At(Traffic::kTp)] =
        RingTime(s.tp_group, s.tokens * s.hidden * 2);
  }
  backward = forward;
  backward.gemm *= s.conditions.frozen_base ? 1 : 2;
  const double share = s.job.switches.ce_fusion ? 0.6 : 1;
  forward.memory *= share;
  backward.memory *= share;
  forward.kernels = 12;
  backward.kernels = 10;
  for (Pass* p : {&forward, &backward}) {
    p->total = p->Kernels() + p->exposed[At(Traffic::kTp)];
  }
}

}  // namespace attune::sim
