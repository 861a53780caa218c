// How a job is started, watched, cancelled and accounted. One contract for local, ssh, Slurm and
// the simulated cluster; tests/unit/launch/contract.h holds every launcher to it.
//
// The run folder, written by the wrapper on the job's side, is the truth; the scheduler is a second
// opinion (docs/formats/run_folder.md). A launcher never repeats a submit of unknown fate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/model/event.h"
#include "attune/model/run.h"

namespace attune {

struct Bound {
  LaunchHandle handle;
};
struct SubmitRefused {  // certain: nothing runs and nothing will
  std::string why;
};
struct SubmitUnknown {  // it may run: locate by token
  std::string why;
};
using Submitted = std::variant<Bound, SubmitRefused, SubmitUnknown>;

// Bytes of a run's log in order, cut anywhere. arrival_ms: when the wrapper saw them, since the
// stage's start on the wrapper's monotonic clock; -1 unknown.
struct LogChunk {
  int rank = 0;
  std::int64_t arrival_ms = -1;
  std::string bytes;
};

struct StageObservation {
  RunId run;
  bool started = false;
  std::string node, folder;
  std::int64_t started_wall_ms = 0;
  std::vector<LogChunk> log;  // since the last Observe of this process; from byte 0 at first
  // Exit record seen, and the log is complete. Without `started`: stopped before its turn. A stage
  // that never ran because its launch was over stays neither started nor ended.
  bool ended = false;
  std::optional<int> exit_code, signal;
  bool stopped_on_request = false;  // the wrapper found `stop`
  bool limit_hit = false;           // the wrapper's time limit ended it
  Millis held{0};                   // start to exit, or to now (wrapper's monotonic clock)
  std::int64_t last_beat_wall_ms = 0;
};

struct Observation {
  LaunchHandle handle;
  enum class State { kQueued, kRunning, kEnding, kEnded, kUnknown } state = State::kUnknown;
  std::vector<StageObservation> stages;
  std::string scheduler_word;  // for people; empty for local
  // Set with kEnded: what is charged and where it comes from.
  GpuMillis charged;
  ChargeSource source = ChargeSource::kWrapper;
  GpuMillis idle;  // part of `charged`: a held allocation's, before the launch began
  std::string nodes;
  // Scheduler's verdict when it overrides the exit code (preempted, node_failed ...).
  std::optional<RunEnd> end_hint;
  std::string detail;
  std::vector<std::string> failed_nodes;  // of `nodes`, where the scheduler says which one broke
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual Result<Submitted> Submit(const LaunchSpec& spec) = 0;
  // Looks for the token in the scheduler and in the run folders. nullopt: certainly not there.
  virtual Result<std::optional<LaunchHandle>> Find(const Token& token) = 0;
  // Lets time pass: returns when anything is new, at the latest at `until`. `steps` is a hint for
  // launchers with a virtual clock: return after that many further iteration lines. One entry a
  // handle, in their order, also when nothing is new.
  virtual Result<std::vector<Observation>> Observe(std::span<const LaunchHandle> handles,
                                                   Instant until, int steps) = 0;
  // Asks; a later Observe shows that it took effect. `run`: ends one stage, the launch goes on.
  virtual Status Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) = 0;
  // At most `size` bytes at `offset` of a file below the launch's folder; no links followed.
  virtual Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                                    std::int64_t offset, std::int64_t size) = 0;
  // The launch's folder on this machine, in which the folder `path` lies with what the job left
  // there. Launchers whose folders lie elsewhere copy at most `max_bytes` of its regular files
  // first. Error: kNotFound, kUnavailable.
  virtual Result<std::string> BringHere(const LaunchHandle& handle, const std::string& path,
                                        std::int64_t max_bytes) {
    (void)path;
    (void)max_bytes;
    return handle.folder;
  }
  // Time between the limit and the last moment the GPUs are held: added to a hold.
  virtual Millis ReleaseMargin() const = 0;
  // The held allocation that launches become steps of, by a name that no other one had; empty: each
  // launch has one of its own.
  virtual std::string HeldAllocation() const { return {}; }
  // The limit as this launcher rounds it (Slurm: whole minutes).
  virtual Millis RoundLimit(Millis limit) const { return limit; }
};

}  // namespace attune
