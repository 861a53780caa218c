// What `attune-wrapper submit` answered, here or on another machine.
#pragma once

#include <optional>

#include "attune/base/result.h"
#include "attune/launch/launcher.h"
#include "attune/os/process.h"
#include "run_folder.h"

namespace attune::launch {

struct SubmitAnswer {
  std::optional<StartRecord> start;  // it runs, or has run
  Submitted otherwise;               // refused or unknown; meaningless with `start`
};
// Error: nothing was started and the machine is at fault (kFull, kDenied).
Result<SubmitAnswer> ReadSubmitAnswer(const os::CommandResult& answer, const Token& token);

}  // namespace attune::launch
