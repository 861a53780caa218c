// Formulas: matrix products by a roofline with shape losses (M/(M+128), N/(N+256), K/(K+256), wider
// for faster chips); flash attention at half the peak, backward 2.3 times forward; memory-bound
// work in bytes a token; collectives by volume over the slower of NVLink and the share of the
// network cards; 1F1B and interleaved pipelines (Narayanan et al., arXiv 2104.04473); expert
// traffic of DeepEP-like dispatchers one copy a node. Launch times: NVIDIA's Megatron-Bridge
// recompute table (Moonlight-16B on 8 H100, one microbatch: 13 to 15 ms a layer) and a dense
// layer's 0.5 to 1.5 ms. All of them are starting points: what a campaign measures corrects them.
#include "terms.h"

#include <algorithm>
#include <cmath>

#include "sizes.h"

namespace attune::estimate {
namespace {

constexpr double kPeakShare = 0.68;       // of the datasheet, a large square product
constexpr double kBandwidthShare = 0.75;  // of the datasheet, streaming kernels
constexpr double kLinkShare = 0.75;       // of NVLink and of network cards, large messages
constexpr double kPerHidden = 32;         // bytes a token and hidden unit, forward, memory-bound
constexpr double kPerRouted = 9;          // the same a routed copy: permute and unpermute
constexpr double kLinkDelay = 12e-6, kNetworkDelay = 40e-6;
constexpr double kDenseLaunch = 0.9e-3, kAttentionLaunch = 0.5e-3, kMixerLaunch = 0.7e-3;
constexpr double kMoeLaunch = 5.0e-3, kFlexLaunch = 0.65;
constexpr double kBackwardLaunch = 1.75;
constexpr double kFixedStep = 0.08;
constexpr double kHostAdam = 0.24e9;  // parameters a second and rank
constexpr double kOverlapLeft = 0.4;  // of tensor-parallel traffic under user buffers
constexpr double kDpLeft = 0.25, kEpLeft = 0.5;

class Builder {
 public:
  Builder(const TrainingJob& job, const GpuSpec& gpu)
      : job_(job), gpu_(gpu), s_(job.shape), l_(job.layout), w_(job.switches) {
    tokens_ = TokensOf(job);
    tp_ = l_.tp;
    const bool fp8 = w_.precision.find("fp8") != std::string::npos && gpu.fp8_flops > 0;
    const bool fp4 = w_.precision.find("fp4") != std::string::npos && gpu.fp4_flops > 0;
    peak_ = fp4 ? gpu.fp4_flops : fp8 ? gpu.fp8_flops : gpu.bf16_flops;
    if (w_.precision.starts_with("fp32")) peak_ /= 8;
    widen_ = peak_ / 989e12;
    bandwidth_ = gpu.memory_bandwidth * kBandwidthShare;
    per_node_ = std::min(job.gpus_per_node, gpu.nvlink_domain > 8 ? gpu.nvlink_domain : 8);
    per_node_ = std::max(1, std::min(per_node_, job.world));
    if (gpu.nvlink_domain > per_node_) per_node_ = std::min(gpu.nvlink_domain, job.world);
  }

  StepTerms Run() {
    StepTerms t;
    if (s_.hybrid_pattern.empty()) {
      if (s_.experts > 0) t.kinds[kMoe] = LayerOf(true, false, true, false);
      if (s_.experts == 0 || s_.dense_layers > 0) {
        t.kinds[kDense] = LayerOf(true, true, false, false);
      }
    } else {
      t.kinds[kDense] = LayerOf(false, true, false, false);
      t.kinds[kMixer] = LayerOf(false, false, false, true);
      t.kinds[kAttentionOnly] = LayerOf(true, false, false, false);
      t.kinds[kMoeOnly] = LayerOf(false, false, true, false);
    }
    t.stages = StagesOf(job_);
    stages_ = &t.stages;
    t.stages.front().edge += 6 * tokens_ * D(s_.hidden) / bandwidth_;
    t.stages.back().edge += Head();
    t.virtual_stages = l_.vp;
    t.microbatches = D(job_.batch.microbatches);
    t.p2p = Message(tokens_ * D(s_.hidden) * 2 / (l_.sequence_parallel ? tp_ : 1),
                    job_.world / l_.pp >= per_node_);
    t.p2p_exposed = w_.overlap_p2p ? 0.3 : 1;
    Replicas(t);
    Update(t);
    t.tokens = D(job_.batch.gbs) * D(job_.batch.seq_len);
    t.gpus = job_.world;
    return t;
  }

