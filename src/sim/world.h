// A world: everything that is true of a simulated cluster and that a tuner finds out only by
// launching. Plain values; read from a file (read_world.cc) or drawn (draw_world.cc). Format and
// meaning of every field: docs/formats/world.md.
//
// The physics (physics.h) is the model of a step; what a world adds to it differs in form: factors
// that vary over the space of jobs, couplings of levers, memory that no formula has, defects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "condition.h"
#include "physics.h"

namespace attune::sim {

// Seeded, smooth over neighbouring jobs: each term of the step, and the activations, is multiplied
// by exp(g(job)) with its own g (residual.h).
struct Residuals {
  std::uint64_t seed = 0;
  double time = 0;    // standard deviation of g over the space of jobs, of each term
  double memory = 0;  // likewise, of the activations
  double reach = 2;   // in doublings of a degree: how far two jobs must lie apart to differ freely
  // 1 at the recipe's own configuration, which also meets no conditional coupling: there the world
  // is the physics.
  bool pinned = false;
};

// A coupling of levers: where all of `when` hold, the term is multiplied.
struct Interaction {
  std::string id;
  std::vector<Condition> when;
  Term term = Term::kLaunchWait;
  double factor = 1;
};

// Memory on a rank that no formula of the estimate has.
struct ExtraMemory {
  std::string id;
  std::vector<Condition> when;
  double bytes = 0;
  double of_activations = 0, of_static = 0;  // shares
};

enum class Effect {
  kHang,    // silent from `step` on
  kOom,     // out of memory at `step`
  kCrash,   // a signal before the first step
  kNan,     // the loss is not a number at `step`
  kSlow,    // every step takes `factor` times as long
  kSilent,  // trains, and learns something else: the shifts below
};
struct Defect {
  std::string id;
  std::vector<Condition> when;
  Effect effect = Effect::kSilent;
  int step = 0;  // 0 is the first
  double factor = 1;
  double step0_loss = 0;      // relative shift of the first loss; later ones go with it
  double loss_drift = 0;      // relative, a step
  double balance_factor = 1;  // of the load-balancing loss
  double grad_factor = 1;     // of the gradient norm
};

struct Noise {
  double allocation_sigma = 0.007;   // of the logarithm of a launch's step rate
  double launch_bound_factor = 2.5;  // sigma of a job that only waits for its host, in the above
  // Of the logarithm of a step's time. Steps of a synchronous job are means over many micro-batches
  // and all ranks, so they vary less than launches do.
  double step_sigma = 0.004, step_lag1 = 0.3;
  int slow_steps = 4;
  double slow_first = 0.8;  // the first step takes 1.8 times as long; falls off over slow_steps
  double straggler_rate = 0.002;  // steps held up by 5 to 20%, at most by two seconds
};

struct Starting {
  double queue_s = 20;
  double fixed_s = 150;  // allocation, imports, building
  double nccl_s_per_gpu = 0.25;
  double load_s_per_billion = 1.0;  // weights and optimizer, a billion parameters of the model
  double sigma = 0.06;              // of the logarithm, a launch
  double teardown_s = 150;          // from a failure's last words to the exit, when nobody ends it
  double release_s = 4;             // from a signal to the free GPU
};

// Chance of an event, an hour of the launch.
struct Hazards {
  double preemption = 0, node_failure = 0, hang = 0;
  bool watchdog = false;  // NCCL's watchdog ends a hung job after its time-out
  double watchdog_minutes = 10;
};

struct Training {
  double first_loss = 2.05, last_loss = 1.55, steps = 400;  // curve of a continued training
  double data_sigma = 0.01;       // a batch's own difficulty, the same for all jobs
  double replica_sigma = 4e-6;    // between two runs of one job
  double placement_shift = 4e-5;  // standard deviation over layouts
  double kernel_shift = 4e-4;
  double routing_shift = 0.003;  // experts only
  double routing_most = 0.0198;  // [paper, Table 4: legitimate recipes moved by up to 1.98%]
  double balance_loss = 1.35;
  double grad_norm = 1.1;
};

// The input pipeline feeds no faster than this: what holds up every job alike.
struct Input {
  double tokens_per_gpu = 0;  // 0: no bound
  double of_baseline = 0;     // times the baseline's own rate; 0: no bound
};

struct World {
  std::string name, about;
  std::uint64_t seed = 0;
  Coefficients coefficients;
  std::string stack_framework, stack_version;  // empty: the recipe's
  double stack_factor = 0;                     // 0: the profile's
  // 0: the machine's own.
  double nvlink_rate = 0, nic_rate = 0, hbm_bytes = 0;
  double network_efficiency = 0, alltoall_efficiency = 0;
  std::optional<bool> gpu_initiated;
  Residuals residuals;
  std::vector<Interaction> interactions;
  std::vector<ExtraMemory> memory;
  std::vector<Defect> defects;
  Noise noise;
  Starting starting;
  Hazards hazards;
  Training training;
  Input input;
  // The recipe's own configuration trains here, as a recipe that somebody uses does: defects and
  // memory that would stop it are left out for that recipe (keep_baseline.h).
  bool keeps_baseline = false;
  std::string hash;  // of all of the above: two worlds that differ have other jobs
};

}  // namespace attune::sim
