// The simulated cluster: a launcher over a virtual clock whose jobs print what Megatron-LM would
// print in a world. A job is a function of (world, seed, stored submission): after a kill the same
// job is found again. What a world holds is private to sim: nobody who proposes or judges can read
// it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/launch/launcher.h"
#include "attune/model/recipe.h"
#include "attune/model/training_job.h"

namespace attune::sim {

struct World;
// Shared: worlds are read only, and many campaigns run in one.
using WorldRef = std::shared_ptr<const World>;

// "FAMILY:SEED", drawn, or a world file (docs/formats/world.md). kInvalidInput, kNotFound,
// kNewerFormat.
Result<WorldRef> OpenWorld(const std::string& spec);
const std::string& NameOf(const World& world);
const std::string& HashOf(const World& world);  // of everything that a job in it may show
std::string FamilyNames();

// How the framework's argument block shows a flag (gates' table of flags).
struct BlockFlag {
  std::string flag, key;
  std::string present;  // value of a bare flag that is there; empty: the argument's
  std::string absent;   // value without the flag
};

// One recipe's jobs in one world.
struct ClusterSetup {
  WorldRef world;
  std::uint64_t seed = 0;
  Recipe recipe;  // command, workload, stack; base: what Input.of_baseline means
  std::vector<BlockFlag> block_flags;  // sorted by key, one a key
  // Where the in-process launcher writes the traces of profiled runs, when they are asked for; a
  // folder of this machine. Empty: nowhere.
  std::string trace_root = {};
};

// Wall and monotonic time move together, and only when somebody waits.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Instant start) : now_(start) {}
  Instant Now() override { return now_; }
  Millis Monotonic() override { return Millis{now_.ms}; }
  void SleepUntil(Instant t) override {
    if (t > now_) now_ = t;
  }

 private:
  Instant now_;
};
// When simulated campaigns begin: 2026-01-01T00:00:00Z.
inline constexpr Instant kSimStart{1'767'225'600'000};

// What a campaign's record says of a launch made before this process: enough to have the same job
// again, at the same moment of virtual time.
struct PastLaunch {
  LaunchSpec spec;
  Instant submitted;
  struct Stop {
    std::optional<RunId> run;  // unset: the whole launch
    Instant at;
  };
  std::vector<Stop> stops;
};

// Error: the recipe cannot be simulated (framework, GPU or stack unknown to the physics, baseline
// that cannot be resolved). `clock` outlives the launcher. No folder is made and no time passes.
Result<std::unique_ptr<Launcher>> MakeSimLauncher(const ClusterSetup& setup, VirtualClock& clock,
                                                  std::span<const PastLaunch> past = {});

// Noise-free truth of a configuration, for oracle columns and scans; never for a proposer.
struct Oracle {
  double tokens_per_gpu = 0;  // 0: the job fails
  bool fails = false;
  bool learns_otherwise = false;  // it trains, and not what the baseline trains
  double step_seconds = 0, peak_bytes = 0, needed_bytes = 0, limit_bytes = 0;
  double reserved_share = 0;  // highest reserved memory that it prints, of the device
  std::string why;  // how it fails, or what is silently wrong
};
class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual Oracle Ask(const Effective& config) const = 0;
  virtual Oracle AskJob(const TrainingJob& job) const = 0;
  // Of the first step, without a run's own rounding; 0 when the configuration can't be resolved.
  virtual double FirstLoss(const Effective& config) const = 0;
};
Result<std::unique_ptr<Cluster>> MakeCluster(const ClusterSetup& setup);

}  // namespace attune::sim
