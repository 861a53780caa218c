// A step: layers make stages, stages make a pipeline, then gradients are reduced and weights
// updated. Every stage's terms are filled so that they add up to the step; what remains is its
// bubble.
#include "physics.h"

#include <algorithm>
#include <cmath>

#include "layer_time.h"
#include "memory.h"
#include "setting.h"
#include "stages.h"

namespace attune::sim {
namespace {

constexpr std::size_t At(Traffic t) { return static_cast<std::size_t>(t); }
constexpr std::size_t At(Term t) { return static_cast<std::size_t>(t); }

constexpr Term kExposedTerm[kTrafficCount] = {Term::kTpExposed, Term::kEpExposed, Term::kCpExposed,
                                              Term::kPpExposed, Term::kDpExposed};

// Adds `times` passes to a stage's terms and hidden traffic.
void Add(const Pass& p, double times, bool forward, StageModel& stage) {
  Terms& t = stage.terms;
  t[At(forward ? Term::kGemmForward : Term::kGemmBackward)] += times * p.gemm;
  t[At(forward ? Term::kExpertForward : Term::kExpertBackward)] += times * p.experts;
  t[At(forward ? Term::kAttentionForward : Term::kAttentionBackward)] += times * p.attention;
  t[At(forward ? Term::kMemoryForward : Term::kMemoryBackward)] += times * p.memory;
  t[At(forward ? Term::kScanForward : Term::kScanBackward)] += times * p.scan;
  t[At(Term::kRecompute)] += times * p.recompute;
  t[At(Term::kLaunchWait)] += times * p.wait;
  for (std::size_t k = 0; k < kTrafficCount; ++k) {
    t[At(kExposedTerm[k])] += times * p.exposed[k];
    stage.hidden[k] += times * (p.traffic[k] - p.exposed[k]);
  }
}

// Output layer and loss, and what a token prediction layer adds, are one term.
void AddHead(const Setting& s, const Pass& forward, const Pass& backward, double times,
             StageModel& stage) {
  stage.head_forward += times * forward.total;
  stage.head_backward += times * backward.total;
  stage.terms[At(Term::kHead)] +=
      D(s.job.batch.microbatches) * times * (forward.total + backward.total);
}

// Around a pass the host schedules it, fetches the batch and posts point-to-point messages. Where
// it runs ahead of the device nobody sees that; where the layers wait for launches it adds to the
// wait.
void AddPassLaunch(const Setting& s, const StepModel& model, StageModel& stage) {
  double forward = 0, backward = 0;
  for (std::size_t k = 0; k < kLayerKindCount; ++k) {
    forward += stage.layers[k] * model.layers[k].forward.launch;
    backward += stage.layers[k] * model.layers[k].backward.launch;
  }
  const double host = s.vp * s.c.launch_pass_s * s.stack.factor * LaunchFactor(s);
  const auto seen = [&](double launch, double total) {
    const double bound = total > 0 ? std::min(1.0, launch / total) : 0;
    return host * std::pow(bound, s.c.launch_sharpness);
  };
  const double f = seen(forward, stage.forward);
  const double b = s.c.launch_backward_ratio * seen(backward, stage.backward);
  stage.forward += f;
  stage.backward += b;
  stage.terms[At(Term::kLaunchWait)] += D(s.job.batch.microbatches) * (f + b);
}

void TimeStage(const Setting& s, const StepModel& model, const Pass& head_forward,
               const Pass& head_backward, StageModel& stage) {
  const double m = D(s.job.batch.microbatches);
  const double full = FullRecomputeShare(s, stage);
  const LayerKind mtp_kind = s.shape.experts > 0 ? LayerKind::kMoe : LayerKind::kDense;
  for (std::size_t k = 0; k < kLayerKindCount; ++k) {
    double n = stage.layers[k];
    if (static_cast<LayerKind>(k) == mtp_kind) n += stage.mtp;
    if (n <= 0) continue;
    const LayerModel& layer = model.layers[k];
    stage.forward += n * layer.forward.total;
    stage.backward += n * ((1 - full) * layer.backward.total + full * layer.backward_full.total);
    Add(layer.forward, m * n, true, stage);
    if (full < 1) Add(layer.backward, m * n * (1 - full), false, stage);
    if (full > 0) Add(layer.backward_full, m * n * full, false, stage);
  }
  AddPassLaunch(s, model, stage);
  if (stage.head) AddHead(s, head_forward, head_backward, 1 + stage.mtp, stage);
  if (stage.mtp > 0) {
    Pass join, join_back;  // the projection that joins embedding and hidden state
    join.gemm = s.Gemm(s.tokens, 2 * s.hidden, s.hidden / s.tp, true);
    join.total = join.gemm;
    join_back.gemm = join_back.total = 2 * join.gemm;
    AddHead(s, join, join_back, stage.mtp, stage);
  }
  stage.forward += stage.head_forward;
  stage.backward += stage.head_backward;
}

// Activations go to the next stage and gradients back, once a micro-batch and virtual stage.
double PipelineTraffic(const Setting& s, StageModel& stage) {
  if (s.pp <= 1) return 0;
  const double stride = s.job.world / s.pp;
  const bool same = 2 * stride <= s.machine.network.nvlink_domain ||
                    s.job.world <= s.machine.network.nvlink_domain;
  const double one = PointToPoint(s.machine, s.c, s.own_tokens * s.hidden * 2, same);
  const double share =
      s.vp > 1 && s.job.switches.overlap_p2p ? s.c.pp_exposed_overlapped : s.c.pp_exposed;
  const double m = D(s.job.batch.microbatches), whole = 2 * s.vp * one;
  stage.terms[At(Term::kPpExposed)] += m * whole * share;
  stage.hidden[At(Traffic::kPp)] += m * whole * (1 - share);
  stage.forward += whole / 2 * share;
  stage.backward += whole / 2 * share;
  return whole * share;
}

// Gradients to their owners, weights back, once a step. Returns what is exposed.
double DataTraffic(const Setting& s, const Shards& p, StageModel& stage) {
  if (!s.job.layout.fsdp.empty() || s.conditions.frozen_base) return 0;
  const Switches& w = s.job.switches;
  const double gradient = w.grads_fp32 ? 4 : 2;
  double reduce =
      RingTime(s.dp_group, p.dense * gradient) + RingTime(s.expert_dp_group, p.experts * gradient);
  double gather = 0;
  if (w.distributed_optimizer) {
    gather = RingTime(s.dp_group, p.dense * 2) + RingTime(s.expert_dp_group, p.experts * 2);
  } else {
    reduce *= 2;
  }
  // Overlap works on the last micro-batch's backward and the first one's forward.
  const auto exposed = [&](double comm, double cover, bool overlapped) {
    if (!overlapped) return comm;
    return std::max(0.0, comm - cover) + s.c.dp_exposed * std::min(comm, cover);
  };
  const double seen = exposed(reduce, stage.backward, w.overlap_grad_reduce) +
                      exposed(gather, stage.forward, w.overlap_param_gather);
  stage.terms[At(Term::kDpExposed)] += seen;
  stage.hidden[At(Traffic::kDp)] += reduce + gather - seen;
  return seen;
}

double UpdateTime(const Setting& s, const Shards& p, StageModel& stage) {
  const Switches& w = s.job.switches;
  const bool sharded = w.distributed_optimizer || !s.job.layout.fsdp.empty();
  double owned = p.dense + p.experts;
  if (sharded) owned = p.dense / (s.dp * s.cp) + p.experts / s.expert_dp;
  if (s.conditions.frozen_base) owned = 0;
  const double away = w.optimizer_offload ? w.offload_fraction : 0;
  const double update = s.c.optimizer_fixed_s + s.Moved(s.c.optimizer_bytes * owned * (1 - away));
  double offload = 0;
  if (away > 0) {
    // FP32 gradients down, BF16 weights back, and the update by the host's cores.
    offload = owned * away * (1 / s.c.offload_rate + 6 / s.machine.gpu.host_bandwidth);
  }
  stage.terms[At(Term::kOptimizer)] += update;
  stage.terms[At(Term::kOffload)] += offload;
  return update + offload;
}

// Activations of the offloaded layers leave and return over the host link, mostly in its shadow.
double ActivationOffload(const Setting& s, StageModel& stage) {
  const double layers = s.job.switches.activation_offload_layers;
  if (layers <= 0 || s.shape.layers <= 0) return 0;
  const double share = std::min(1.0, layers / D(s.shape.layers));
  const double bytes = stage.memory.activations / std::max(1e-9, 1 - share) * share;
  const double seconds = 2 * bytes / s.machine.gpu.host_bandwidth;
  const double cover = stage.forward + stage.backward;
  const double seen = std::max(0.0, seconds - cover) + 0.1 * std::min(seconds, cover);
  stage.terms[At(Term::kOffload)] += D(s.job.batch.microbatches) * seen;
  stage.backward += seen;
  return seen;
}

Trouble FindTrouble(const Setting& s) {
  const Layout& l = s.job.layout;
  const Switches& w = s.job.switches;
  if (w.dispatcher == "flex" && !s.machine.network.gpu_initiated && s.ep_group.domains > 1) {
    return {Failure::kStartCrash, "the flex dispatcher cannot cross nodes on this network"};
  }
  const int hang = s.stack.hang_cp_with_virtual_stages;
  if (hang > 0 && l.cp >= hang && l.vp > 1) {
    return {Failure::kHang, "context parallelism with virtual stages stops at the first step"};
  }
  if (l.tp > 1 && (s.shape.heads % l.tp != 0 || (!s.shape.mla && s.shape.kv_groups % l.tp != 0 &&
                                                 l.tp % s.shape.kv_groups != 0))) {
    return {Failure::kRefused, "heads do not divide by the tensor-parallel size"};
  }
  if (s.shape.experts > 0 && s.shape.experts % l.ep != 0) {
    return {Failure::kRefused, "experts do not divide by the expert-parallel size"};
  }
  if (l.vp > 1 && s.job.batch.microbatches < l.pp) {
    return {Failure::kRefused, "fewer micro-batches than pipeline stages with virtual stages"};
  }
  return {};
}

void Pipeline(const Setting& s, StepModel& out) {
  const double m = D(s.job.batch.microbatches);
  double sum = 0, slowest = -1, tail = 0;
  for (std::size_t i = 0; i < out.stages.size(); ++i) {
    StageModel& stage = out.stages[i];
    const double pass = stage.forward + stage.backward;
    sum += pass;
    if (pass > slowest) {
      slowest = pass;
      out.slowest = static_cast<int>(i);
    }
    const Shards p = ShardsOf(s, stage);
    const double end = DataTraffic(s, p, stage) + UpdateTime(s, p, stage);
    tail = std::max(tail, end);
    stage.terms[At(Term::kFixed)] += s.c.step_fixed_s;
  }
  out.step = m * slowest + (sum - slowest) / s.vp + tail + s.c.step_fixed_s;
  const int slow = s.stack.slow_cp_above;
  if (slow > 0 && s.job.layout.cp > slow) out.step = std::max(out.step, s.stack.slow_step_s);
  for (StageModel& stage : out.stages) {
    double own = 0;
    for (const double t : stage.terms) own += t;
    stage.terms[At(Term::kBubble)] = out.step - own;
  }
}

}  // namespace

std::string_view Word(Term t) {
  static constexpr std::string_view kWords[kTermCount] = {"gemm forward",
                                                          "gemm backward",
                                                          "expert forward",
                                                          "expert backward",
                                                          "attention forward",
                                                          "attention backward",
                                                          "memory forward",
                                                          "memory backward",
                                                          "scan forward",
                                                          "scan backward",
                                                          "recompute",
                                                          "head",
                                                          "launch wait",
                                                          "tp exposed",
                                                          "ep exposed",
                                                          "cp exposed",
                                                          "pp exposed",
                                                          "dp exposed",
                                                          "bubble",
                                                          "optimizer",
                                                          "offload",
                                                          "fixed"};
  return kWords[At(t)];
}

void ModelStep(const TrainingJob& job, const Machine& machine, const StackProfile& stack,
               const Coefficients& c, const Conditions& conditions, StepModel& out) {
  const Setting s(job, machine, stack, c, conditions);
  SplitStages(job, out.stages);
  out.imbalance = s.imbalance;
  out.microbatches = static_cast<int>(job.batch.microbatches);
  for (std::size_t k = 0; k < kLayerKindCount; ++k) {
    LayerModel& layer = out.layers[k];
    layer = LayerModel{};
    for (const StageModel& stage : out.stages) layer.count += stage.layers[k];
  }
  if (job.shape.mtp_layers > 0) {
    ++out.layers[static_cast<std::size_t>(job.shape.experts > 0 ? LayerKind::kMoe
                                                                : LayerKind::kDense)]
          .count;
  }
  for (std::size_t k = 0; k < kLayerKindCount; ++k) {
    if (out.layers[k].count > 0) TimeLayer(s, static_cast<LayerKind>(k), out.layers[k]);
  }
  PlanMemory(s, out);
  Pass head_forward, head_backward;
  TimeHead(s, head_forward, head_backward);
  for (StageModel& stage : out.stages) {
    TimeStage(s, out, head_forward, head_backward, stage);
    PipelineTraffic(s, stage);
    ActivationOffload(s, stage);
  }
  Pipeline(s, out);
  out.tokens_per_gpu = D(job.batch.gbs) * s.seq / (out.step * job.world);
  out.model_flops_token = FlopsPerToken(job.shape, s.seq);
  out.trouble = FindTrouble(s);
}

StepModel ModelStep(const TrainingJob& job, const Machine& machine, const StackProfile& stack,
                    const Coefficients& c, const Conditions& conditions) {
  StepModel out;
  ModelStep(job, machine, stack, c, conditions, out);
  return out;
}

}  // namespace attune::sim
