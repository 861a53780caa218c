// Jobs of a Slurm cluster, through the wrapper and a run folder that the nodes share with this
// machine, or with a login node that is reached over ssh. Slurm's own programs are called by argv,
// with a time limit, and without the SLURM_*, SBATCH_*, SQUEUE_* ... of a surrounding allocation.
// docs/slurm.md says what a user needs to know.
//
// Contract beyond launcher.h:
//   The token is the job's name and the identity of a launch; an id is only a handle, since Slurm
//   hands ids out again. Nothing is ever read from or done to a job of another name.
//   Submit: an Error means that nothing was queued and this machine is at fault. What sbatch says
//   is checked by name before it is believed. A refusal is certain only where sbatch names a known
//   reason; everything else is SubmitUnknown.
//   Find: kUnavailable while it is not certain yet that the token is not there: the caller asks
//   again. Certain is: no run folder, or never handed to sbatch, or `find_for` long not in the
//   queue while the controller answered. Observe: real time. One squeue for all handles, every
//   `poll` for a minute after a change, then growing to a minute, backing off on errors; records
//   and logs come from the run folder. Cancel: `stop` in the run folder, and scancel for what does
//   not end by it; a later Observe repeats it until the job is gone (launchers.md section 5,
//   "Cancel, verified"). Charge: GPUs that Slurm counts for the job (AllocTRES gres/gpu), else the
//   launch's slots, x the time the allocation was held: StartTime to the last moment it was known
//   to be held, COMPLETING included (control_plane.md section 2). Every job of the token is
//   charged. What was settled is kept in the run folder, so that every later reader charges the
//   same.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/launch/launcher.h"
#include "attune/model/recipe.h"
#include "attune/os/process.h"

namespace attune {

struct SlurmOptions {
  std::string run_root;  // absolute, on a file system that the nodes share
  // Host of the user's ssh configuration where Slurm's programs and run_root are; empty: here. What
  // jobs write is mirrored below mirror_root, and handles name folders there.
  std::string login, mirror_root;
  std::vector<std::string> ssh;  // the program and options before ours; as SshOptions
  std::string control_folder;
  Millis pause{1'000}, patience{60'000};  // for a login node that is not reached; as SshOptions
  std::string wrapper;                    // path of attune-wrapper; empty: FindWrapper()
  Clock* clock = nullptr;                 // must outlive the launcher
  os::ProcessRunner* runner = nullptr;    // likewise; null: a PosixProcessRunner of its own
  std::optional<os::Environment> environment;  // of Slurm's programs; unset: this process's own

  // What to ask for.
  int nodes = 1, gpus_per_node = 1;
  bool counts_gpus = false;  // false: a CPU job; no GPUs are asked for, slots are charged
  std::map<std::string, std::string> sbatch;  // the user's options, without dashes
  std::string script_template;                // text of the user's batch script; empty: our own
  ContainerSpec container;
  bool inside = false;  // of an allocation: steps beside the one that attune runs in
  std::vector<std::string> without;  // inside: nodes of it that steps leave out

  Millis poll{5'000};           // between two questions to the scheduler
  Millis longest_poll{60'000};  // what it grows to
  Millis command_limit{30'000};
  // Not in the queue for this long, with a controller that answers: it is not there.
  Millis find_for{120'000};
  Millis lost_after{60'000};
  // From a final state until the exit record of the run folder is no longer waited for: a shared
  // file system may show it late.
  Millis file_lag{30'000};
  Millis kill_wait{30'000};  // slurm.conf's KillWait: see AskSlurmTerms
  Millis over_time{0};       // and OverTimeLimit

  // Handed to the wrapper.
  Millis grace{10'000};
  Millis beat{10'000};
  Millis stop_poll{1'000};
  std::int64_t log_cap = std::int64_t{1} << 30;
};

// The part of the options that a recipe gives. `poll` scales the time that certainty takes.
SlurmOptions SlurmOptionsOf(const Recipe& recipe);

std::unique_ptr<Launcher> MakeSlurmLauncher(SlurmOptions options);

// A batch script that a person submits without attune and that asks for what attune asks for: the
// user's options, nodes, container and ranks. `heading`: comment lines without '#'. With
// options.script_template its line {{attune}} becomes the call. kInvalidInput: no such line.
struct UserScript {
  std::string job_name;
  std::vector<std::string> heading;
  Stage stage;                        // the user's form; env as the recipe gives it
  std::vector<std::string> pass_env;  // names whose values the submitting shell gives
};
Result<std::string> UserBatchScript(const SlurmOptions& options, const UserScript& script);

// The allocation that this process runs in, on one of its nodes: launches become steps of it and
// wait in no queue. kUnavailable: the next launch would not be over when the allocation ends, or
// too few of its nodes are left: another allocation goes on. Charge: slots x the time from the
// launch before it in the allocation to its own end, because idle nodes are held too; the part
// before its start is Observation::idle. After a launch that did not end well each node is asked
// to run something: one that does not answer failed it, and later ones leave it out.
struct Allocation {
  std::string job_id;
  std::string name;  // with the time of its start: ids are handed out again
  std::vector<std::string> nodes;
  std::string here;             // the one of them that this process runs on
  std::optional<Instant> ends;  // unset: it has no limit
};
// kInvalidInput: not in one, or on no node of it.
Result<Allocation> FindAllocation(const SlurmOptions& options);
std::unique_ptr<Launcher> MakeAllocationLauncher(SlurmOptions options, Allocation allocation);

// What holds are computed from. Without an answer Slurm's own defaults are assumed.
struct SlurmTerms {
  Millis kill_wait{30'000};
  Millis over_time{0};
  std::string version, cluster;
  bool answered = false;
};
// Of `options`: where Slurm's programs are, and their environment.
SlurmTerms AskSlurmTerms(const SlurmOptions& options);
// Time past the limit for which an allocation may be held at most: the whole minute that --time is
// longer than the limit, the minute within which slurmctld enforces it, OverTimeLimit, KillWait.
Millis SlurmReleaseMargin(Millis kill_wait, Millis over_time);

// What the cluster says to a launch, without starting one: doctor, plan --ask-scheduler.
struct SlurmReport {
  std::string trouble;  // slurmctld does not answer: nothing below was asked
  SlurmTerms terms;
  std::optional<std::int64_t> skew_s;  // slurmctld's clock minus ours
  struct Partition {
    std::string name, limit;
    bool up = false;
    int nodes = 0, idle = 0;
  };
  std::vector<Partition> partitions;
  bool would_start = false;
  std::string test_only;  // what sbatch --test-only says
};
SlurmReport AskSlurm(const SlurmOptions& options, const LaunchSpec& spec);

}  // namespace attune
