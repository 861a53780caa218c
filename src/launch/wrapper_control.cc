#include "wrapper_control.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "attune/os/files.h"

namespace attune::launch {
namespace {

sigset_t Listened() {
  sigset_t set;
  sigemptyset(&set);
  // USR1: a launcher wrote `stop`, look now. The others ask for the end; a scheduler sends TERM.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGCHLD}) {
    sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

Millis WrapperControl::Now() {
  SystemClock clock;
  return clock.Monotonic();
}

std::int64_t WrapperControl::WallNow() {
  SystemClock clock;
  return clock.Now().ms;
}

void WrapperControl::BlockSignals() {
  const sigset_t set = Listened();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

WrapperControl::WrapperControl(std::string attempt_folder, Millis poll, Millis deadline)
    : folder_(std::move(attempt_folder)), poll_(poll), deadline_(deadline) {
  const sigset_t set = Listened();
  signals_ = os::Fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

void WrapperControl::ReadSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) {
      child_changed_ = true;
    } else if (info.ssi_signo == SIGUSR1) {
      looked_at_ = Millis{-1'000'000};
    } else if (!launch_ending_) {
      launch_ending_ = Ending::kTerminated;
    }
  }
}

void WrapperControl::Look() {
  ReadSignals();
  const Millis now = Now();
  // `stop` is looked for before a TERM is believed to be somebody else's: a launcher may send both.
  const bool due = now - looked_at_ >= poll_ || launch_ending_ == Ending::kTerminated;
  if (due && launch_ending_ != Ending::kStopped && launch_ending_ != Ending::kLimit) {
    looked_at_ = now;
    if (os::Exists(folder_ + "/stop")) {
      launch_ending_ = Ending::kStopped;
    }
  }
  if (!launch_ending_ && now >= deadline_) {
    launch_ending_ = Ending::kLimit;
  }
}

bool WrapperControl::StopAsked(const std::string& stage_folder) const {
  return os::Exists(stage_folder + "/stop");
}

}  // namespace attune::launch
