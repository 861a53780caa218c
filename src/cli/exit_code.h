// Exit codes (cli.md section 3.2; shown by `attune help exit-codes`). Never renumbered.
#pragma once

#include <span>
#include <string_view>

#include "attune/base/result.h"

namespace attune::cli {

enum ExitCode : int {
  kExitDone = 0,
  kExitFailure = 1,      // unexpected: bug, disk full
  kExitUsage = 2,        // wrong usage, invalid recipe or config
  kExitNothingToDo = 3,  // already tuned, already ended
  kExitSecret = 4,       // secret missing or refused, permission
  kExitLimit = 5,        // a limit stopped it before a verified result
  kExitRefused = 6,      // a gate refused
  kExitNoLaunch = 7,     // training cannot be launched: the baseline fails
  kExitInProgress = 8,   // status --exit-status
  kExitNoGain = 10,      // with --exit-status
  kExitTryLater = 75,    // EX_TEMPFAIL: lock held, scheduler not reachable
  kExitInterrupted = 130,
  kExitTerminated = 143,
};

int ExitCodeOf(ErrorCode code);
// Word of an error for JSON: "usage", "invalid", "auth", "unavailable" ...
std::string_view KindOf(ErrorCode code);

struct ExitCodeRow {
  int code;
  std::string_view meaning;
};
// Every code that a command of this version can return, with its meaning.
std::span<const ExitCodeRow> ExitCodeTable();
std::string_view MeaningOf(int code);

}  // namespace attune::cli
