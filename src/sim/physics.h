// Time and memory of one training step: a pure function of the job, the machine, a stack profile
// and coefficients. Formulas and sources: docs/physics.md. Nothing here knows a model's or a
// recipe's name, and nothing is random: noise, faults and a world's own defects are added by the
// caller.
//
// Times are seconds, sizes bytes, rates bytes or FLOPs a second. One evaluation takes microseconds.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/model/gpu_spec.h"
#include "attune/model/training_job.h"
#include "coefficients.h"

namespace attune::sim {

enum class Architecture { kAmpere, kHopper, kBlackwell, kInstinct };

// How GPUs reach each other. Rates are one direction.
struct Network {
  std::string name;         // "infiniband", "efa", "roce", "nvl72"
  double nvlink_rate = 0;   // a GPU
  int nvlink_domain = 8;    // GPUs that share NVLink
  double nic_rate = 0;      // a NIC (rail)
  int nics_per_node = 8;    // rails of 8 GPUs; a group with r members a node uses min(r, this)
  double efficiency = 1.0;  // of this network against the usual one: all traffic between nodes
  double alltoall_efficiency = 1.0;  // likewise, all-to-all only
  bool gpu_initiated = true;         // IBGDA: DeepEP and HybridEP can cross nodes
};

struct Machine {
  GpuSpec gpu;
  Architecture architecture = Architecture::kHopper;
  Network network;
};

// Framework and versions as one named thing: at most one fitted scalar (`factor`), the rest are
// facts about what the stack contains. Rows of data/stacks.tsv.
struct StackProfile {
  std::string framework, version;
  double factor = 1;  // multiplies host launch time and the device work that is no plain GEMM
  bool flash_attention = true;
  // Attention kernels on Hopper: made for it (FlashAttention-3, cuDNN), or for Ampere.
  enum class Attention { kHopper, kFlash2, kTriton } attention = Attention::kHopper;
  // Block-scaled gated experts on Blackwell: GEMM, activation and quantising in one kernel that
  // takes the token counts from device memory, so the host need not wait for them.
  bool fused_experts = false;
  bool early_probs = false;          // routing weights applied before fc2: its output is not saved
  bool compiled = false;             // torch.compile: fewer, fused kernels
  bool expandable_segments = false;  // allocator default of the stack
  bool multi_token_prediction = true;  // trains such layers where the model has them
  std::string network = "infiniband";  // of the clusters it was seen on (data/networks.tsv)
  // Known ways this stack goes wrong; 0: not.
  int hang_cp_with_virtual_stages = 0;  // CP of at least this with virtual stages hangs at step 0
  int slow_cp_above = 0;                // CP above this: `slow_step_s` a step
  double slow_step_s = 0;
};

// What the job does that its arguments do not tell.
struct Conditions {
  bool frozen_base = false;     // LoRA: no weight gradients, optimizer states of the adapters only
  bool varying_shapes = false;  // rows of different length: fragmentation
  std::optional<double> imbalance;  // slowest expert rank's tokens over the mean; unset: by routing
  bool unfused_attention_norms = false;  // full-width QK norm, unfused RoPE
};

// What a second of a step is spent on. A stage's terms add up to the step exactly.
enum class Term {
  kGemmForward,
  kGemmBackward,  // dense matrices: attention projections, MLP, router
  kExpertForward,
  kExpertBackward,  // grouped expert GEMMs
  kAttentionForward,
  kAttentionBackward,
  kMemoryForward,
  kMemoryBackward,  // norms, residuals, activations, RoPE, permutation, quantising
  kScanForward,
  kScanBackward,  // state-space and gated-delta layers
  kRecompute,     // forward work done again, its collectives included
  kHead,          // output layer, loss, embedding lookup
  kLaunchWait,    // device idle until the host has launched
  kTpExposed,
  kEpExposed,
  kCpExposed,
  kPpExposed,
  kDpExposed,  // kDp: FSDP gathers too
  kBubble,     // waiting for other stages
  kOptimizer,
  kOffload,  // update on the GPU; on the host with its transfers
  kFixed,    // data, logging, gradient norm
  kCount
};
inline constexpr std::size_t kTermCount = static_cast<std::size_t>(Term::kCount);
std::string_view Word(Term t);
using Terms = std::array<double, kTermCount>;

enum class Traffic { kTp, kEp, kCp, kPp, kDp, kCount };
inline constexpr std::size_t kTrafficCount = static_cast<std::size_t>(Traffic::kCount);
using TrafficTimes = std::array<double, kTrafficCount>;

enum class LayerKind { kDense, kMoe, kAttention, kMlp, kExperts, kMamba, kDeltaMoe, kCount };
inline constexpr std::size_t kLayerKindCount = static_cast<std::size_t>(LayerKind::kCount);

// One pass (forward or backward) of one layer of one micro-batch on one rank.
struct Pass {
  double gemm = 0, experts = 0, attention = 0, memory = 0, scan = 0;  // kernels, busy seconds
  double recompute = 0;    // kernels and exposed communication of what is computed again
  TrafficTimes traffic{};  // whole collectives, hidden part included
  TrafficTimes exposed{};  // what nothing covers
  double launch = 0;       // host time to launch it all
  double wait = 0;         // device idle because of that
  double total = 0;        // = kernels + recompute + exposed + wait
  int kernels = 0;         // kernel launches, for a trace
  double Kernels() const { return gemm + experts + attention + memory + scan; }
};

struct LayerModel {
  int count = 0;  // layers of the model of this kind
  Pass forward, backward;
  Pass backward_full;  // with full recomputation of the layer; equal to `backward` without
};

// Bytes on one rank of a stage at its peak.
struct Memory {
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0, logits = 0;
  double buffers = 0;  // dispatcher, FSDP gathers, graphs
  double fragmentation = 0;
  double fixed = 0;
  double Static() const { return weights + gradients + optimizer; }
  double Allocated() const {
    return Static() + activations + logits + buffers;
  }  // what the framework prints
  double Total() const { return Allocated() + fragmentation + fixed; }
};

struct StageModel {
  std::array<int, kLayerKindCount> layers{};  // of each kind, virtual stages together
  bool embedding = false, head = false;
  int mtp = 0;
  double forward = 0, backward = 0;            // one micro-batch, everything exposed included
  double head_forward = 0, head_backward = 0;  // parts of the above: output layer and loss
  double in_flight = 0;   // micro-batches whose activations are held at the peak
  Terms terms{};          // of the whole step; sum == StepModel::step
  TrafficTimes hidden{};  // communication covered by compute, whole step
  Memory memory;
};

enum class OomAt { kNone, kBuild, kForward, kOptimizer, kLate };  // kLate: an imbalanced step
enum class Failure { kNone, kRefused, kStartCrash, kHang };
struct Trouble {
  Failure failure = Failure::kNone;
  std::string why;  // one sentence, for a log
};

struct StepModel {
  double step = 0;               // seconds
  double tokens_per_gpu = 0;     // tokens/s/GPU
  double model_flops_token = 0;  // forward and backward, no recomputation
  int microbatches = 0;
  double imbalance = 1;  // slowest expert rank over the mean, as used
  std::array<LayerModel, kLayerKindCount> layers;
  std::vector<StageModel> stages;  // pp of them
  int slowest = 0;                 // stage
  int fullest = 0;                 // stage with the highest memory
  double peak_bytes = 0;           // of the fullest stage, Memory::Total
  double limit_bytes = 0;          // what a rank can use
  bool fits = true;
  OomAt oom = OomAt::kNone;
  Trouble trouble;  // then no step was taken; times are what they would be
};

// The job must be consistent (ResolveMegatron made it, or a caller that keeps the same rules):
// degrees divide the world, micro-batches are whole.
StepModel ModelStep(const TrainingJob& job, const Machine& machine, const StackProfile& stack,
                    const Coefficients& c, const Conditions& conditions = {});
// The same without allocating: `out` is reused. For callers that evaluate millions.
void ModelStep(const TrainingJob& job, const Machine& machine, const StackProfile& stack,
               const Coefficients& c, const Conditions& conditions, StepModel& out);

// Whole parameters, and those a token meets in matrix multiplications (head included, input
// embedding not).
double TotalParameters(const ModelShape& shape);
double ActiveMatmulParameters(const ModelShape& shape);
// FLOPs a token, forward and backward: 6 x active + causal attention (cost model section 1).
double FlopsPerToken(const ModelShape& shape, double seq_len);

}  // namespace attune::sim
