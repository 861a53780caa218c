// The parts of one job's step and memory before any correction: arithmetic over sizes, worked out
// once; a factor for each term is then applied cheaply (assemble.cc, memory.cc).
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "attune/model/gpu_spec.h"
#include "attune/model/training_job.h"

namespace attune::estimate {

// Terms of the step time that a campaign may correct, in the order of Correction::Terms().
enum Term : std::size_t {
  kGemm,         // matrix products, as large ones
  kShape,        // what their shapes add
  kExperts,      // grouped products of the experts
  kAttention,    // score and value products
  kMemoryBound,  // norms, activations, permutation
  kLaunch,       // host time to launch a layer
  kTp,           // tensor-parallel collectives
  kAllToAll,     // expert dispatch and combine, alltoall and allgather
  kFlex,         // the same by DeepEP or HybridEP
  kCp,           // context-parallel ring
  kPp,           // stage-to-stage messages
  kDp,           // gradients and weights between replicas
  kShared,       // what overlap leaves exposed
  kBubble,       // fill and drain of the pipeline
  kRepeat,       // computing a part of the forward pass again
  kGraph,        // what captured graphs leave of the launch time
  kOptimizer,    // the update on the GPU and the fixed cost of a step
  kOffload,      // the update on the host
  kHead,         // embedding, output layer and loss
  kTerms
};
// Terms of the peak memory.
enum MemoryTerm : std::size_t { kWeights, kActivations, kFixed, kMemoryTerms };

using Factors = std::array<double, kTerms>;
using MemoryFactors = std::array<double, kMemoryTerms>;
constexpr Factors Ones() {
  Factors f{};
  f.fill(1);
  return f;
}

// Seconds of one layer and microbatch on one GPU in one pass.
struct Pass {
  double gemm = 0, shape = 0, experts = 0, attention = 0, memory_bound = 0, launch = 0;
  double tp = 0, tp_hidden = 0;  // exposed, and of it what is so only because overlap is not total
  double all_to_all = 0, flex = 0, ep_overlap_share = 1;  // share left exposed by EP overlap
  double cp = 0, cp_cover = 0;  // ring time, and attention time that can hide it
};
struct Layer {
  Pass forward, backward;
  double repeat = 0;  // part of the forward pass that the backward pass computes again, 0..1
  double graph = 0;   // part of the launch time under a captured graph, 0..1
};

enum Kind : std::size_t { kDense, kMoe, kMixer, kAttentionOnly, kMoeOnly, kKinds };
// A dense layer of a hybrid pattern is its MLP alone.
inline bool HasAttention(const ModelShape& s, Kind kind) {
  if (kind == kDense) return s.hybrid_pattern.empty();
  return kind == kMoe || kind == kAttentionOnly;
}
struct StageTerms {
  std::array<int, kKinds> layers{};
  std::array<double, kKinds> repeated{};  // layers that full recomputation covers
  double edge = 0;                        // embedding, output layer, loss: a microbatch
};

struct StepTerms {
  std::array<Layer, kKinds> kinds;
  std::vector<StageTerms> stages;  // one a pipeline rank
  int virtual_stages = 1;
  double microbatches = 1;
  double p2p = 0, p2p_exposed = 1;    // one boundary, one microbatch, one direction
  double dp = 0, dp_exposed = 1;      // a step
  double fsdp_layer = 0;              // gathers and scatters of one layer, hidden behind compute
  double optimizer = 0, offload = 0;  // a step
  double tokens = 0;                  // a step, all GPUs
  double gpus = 1;
};

// Nothing when a size is missing.
std::optional<StepTerms> TermsOf(const TrainingJob& job, const GpuSpec& gpu);

// Layers of each kind on each pipeline rank.
std::vector<StageTerms> StagesOf(const TrainingJob& job);

struct MemoryShape {
  double weights = 0, activations = 0, fixed = 0;  // bytes on the fullest GPU
  int stage = 0;
  double At(const MemoryFactors& f) const {
    return weights * f[kWeights] + activations * f[kActivations] + fixed * f[kFixed];
  }
};
// Of each pipeline rank.
std::vector<MemoryShape> MemoryOf(const TrainingJob& job, const GpuSpec& gpu);

// Parameters of one layer on one GPU: what tensor parallelism splits, and the routed experts.
struct LayerParameters {
  double dense = 0, experts = 0;
};
LayerParameters ParametersOf(const TrainingJob& job, Kind kind);

}  // namespace attune::estimate
