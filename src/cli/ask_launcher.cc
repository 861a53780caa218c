#include "ask_launcher.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "attune/base/text.h"
#include "attune/launch/ssh.h"
#include "attune/os/process.h"
#include "exit_code.h"
#include "launchers.h"
#include "slurm_checks.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLittleSpace = std::int64_t{1} << 30;
// Further apart, times in logs of two machines can't be set beside each other.
constexpr Millis kClockApart{5'000};
constexpr Millis kAnHour = std::chrono::hours(1);
constexpr Millis kNodePatience = std::chrono::minutes(2);
constexpr const char* kBusiest = "ps -eo pid,pcpu,args --sort=-pcpu | head -n 6";

std::vector<CheckRow> AskThisMachine(const Recipe& recipe) {
  const auto failed = [](ErrorCode code, std::string text) {
    return FailedRow(kExitNoLaunch, "launcher", {code, std::move(text), ""});
  };
  std::vector<CheckRow> rows;
  const std::string folder = JobFolder(recipe);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return {failed(ErrorCode::kNotFound, fmt::format("{} is no folder", folder))};
  }
  // The recipe's reader has read the script, and a copy of it is started: there is nothing to find.
  Result<std::string> program = ScriptPath(recipe);
  if (program->empty()) {
    const os::Environment node = os::NodeEnvironment(os::OwnEnvironment());
    const auto path = node.find("PATH");
    program = os::FindProgram(recipe.command.front(), path == node.end() ? "" : path->second);
  }
  if (!program) {
    return {WithFix(FailedRow(kExitNoLaunch, "launcher", program.error()),
                    "type -a " + ShellQuote(recipe.command.front()))};
  }
  for (const std::string& word : recipe.command) {
    const bool is_script = word.ends_with(".py") || word.ends_with(".sh");
    if (is_script && access((fs::path(folder) / word).c_str(), R_OK) != 0) {
      return {WithFix(failed(ErrorCode::kNotFound, fmt::format("{} is not in {}", word, folder)),
                      fmt::format("find {} -name {}", ShellQuote(folder),
                                  ShellQuote(fs::path(word).filename().string())))};
    }
  }
  rows.push_back(OkRow("launcher", fmt::format("local, {} in {}", *program, folder)));
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (recipe.workload.gpu == "cpu" && recipe.workload.gpus > cores) {
    rows.push_back(WarnRow("machine",
                           fmt::format("{} slots on {} cores", recipe.workload.gpus, cores),
                           "workload.gpus is what the job takes from this machine"));
  }
  double load[1] = {0};
  if (getloadavg(load, 1) == 1 && load[0] > static_cast<double>(cores) / 2) {
    rows.push_back(WithFix(
        WarnRow("machine",
                fmt::format("load {:.1f} on {} cores: measurements will be noisy", load[0], cores),
                ""),
        kBusiest));
  }
  return rows;
}

void AskHost(const Recipe& recipe, const SshOptions& options, const std::string& host,
             const std::string& program, std::vector<CheckRow>& rows) {
  const std::string workdir = JobFolder(recipe);
  const std::string what = "host " + host;
  const auto there = [&](const std::string& command) {
    return fmt::format("ssh -o BatchMode=yes {} {}", host, ShellQuote(command));
  };
  const Result<HostReport> report = ProbeHost(options, host, workdir, program);
  if (!report) {
    rows.push_back(
        WithFix(FailedRow(ExitCodeOf(report.error().code), what, report.error()), there("true")));
    return;
  }
  const HostReport& r = *report;
  rows.push_back(OkRow(
      what, fmt::format("{} answers in {:.1f} s, {} cores, load {:.1f}, {:.1f} GiB free ({}){}",
                        r.host, static_cast<double>(r.answer_time.count()) / 1000, r.cores, r.load,
                        static_cast<double>(r.free_bytes) / static_cast<double>(1 << 30),
                        r.file_system, r.program.empty() ? "" : ", " + r.program)));
  const auto failed = [&](ErrorCode code, std::string text, std::string help, std::string fix) {
    rows.push_back(WithFix(FailedRow(kExitNoLaunch, what, {code, std::move(text), std::move(help)}),
                           there(fix)));
  };
  const auto warn = [&](std::string text, std::string help, const std::string& fix) {
    rows.push_back(WithFix(WarnRow(what, std::move(text), std::move(help)), there(fix)));
  };
  if (!r.root_writable) {
    failed(ErrorCode::kDenied, fmt::format("{} can't be written there", options.run_root),
           "launcher.run_root names a folder for the runs",
           "mkdir -p " + ShellQuote(options.run_root));
  } else if (r.free_bytes < kLittleSpace) {
    warn("little space", "logs of runs need room", "df -h " + ShellQuote(options.run_root));
  }
  if (!r.workdir_there) {
    failed(ErrorCode::kNotFound, fmt::format("{} is no folder there", workdir),
           "launcher.workdir names the folder in which the job starts",
           "ls -ld " + ShellQuote(workdir));
  }
  if (!program.empty() && r.program.empty()) {
    failed(ErrorCode::kNotFound, fmt::format("no program '{}' there", program),
           "a session without a terminal reads no shell profile: give its whole path, or see to it "
           "that `ssh HOST which PROGRAM` finds it",
           "which " + ShellQuote(program));
  }
  const Millis apart = std::max(r.clock_ahead, -r.clock_ahead);
  if (apart > std::max(kClockApart, r.answer_time)) {
    warn(fmt::format("its clock is {} {}", ShowDuration(apart),
                     r.clock_ahead > Millis{0} ? "ahead" : "behind"),
         "measurements don't depend on it; times in its files do", "date -u");
  }
  if (r.jobs > 0) {
    warn(fmt::format("{} launches of attune run there", r.jobs),
         "measurements of two jobs on one host disturb each other", "pgrep -af attune-wrapper");
  }
  if (r.gpu_processes > 0) {
    warn(fmt::format("{} processes use its GPUs", r.gpu_processes), "measurements need them free",
         "nvidia-smi");
  }
  if (r.load > static_cast<double>(r.cores) / 2) {
    warn(fmt::format("load {:.1f} on {} cores: measurements will be noisy", r.load, r.cores), "",
         kBusiest);
  }
}

