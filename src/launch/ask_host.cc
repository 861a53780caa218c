#include "ask_host.h"

#include <time.h>

#include <algorithm>

#include "attune/base/text.h"

namespace attune::launch {
namespace {

// Short beside a minute: on a line that breaks again and again each try is a chance.
constexpr Millis kLongestPause{5'000};

}  // namespace

bool Nap(Millis time) {
  const timespec nap{time.count() / 1000, (time.count() % 1000) * 1'000'000};
  return nanosleep(&nap, nullptr) == 0;
}

Result<std::string> AskHost(SshTransport& ssh, const std::string& host, const std::string& request,
                            Millis limit, bool interruptible, bool once) {
  ATTUNE_TRY(const os::CommandResult answer,
             ssh.CallWrapper(host, {"serve"}, request, limit, interruptible, once));
  const std::string why = host + ": " + EscapeForDisplay(Trim(answer.err), 1000);
  switch (answer.exit_code) {
    case 0:
      return answer.out;
    case 4:
      return Fail(ErrorCode::kNotFound, why);
    case 10:
      return Fail(ErrorCode::kInvalidInput, why);
    case 11:
      return Fail(ErrorCode::kFull, why, "make room there, then resume");
    case 12:
      return Fail(ErrorCode::kDenied, why);
    default:
      return Fail(ErrorCode::kUnavailable, why);
  }
}

bool Retry::Again() {
  const bool late = patience_.clock->Monotonic() - begun_ + pause_ > patience_.whole;
  if (late || ssh_.interrupted() || !Nap(pause_)) {
    return false;
  }
  pause_ = std::min(2 * pause_, std::max(patience_.pause, kLongestPause));
  return true;
}

}  // namespace attune::launch
