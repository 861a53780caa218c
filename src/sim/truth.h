// What a job really does in a world: the physics with the world's constants, factors, couplings,
// memory and defects. Still without noise: the noise-free truth that oracle columns show.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/model/recipe.h"
#include "physics.h"
#include "residual.h"
#include "world.h"

namespace attune::sim {

// A world on one recipe's machine and stack. Keeps pointers into the world.
struct Site {
  const World* world = nullptr;
  // Of the world's, those in effect for this recipe.
  std::vector<const Interaction*> interactions;
  std::vector<const ExtraMemory*> memory;
  std::vector<const Defect*> defects;
  // Where the factors are 1, and what they would be there (a wave each).
  std::optional<Place> pin;
  std::vector<double> at_pin;
  double more_memory = 1;  // times the device's usable memory
  Machine machine;
  StackProfile stack;
  Conditions conditions;
  std::vector<Wave> waves;    // one a term, then the activations
  double tokens_per_gpu = 0;  // most the input pipeline feeds; 0: no bound
};
// Error: the recipe's GPU, or its framework's stack, is not known to the physics.
Result<Site> SiteOf(const World& world, const Workload& workload,
                    const std::map<std::string, std::string>& stack);

struct Truth {
  StepModel model;  // of the physics alone, with the world's constants
  // What the step is spent on, on the slowest stage; the sum is the step.
  Terms terms{};
  double step = 0;                               // seconds
  double launch_bound = 0;                       // share of the step that waits for the host
  int stage = 0;                                 // whose terms these are
  double peak_allocated = 0, peak_reserved = 0;  // bytes, fullest stage, as the framework prints
  double needed = 0, limit = 0;                  // of the device
  std::vector<double> stage_allocated;           // a stage
  OomAt oom = OomAt::kNone;
  int oom_step = 0;  // OomAt::kLate: the step
  Trouble trouble;
  std::vector<const Defect*> defects;  // those that the job meets
  bool Trains() const { return oom == OomAt::kNone && trouble.failure == Failure::kNone; }
};
// Factors that pass through 1 at `place`, and vary as before far from it.
void Pin(Site& site, const Place& place);
void TruthOf(const Site& site, const TrainingJob& job, Truth& out);

// Noise-free tokens/s/GPU; 0 for a job that does not train to its end.
double TrueRate(const Truth& truth, const TrainingJob& job);
// Ends in a launch that is paid for and gives no number.
bool Fails(const Truth& truth);

}  // namespace attune::sim
