// How a run ended: evidence of four kinds (the log, the process, the scheduler, ourselves) in one
// table. docs/formats/failures.md prints it.
#include <fmt/core.h>

#include <string>

#include "attune/logs/log_parser.h"

namespace attune {
namespace {

constexpr int kSigKill = 9;

struct ClassEnd {
  std::string_view cls;
  RunEnd end;
  // A job that we stop may print such lines because we stop it: ranks die one after the other.
  bool may_be_our_stop;
};
constexpr ClassEnd kClassEnds[] = {
    {"node_fail", RunEnd::kNodeFailed, false},
    {"preempted", RunEnd::kPreempted, false},
    {"cancelled", RunEnd::kCancelledOutside, true},
    {"oom_host", RunEnd::kOomHost, false},
    {"oom_gpu", RunEnd::kOomGpu, false},
    {"config_rejected", RunEnd::kConfigRejected, false},
    {"nan", RunEnd::kNan, false},
    {"init_failure", RunEnd::kInitFailure, true},
    {"hang", RunEnd::kHung, false},
    {"crash_signal", RunEnd::kCrashed, true},
    {"cuda_error", RunEnd::kCrashed, true},
    {"network", RunEnd::kCrashed, true},
    {"infra", RunEnd::kCrashed, true},
    {"python_exception", RunEnd::kCrashed, true},
    {"unknown", RunEnd::kCrashed, true},
};

const ClassEnd* EndOfClass(const EndEvidence& e) {
  if (!e.failure) {
    return nullptr;
  }
  for (const ClassEnd& c : kClassEnds) {
    if (c.cls == e.failure->cls) {
      return &c;
    }
  }
  return nullptr;
}

// The scheduler's words that stand whatever the log says: the cluster took the GPUs away.
bool IsClustersWord(RunEnd end) {
  return end == RunEnd::kPreempted || end == RunEnd::kNodeFailed || end == RunEnd::kNeverStarted ||
         end == RunEnd::kLost;
}

std::string Steps(const EndEvidence& e) {
  return e.steps_wanted > 0 ? fmt::format("{} of {} steps", e.steps_seen, e.steps_wanted)
                            : fmt::format("{} steps", e.steps_seen);
}

struct Verdict {
  RunEnd end;
  std::string cause;
};

Verdict ByClass(const EndEvidence& e, RunEnd end) {
  const std::string& detail = e.failure->detail;
  return {end, detail.empty() ? fmt::format("{} in the log after {}", e.failure->cls, Steps(e))
                              : fmt::format("{}: {}, after {}", e.failure->cls, detail, Steps(e))};
}

Verdict ByLimit(const EndEvidence& e) {
  if (e.progressing) {
    return {RunEnd::kTooSlow, "time limit reached, steps still went on: " + Steps(e)};
  }
  return {RunEnd::kHung, "time limit reached without progress: " + Steps(e)};
}

Verdict ByExit(const EndEvidence& e) {
  const bool killed = e.signal == kSigKill || (!e.signal && e.exit_code == 128 + kSigKill);
  if (killed) {
    // Nobody of ours sent it (asked and limits come first): the kernel's or the cgroup's killer.
    return {RunEnd::kOomHost, "killed (SIGKILL) after " + Steps(e) + ": host memory, most likely"};
  }
  if (e.signal) {
    return {RunEnd::kCrashed, fmt::format("ended by signal {} after {}", *e.signal, Steps(e))};
  }
  if (e.exit_code && *e.exit_code > 128 && *e.exit_code < 128 + 65) {
    return {RunEnd::kCrashed, fmt::format("exit code {} (signal {}) after {}", *e.exit_code,
                                          *e.exit_code - 128, Steps(e))};
  }
  if (e.exit_code && *e.exit_code != 0) {
    return {RunEnd::kCrashed, fmt::format("exit code {} after {}", *e.exit_code, Steps(e))};
  }
  if (e.exit_code) {
    if (e.steps_seen >= e.steps_wanted) {
      return {RunEnd::kCompleted, "completed with " + Steps(e)};
    }
    return {RunEnd::kCrashed, "exit code 0 after only " + Steps(e)};
  }
  return {RunEnd::kLost, "no exit record after " + Steps(e)};
}

// First that applies.
Verdict Judge(const EndEvidence& e) {
  if (e.scheduler && IsClustersWord(*e.scheduler)) {
    return {*e.scheduler, "scheduler's word, after " + Steps(e)};
  }
  const ClassEnd* const by_class = EndOfClass(e);
  const bool finished = e.exit_code == 0 && !e.signal && e.steps_seen >= e.steps_wanted;
  if (by_class != nullptr) {
    const bool ours = e.asked && !e.asked_for_failure;
    const bool excused = by_class->may_be_our_stop && (ours || e.hang_judged || e.limit_hit);
    // All steps and exit code 0: whatever went wrong was caught. NaN and a killed process are not.
    const bool survived =
        finished && by_class->end != RunEnd::kNan && by_class->end != RunEnd::kOomHost &&
        by_class->end != RunEnd::kNodeFailed && by_class->end != RunEnd::kPreempted;
    // Peers that are gone are how the survivors notice a SIGKILL.
    const bool echo = e.failure->cls == "network" && !e.failure->fatal &&
                      (e.signal == kSigKill || e.exit_code == 128 + kSigKill);
    if (!excused && !survived && !echo) {
      return ByClass(e, by_class->end);
    }
  }
  if (e.hang_judged) {
    return {RunEnd::kHung, "no progress, stopped after " + Steps(e)};
  }
  if (e.asked) {
    return {RunEnd::kStopped, "stopped on request after " + Steps(e)};
  }
  const bool timed_out = e.failure && e.failure->cls == "time_limit";
  if (e.limit_hit || timed_out || e.scheduler == RunEnd::kTooSlow || e.scheduler == RunEnd::kHung) {
    return ByLimit(e);
  }
  if (e.scheduler == RunEnd::kCancelledOutside || e.scheduler == RunEnd::kOomHost) {
    return {*e.scheduler, "scheduler's word, after " + Steps(e)};
  }
  if (!e.exit_code && !e.signal && e.scheduler) {
    if (*e.scheduler == RunEnd::kCompleted && e.steps_seen < e.steps_wanted) {
      return {RunEnd::kCrashed, "ended after only " + Steps(e)};
    }
    return {*e.scheduler, "scheduler's word, after " + Steps(e)};
  }
  return ByExit(e);
}

}  // namespace

bool IsInfra(std::string_view failure_class) { return failure_class == "infra"; }

EndDetail RunEndFor(const EndEvidence& evidence) {
  EndEvidence e = evidence;
  if (e.failure && e.failure->cls.empty()) {
    e.failure.reset();  // a sign that was taken back
  }
  const Verdict verdict = Judge(e);
  EndDetail detail;
  detail.end = verdict.end;
  detail.cause = verdict.cause;
  detail.exit_code = e.exit_code;
  detail.signal = e.signal;
  if (e.failure) {
    detail.failure_class = e.failure->cls;
    detail.evidence = e.failure->line;
    detail.evidence_at = fmt::format("{}:{}", e.log_name, e.failure->line_number);
  }
  return detail;
}

}  // namespace attune
