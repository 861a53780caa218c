#include "slurm_fate.h"

#include <gtest/gtest.h>

namespace attune::launch {
namespace {

SlurmJob Job(const std::string& state) {
  SlurmJob job;
  job.id = "7";
  job.name = "t";
  job.state = state;
  job.nodes = "n1";
  return job;
}
FolderFacts Folder(std::optional<Ending> ending, bool started = true, bool stop = false) {
  FolderFacts f;
  f.started = started;
  f.stop_asked = stop;
  if (ending) {
    f.exit = ExitRecord{};
    f.exit->ending = *ending;
  }
  return f;
}
const FolderFacts kNothing = Folder(std::nullopt, false);
const FolderFacts kStarted = Folder(std::nullopt);

TEST(PhaseOf, EveryWordOfSlurmHasOneAndAnUnknownOneIsNoEnd) {
  for (const char* word : {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"}) {
    EXPECT_EQ(PhaseOf(word), SlurmPhase::kWaiting) << word;
  }
  for (const char* word : {"RUNNING", "CONFIGURING", "SIGNALING", "RESIZING", "EXPEDITING"}) {
    EXPECT_EQ(PhaseOf(word), SlurmPhase::kHolding) << word;
  }
  EXPECT_EQ(PhaseOf("SUSPENDED"), SlurmPhase::kPaused);
  EXPECT_EQ(PhaseOf("COMPLETING"), SlurmPhase::kEnding);
  for (const char* word : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                           "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"}) {
    EXPECT_EQ(PhaseOf(word), SlurmPhase::kFinal) << word;
  }
  EXPECT_EQ(PhaseOf("R"), SlurmPhase::kStrange);
  EXPECT_EQ(PhaseOf("SOMETHING_NEW"), SlurmPhase::kStrange);
}

struct Row {
  const char* state;
  FolderFacts folder;
  std::optional<RunEnd> hint;
  bool charged;
};

TEST(JudgeFinal, IsTheStateTable) {
  const Row rows[] = {
      {"COMPLETED", Folder(Ending::kExited), std::nullopt, true},
      {"COMPLETED", kStarted, RunEnd::kCrashed, true},
      {"COMPLETED", kNothing, RunEnd::kNeverStarted, true},
      {"FAILED", Folder(Ending::kExited), std::nullopt, true},
      {"FAILED", kStarted, RunEnd::kLost, true},
      {"FAILED", kNothing, RunEnd::kNeverStarted, false},
      {"OUT_OF_MEMORY", Folder(Ending::kExited), RunEnd::kOomHost, true},
      {"OUT_OF_MEMORY", kStarted, RunEnd::kOomHost, true},
      {"TIMEOUT", Folder(Ending::kLimit), std::nullopt, true},
      {"TIMEOUT", Folder(Ending::kTerminated), RunEnd::kTooSlow, true},
      {"TIMEOUT", kStarted, RunEnd::kTooSlow, true},
      {"DEADLINE", kNothing, RunEnd::kNeverStarted, false},
      {"CANCELLED", Folder(Ending::kStopped, true, true), std::nullopt, true},
      {"CANCELLED", Folder(std::nullopt, false, true), RunEnd::kStopped, true},
      {"CANCELLED", Folder(Ending::kTerminated), RunEnd::kCancelledOutside, true},
      {"CANCELLED", kNothing, RunEnd::kCancelledOutside, true},
      {"PREEMPTED", Folder(Ending::kTerminated), RunEnd::kPreempted, true},
      {"PREEMPTED", Folder(Ending::kExited), std::nullopt, true},
      {"NODE_FAIL", kStarted, RunEnd::kNodeFailed, true},
      {"BOOT_FAIL", kNothing, RunEnd::kNeverStarted, false},
      {"LAUNCH_FAILED", kNothing, RunEnd::kNeverStarted, false},
      {"REVOKED", kStarted, RunEnd::kNeverStarted, true},
  };
  for (const Row& row : rows) {
    const SlurmVerdict v = JudgeFinal(Job(row.state), row.folder, false);
    EXPECT_EQ(v.hint, row.hint) << row.state << ": " << v.detail;
    EXPECT_EQ(v.charged, row.charged) << row.state;
    EXPECT_EQ(v.hint.has_value(), !v.detail.empty()) << row.state;
  }
}

TEST(JudgeFinal, ASecondStartThatFoundTheClaimTakenSaysSo) {
  SlurmJob job = Job("FAILED");
  job.code = kClaimedByOther;
  const SlurmVerdict v = JudgeFinal(job, kStarted, false);
  EXPECT_EQ(v.hint, RunEnd::kLost);
  EXPECT_NE(v.detail.find("started it a second time"), std::string::npos) << v.detail;
}

TEST(JudgeFinal, AJobThatWasPutBackIsPreemptedUnlessItHadEnded) {
  EXPECT_EQ(JudgeFinal(Job("CANCELLED"), kStarted, true).hint, RunEnd::kPreempted);
  EXPECT_FALSE(JudgeFinal(Job("CANCELLED"), Folder(Ending::kExited), true).hint.has_value());
}

TEST(JudgeVanished, TheFolderAloneDecides) {
  EXPECT_FALSE(JudgeVanished(Folder(Ending::kLimit)).hint.has_value());
  EXPECT_EQ(JudgeVanished(kStarted).hint, RunEnd::kLost);
  EXPECT_TRUE(JudgeVanished(kStarted).charged);
  EXPECT_EQ(JudgeVanished(kNothing).hint, RunEnd::kLost);
  EXPECT_FALSE(JudgeVanished(kNothing).charged);
}

TEST(IsHopeless, OnlyWhatWaitingDoesNotMend) {
  for (const char* never :
       {"PartitionNodeLimit", "PartitionConfig", "DependencyNeverSatisfied", "BadConstraints",
        "QOSMaxNodePerJobLimit", "AssocMaxWallDurationPerJobLimit"}) {
    EXPECT_TRUE(IsHopeless(never)) << never;
  }
  for (const char* later : {"Resources", "Priority", "BeginTime", "QOSMaxJobsPerUserLimit", "None",
                            "Nodes required for job are DOWN, DRAINED or reserved", ""}) {
    EXPECT_FALSE(IsHopeless(later)) << later;
  }
}

}  // namespace
}  // namespace attune::launch
