// Launches and runs: plans, states, what was seen. Words that are stored never change.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/ids.h"
#include "attune/base/units.h"
#include "attune/model/arguments.h"

namespace attune {

// One training iteration as the job printed it. Times in milliseconds.
struct Step {
  std::int64_t iteration = 0;    // as printed, absolute
  double printed_ms = 0;         // the job's own claim; <= 0 when not printed
  std::int64_t arrival_ms = -1;  // wrapper's stamp of the line, since the stage's start; -1: none
  std::map<std::string, double> losses;  // "lm loss", "load_balancing_loss" ... as printed
  std::optional<double> grad_norm;
  std::optional<double> learning_rate;
  std::optional<std::int64_t> global_batch;
  std::optional<std::int64_t> consumed_samples;
  std::optional<double> tokens;  // tokens of this step, where the log prints them (variable rows)
  int skipped = 0;
  bool nan = false;  // by the missing-loss rule too (log_formats: details 2)
  bool cut = false;  // a checkpoint, evaluation or profiler step: not in the timed window

  bool operator==(const Step&) const = default;
};

struct MemorySeen {  // maximum over ranks seen so far, bytes
  std::int64_t max_allocated = 0;
  std::int64_t max_reserved = 0;
};

// control_plane.md section 0.
enum class RunEnd {
  kCompleted,
  kStopped,
  kOomGpu,
  kOomHost,
  kHung,
  kTooSlow,
  kCrashed,
  kConfigRejected,
  kInitFailure,
  kNan,
  kPreempted,
  kNodeFailed,
  kCancelledOutside,
  kNeverStarted,
  kLost,
};
std::string_view Word(RunEnd e);
std::optional<RunEnd> ParseRunEnd(std::string_view word);
// Ran out of memory, hung or crashed (the paper's "failed launch").
bool IsFailed(RunEnd e);
// The cluster's fault, not the recipe's: preempted, node_failed, never_started, lost.
bool IsEnvironment(RunEnd e);

enum class Standing {
  kWin,
  kTie,
  kLoss,
  kReference,
  kStoppedEarly,  // unscored from here on
  kRejected,
  kInvalid,
  kFailed,
  kEnvironment,
};
std::string_view Word(Standing s);
std::optional<Standing> ParseStanding(std::string_view word);

enum class LaunchState { kIntended, kBound, kRunning, kEnded, kVoid };
std::string_view Word(LaunchState s);
enum class LaunchNews { kTaken, kStarted, kReleased, kNeverReached };
std::optional<LaunchState> Next(LaunchState from, LaunchNews news);  // nullopt: illegal pair

// Why a launch exists: decides where its cost is booked and how its runs are judged.
enum class Purpose { kCalibration, kCandidate, kPair, kProbe, kFinal, kRehearsal, kComponentTest };
std::string_view Word(Purpose p);
std::optional<Purpose> ParsePurpose(std::string_view word);

enum class Form { kMeasured, kUser };  // instrumented, or as the user would run it (rehearsal)

struct RunPlan {
  RunId id;
  std::string label;    // "baseline", "tp1pp16fr"
  std::string of;       // "baseline", "candidate", "leader": which recipe it runs
  ProposalId proposal;  // empty for baseline
  Form form = Form::kMeasured;
  Effective user;      // user's recipe + change, without instrumentation
  Effective executed;  // what is executed
  std::vector<std::string> argv;
  std::int64_t start_iteration = 0;  // s: the first printed iteration must be s + 1
  int steps_wanted = 0;              // W
  // Iterations that the profiler's window touches, its warm-up and the writing of its files
  // included: cut from the timed window. 0: no profile.
  std::int64_t profile_first = 0, profile_last = 0;
};

// How a run ended, from log class, exit code and scheduler state (logs/failure.h: RunEndFor).
struct EndDetail {
  RunEnd end = RunEnd::kLost;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string failure_class;  // word of facts: oom_gpu, hang, ...; empty when none
  std::string cause;          // one line for people
  std::string evidence;       // the deciding log line, bounded, and "file:line"
  std::string evidence_at;
};

// ----- what a launcher is given and gives back (interface: launch/launcher.h)

// Who starts the ranks of a node: nobody (argv is started once), the wrapper, torchrun, srun.
enum class RanksKind { kNone, kEnv, kTorchrun, kSrun };

struct Stage {
  RunId run;
  std::vector<std::string> argv;
  // The user's own launch script, whole (launcher.script); empty: argv is started. With a script
  // argv are the arguments that it is handed in a file, and it starts the ranks itself: kNone.
  std::string script;
  Env env;              // exactly the names the wrapper sets; nothing of attune's own environment
  std::string workdir;  // absolute
  // kEnv: the wrapper starts argv `ranks` times on the node and sets RANK LOCAL_RANK WORLD_SIZE
  // LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT; the first rank that fails ends the others, and its
  // code is the stage's. kTorchrun: the launcher puts torchrun with `ranks` before argv.
  RanksKind kind = RanksKind::kNone;
  int ranks = 0;  // on each node; 0 with kNone
  int nodes = 1;
  // Filled by a launcher that spreads the stage over nodes itself.
  int node_rank = 0;
  std::string master_addr;  // empty: this node
  int master_port = 0;      // 0: one that is free
};

struct LaunchSpec {
  Token token;
  int slots = 1;
  Millis limit{0};  // of the whole launch, enforced by the wrapper
  std::vector<Stage> stages;
  std::vector<std::string> exclude;  // nodes
};

// What names a launch to its launcher. `id` is only a handle (Slurm ids are reused); the token is
// the identity.
struct LaunchHandle {
  Token token;
  std::string id;      // pid, job id
  std::string folder;  // run folder of the launch
  // Held allocation that the launch is a step of, and shares with others; empty: one of its own.
  std::string allocation = {};
};

}  // namespace attune
