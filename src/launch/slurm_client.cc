#include "slurm_client.h"

#include "attune/base/text.h"

namespace attune::launch {

SlurmClient::SlurmClient(os::ProcessRunner& runner,
                         const std::optional<os::Environment>& environment, Millis limit)
    : runner_(runner),
      env_(ClientEnvironment(environment ? *environment : os::OwnEnvironment())),
      limit_(limit) {}

Result<os::CommandResult> SlurmClient::Call(std::vector<std::string> argv, std::string input) {
  os::Command command;
  command.input = std::move(input);
  command.argv = std::move(argv);
  command.env = env_;
  command.workdir = "/";
  command.timeout = limit_;
  // squeue blocks for long while slurmctld is away; a wish to leave must not wait for it. A submit
  // that is cut short is of unknown fate, which is what it is treated as.
  command.interruptible = true;
  return runner_.Run(command);
}

namespace {

tl::unexpected<Error> NoNews(const std::string& program, const os::CommandResult& r) {
  return Fail(ErrorCode::kUnavailable, program + " ended with code " + std::to_string(r.exit_code) +
                                           ": " + EscapeForDisplay(Trim(r.err), 300));
}

}  // namespace

Result<std::vector<SlurmJob>> SlurmClient::Queue(const std::vector<std::string>& names) {
  ATTUNE_TRY(const os::CommandResult r,
             Call({"squeue", "--noheader", "--states=all", "--name=" + Join(names, ","),
                   "--Format=" + QueueFormat()}));
  if (r.exit_code != 0 || r.out_cut) {
    return NoNews("squeue", r);
  }
  ParsedJobs parsed = ParseQueue(r.out);
  if (parsed.bad > 0) {
    // A line that can't be read may be the one that is looked for.
    return Fail(ErrorCode::kUnavailable,
                "squeue printed " + std::to_string(parsed.bad) +
                    " lines that are no jobs: " + EscapeForDisplay(Trim(r.out), 300));
  }
  return std::move(parsed.jobs);
}

std::vector<SlurmJob> SlurmClient::Accounting(const std::vector<std::string>& names,
                                              std::int64_t since_s) {
  if (no_accounting_) {
    return {};
  }
  // A day earlier: sacct reads the date in the time zone of its machine.
  const std::string day = Rfc3339(Instant{(since_s - 86'400) * 1000}).substr(0, 10);
  const auto r =
      Call({"sacct", "--noheader", "--parsable2", "--allocations", "--duplicates",
            "--name=" + Join(names, ","), "--starttime=" + day, "--format=" + AccountingFormat()});
  if (!r) {
    no_accounting_ = r.error().code == ErrorCode::kNotFound;
    return {};
  }
  if (r->err.find("accounting storage is disabled") != std::string::npos) {
    no_accounting_ = true;
  }
  return r->exit_code == 0 ? ParseAccounting(r->out).jobs : std::vector<SlurmJob>{};
}

std::string SlurmClient::UserName(std::int64_t uid) {
  const std::string number = "uid " + std::to_string(uid);
  const auto r = Call({"id", "-un", std::to_string(uid)});
  const std::string name = r && r->exit_code == 0 ? EscapeForDisplay(Trim(r->out), 64) : "";
  return name.empty() ? number : name + " (" + number + ")";
}

Result<os::CommandResult> SlurmClient::Submit(const std::vector<std::string>& argv) {
  return Call(argv);
}

Status SlurmClient::Cancel(const std::string& name, const std::vector<std::string>& ids,
                           Force force) {
  std::vector<std::string> argv = {"scancel", "--name=" + name};
  if (force == Force::kKill) {
    argv.insert(argv.end(), {"--full", "--signal=KILL"});
  }
  argv.insert(argv.end(), ids.begin(), ids.end());
  ATTUNE_TRY(const os::CommandResult r, Call(std::move(argv)));
  return r.exit_code == 0 ? Status() : Status(NoNews("scancel", r));
}

std::vector<std::string> SlurmClient::DownNodes(const std::string& nodes) {
  std::vector<std::string> out;
  const auto r = Call({"sinfo", "--noheader", "--Node", "--nodes=" + nodes,
                       "--states=down,fail,drain,no_respond", "--Format=NodeList:256"});
  if (!r || r->exit_code != 0) {
    return out;
  }
  for (const std::string_view line : SplitLines(r->out)) {
    if (const std::string name(Trim(line)); !name.empty() && (out.empty() || out.back() != name)) {
      out.push_back(name);
    }
  }
  return out;
}

Result<std::string> SlurmClient::Config() {
  ATTUNE_TRY(os::CommandResult r, Call({"scontrol", "show", "config"}));
  return r.exit_code == 0 ? Result<std::string>(std::move(r.out))
                          : Result<std::string>(NoNews("scontrol", r));
}

}  // namespace attune::launch