 private:
  // Seconds of a product: as a large square one would take, and what its shape adds.
  struct Product {
    double plain = 0, shape = 0;
    Product operator+(const Product& o) const { return {plain + o.plain, shape + o.shape}; }
  };
  Product Gemm(double m, double k, double n, double count = 1) const {
    if (m <= 0 || k <= 0 || n <= 0) return {};
    const double shape = m / (m + 128 * widen_) * n / (n + 256 * widen_) * k / (k + 256 * widen_);
    const double math = 2 * m * k * n / (peak_ * kPeakShare);
    const double bytes = 2 * (m * k + k * n + m * n) / bandwidth_;
    if (bytes > math / shape) return {count * bytes, 0};
    return {count * math, count * math * (1 / shape - 1)};
  }
  static void Add(Pass& f, const Product& p) {
    f.gemm += p.plain;
    f.shape += p.shape;
  }

  // Bandwidth of a group whose members stand `stride` ranks apart.
  double GroupBandwidth(int size, int stride, bool& across) const {
    across = static_cast<long long>(size) * stride > per_node_;
    const double link = gpu_.nvlink_bandwidth * kLinkShare;
    if (!across) return link;
    const int rails = std::max(1, per_node_ / std::max(1, stride));
    return std::min(link, std::min(rails, size) * gpu_.network_bandwidth * kLinkShare);
  }
  double Ring(double bytes, int size, int stride) const {  // gather or scatter of `bytes` in all
    if (size <= 1) return 0;
    bool across = false;
    const double bw = GroupBandwidth(size, stride, across);
    const double delay = across ? kNetworkDelay * std::log2(std::max(2, size)) : kLinkDelay;
    return bytes * (size - 1) / size / bw + delay;
  }
  double Message(double bytes, bool across) const {
    if (l_.pp <= 1) return 0;
    const double bw = across ? gpu_.network_bandwidth : gpu_.nvlink_bandwidth;
    return bytes / (bw * kLinkShare) + (across ? kNetworkDelay : kLinkDelay);
  }

  Layer LayerOf(bool attention, bool mlp, bool moe, bool mixer) const {
    Layer layer;
    Pass& f = layer.forward;
    const double h = D(s_.hidden);
    const double local = tokens_ / (l_.sequence_parallel ? tp_ : 1);
    double collectives = 0;
    if (attention) {
      Attention(f);
      collectives += 1;
      f.memory_bound += 0.5 * kPerHidden * local * h / bandwidth_;
      f.launch += kAttentionLaunch;
    }
    if (mixer) {
      const MixerSizes m = MixerOf(s_);
      Add(f, Gemm(tokens_, h, m.in / tp_) + Gemm(tokens_, m.inner / tp_, h));
      f.memory_bound += (kPerHidden * local * h + 60 * tokens_ * m.inner / tp_) / bandwidth_;
      f.launch += kMixerLaunch;
      collectives += 1;
    }
    if (mlp) {
      const double n = D(s_.ffn) / tp_;
      Add(f, Gemm(tokens_, h, (MlpMatrices(s_) - 1) * n) + Gemm(tokens_, n, h));
      f.memory_bound +=
          (0.3 * kPerHidden * local * h + 6 * tokens_ * n * MlpMatrices(s_) / 2) / bandwidth_;
      f.launch += kDenseLaunch - kAttentionLaunch;
      collectives += 1;
    }
    if (moe) Experts(f, local);
    if (tp_ > 1) {
      f.tp = collectives * 2 * Ring(tokens_ * h * 2, tp_, 1);
      if (w_.tp_comm_overlap) {
        f.tp_hidden = f.tp * kOverlapLeft;
        f.tp = 0;
      }
      f.launch *= 1.15;
    }
    layer.backward = Backward(f);
    if (attention) {
      // Only a hidden ring costs nothing: keys and values go round behind the score products.
      ContextRing(layer);
    }
    layer.repeat = Repeated(f, attention, mlp, moe);
    layer.graph = Captured(f, attention, moe, mixer);
    return layer;
  }

