#include "detach.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "exit_code.h"
#include "json_out.h"

namespace attune::cli {
namespace {

std::string LogOf(const std::string& state_folder, const std::string& campaign) {
  return fmt::format("{}/detached/{}.log", state_folder, campaign);
}

// What the child says before it closes its end; empty when it ended first.
std::string Hear(int fd) {
  std::string heard;
  char buffer[256];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return heard;
    heard.append(buffer, static_cast<std::size_t>(n));
  }
}

int CodeOf(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailure;
}

}  // namespace

Result<std::optional<int>> Departure::Leave(Wire& wire, Departure& child) {
  ATTUNE_TRY(const std::string state_folder, wire.StateFolder());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return os::FailErrno("making a pipe", errno);
  os::Fd hear(ends[0]), tell(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return os::FailErrno("forking", errno);
  if (pid == 0) {
    hear.Close();
    setsid();
    const os::Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    dup2(null.get(), 0);
    child.tell_ = std::move(tell);
    return std::optional<int>();
  }
  tell.Close();
  const std::string campaign = Hear(hear.get());
  if (campaign.empty()) return std::optional<int>(CodeOf(pid));
  const std::string log = LogOf(state_folder, campaign);
  if (wire.flags().json) {
    JsonOut json("attune.detached/1");
    json.Text("campaign", campaign);
    json.Int("pid", pid);
    json.Text("log", log);
    wire.terminal().Out(json.Take() + "\n");
  } else {
    wire.terminal().Out(
        fmt::format("{} goes on without this terminal, as pid {}\n"
                    "  attune status {}   or {}\n"
                    "  attune stop {}\n",
                    campaign, pid, campaign, log, campaign));
  }
  return std::optional<int>(kExitDone);
}

Status Departure::Begun(const CampaignId& campaign, const std::string& state_folder) {
  if (!tell_.valid()) return {};
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(state_folder + "/detached"));
  const std::string log = LogOf(state_folder, campaign.value);
  const os::Fd out(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out.valid()) return os::FailErrno("opening " + log, errno);
  dup2(out.get(), 1);
  dup2(out.get(), 2);
  std::string_view word = campaign.value;
  while (!word.empty()) {
    const ssize_t n = write(tell_.get(), word.data(), word.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;  // nobody waits any more
    word.remove_prefix(static_cast<std::size_t>(n));
  }
  tell_.Close();
  return {};
}

}  // namespace attune::cli
