// Other programs. Never a shell, never an inherited descriptor, always a time limit; and processes
// are named by (pid, start time, boot), because a pid alone is handed out again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"

namespace attune::os {

using Environment = std::map<std::string, std::string>;

struct Command {
  std::vector<std::string> argv;   // argv[0] is looked up in PATH of `env` without a slash
  std::optional<Environment> env;  // unset: this process's own
  std::string workdir;             // empty: this process's own
  std::string input;               // its stdin; empty: /dev/null
  Millis timeout{30'000};          // then TERM to its group, `grace`, KILL
  Millis grace{2'000};
  std::int64_t max_output = 16'777'216;  // per stream; the rest is read and dropped
  // A signal that this process handles and that comes while it waits ends the wait, like the time
  // limit: kUnavailable. Signals are held back between the waits, so none is missed.
  bool interruptible = false;
};

struct CommandResult {
  int exit_code = 0;  // 128 + signal when a signal ended it
  std::optional<int> signal;
  std::string out, err;  // bytes
  bool out_cut = false, err_cut = false;
  Millis wall{0}, user{0}, system{0};
  std::int64_t max_rss_bytes = 0;
};

class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;
  // Runs and waits. A non-zero exit is a CommandResult. Error: it never ran (kNotFound, kDenied),
  // or it did not end in time (kTimeout; its whole group is dead then).
  virtual Result<CommandResult> Run(const Command& command) = 0;
  Result<CommandResult> Run(std::span<const std::string> argv, Millis timeout);
};

class PosixProcessRunner final : public ProcessRunner {
 public:
  using ProcessRunner::Run;
  Result<CommandResult> Run(const Command& command) override;
};

// Absolute or slashed names as they are; else the first executable in `path`. kNotFound.
Result<std::string> FindProgram(const std::string& name, const std::string& path);

// ----- identity and signals

struct ProcessId {
  pid_t pid = 0;
  std::int64_t start_ticks = 0;  // /proc/PID/stat field 22
  std::string boot_id;           // /proc/sys/kernel/random/boot_id

  bool operator==(const ProcessId&) const = default;
};
std::string BootId();
std::string HostName();
// What /proc/PID/stat says. nullopt: no such process.
struct ProcessState {
  char state = '?';  // R S D T Z X ...
  pid_t parent = 0, group = 0, session = 0;
  std::int64_t start_ticks = 0;
};
std::optional<ProcessState> ReadProcessState(pid_t pid);
std::optional<ProcessState> ParseProcessStat(std::string_view text);  // of one stat line
std::optional<ProcessId> Identify(pid_t pid);
// Exists, is the same process, and is no zombie (a pid 1 that reaps nothing keeps those for ever).
bool IsAlive(const ProcessId& id);
// Through a pidfd, after comparing start time and boot: never hits a stranger. False: gone.
Result<bool> SendSignal(const ProcessId& id, int signal);

// Processes whose environment, as they were started with, holds NAME=value; never this one.
std::vector<pid_t> ProcessesCarrying(const std::string& name, const std::string& value);
// The values that NAME has in the environments of this machine's processes; this one's own too.
std::set<std::string> ValuesCarried(const std::string& name);
// All processes below `root` in the tree of parents. With PR_SET_CHILD_SUBREAPER on `root` nothing
// that it started can leave this tree alive.
std::vector<pid_t> Descendants(pid_t root);

// ----- environment

Environment OwnEnvironment();
// Without what a surrounding allocation or a user's formatting leaks into a job or into a parsed
// answer: SLURM_*, SBATCH_*, SQUEUE_*, SACCT_*, SCANCEL_*, SRUN_*, PMI_*, PMIX_*, PMI2_*
// (launchers.md sections 2.13, 4).
Environment WithoutScheduler(Environment env);
// What belongs to the machine and its user and may stay for a job: PATH HOME USER LOGNAME SHELL
// LANG LANGUAGE LC_* TZ TMPDIR. Everything else is named by the recipe or absent.
Environment NodeEnvironment(const Environment& env);

}  // namespace attune::os