  void Attention(Pass& f) const {
    const AttentionSizes a = SizesOf(s_);
    const double h = D(s_.hidden);
    if (s_.mla) {
      if (a.q_rank > 0) {
        Add(f, Gemm(tokens_, h, a.q_rank) + Gemm(tokens_, a.q_rank, a.q / tp_));
      } else {
        Add(f, Gemm(tokens_, h, a.q / tp_));
      }
      Add(f, Gemm(tokens_, h, a.kv_rank + a.rope) + Gemm(tokens_, a.kv_rank, a.kv / tp_));
    } else {
      Add(f, Gemm(tokens_, h, (a.q + a.kv) / tp_));
    }
    Add(f, Gemm(tokens_, a.out / tp_, h));
    const double whole = D(job_.batch.seq_len) / 2;
    const double windowed = s_.window <= 0         ? 0
                            : s_.window_layers > 0 ? D(s_.window_layers) / D(s_.layers)
                                                   : 1;
    const double seen = windowed * std::min(D(s_.window), whole) + (1 - windowed) * whole;
    const double flops = 2 * tokens_ * seen * D(s_.heads) / tp_ * (a.qk + a.v);
    const bool slow = w_.attention_backend == "unfused" || w_.attention_backend == "local";
    f.attention = flops / (gpu_.bf16_flops * (slow ? 0.12 : 0.5));
    f.memory_bound += 8 * tokens_ * (a.q + a.kv) / tp_ / bandwidth_;
  }

  void Experts(Pass& f, double local) const {
    const double wide = D(s_.hidden), k = D(s_.topk), fe = D(s_.expert_ffn) / l_.etp;
    const double h = s_.moe_latent > 0 ? D(s_.moe_latent) : wide;  // in which the experts work
    if (s_.moe_latent > 0) Add(f, Gemm(local, wide, h) + Gemm(local, wide, h));
    const double routed = local * k * l_.etp;  // copies that reach one GPU when balanced
    const double here = std::max(1.0, D(s_.experts) / l_.ep);
    const double rows = routed / here;
    const Product routed_products =
        Gemm(rows, h, (MlpMatrices(s_) - 1) * fe, here) + Gemm(rows, fe, h, here);
    f.experts = routed_products.plain;
    f.shape += routed_products.shape;
    if (s_.shared_ffn > 0) {
      const double n = D(s_.shared_ffn) / tp_;
      Add(f, Gemm(tokens_, wide, (MlpMatrices(s_) - 1) * n) + Gemm(tokens_, n, wide));
    }
    Add(f, Gemm(local, wide, D(s_.experts)));
    const double routed_bytes = (w_.permute_fusion ? kPerRouted : 1.6 * kPerRouted) * routed * h;
    f.memory_bound +=
        (0.5 * kPerHidden * local * wide + routed_bytes + 6 * routed * fe) / bandwidth_;
    f.launch += kMoeLaunch * (w_.dispatcher == "flex" ? kFlexLaunch : 1);
    if (!w_.grouped_gemm && here > 1) f.launch += 0.12e-3 * here;
    if (!w_.permute_fusion) f.launch += 0.4e-3;
    Dispatch(f, local);
    f.ep_overlap_share = w_.ep_overlap ? kEpLeft : w_.shared_expert_overlap ? 0.9 : 1;
  }

