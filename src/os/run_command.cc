// One child at a time: posix_spawn into its own process group, two pipes read by poll, a time limit
// that reaches the whole group. posix_spawn and not fork: the caller may have threads and a lot of
// memory.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "attune/base/clock.h"
#include "attune/base/text.h"
#include "attune/os/fd.h"
#include "attune/os/files.h"
#include "attune/os/process.h"

namespace attune::os {
namespace {

struct Pipe {
  Fd read, write;
};
Result<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return FailErrno("making a pipe", errno);
  }
  // Above 2: with our own stdin closed a pipe would sit where the child's stdin goes.
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  for (Fd* end : {&pipe.read, &pipe.write}) {
    if (end->get() <= 2) {
      *end = Fd(fcntl(end->get(), F_DUPFD_CLOEXEC, 3));
    }
  }
  return pipe;
}

struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) {
    out.push_back(t.data());
  }
  out.push_back(nullptr);
  return out;
}

Result<pid_t> Spawn(const Command& command, const std::string& program, const Environment& env,
                    int in, int out, int err) {
  SpawnSettings s;
  posix_spawn_file_actions_adddup2(&s.actions, in, 0);
  posix_spawn_file_actions_adddup2(&s.actions, out, 1);
  posix_spawn_file_actions_adddup2(&s.actions, err, 2);
  posix_spawn_file_actions_addclosefrom_np(&s.actions, 3);
  if (!command.workdir.empty()) {
    posix_spawn_file_actions_addchdir_np(&s.actions, command.workdir.c_str());
  }
  // A handler or a mask of ours must not become the child's; its own group so that a time limit
  // reaches its children and a Ctrl-C on our terminal does not.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&s.attributes, &none);
  posix_spawnattr_setsigdefault(&s.attributes, &all);
  posix_spawnattr_setpgroup(&s.attributes, 0);
  posix_spawnattr_setflags(&s.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> argv = command.argv, entries;
  for (const auto& [name, value] : env) {
    entries.push_back(name + "=" + value);
  }
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &s.actions, &s.attributes,
                                Pointers(argv).data(), Pointers(entries).data());
  if (error != 0) {
    return FailErrno(
        "starting " + program + (command.workdir.empty() ? "" : " in " + command.workdir), error);
  }
  return pid;
}

struct Stream {
  Fd fd;
  std::string* text = nullptr;
  bool* cut = nullptr;
};

// False at the end of the stream.
bool Drain(Stream& s, std::int64_t max) {
  char buffer[65'536];
  const ssize_t n = read(s.fd.get(), buffer, sizeof buffer);
  if (n < 0) {
    return errno == EINTR || errno == EAGAIN;
  }
  const auto room = static_cast<std::size_t>(
      std::max<std::int64_t>(0, max - static_cast<std::int64_t>(s.text->size())));
  s.text->append(buffer, std::min(room, static_cast<std::size_t>(n)));
  *s.cut = *s.cut || static_cast<std::size_t>(n) > room;
  return n > 0;
}

class Conversation {
 public:
  // `waiting`: the signal mask while it waits; null: the thread's own.
  Conversation(const Command& command, pid_t pid, CommandResult& result, const sigset_t* waiting)
      : command_(command),
        pid_(pid),
        result_(result),
        waiting_(waiting),
        started_(clock_.Monotonic()) {}

  enum class End { kItself, kTimeLimit, kInterrupted };
  // Feeds and reads until the child is reaped.
  End Run(Fd in, Fd out, Fd err) {
    fcntl(in.get(), F_SETFL, O_NONBLOCK);
    streams_[0] = {std::move(out), &result_.out, &result_.out_cut};
    streams_[1] = {std::move(err), &result_.err, &result_.err_cut};
    in_ = std::move(in);
    if (command_.input.empty()) {
      in_.Close();
    }
    while (!reaped_) {
      Enforce();
      Poll();
      Reap();
    }
    // What is still in the pipes belongs to the answer; a grandchild that keeps them open does not.
    for (Stream& s : streams_) {
      pollfd p{s.fd.get(), POLLIN, 0};
      while (s.fd.valid() && poll(&p, 1, 0) == 1 && Drain(s, command_.max_output)) {
      }
    }
    result_.wall = clock_.Monotonic() - started_;
    if (!ended_at_) {
      return End::kItself;
    }
    return interrupted_ ? End::kInterrupted : End::kTimeLimit;
  }

 private:
  void Enforce() {
    const Millis now = clock_.Monotonic();
    if (!ended_at_ && (now - started_ >= command_.timeout || interrupted_)) {
      ended_at_ = now;
      kill(-pid_, SIGTERM);
    }
    if (ended_at_ && !killed_ && now - *ended_at_ >= command_.grace) {
      killed_ = true;
      kill(-pid_, SIGKILL);
    }
  }

  void Poll() {
    pollfd fds[3];
    nfds_t n = 0;
    for (Stream& s : streams_) {
      if (s.fd.valid()) {
        fds[n++] = {s.fd.get(), POLLIN, 0};
      }
    }
    if (in_.valid()) {
      fds[n++] = {in_.get(), POLLOUT, 0};
    }
    // Without a pidfd in old C libraries the end of the child is asked for: often while the pipes
    // are closed, seldom while they carry data (their closing wakes us).
    const int wait = streams_[0].fd.valid() || streams_[1].fd.valid() ? 20 : 1;
    const timespec limit{0, wait * 1'000'000L};
    const int ready = ppoll(fds, n, &limit, waiting_);
    if (ready <= 0) {
      interrupted_ = interrupted_ || (ready < 0 && errno == EINTR && command_.interruptible);
      return;
    }
    for (nfds_t i = 0; i < n; ++i) {
      if (fds[i].revents == 0) {
        continue;
      }
      if (in_.valid() && fds[i].fd == in_.get()) {
        Feed();
        continue;
      }
      for (Stream& s : streams_) {
        if (s.fd.valid() && s.fd.get() == fds[i].fd && !Drain(s, command_.max_output)) {
          s.fd.Close();
        }
      }
    }
  }

  void Feed() {
    const ssize_t n = write(in_.get(), command_.input.data() + fed_, command_.input.size() - fed_);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
      return;
    }
    // EPIPE: it does not want its input; that is its own affair.
    fed_ += n > 0 ? static_cast<std::size_t>(n) : 0;
    if (n <= 0 || fed_ == command_.input.size()) {
      in_.Close();
    }
  }

  void Reap() {
    int status = 0;
    rusage usage{};
    const pid_t got = wait4(pid_, &status, WNOHANG, &usage);
    if (got == 0 || (got < 0 && errno == EINTR)) {
      return;
    }
    reaped_ = true;
    if (ended_at_) {
      kill(-pid_, SIGKILL);  // what the leader left behind in its group
    }
    if (WIFSIGNALED(status)) {
      result_.signal = WTERMSIG(status);
      result_.exit_code = 128 + WTERMSIG(status);
    } else {
      result_.exit_code = WEXITSTATUS(status);
    }
    const auto millis = [](const timeval& t) {
      return Millis{std::int64_t{t.tv_sec} * 1000 + t.tv_usec / 1000};
    };
    result_.user = millis(usage.ru_utime);
    result_.system = millis(usage.ru_stime);
    result_.max_rss_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  }

  SystemClock clock_;
  const Command& command_;
  const pid_t pid_;
  CommandResult& result_;
  const sigset_t* const waiting_;
  const Millis started_;
  Stream streams_[2];
  Fd in_;
  std::size_t fed_ = 0;
  std::optional<Millis> ended_at_;  // by us
  bool interrupted_ = false, killed_ = false, reaped_ = false;
};

