// One attempt of a launch on the job's side: claims it, runs its stages in turn, records its end.
#pragma once

#include <string>

#include "attune/base/result.h"
#include "attune/os/fd.h"

namespace attune::launch {

enum class AttemptEnd {
  kDone,         // ran, and `exit` says how it ended
  kOwnedByOther  // somebody else holds the claim: nothing was started
};

// `lock` is released, and one byte written to `ready`, once the claim stands or is another's. An
// error means that nothing was started.
Result<AttemptEnd> RunAttempt(const std::string& launch_folder, int attempt, os::Fd lock,
                              os::Fd ready);

}  // namespace attune::launch