  // Dispatch and combine of one pass.
  void Dispatch(Pass& f, double local) const {
    const int group = l_.ep * l_.etp;
    if (group <= 1) return;
    const double token = 2 * D(s_.moe_latent > 0 ? s_.moe_latent : s_.hidden), k = D(s_.topk);
    const double out = 1 - 1.0 / group;
    const double off_node = std::max(0.0, 1 - static_cast<double>(per_node_) / group);
    const double link = gpu_.nvlink_bandwidth * kLinkShare;
    // All-to-all over many peers reaches a little less of the network than a ring does.
    const double network = gpu_.network_bandwidth * 0.7;
    const double delay = off_node > 0 ? 2 * kNetworkDelay : 2 * kLinkDelay;
    double copies = k, far = k;
    if (w_.dispatcher == "allgather") {
      copies = far = group;
    } else if (w_.dispatcher == "flex") {
      const double nodes = std::max(1.0, static_cast<double>(group) / per_node_);
      far = nodes * (1 - std::pow(1 - 1 / nodes, k));
      copies = std::min(k, group * (1 - std::pow(1 - 1.0 / group, k)));
    }
    const double near_bytes = local * copies * token * (out - off_node) * l_.etp;
    const double far_bytes = local * far * token * off_node;
    const double time = 2 * (near_bytes / link + far_bytes / network + delay);
    (w_.dispatcher == "flex" ? f.flex : f.all_to_all) += time;
  }

  static Pass Backward(const Pass& f) {
    Pass b = f;
    b.gemm *= 2;
    b.shape *= 2;
    b.experts *= 2;
    b.attention *= 2.3;
    b.memory_bound *= 1.6;
    b.launch *= kBackwardLaunch;
    b.tp *= 1.5;
    b.tp_hidden *= 1.5;
    return b;
  }

  void ContextRing(Layer& layer) const {
    if (l_.cp <= 1) return;
    const AttentionSizes a = SizesOf(s_);
    const double bytes = tokens_ * a.kv / tp_ * 2 * l_.cp;
    layer.forward.cp = Ring(bytes, l_.cp, tp_);
    layer.forward.cp_cover = 0.8 * layer.forward.attention;
    layer.backward.cp = 2 * layer.forward.cp;
    layer.backward.cp_cover = 0.8 * layer.backward.attention;
    layer.forward.launch += 0.1e-3 * l_.cp;
    layer.backward.launch += 0.2e-3 * l_.cp;
  }

  // Part of a layer's forward pass that selective recomputation repeats. Full: StageTerms.
  double Repeated(const Pass& f, bool attention, bool mlp, bool moe) const {
    if (w_.recompute != "selective") return 0;
    const double all = f.gemm + f.shape + f.experts + f.attention + f.memory_bound;
    if (all <= 0) return 0;
    const auto on = [&](const char* m) { return w_.recompute_modules.contains(m); };
    double part = 0;
    if (attention && on("core_attn")) part += f.attention / all;
    if (on("layernorm")) part += 0.03;
    if (moe && on("moe")) part += 0.75;
    if (moe && !on("moe") && on("moe_act")) part += 0.03;
    if (moe && on("shared_experts")) part += 0.06;
    if (attention && on("mla_up_proj")) part += 0.05;
    if (mlp && on("mlp")) part += 0.5;
    return std::min(1.0, part);
  }

  double Captured(const Pass& f, bool attention, bool moe, bool mixer) const {
    if (w_.cuda_graph.empty() || f.launch <= 0) return 0;
    if (w_.cuda_graph == "full_iteration") return 0.9;
    const auto on = [&](const char* m) {
      return w_.cuda_graph_modules.contains(m) || w_.cuda_graph_modules.empty();
    };
    double part = 0;
    if (attention && on("attn")) part += kAttentionLaunch / f.launch;
    if (mixer && on("mamba")) part += 0.8;
    if (!moe && on("mlp")) part += 0.3;
    if (moe && on("moe_router")) part += 0.1;
    if (moe && on("moe_preprocess")) part += 0.1;
    return std::min(0.85, part);
  }

