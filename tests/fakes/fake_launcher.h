// A launcher in memory, on a virtual clock. The world outlives the launcher: dropping a
// FakeLauncher and making a new one over the same world is attune's crash, the jobs go on.
//
//   VirtualClock clock;  FakeWorld world(&clock);
//   world.play = ...;                        // default: the argv of each stage is a fake training
//   FakeLauncher launcher(&world);
//
// Deterministic: what a job prints, and when, is a function of (stage, time of start). Time is
// counted on the clock's monotonic side, so stepping the wall clock back changes no job.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/launch/launcher.h"
#include "fakes/fake_training.h"

namespace attune::fakes {

struct FakeFault {
  enum class Kind {
    kNone,
    kRefused,         // Submit says refused, nothing runs
    kUnknownRuns,     // Submit says unknown, the job runs: Find finds it
    kUnknownNothing,  // Submit says unknown, nothing runs: Find says certainly not there
    kNeverStarts,     // bound, ends after `after` without a start record
    kLost,            // no news from `after` on; certain once limit and margin have passed
    kPreempted,       // taken away at `after`
    kNodeFailed,
  };
  Kind kind = Kind::kNone;
  Millis after{0};  // since the launch's start (kNeverStarts: since the submit)
};

class FakeWorld {
 public:
  explicit FakeWorld(Clock* clock);

  // What a stage does. Default: PlayTraining.
  std::function<FakeTraining(const Stage&)> play;
  // nth_submit counts the submits of this token from 1.
  std::function<FakeFault(const LaunchSpec&, int nth_submit)> fault;
  std::function<Millis(const LaunchSpec&)> queue_time;  // default 0
  std::function<std::string(const LaunchSpec&)> node;   // default "node<n>" by order of submission
  // The held allocation that launches become steps of, and how long it stood idle before one.
  // Empty: each launch has its own.
  std::string allocation;
  std::function<Millis(const LaunchSpec&)> idle_before;
  // Called when an effect has happened and nobody knows yet: "submit", "cancel". A crash test
  // throws from here.
  std::function<void(std::string_view)> after_effect;
  int find_failures = 0;      // the next n Finds fail with kUnavailable
  int cancel_failures = 0;    // and the next n Cancels
  Millis kill_grace{10'000};  // a job that ignores TERM lives this long after it
  Millis release_margin{15'000};
  std::string run_root = "/fake/runs";
  std::map<std::string, std::string> files;  // absolute path -> bytes, for Fetch

  // ----- for audits
  struct StageFacts {
    RunId run;
    std::optional<Millis> started, ended;  // monotonic
    std::int64_t started_wall_ms = 0;
    std::optional<int> exit_code, signal;
    bool stopped_on_request = false, limit_hit = false;
  };
  int Submits(const Token& token) const;  // calls
  int Starts(const Token& token) const;   // jobs that really started: never above 1
  std::vector<Token> Tokens() const;      // that reached the cluster, in order
  bool Live(const Token& token);          // processes exist now
  std::vector<StageFacts> Stages(const Token& token);
  GpuMillis Charge(const Token& token);  // true cost so far
  GpuMillis TotalCharge();
  Clock& clock() { return *clock_; }

 private:
  friend class FakeLauncher;
  struct StageState {
    StageFacts facts;
    std::optional<FakeTraining> script;
    std::optional<Millis> stop_at;
    std::size_t saves_written = 0;
  };
  struct Job {
    LaunchSpec spec;
    FakeFault fault;
    std::string id, node, allocation;
    Millis submitted{0}, starts_at{0}, idle{0};
    std::optional<Millis> started, ended, cancel_at;
    std::vector<StageState> stages;
    bool cut = false;  // limit, cancel or fault: the stages that follow never start
  };

  Job* Find(const Token& token);
  const Job* Find(const Token& token) const;
  // Carries `job` forward to now. Everything a job does is decided here.
  void Settle(Job& job);
  bool SettleStage(Job& job, StageState& stage, Millis now);
  Millis EndOfStage(const Job& job, const StageState& stage, StageFacts& facts, bool& cut) const;
  std::int64_t WallOf(Millis monotonic);

  Clock* clock_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::map<Token, int> submits_;
};

// The stage's argv as a fake training; its checkpoints are written as real files when their time
// comes.
FakeTraining PlayTraining(const Stage& stage);

class FakeLauncher final : public Launcher {
 public:
  explicit FakeLauncher(FakeWorld* world) : world_(world) {}

  Result<Submitted> Submit(const LaunchSpec& spec) override;
  Result<std::optional<LaunchHandle>> Find(const Token& token) override;
  // Returns early at: a state change, a line that is no step, the `steps`-th further step of a run.
  Result<std::vector<Observation>> Observe(std::span<const LaunchHandle> handles, Instant until,
                                           int steps) override;
  Status Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) override;
  Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                            std::int64_t offset, std::int64_t size) override;
  Millis ReleaseMargin() const override { return world_->release_margin; }
  std::string HeldAllocation() const override { return world_->allocation; }

 private:
  struct Seen {  // what this process has been told
    std::map<RunId, std::size_t> lines;
    std::string state;
  };
  LaunchHandle HandleOf(const FakeWorld::Job& job) const;
  bool HasNews(FakeWorld::Job& job);
  std::optional<Millis> NextNews(FakeWorld::Job& job, int steps);
  Observation Look(FakeWorld::Job& job);

  FakeWorld* world_;
  std::map<Token, Seen> seen_;
};

}  // namespace attune::fakes
