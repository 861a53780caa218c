// One question to `attune-wrapper serve` on another machine, and the patience for a line that
// breaks: what launchers over ssh and Slurm launchers behind a login node share.
#pragma once

#include <functional>
#include <string>

#include "attune/base/clock.h"
#include "ssh_transport.h"

namespace attune::launch {

// False: a signal came first.
bool Nap(Millis time);

// exchange.h has requests and answers. kNotFound, kInvalidInput, kFull, kDenied: of the host, which
// has answered. kUnavailable, kTimeout: no answer, as of SshTransport::CallWrapper. `once`:
// likewise.
Result<std::string> AskHost(SshTransport& ssh, const std::string& host, const std::string& request,
                            Millis limit, bool interruptible, bool once = false);

struct Patience {
  Clock* clock = nullptr;
  Millis pause{1'000};   // before the second try; doubled up to a few seconds
  Millis whole{60'000};  // then it is given up
};
// True while it is worth asking again: waits before it says so. Made anew for every question.
class Retry {
 public:
  Retry(const Patience& patience, const SshTransport& ssh)
      : patience_(patience),
        ssh_(ssh),
        begun_(patience.clock->Monotonic()),
        pause_(patience.pause) {}
  bool Again();

 private:
  Patience patience_;
  const SshTransport& ssh_;
  Millis begun_, pause_;
};

// Asks again while the host can't be reached. The error is kUnavailable then.
template <class T>
Result<T> Patiently(const Patience& patience, const SshTransport& ssh,
                    const std::function<Result<T>()>& ask) {
  Retry retry(patience, ssh);
  for (;;) {
    Result<T> answer = ask();
    const bool silent = !answer && (answer.error().code == ErrorCode::kUnavailable ||
                                    answer.error().code == ErrorCode::kTimeout);
    if (!silent) {
      return answer;
    }
    if (!retry.Again()) {
      answer.error().code = ErrorCode::kUnavailable;
      return answer;
    }
  }
}

}  // namespace attune::launch
