// RunEndFor row by row (docs/formats/failures.md, "How a run ended").
#include <gtest/gtest.h>

#include "attune/logs/log_parser.h"

namespace attune {
namespace {

EndEvidence Exit(int code) {
  EndEvidence e;
  e.exit_code = code;
  e.steps_seen = 20;
  e.steps_wanted = 20;
  e.log_name = "out";
  return e;
}
EndEvidence Signal(int n) {
  EndEvidence e = Exit(0);
  e.exit_code.reset();
  e.signal = n;
  return e;
}
FailureSign Sign(const std::string& cls, bool fatal = true) {
  return {cls, "the line", 41, "", fatal};
}
EndEvidence With(EndEvidence e, const std::string& cls, bool fatal = true) {
  e.failure = Sign(cls, fatal);
  return e;
}
RunEnd End(const EndEvidence& e) { return RunEndFor(e).end; }

TEST(RunEndFor, ACleanExitWithAllStepsIsCompleted) {
  EXPECT_EQ(End(Exit(0)), RunEnd::kCompleted);
  EndEvidence more = Exit(0);
  more.steps_seen = 25;
  EXPECT_EQ(End(more), RunEnd::kCompleted);
}

TEST(RunEndFor, ACleanExitWithTooFewStepsIsACrash) {
  EndEvidence e = Exit(0);
  e.steps_seen = 19;
  EXPECT_EQ(End(e), RunEnd::kCrashed);
  EXPECT_NE(RunEndFor(e).cause.find("19 of 20"), std::string::npos);
}

TEST(RunEndFor, EachFailureClassHasItsEnd) {
  const std::pair<const char*, RunEnd> rows[] = {
      {"node_fail", RunEnd::kNodeFailed},
      {"preempted", RunEnd::kPreempted},
      {"cancelled", RunEnd::kCancelledOutside},
      {"oom_host", RunEnd::kOomHost},
      {"oom_gpu", RunEnd::kOomGpu},
      {"config_rejected", RunEnd::kConfigRejected},
      {"nan", RunEnd::kNan},
      {"init_failure", RunEnd::kInitFailure},
      {"hang", RunEnd::kHung},
      {"crash_signal", RunEnd::kCrashed},
      {"cuda_error", RunEnd::kCrashed},
      {"network", RunEnd::kCrashed},
      {"infra", RunEnd::kCrashed},
      {"python_exception", RunEnd::kCrashed},
      {"unknown", RunEnd::kCrashed},
  };
  for (const auto& [cls, end] : rows) {
    EXPECT_EQ(End(With(Exit(1), cls)), end) << cls;
  }
}

TEST(RunEndFor, TheTimeLimitAsksWhetherStepsWentOn) {
  EndEvidence e = With(Exit(143), "time_limit");
  EXPECT_EQ(End(e), RunEnd::kHung);
  e.progressing = true;
  EXPECT_EQ(End(e), RunEnd::kTooSlow);
  EndEvidence ours = Exit(143);
  ours.limit_hit = true;
  EXPECT_EQ(End(ours), RunEnd::kHung);
  ours.progressing = true;
  EXPECT_EQ(End(ours), RunEnd::kTooSlow);
  EndEvidence slurm = Exit(0);
  slurm.scheduler = RunEnd::kTooSlow;
  slurm.exit_code.reset();
  EXPECT_EQ(End(slurm), RunEnd::kHung);
  slurm.progressing = true;
  EXPECT_EQ(End(slurm), RunEnd::kTooSlow);
}

TEST(RunEndFor, AHangThatWeJudgedIsHungUnlessTheLogKnowsBetter) {
  EndEvidence e = Exit(143);
  e.asked = e.hang_judged = true;
  EXPECT_EQ(End(e), RunEnd::kHung);
  EXPECT_EQ(End(With(e, "oom_gpu")), RunEnd::kOomGpu);
  // What ranks print while we end them is no better knowledge.
  EXPECT_EQ(End(With(e, "network")), RunEnd::kHung);
  EXPECT_EQ(End(With(e, "crash_signal")), RunEnd::kHung);
}

TEST(RunEndFor, WhatWeStoppedIsStoppedWhateverItsLastWords) {
  EndEvidence e = Exit(143);
  e.asked = true;
  EXPECT_EQ(End(e), RunEnd::kStopped);
  for (const char* echo :
       {"network", "crash_signal", "python_exception", "cuda_error", "infra", "cancelled"}) {
    EXPECT_EQ(End(With(e, echo)), RunEnd::kStopped) << echo;
  }
  EXPECT_EQ(End(With(e, "oom_gpu")), RunEnd::kOomGpu);
  EXPECT_EQ(End(With(e, "nan")), RunEnd::kNan);
  EndEvidence killed = Signal(9);
  killed.asked = true;
  EXPECT_EQ(End(killed), RunEnd::kStopped);
}

TEST(RunEndFor, AStopBecauseOfAFailureIsThatFailure) {
  EndEvidence e = With(Exit(143), "network");
  e.asked = e.asked_for_failure = true;
  EXPECT_EQ(End(e), RunEnd::kCrashed);
}

TEST(RunEndFor, AKillThatNobodyOfOursSentIsHostMemory) {
  EXPECT_EQ(End(Exit(137)), RunEnd::kOomHost);
  EXPECT_EQ(End(Signal(9)), RunEnd::kOomHost);
  // The survivors' broken connection explains nothing.
  EXPECT_EQ(End(With(Signal(9), "network", false)), RunEnd::kOomHost);
  EXPECT_EQ(End(With(Signal(9), "network", true)), RunEnd::kCrashed);
  EXPECT_EQ(End(With(Signal(9), "oom_gpu")), RunEnd::kOomGpu);
  EXPECT_EQ(End(With(Exit(137), "cancelled")), RunEnd::kCancelledOutside);
  EndEvidence limit = Signal(9);
  limit.limit_hit = true;
  EXPECT_EQ(End(limit), RunEnd::kHung);
}

TEST(RunEndFor, OtherSignalsAndCodesAreCrashes) {
  EXPECT_EQ(End(Signal(11)), RunEnd::kCrashed);
  EXPECT_EQ(End(Exit(139)), RunEnd::kCrashed);
  EXPECT_EQ(End(Exit(1)), RunEnd::kCrashed);
  EXPECT_EQ(End(Exit(2)), RunEnd::kCrashed);
}

TEST(RunEndFor, TheClustersWordStandsWhateverTheLogSays) {
  for (const RunEnd word :
       {RunEnd::kPreempted, RunEnd::kNodeFailed, RunEnd::kNeverStarted, RunEnd::kLost}) {
    EndEvidence e = With(Exit(1), "oom_gpu");
    e.scheduler = word;
    EXPECT_EQ(End(e), word);
  }
}

TEST(RunEndFor, ACancellationByOthersIsNotOurs) {
  EndEvidence e = Exit(143);
  e.scheduler = RunEnd::kCancelledOutside;
  EXPECT_EQ(End(e), RunEnd::kCancelledOutside);
  e.asked = true;
  EXPECT_EQ(End(e), RunEnd::kStopped);
}

TEST(RunEndFor, TheSchedulersOutOfMemoryStandsUnlessTheGpuWasFirst) {
  EndEvidence e = Exit(1);
  e.scheduler = RunEnd::kOomHost;
  EXPECT_EQ(End(e), RunEnd::kOomHost);
  EXPECT_EQ(End(With(e, "oom_gpu")), RunEnd::kOomGpu);
}

TEST(RunEndFor, WhatACleanRunSurvivedIsNotHeldAgainstIt) {
  EXPECT_EQ(End(With(Exit(0), "python_exception")), RunEnd::kCompleted);
  EXPECT_EQ(End(With(Exit(0), "oom_gpu")), RunEnd::kCompleted);
  EXPECT_EQ(End(With(Exit(0), "nan")), RunEnd::kNan);
  EXPECT_EQ(End(With(Exit(0), "oom_host")), RunEnd::kOomHost);
  EndEvidence few = With(Exit(0), "python_exception");
  few.steps_seen = 3;
  EXPECT_EQ(End(few), RunEnd::kCrashed);
}

TEST(RunEndFor, NoExitRecordIsLostUnlessTheSchedulerKnows) {
  EndEvidence e = Exit(0);
  e.exit_code.reset();
  EXPECT_EQ(End(e), RunEnd::kLost);
  e.scheduler = RunEnd::kCompleted;
  EXPECT_EQ(End(e), RunEnd::kCompleted);
  e.steps_seen = 2;
  EXPECT_EQ(End(e), RunEnd::kCrashed);
  e.scheduler = RunEnd::kCrashed;
  EXPECT_EQ(End(e), RunEnd::kCrashed);
}

TEST(RunEndFor, GivesTheEvidenceAndWhereItStands) {
  const EndDetail d = RunEndFor(With(Exit(1), "oom_gpu"));
  EXPECT_EQ(d.failure_class, "oom_gpu");
  EXPECT_EQ(d.evidence, "the line");
  EXPECT_EQ(d.evidence_at, "out:41");
  EXPECT_EQ(d.exit_code, 1);
  EXPECT_FALSE(d.cause.empty());
  EXPECT_TRUE(RunEndFor(Exit(1)).failure_class.empty());
}

TEST(RunEndFor, ASignThatWasTakenBackIsNone) {
  const EndDetail d = RunEndFor(With(Exit(0), ""));
  EXPECT_EQ(d.end, RunEnd::kCompleted);
  EXPECT_TRUE(d.evidence.empty());
  EXPECT_TRUE(d.evidence_at.empty());
}

TEST(IsInfra, IsTheMachinesFaultOnly) {
  EXPECT_TRUE(IsInfra("infra"));
  EXPECT_FALSE(IsInfra("network"));
  EXPECT_FALSE(IsInfra(""));
}

}  // namespace
}  // namespace attune
