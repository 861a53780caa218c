#include "stage_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attune/os/files.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace attune::launch {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) {
    out.push_back(t.data());
  }
  out.push_back(nullptr);
  return out;
}

void CloseFrom(int first) {
  if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) {
    return;
  }
  const long most = sysconf(_SC_OPEN_MAX);  // a kernel before 5.9
  for (int fd = first; fd < (most > 0 && most < 65'536 ? most : 65'536); ++fd) {
    close(fd);
  }
}

struct Failure {
  int step = 0;  // 1: working folder, 2: program
  int error = 0;
};

// Never returns. Runs in the child of a process without threads.
[[noreturn]] void Become(const std::string& program, std::vector<std::string> argv,
                         std::vector<std::string> entries, const std::string& workdir, int go,
                         int failure, int output, int errors, pid_t wrapper) {
  setsid();
  // The wrapper holds the pipe, the limit and the records: without it nobody would end this job.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != wrapper) {
    _exit(127);
  }
  char word = 0;
  ssize_t n = 0;
  while ((n = read(go, &word, 1)) < 0 && errno == EINTR) {
  }
  if (n != 1) {
    _exit(127);
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(output, 1);
  dup2(errors, 2);
  dup2(failure, 3);
  fcntl(3, F_SETFD, FD_CLOEXEC);
  CloseFrom(4);
  Failure why{1, 0};
  if (chdir(workdir.c_str()) == 0) {
    execve(program.c_str(), Pointers(argv).data(), Pointers(entries).data());
    why.step = 2;
  }
  why.error = errno;
  if (write(3, &why, sizeof why) != sizeof why) {
    _exit(126);
  }
  _exit(127);
}

}  // namespace

Result<WaitingChild> WaitingChild::Fork(const std::vector<std::string>& argv,
                                        const os::Environment& env, const std::string& workdir,
                                        int output, int errors) {
  WaitingChild child;
  const auto path = env.find("PATH");
  ATTUNE_TRY(child.program_,
             os::FindProgram(argv[0], path == env.end() ? "/usr/bin:/bin" : path->second));
  int go[2], failure[2];
  if (pipe2(go, O_CLOEXEC) != 0) {
    return os::FailErrno("making a pipe", errno);
  }
  child.go_ = os::Fd(go[1]);
  os::Fd go_read(go[0]);
  if (pipe2(failure, O_CLOEXEC) != 0) {
    return os::FailErrno("making a pipe", errno);
  }
  child.failure_ = os::Fd(failure[0]);
  os::Fd failure_write(failure[1]);
  std::vector<std::string> entries;
  for (const auto& [name, value] : env) {
    entries.push_back(name + "=" + value);
  }
  const pid_t wrapper = getpid();
  child.pid_ = fork();
  if (child.pid_ < 0) {
    return os::FailErrno("forking", errno);
  }
  if (child.pid_ == 0) {
    child.go_.Close();  // else its own copy would keep `go` open for ever
    Become(child.program_, argv, std::move(entries), workdir, go_read.get(), failure_write.get(),
           output, errors, wrapper);
  }
  return child;
}

std::string WaitingChild::Go() {
  if (write(go_.get(), "g", 1) != 1) {
    return "the waiting process is gone";
  }
  go_.Close();
  Failure why;
  ssize_t n = 0;
  while ((n = read(failure_.get(), &why, sizeof why)) < 0 && errno == EINTR) {
  }
  failure_.Close();
  if (n != sizeof why) {
    return {};  // closed by a successful exec
  }
  return std::string(why.step == 1 ? "entering the working folder" : "starting " + program_) +
         ": " + strerror(why.error);
}

std::string NodeName() {
  const char* name = getenv("SLURMD_NODENAME");
  return name == nullptr || *name == '\0' ? os::HostName() : std::string(name).substr(0, 256);
}

os::Environment JobEnvironment(os::Environment node, const os::Environment& stage,
                               const std::string& token, const std::string& folder) {
  // Of the session that submitted, which is over before the job is: its connection, its agent.
  std::erase_if(node, [](const auto& entry) {
    return entry.first.starts_with("ATTUNE_") || entry.first.starts_with("SSH_");
  });
  for (const auto& [name, value] : stage) {
    node[name] = value;
  }
  node["ATTUNE_TOKEN"] = token;
  node["ATTUNE_RUN_DIR"] = folder;
  return node;
}

}  // namespace attune::launch