std::vector<CheckRow> AskHosts(const Recipe& recipe, const std::string& state_folder,
                               Clock& clock) {
  std::vector<CheckRow> rows;
  const Workload& w = recipe.workload;
  const int nodes = std::max(1, (w.gpus + w.gpus_per_node - 1) / w.gpus_per_node);
  const int hosts = static_cast<int>(recipe.launcher.hosts.size());
  if (hosts < nodes) {
    rows.push_back(
        FailedRow(kExitUsage, "launcher",
                  {ErrorCode::kInvalidInput,
                   fmt::format("{} GPUs at {} a node are {} hosts, and launcher.hosts names {}",
                               w.gpus, w.gpus_per_node, nodes, hosts),
                   ""}));
  }
  const SshOptions options = SshOptionsOf(recipe, state_folder, clock);
  const std::string program = recipe.command.empty() ? std::string() : recipe.command.front();
  for (const std::string& host : recipe.launcher.hosts) {
    AskHost(recipe, options, host, program, rows);
  }
  return rows;
}

// What shows more of it; on the login node where there is one.
std::string SlurmFix(const std::string& what, const std::string& login) {
  struct Row {
    std::string_view what, command;
  };
  constexpr Row kRows[] = {{"slurm", "scontrol ping"},
                           {"partition", "sinfo -s"},
                           {"sbatch --test-only", "sinfo -R"},
                           {"compute node", "squeue --me"}};
  for (const Row& row : kRows) {
    if (row.what != what) continue;
    return login.empty() ? std::string(row.command)
                         : fmt::format("ssh -o BatchMode=yes {} '{}'", login, row.command);
  }
  return "";
}

std::vector<CheckRow> RowsOf(const std::vector<SlurmCheck>& checks, const std::string& login) {
  std::vector<CheckRow> rows;
  for (const SlurmCheck& check : checks) {
    switch (check.state) {
      case SlurmCheck::State::kOk:
        rows.push_back(OkRow(check.what, check.text));
        break;
      case SlurmCheck::State::kWarn:
        rows.push_back(WarnRow(check.what, check.text, check.help));
        break;
      case SlurmCheck::State::kFail:
        rows.push_back(WithFix(
            FailedRow(kExitNoLaunch, check.what, {ErrorCode::kUnavailable, check.text, check.help}),
            SlurmFix(check.what, login)));
        break;
    }
  }
  return rows;
}

std::vector<CheckRow> AskCluster(const Recipe& recipe, const std::string& state_folder,
                                 Millis limit, Clock& clock) {
  std::vector<CheckRow> rows;
  if (const std::string& login = recipe.launcher.login; !login.empty()) {
    AskHost(recipe, SshOptionsOf(recipe, state_folder, clock), login, "sbatch", rows);
    if (WorstCode(rows) != kExitDone) return rows;
  }
  const SlurmOptions options = SlurmOptionsOf(recipe, state_folder, clock);
  for (CheckRow& row : RowsOf(CheckSlurm(recipe, options, limit), recipe.launcher.login)) {
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<CheckRow> AskLauncher(const Recipe& recipe, const std::string& state_folder,
                                  std::optional<Millis> limit, Clock& clock) {
  const std::string& kind = recipe.launcher.kind;
  if (kind == "local") return AskThisMachine(recipe);
  if (kind == "ssh") return AskHosts(recipe, state_folder, clock);
  if (kind == "sim") return {OkRow("launcher", "the simulated cluster: nothing is asked for")};
  if (kind == "slurm") return AskCluster(recipe, state_folder, limit.value_or(kAnHour), clock);
  return {FailedRow(kExitNoLaunch, "launcher",
                    {ErrorCode::kInvalidInput, fmt::format("kind {} is not in this version", kind),
                     "launcher: {kind: local}, ssh or slurm"})};
}

std::vector<CheckRow> AskNode(const Recipe& recipe, const std::string& state_folder, bool job,
                              Clock& clock) {
  if (!job) {
    return {WarnRow("compute node", "not looked at", "doctor --job submits a job of a minute")};
  }
  return RowsOf(CheckSlurmNode(recipe, SlurmOptionsOf(recipe, state_folder, clock), kNodePatience),
                recipe.launcher.login);
}

}  // namespace attune::cli
