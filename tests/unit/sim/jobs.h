// Jobs for the tests of the step model.
#pragma once

#include <string_view>

#include "attune/base/check.h"
#include "model_table.h"
#include "machines.h"
#include "physics.h"

namespace attune::sim {

struct Degrees {
  int tp = 1, pp = 1, vp = 1, ep = 1, cp = 1;
};

// BF16, distributed optimizer with overlap, sequence parallelism with TP, alltoall dispatcher.
inline TrainingJob MakeJob(std::string_view model, int world, Degrees d, std::int64_t gbs,
                           std::int64_t mbs, std::int64_t seq) {
  const ModelRow* const row = FindModel(model);
  ATTUNE_CHECK(row != nullptr, "no such model");
  TrainingJob job;
  job.shape = ShapeOf(*row);
  job.shape.mtp_layers = 0;
  job.world = world;
  Layout& l = job.layout;
  l.tp = d.tp;
  l.pp = d.pp;
  l.vp = d.vp;
  l.ep = d.ep;
  l.cp = d.cp;
  l.dp = world / (d.tp * d.pp * d.cp);
  l.expert_dp = std::max(1, world / (d.ep * d.pp));
  l.sequence_parallel = d.tp > 1;
  Batch& b = job.batch;
  b.gbs = gbs;
  b.mbs = mbs;
  b.seq_len = seq;
  b.microbatches = gbs / (mbs * l.dp);
  b.padded_vocab = job.shape.vocab;
  Switches& w = job.switches;
  w.precision = "bf16";
  w.dispatcher = "alltoall";
  w.distributed_optimizer = w.overlap_grad_reduce = w.overlap_param_gather = true;
  w.overlap_p2p = d.vp > 1;
  return job;
}

inline Machine MachineOf(std::string_view gpu, std::string_view network = "infiniband") {
  const std::optional<Machine> m = FindMachine(gpu, network);
  ATTUNE_CHECK(m.has_value(), "no such machine");
  return *m;
}

// The public GLM-4.5 recipe of the paper on 128 B200, and what its campaigns tried.
inline TrainingJob GlmJob(int tp, int pp, int ep, int edge, bool full, int vp = 1) {
  TrainingJob job =
      MakeJob("GLM-4.5", 128, {.tp = tp, .pp = pp, .vp = vp, .ep = ep}, 2048, 1, 4096);
  job.layout.first_layers = job.layout.last_layers = edge;
  job.switches.recompute = full ? "full" : "selective";
  if (full) {
    job.switches.recompute_method = "uniform";
    job.switches.recompute_layers = 1;
  } else {
    job.switches.recompute_modules = {"core_attn"};
  }
  return job;
}

inline StackProfile SeedStack() {
  const std::optional<StackProfile> s = FindStack("slime+Megatron-LM 1dcf0da", "");
  ATTUNE_CHECK(s.has_value(), "no such stack");
  return *s;
}

inline double TermOf(const StageModel& stage, Term t) {
  return stage.terms[static_cast<std::size_t>(t)];
}

}  // namespace attune::sim