// A child that closes its stdin early must not kill us; SIGPIPE is blocked for this thread alone
// and a pending one is taken back.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    if (sigismember(&before_, SIGPIPE) == 0) {
      const timespec now{};
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

// For an interruptible command: signals are held back but while it waits. One that comes between two
// waits would else run its handler and end none. Faults of our own are never held.
class HeldSignals {
 public:
  explicit HeldSignals(bool hold) : hold_(hold) {
    if (hold_) {
      sigset_t held;
      sigfillset(&held);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
        sigdelset(&held, fault);
      }
      pthread_sigmask(SIG_BLOCK, &held, &before_);
    }
  }
  ~HeldSignals() {
    if (hold_) {
      pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  const sigset_t* waiting() const { return hold_ ? &before_ : nullptr; }

 private:
  const bool hold_;
  sigset_t before_;
};

}  // namespace

Result<CommandResult> ProcessRunner::Run(std::span<const std::string> argv, Millis timeout) {
  Command command;
  command.argv.assign(argv.begin(), argv.end());
  command.timeout = timeout;
  return Run(command);
}

Result<std::string> FindProgram(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  for (const std::string_view folder : Split(path, ':')) {
    const std::string candidate = std::string(folder.empty() ? "." : folder) + "/" + name;
    struct stat st {};
    if (!name.empty() && stat(candidate.c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return Fail(ErrorCode::kNotFound, "no program '" + EscapeForDisplay(name, 200) + "' in PATH");
}

Result<CommandResult> PosixProcessRunner::Run(const Command& command) {
  if (command.argv.empty()) {
    return Fail(ErrorCode::kInvalidInput, "an empty command");
  }
  for (const std::string& arg : command.argv) {
    if (arg.find('\0') != std::string::npos) {
      return Fail(ErrorCode::kInvalidInput, "an argument of " + command.argv[0] + " holds a NUL");
    }
  }
  const Environment env = command.env ? *command.env : OwnEnvironment();
  const auto path = env.find("PATH");
  ATTUNE_TRY(const std::string program,
             FindProgram(command.argv[0], path == env.end() ? "/usr/bin:/bin" : path->second));
  ATTUNE_TRY(Pipe in, MakePipe());
  ATTUNE_TRY(Pipe out, MakePipe());
  ATTUNE_TRY(Pipe err, MakePipe());
  if (command.input.empty()) {
    in.read = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  const NoSigpipe guard;
  const HeldSignals held(command.interruptible);
  ATTUNE_TRY(const pid_t pid,
             Spawn(command, program, env, in.read.get(), out.write.get(), err.write.get()));
  in.read.Close();
  out.write.Close();
  err.write.Close();
  CommandResult result;
  using End = Conversation::End;
  switch (Conversation(command, pid, result, held.waiting())
              .Run(std::move(in.write), std::move(out.read), std::move(err.read))) {
    case End::kItself:
      break;
    case End::kTimeLimit:
      return Fail(ErrorCode::kTimeout, command.argv[0] + " did not end within " +
                                           std::to_string(command.timeout.count()) + " ms");
    case End::kInterrupted:
      return Fail(ErrorCode::kUnavailable, command.argv[0] + " was interrupted by a signal");
  }
  return result;
}

}  // namespace attune::os