  double Head() const {
    const double n = D(job_.batch.padded_vocab) / tp_;
    const double loss = (w_.ce_fusion ? 10 : 22) * tokens_ * n / bandwidth_;
    const Product p = Gemm(tokens_, D(s_.hidden), n);
    return 3 * (p.plain + p.shape) + loss;
  }

  double OwnedParameters(bool experts) const {
    double all = 0;
    std::array<LayerParameters, kKinds> each;
    for (std::size_t k = 0; k < kKinds; ++k) each[k] = ParametersOf(job_, static_cast<Kind>(k));
    for (const StageTerms& st : *stages_) {
      double here = 0;
      for (std::size_t k = 0; k < kKinds; ++k) {
        here += st.layers[k] * (experts ? each[k].experts : each[k].dense);
      }
      all = std::max(all, here);
    }
    if (!experts) all += D(job_.batch.padded_vocab) * D(s_.hidden) / tp_;
    return all;
  }

  void Replicas(StepTerms& t) const {
    const double grad = w_.grads_fp32 ? 4 : 2;
    const double dense = OwnedParameters(false), experts = OwnedParameters(true);
    const int replicas = l_.dp * l_.cp;
    if (!l_.fsdp.empty()) {
      // Gathers in both passes and a scatter, of every layer and microbatch, behind the compute.
      const LayerParameters p = ParametersOf(job_, s_.experts > 0 ? kMoe : kDense);
      t.fsdp_layer = Ring((2 * 2 + grad) * p.dense, replicas, tp_) +
                     Ring((2 * 2 + grad) * p.experts, l_.expert_dp, l_.ep * l_.etp);
      return;
    }
    const auto traffic = [&](double bytes, int n, int stride) { return Ring(bytes, n, stride); };
    const double gather = 2;  // bf16 weights, or the second half of an all-reduce
    t.dp = traffic(dense * (grad + gather), replicas, tp_) +
           traffic(experts * (grad + gather), l_.expert_dp, l_.ep * l_.etp);
    const double reduce = grad / (grad + gather);
    t.dp_exposed = (w_.overlap_grad_reduce ? kDpLeft : 1) * reduce +
                   (w_.overlap_param_gather ? kDpLeft : 1) * (1 - reduce);
  }

  void Update(StepTerms& t) const {
    const int replicas = std::max(1, l_.dp * l_.cp);
    const bool shards = w_.distributed_optimizer || !l_.fsdp.empty();
    const double owned = OwnedParameters(false) / (shards ? replicas : 1) +
                         OwnedParameters(true) / (shards ? std::max(1, l_.expert_dp) : 1);
    const double away = w_.optimizer_offload ? w_.offload_fraction : 0;
    t.optimizer = kFixedStep + 30 * owned * (1 - away) / bandwidth_;
    t.offload = away * owned * (1 / kHostAdam + 6 / gpu_.host_bandwidth);
  }

  const TrainingJob& job_;
  const GpuSpec& gpu_;
  const ModelShape& s_;
  const Layout& l_;
  const Switches& w_;
  const std::vector<StageTerms>* stages_ = nullptr;
  double tokens_ = 0, peak_ = 0, widen_ = 1, bandwidth_ = 0;
  int tp_ = 1, per_node_ = 8;
};

}  // namespace

std::optional<StepTerms> TermsOf(const TrainingJob& job, const GpuSpec& gpu) {
  if (job.shape.layers < 1 || job.shape.hidden < 1 || job.batch.mbs < 1 ||
      job.batch.microbatches < 1) {
    return std::nullopt;
  }
  return Builder(job, gpu).Run();
}

}  // namespace attune::estimate
