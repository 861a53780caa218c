#include "slurm_rank.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "attune/base/text.h"
#include "attune/os/files.h"

namespace attune::launch {
namespace {

// Tasks on this node: SLURM_STEP_TASKS_PER_NODE is "4(x2)" or "4,3": entry by entry with repeats.
std::optional<std::int64_t> TasksOnNode(std::string_view list, std::int64_t node) {
  for (const std::string_view part : Split(list, ',')) {
    const auto bracket = part.find("(x");
    const auto tasks = ParseInt(part.substr(0, bracket));
    std::int64_t times = 1;
    if (bracket != std::string_view::npos && part.ends_with(')')) {
      const auto n = ParseInt(part.substr(bracket + 2, part.size() - bracket - 3));
      if (!n) {
        return std::nullopt;
      }
      times = *n;
    }
    if (!tasks) {
      return std::nullopt;
    }
    if (node < times) {
      return tasks;
    }
    node -= times;
  }
  return std::nullopt;
}

}  // namespace

Result<os::Environment> RankEnvironment(os::Environment env) {
  const auto text = [&](const char* name) {
    const auto it = env.find(name);
    return it == env.end() ? std::string() : it->second;
  };
  const auto node = ParseInt(text("SLURM_NODEID"));
  const auto tasks = node ? TasksOnNode(text("SLURM_STEP_TASKS_PER_NODE"), *node) : std::nullopt;
  const std::string master = text("SLURM_LAUNCH_NODE_IPADDR"), port = text("ATTUNE_PORT"),
                    nodes = text("SLURM_STEP_NUM_NODES");
  if (!ParseInt(text("SLURM_PROCID")) || !ParseInt(text("SLURM_NTASKS")) || !tasks ||
      !ParseInt(nodes) || master.empty() || port.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                "attune-wrapper rank needs the variables of a step of srun and ATTUNE_PORT");
  }
  env["RANK"] = text("SLURM_PROCID");
  env["WORLD_SIZE"] = text("SLURM_NTASKS");
  env["LOCAL_RANK"] = text("SLURM_LOCALID");
  env["LOCAL_WORLD_SIZE"] = std::to_string(*tasks);
  env["MASTER_ADDR"] = env["PET_MASTER_ADDR"] = master;
  env["MASTER_PORT"] = env["PET_MASTER_PORT"] = port;
  env["PET_NNODES"] = nodes;
  env["PET_NODE_RANK"] = std::to_string(*node);
  return env;
}

std::optional<RankFailure> FirstFailedRank(std::string_view srun_output) {
  for (const std::string_view line : SplitLines(srun_output)) {
    constexpr std::string_view kError = "srun: error: ", kTask = ": task ", kTasks = ": tasks ";
    if (!line.starts_with(kError)) {
      continue;
    }
    auto at = line.find(kTask);
    std::size_t skip = kTask.size();
    if (at == std::string_view::npos) {
      at = line.find(kTasks);
      skip = kTasks.size();
    }
    if (at == std::string_view::npos) {
      continue;
    }
    const std::string_view rest = line.substr(at + skip);
    const auto rank = ParseInt(rest.substr(0, rest.find_first_of(":-,")));
    const auto colon = rest.find(": ");
    if (!rank || *rank < 0 || *rank > 1'000'000 || colon == std::string_view::npos) {
      continue;
    }
    const std::string_view what = rest.substr(colon + 2);
    RankFailure failure{static_cast<int>(*rank), {}, {}};
    constexpr std::string_view kCode = "Exited with exit code ";
    if (what.starts_with(kCode)) {
      const auto code = ParseInt(Trim(what.substr(kCode.size())));
      if (code && *code > 0 && *code < 256) {
        failure.code = static_cast<int>(*code);
        return failure;
      }
    }
    for (int signal = 1; signal < 32; ++signal) {
      // Those that are ended because of it say so too, but later.
      if (signal != SIGTERM && what.starts_with(strsignal(signal))) {
        failure.signal = signal;
        return failure;
      }
    }
  }
  return std::nullopt;
}

Error BecomeRank(const std::vector<std::string>& argv) {
  auto env = RankEnvironment(os::OwnEnvironment());
  if (!env) {
    return env.error();
  }
  const auto path = env->find("PATH");
  const auto program =
      os::FindProgram(argv[0], path == env->end() ? "/usr/bin:/bin" : path->second);
  if (!program) {
    return program.error();
  }
  std::vector<std::string> words = argv, entries;
  for (const auto& [name, value] : *env) {
    entries.push_back(name + "=" + value);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& t : texts) {
      out.push_back(t.data());
    }
    out.push_back(nullptr);
    return out;
  };
  execve(program->c_str(), pointers(words).data(), pointers(entries).data());
  return os::FailErrno("starting " + *program, errno).value();
}

}  // namespace attune::launch
