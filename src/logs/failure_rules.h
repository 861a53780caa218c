// What a single line says about a failure: the signature table of docs/formats/failures.md.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "literal_scan.h"

namespace attune {

// In the order of the table: a line that fits two classes is of the first.
enum class FailureClass {
  kTimeLimit,
  kNodeFail,
  kPreempted,
  kCancelled,
  kOomHost,
  kOomGpu,
  kConfigRejected,
  kNan,
  kInitFailure,
  kHang,
  kCrashSignal,
  kCudaError,
  kNetwork,
  kInfra,
  kPythonException,
  kUnknown,
};
inline constexpr std::size_t kFailureClasses = 16;
std::string_view Word(FailureClass c);

// How much a line is worth. A weaker sign counts only where there is no stronger one.
enum class Strength {
  kHint,         // something ended badly, no more: "Exited with exit code 1"
  kWarning,      // often harmless: NCCL WARN NET/
  kProvisional,  // an echo or a wrapper: Ray's task error, a peer that is gone, SIGKILL
  kFirm,
};
inline constexpr std::size_t kStrengths = 4;

struct LineVerdict {
  FailureClass cls = FailureClass::kUnknown;
  Strength strength = Strength::kFirm;
  bool fatal = false;  // no run goes on after this line
};

// Marks that are no failure by themselves but that the readers look for, found in the same pass.
enum class Mark : std::size_t {
  kTraceback,
  kFrame,   // `", line `
  kError,   // "Error"
  kExcept,  // "Exception"
  kRootCause,
  kChildFailed,
  kExitCode,  // "exitcode"
  kExited,    // "Exited with exit code"
  kCaughtSignal,
  kReceivedBy,  // ") received by PID"
  kIteration,   // "iteration"
  kElapsed,     // "elapsed time per iteration"
  kMemory,      // "memory (MB)"
  kArguments,   // " arguments -"
  kBuilding,    // "building GPT model"
  kParameters,  // "> number of parameters on"
  kTraining,    // "training ..."
  kBeforeStep,  // "[before the start of training step]"
  kBridgeLoop,  // "Starting training loop at iteration"
  kExiting,     // "exiting program at"
  kAfterTraining,
  kSaving,      // "saving checkpoint at iteration"
  kSaved,       // "saved checkpoint from iteration"
  kTraceDone,   // "wrote profiler trace"
  kEvaluating,  // "validation loss at iteration"
  kCaptureStart,
  kCaptureEnd,
  kWorldSize,
  kTimers,  // "time (ms)", "time across ranks (ms)"
  kCount,
};

struct LineHits {
  LiteralSet set;
  bool Has(Mark m) const { return set.Has(static_cast<std::size_t>(m)); }
};

LineHits ScanLine(std::string_view line);
// The first signature that fits; nullopt when none does.
std::optional<LineVerdict> MatchSignature(const LineHits& hits);
// The name of a harmless line that looks like a failure ("loss_scale_overflow"); empty when none.
std::string_view MatchBenign(const LineHits& hits);

// Of a signal number, for signs that name one: SIGTERM and SIGINT are somebody's wish and say
// nothing (nullopt), SIGKILL is the host's out-of-memory killer until something else is known.
std::optional<LineVerdict> VerdictForSignal(int signal);

}  // namespace attune
