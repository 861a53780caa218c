#include "exit_code.h"

#include <array>

namespace attune::cli {
namespace {

constexpr std::array<ExitCodeRow, 13> kTable = {{
    {kExitDone, "done"},
    {kExitFailure, "unexpected failure (a bug, a full disk)"},
    {kExitUsage, "wrong usage, invalid recipe or config"},
    {kExitNothingToDo, "nothing to do"},
    {kExitSecret, "secret missing or refused, permission denied"},
    {kExitLimit, "a limit stopped it before a verified result"},
    {kExitRefused, "refused by a gate"},
    {kExitNoLaunch, "training cannot be launched"},
    {kExitInProgress, "still in progress (--exit-status)"},
    {kExitNoGain, "ended without a gain beyond the band (--exit-status)"},
    {kExitTryLater, "try again later: lock held, or a service not reachable"},
    {kExitInterrupted, "stopped by SIGINT, state saved"},
    {kExitTerminated, "stopped by SIGTERM, state saved"},
}};

}  // namespace

int ExitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
    case ErrorCode::kNotFound:
    case ErrorCode::kNewerFormat:
      return kExitUsage;
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      return kExitTryLater;
    case ErrorCode::kDenied:
      return kExitSecret;
    case ErrorCode::kCorrupt:
    case ErrorCode::kFull:
    case ErrorCode::kInternal:
      return kExitFailure;
  }
  return kExitFailure;
}

std::string_view KindOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kNewerFormat:
      return "newer_format";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kDenied:
      return "auth";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kFull:
      return "full";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

std::span<const ExitCodeRow> ExitCodeTable() { return kTable; }

std::string_view MeaningOf(int code) {
  for (const ExitCodeRow& row : kTable) {
    if (row.code == code) {
      return row.meaning;
    }
  }
  return "";
}

}  // namespace attune::cli
