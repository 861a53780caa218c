#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "attune/os/process.h"

// Debian 12's glibc declares neither of them in a header of its own; the kernel has had them since
// 5.3 and 5.1.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

namespace attune::os {
namespace {

// /proc files have no size: read until the end, bounded.
std::string ReadProc(const std::string& path, std::size_t max) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string out;
  char buffer[16'384];
  while (fd.valid() && out.size() < max) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    out.append(buffer, static_cast<std::size_t>(n));
  }
  return out;
}

// Other users' processes can't be read. 8 MiB: above the kernel's own limit for arguments and
// environment with the default stack.
std::string ReadEnvironment(pid_t pid) {
  return ReadProc("/proc/" + std::to_string(pid) + "/environ", 8'388'608);
}

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> out;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) {
    return out;
  }
  while (const dirent* entry = readdir(proc)) {
    if (const auto pid = ParseInt(entry->d_name); pid && *pid > 0) {
      out.push_back(static_cast<pid_t>(*pid));
    }
  }
  closedir(proc);
  return out;
}

}  // namespace

std::string BootId() {
  static const std::string id(Trim(ReadProc("/proc/sys/kernel/random/boot_id", 64)));
  return id;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string("unknown");
}

std::optional<ProcessState> ParseProcessStat(std::string_view text) {
  // "pid (comm) S ppid pgrp session ..."; comm may hold spaces and parentheses, so fields count
  // from the last ')'. Field 3 is the state, 22 the start time.
  const auto close = text.rfind(')');
  if (close == std::string_view::npos || close + 2 >= text.size()) {
    return std::nullopt;
  }
  const std::vector<std::string_view> fields = Split(Trim(text.substr(close + 2)), ' ');
  if (fields.size() < 20 || fields[0].size() != 1) {
    return std::nullopt;
  }
  const auto parent = ParseInt(fields[1]), group = ParseInt(fields[2]),
             session = ParseInt(fields[3]), start = ParseInt(fields[19]);
  if (!parent || !group || !session || !start) {
    return std::nullopt;
  }
  return ProcessState{fields[0][0], static_cast<pid_t>(*parent), static_cast<pid_t>(*group),
                      static_cast<pid_t>(*session), *start};
}

std::optional<ProcessState> ReadProcessState(pid_t pid) {
  return ParseProcessStat(ReadProc("/proc/" + std::to_string(pid) + "/stat", 4096));
}

std::optional<ProcessId> Identify(pid_t pid) {
  const auto state = ReadProcessState(pid);
  if (!state) {
    return std::nullopt;
  }
  return ProcessId{pid, state->start_ticks, BootId()};
}

bool IsAlive(const ProcessId& id) {
  if (id.pid <= 0 || id.boot_id != BootId()) {
    return false;
  }
  const auto state = ReadProcessState(id.pid);
  return state && state->start_ticks == id.start_ticks && state->state != 'Z' &&
         state->state != 'X';
}

Result<bool> SendSignal(const ProcessId& id, int signal) {
  if (id.pid <= 0 || id.boot_id != BootId()) {
    return false;
  }
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, id.pid, 0)));
  if (!fd.valid()) {
    if (errno == ESRCH || errno == EINVAL) {
      return false;
    }
    return FailErrno("opening process " + std::to_string(id.pid), errno);
  }
  // The pidfd pins whatever has the pid now; only then is the comparison worth something.
  if (!IsAlive(id)) {
    return false;
  }
  if (syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) != 0) {
    if (errno == ESRCH) {
      return false;
    }
    return FailErrno("signalling process " + std::to_string(id.pid), errno);
  }
  return true;
}

std::vector<pid_t> ProcessesCarrying(const std::string& name, const std::string& value) {
  const std::string mark = name + "=" + value;
  std::vector<pid_t> out;
  for (const pid_t pid : AllProcesses()) {
    if (pid == getpid()) {
      continue;
    }
    const std::string environment = ReadEnvironment(pid);
    for (std::size_t at = environment.find(mark); at != std::string::npos;
         at = environment.find(mark, at + 1)) {
      const std::size_t end = at + mark.size();
      if ((at == 0 || environment[at - 1] == '\0') &&
          (end == environment.size() || environment[end] == '\0')) {
        out.push_back(pid);
        break;
      }
    }
  }
  return out;
}

std::set<std::string> ValuesCarried(const std::string& name) {
  const std::string mark = name + "=";
  std::set<std::string> out;
  for (const pid_t pid : AllProcesses()) {
    const std::string environment = ReadEnvironment(pid);
    for (const std::string_view entry : Split(environment, '\0')) {
      if (entry.starts_with(mark)) {
        out.emplace(entry.substr(mark.size()));
      }
    }
  }
  return out;
}

std::vector<pid_t> Descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : AllProcesses()) {
    if (const auto state = ReadProcessState(pid)) {
      children.emplace(state->parent, pid);
    }
  }
  std::vector<pid_t> out;
  std::set<pid_t> seen = {root};
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [begin, end] = children.equal_range(parent);
    for (auto it = begin; it != end; ++it) {
      if (seen.insert(it->second).second) {
        out.push_back(it->second);
        open.push_back(it->second);
      }
    }
  }
  return out;
}

}  // namespace attune::os
