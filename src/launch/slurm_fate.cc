#include "slurm_fate.h"

#include <algorithm>
#include <array>

namespace attune::launch {
namespace {

using enum SlurmPhase;

struct Row {
  std::string_view word;
  SlurmPhase phase;
};
// Base states, and the flags that squeue shows in their place.
constexpr std::array<Row, 31> kRows = {
    {{"PENDING", kWaiting},       {"REQUEUED", kWaiting},      {"REQUEUE_FED", kWaiting},
     {"REQUEUE_HOLD", kWaiting},  {"RESV_DEL_HOLD", kWaiting}, {"CONFIGURING", kHolding},
     {"POWER_UP_NODE", kHolding}, {"RUNNING", kHolding},       {"SIGNALING", kHolding},
     {"RESIZING", kHolding},      {"EXPEDITING", kHolding},    {"UPDATE_DB", kHolding},
     {"SUSPENDED", kPaused},      {"STOPPED", kPaused},        {"COMPLETING", kEnding},
     {"STAGE_OUT", kEnding},      {"COMPLETED", kFinal},       {"CANCELLED", kFinal},
     {"FAILED", kFinal},          {"TIMEOUT", kFinal},         {"NODE_FAIL", kFinal},
     {"PREEMPTED", kFinal},       {"BOOT_FAIL", kFinal},       {"DEADLINE", kFinal},
     {"OUT_OF_MEMORY", kFinal},   {"LAUNCH_FAILED", kFinal},   {"RECONFIG_FAIL", kFinal},
     {"REVOKED", kFinal},         {"SPECIAL_EXIT", kFinal},    {"SPECIAL_EXIT_HOLD", kWaiting},
     {"REQUEUE", kWaiting}}};

std::string Exit(const SlurmJob& job) {
  std::string out = job.signal ? "signal " + std::to_string(*job.signal)
                               : "exit code " + std::to_string(job.code.value_or(0));
  if (!job.reason.empty() && job.reason != "NonZeroExitCode") {
    out += ", " + job.reason;
  }
  return out;
}

// The wrapper saw its job to the end, whatever the scheduler did afterwards.
bool EndedByItself(const FolderFacts& f) {
  return f.exit && (f.exit->ending == Ending::kExited || f.exit->ending == Ending::kLimit ||
                    f.exit->ending == Ending::kStopped || f.exit->ending == Ending::kExecFailed);
}

SlurmVerdict Never(std::string detail, bool charged) {
  return {RunEnd::kNeverStarted, std::move(detail), charged};
}

SlurmVerdict Failed(const SlurmJob& job, const FolderFacts& f) {
  if (f.exit) {
    return {};
  }
  if (!f.started) {
    return Never("the job failed before it claimed its run folder (" + Exit(job) + ")", false);
  }
  if (job.code == kClaimedByOther) {
    return {RunEnd::kLost, "Slurm ended it, forgot it, and started it a second time"};
  }
  return {RunEnd::kLost, "its wrapper was killed (" + Exit(job) + ") and left no exit record"};
}

SlurmVerdict Completed(const FolderFacts& f) {
  if (f.exit) {
    return {};
  }
  if (!f.started) {
    return Never("the batch script ended without starting the job", true);
  }
  return {RunEnd::kCrashed, "Slurm says completed, but there is no exit record"};
}

SlurmVerdict Cancelled(const FolderFacts& f) {
  if (f.stop_asked) {
    return f.exit ? SlurmVerdict{} : SlurmVerdict{RunEnd::kStopped, "cancelled by attune"};
  }
  if (EndedByItself(f)) {
    return {};
  }
  return {RunEnd::kCancelledOutside, "the job was cancelled, and not by attune"};
}

}  // namespace

SlurmPhase PhaseOf(std::string_view state) {
  for (const Row& row : kRows) {
    if (row.word == state) {
      return row.phase;
    }
  }
  return kStrange;
}

bool IsHopeless(std::string_view reason) {
  static constexpr std::array<std::string_view, 12> kWords = {
      "PartitionNodeLimit", "PartitionTimeLimit",       "PartitionConfig",
      "BadConstraints",     "DependencyNeverSatisfied", "InvalidAccount",
      "InvalidQOS",         "AccountNotAllowed",        "QOSNotAllowed",
      "ReservationDeleted", "JobHoldMaxRequeue",        "MaxMemPerLimit",
  };
  // "QOSMaxNodePerJobLimit", "AssocMaxWallDurationPerJobLimit": more than any one job may have.
  return reason.find("PerJob") != std::string_view::npos ||
         std::find(kWords.begin(), kWords.end(), reason) != kWords.end();
}

SlurmVerdict JudgeFinal(const SlurmJob& job, const FolderFacts& f, bool requeued) {
  if (requeued) {
    if (EndedByItself(f)) {
      return {};
    }
    return {RunEnd::kPreempted, "the scheduler took its nodes and put it back into the queue"};
  }
  const std::string& s = job.state;
  if (s == "COMPLETED") {
    return Completed(f);
  }
  if (s == "FAILED") {
    return Failed(job, f);
  }
  if (s == "CANCELLED") {
    return Cancelled(f);
  }
  if (s == "OUT_OF_MEMORY") {
    return {RunEnd::kOomHost, "Slurm says OUT_OF_MEMORY (" + Exit(job) + ")"};
  }
  if (s == "TIMEOUT") {
    if (EndedByItself(f)) {
      return {};
    }
    return {RunEnd::kTooSlow, "Slurm's time limit ended it"};
  }
  if (s == "NODE_FAIL" || s == "PREEMPTED") {
    if (EndedByItself(f)) {
      return {};
    }
    return s == "NODE_FAIL" ? SlurmVerdict{RunEnd::kNodeFailed, "a node failed"}
                            : SlurmVerdict{RunEnd::kPreempted, "preempted by another job"};
  }
  if (s == "DEADLINE") {
    return Never("its deadline passed before it could start", false);
  }
  if (EndedByItself(f)) {
    return {};
  }
  return Never("Slurm says " + s + " (" + Exit(job) + ")", f.started);
}

SlurmVerdict JudgeVanished(const FolderFacts& f) {
  if (f.exit && f.exit->ending != Ending::kTerminated) {
    return {};
  }
  if (f.exit) {
    return {RunEnd::kCancelledOutside, "somebody else ended its wrapper, and Slurm forgot the job"};
  }
  if (f.started) {
    return {RunEnd::kLost, "Slurm no longer knows the job, and it left no exit record"};
  }
  return {RunEnd::kLost, "Slurm no longer knows the job, and it never started", false};
}

}  // namespace attune::launch
