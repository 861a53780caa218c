// One simulated job as a list of prints in time: a function of world, seed and submission. Made
// step by step, so that a job that is stopped early costs no more than it ran.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "attune/base/random.h"
#include "attune/model/arguments.h"
#include "attune/sim/cluster.h"
#include "learning.h"
#include "trace_text.h"
#include "truth.h"

namespace attune::sim {

// What one launch draws before its jobs run: where it lies, how fast its nodes are, what hits it.
struct Allocation {
  std::uint64_t seed = 0;
  double rate = 0;     // standard normal: slower nodes are positive
  double startup = 1;  // factor
  int first_node = 1;
  double preempted_s = kNever, node_failed_s = kNever;  // from the launch's start
  double hung_s = kNever;
  static constexpr double kNever = std::numeric_limits<double>::infinity();
};
Allocation DrawAllocation(const World& world, std::uint64_t seed, const std::string& token);

// Checkpoint folders as the job sees them.
class Checkpoints {
 public:
  virtual ~Checkpoints() = default;
  virtual std::optional<std::int64_t> Latest(const std::string& folder) = 0;
  virtual void Saved(const std::string& folder, std::int64_t iteration) = 0;
};

struct Print {
  double at_ms = 0;  // since the job's start
  std::string text;
  bool step = false;  // an iteration line
  bool news = false;  // worth waking a watcher that waits for steps
};
struct JobEnd {
  double at_ms = Allocation::kNever;  // never: it hangs
  std::optional<int> exit_code, signal;
};

// The step that the profiler's flags ask for, once the job has made it.
struct ProfiledStep {
  TraceWish wish;
  double begin_ms = 0, end_ms = 0;  // since the job's start
};

struct JobSetup {
  const Site* site = nullptr;
  const std::vector<BlockFlag>* block_flags = nullptr;
  Allocation allocation;
  std::uint64_t run_seed = 0;
  Arguments args;
  Workload workload;
  Env env;
  std::string job_id = "1000", node = "node001";
  Instant wall_start;                         // of the job, for printed dates
  double hung_after_ms = Allocation::kNever;  // a hazard, from the job's start
  double speed = 1;                           // printed and passed times are divided by this
  Checkpoints* checkpoints = nullptr;
};

class JobScript {
 public:
  explicit JobScript(JobSetup setup);
  // The next print, nullptr when there is none any more. Valid until the next call.
  const Print* Peek();
  Print Take();
  // Known once Peek() gave nullptr.
  const JobEnd& end() const { return end_; }
  const std::optional<TrainingJob>& job() const { return job_; }
  const Truth& truth() const { return truth_; }
  const std::optional<ProfiledStep>& profiled() const { return profiled_; }
  double startup_ms() const { return startup_ms_; }

 private:
  enum class Phase { kStart, kSteps, kOver };
  void Say(double at_ms, std::string text, bool news = false);
  void Fail(double at_ms, std::string text, std::optional<int> code, std::optional<int> signal);
  void Hang(double at_ms);
  void Start();
  void NextStep();
  void AfterStep(std::int64_t iteration);
  double StepMs(std::int64_t since);
  Instant Wall(double at_ms) const;
  std::int64_t Flag(std::string_view flag, std::int64_t otherwise) const;
  const Defect* DefectAt(Effect effect, std::int64_t since) const;

  JobSetup setup_;
  Random noise_;
  std::optional<TrainingJob> job_;
  Truth truth_;
  std::vector<const Defect*> defects_;  // the world's and the published ones
  std::optional<Learning> learning_;
  std::deque<Print> prints_;
  Phase phase_ = Phase::kStart;
  JobEnd end_;
  double now_ms_ = 0, startup_ms_ = 0;
  double step_ms_ = 0, lag_ = 0;
  std::int64_t start_ = 0, iteration_ = 0, last_ = 0, exit_interval_ = 0, save_interval_ = 0,
               eval_interval_ = 0;
  std::string save_folder_;
  std::optional<TraceWish> wish_;
  std::optional<ProfiledStep> profiled_;
};

}  // namespace attune::sim
