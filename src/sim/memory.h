// Memory of a rank at its peak, by stage.
#pragma once

#include "setting.h"

namespace attune::sim {

// Saved tensors of one layer and micro-batch, bytes; `experts` of them depend on routing.
struct Saved {
  double bytes = 0, experts = 0;
};
Saved SavedTensors(const Setting& s, LayerKind kind, bool full_recompute);

// Parameters that one rank of a stage holds, before FSDP shards them.
struct Shards {
  double dense = 0, experts = 0;
};
Shards ShardsOf(const Setting& s, const StageModel& stage);

// Share of a stage's layers whose forward is computed again whole.
double FullRecomputeShare(const Setting& s, const StageModel& stage);

// Fills memory and in_flight of every stage; `stages` has its layers.
void PlanMemory(const Setting& s, StepModel& out);

}  // namespace attune::sim
