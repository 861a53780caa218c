#include "slurm_jobs.h"

#include <gtest/gtest.h>

namespace attune::launch {
namespace {

constexpr Millis kKillWait{30'000};

SlurmJob Job(const std::string& state, std::int64_t started, std::int64_t ended) {
  SlurmJob job;
  job.id = "7";
  job.name = "t";
  job.state = state;
  job.submitted = 990;
  job.started = started;
  job.ended = ended;
  job.nodes = started > 0 ? "n1" : "";
  return job;
}

FolderTimes Exited(std::int64_t held_s) {
  FolderTimes t;
  t.job_id = "7";
  t.started = t.exited = true;
  t.held = Millis{held_s * 1000};
  return t;
}

GpuMillis Seconds(int slots, std::int64_t s) { return ChargeFor(slots, Millis{s * 1000}); }

TEST(JobBook, ACompletedJobCostsStartToEnd) {
  JobBook book;
  book.See({Job("RUNNING", 1000, 4600)}, 1010);  // a running job's end is only projected
  book.See({Job("COMPLETED", 1000, 1060)}, 1075);
  EXPECT_EQ(book.Charge(4, false, kKillWait, Exited(59)), Seconds(4, 60));
}

TEST(JobBook, CompletingCountsAsLongAsItWasSeen) {
  JobBook book;
  book.See({Job("COMPLETING", 1000, 1060)}, 1085);
  book.See({Job("CANCELLED", 1000, 1060)}, 1095);
  FolderTimes folder = Exited(58);
  EXPECT_EQ(book.Charge(1, false, kKillWait, folder), Seconds(1, 85));
}

TEST(JobBook, ACancelledJobWithoutAnExitRecordPaysKillWaitUnlessItWasSeenGoneEarlier) {
  JobBook late, early;
  late.See({Job("CANCELLED", 1000, 1060)}, 5000);
  EXPECT_EQ(late.Charge(1, false, kKillWait, {}), Seconds(1, 90));
  early.See({Job("CANCELLED", 1000, 1060)}, 1064);
  EXPECT_EQ(early.Charge(1, false, kKillWait, {}), Seconds(1, 64));
}

// slurmctld came back without the first start and made a second, which found the folder claimed.
TEST(JobBook, AStartThatSlurmForgotIsPaidByItsSignsOfLife) {
  JobBook book;
  SlurmJob job = Job("FAILED", 1010, 1011);
  job.code = 3;
  book.See({job}, 1012);
  FolderTimes folder = Exited(8);
  folder.exited = false;
  EXPECT_EQ(book.Charge(2, false, kKillWait, folder), Seconds(2, 8 + 1));
  folder.held = Millis{60'000};  // a beat more than there was: it had ended by the second start
  EXPECT_EQ(book.Charge(2, false, kKillWait, folder), Seconds(2, 20 + 1));
  folder.job_id = "6";  // another job's claim: of this one nothing is forgotten
  EXPECT_EQ(book.Charge(2, false, kKillWait, folder), Seconds(2, 60 + 1));
}

TEST(JobBook, CancelledWhileItWaitedCostsNothing) {
  JobBook book;
  SlurmJob job = Job("CANCELLED", 1000, 1000);  // Slurm fills the times in all the same
  job.nodes.clear();
  book.See({Job("PENDING", 0, 0)}, 995);
  book.See({job}, 1001);
  EXPECT_EQ(book.Charge(8, false, kKillWait, {}), GpuMillis{0});
  EXPECT_FALSE(book.EverHeld());
}

TEST(JobBook, ARequeueKeepsWhatTheFirstAttemptCost) {
  JobBook book;
  book.See({Job("RUNNING", 1000, 4600)}, 1050);
  SlurmJob again = Job("PENDING", 1200, 0);  // BeginTime; its history is rewritten
  again.submitted = 1080;
  again.restarts = 1;
  again.nodes.clear();
  book.See({again}, 1082);
  again.state = "CANCELLED";
  book.See({again}, 1090);
  // To the requeue, and to when it was seen gone at the latest.
  EXPECT_EQ(book.Charge(2, false, kKillWait, {}), Seconds(2, 82));
}

TEST(JobBook, EveryTwinOfATokenIsCharged) {
  JobBook book;
  SlurmJob twin = Job("FAILED", 1100, 1101);
  twin.id = "8";
  book.See({Job("COMPLETED", 1000, 1060), twin}, 1120);
  EXPECT_EQ(book.Charge(2, false, kKillWait, Exited(59)), Seconds(2, 61));
}

TEST(JobBook, CountsTheGpusThatSlurmAllocated) {
  JobBook book;
  SlurmJob job = Job("COMPLETED", 1000, 1010);
  job.gpus = 16;
  book.See({job}, 1011);
  EXPECT_EQ(book.Charge(12, true, kKillWait, Exited(9)), Seconds(16, 10));
  EXPECT_EQ(book.Charge(12, false, kKillWait, Exited(9)), Seconds(12, 10));  // a CPU job's slots
}

TEST(JobBook, AClockOfTheNodeThatIsAnHourOffCostsNothing) {
  for (const std::int64_t off : {-3'600'000, 3'600'000}) {
    JobBook book;
    book.See({Job("COMPLETED", 1000, 1060)}, 1075);
    FolderTimes folder = Exited(59);
    folder.start_lag = Millis{off + 400};
    EXPECT_EQ(book.Charge(1, false, kKillWait, folder), Seconds(1, 60)) << off;
  }
}

TEST(JobBook, AJobThatTheQueueForgotIsChargedFromTheRunFolder) {
  JobBook book;
  book.See({Job("RUNNING", 1000, 4600)}, 1002);
  FolderTimes folder = Exited(70);
  folder.start_lag = Millis{2'000};
  EXPECT_EQ(book.Charge(1, false, kKillWait, folder), Seconds(1, 72));
  JobBook empty;
  EXPECT_EQ(empty.Charge(1, false, kKillWait, folder), Seconds(1, 70));
}

TEST(JobBook, LearnsTheEndFromTheAccounting) {
  JobBook book;
  book.See({Job("RUNNING", 1000, 4600)}, 1002);
  book.Learn({Job("TIMEOUT", 1000, 1062)});
  EXPECT_EQ(book.jobs().at(0).job.state, "TIMEOUT");
  EXPECT_EQ(book.Charge(1, false, Millis{0}, Exited(60)), Seconds(1, 62));
}

TEST(JobBook, ReadsBackWhatItWrote) {
  JobBook book;
  SlurmJob job = Job("RUNNING", 1000, 4600);
  job.gpus = 4;
  job.signal = 9;
  job.reason = "x y";
  book.skew = -3600;
  book.See({job}, 1002);
  book.settled = Settled{GpuMillis{12'345},
                         ChargeSource::kScheduler,
                         RunEnd::kNodeFailed,
                         "a node failed: n1",
                         "n[1-2]",
                         {"n1"},
                         GpuMillis{345}};
  const auto again = JobBook::Decode(book.Encode());
  ASSERT_TRUE(again.has_value());
  ASSERT_EQ(again->jobs().size(), 1U);
  EXPECT_EQ(again->jobs()[0].job, book.jobs()[0].job);
  EXPECT_EQ(again->jobs()[0].held_at, 1002);
  EXPECT_FALSE(again->IsListed(again->jobs()[0]));  // nobody has answered yet
  EXPECT_EQ(again->skew, -3600);
  ASSERT_TRUE(again->settled.has_value());
  EXPECT_EQ(again->settled->charged, GpuMillis{12'345});
  EXPECT_EQ(again->settled->source, ChargeSource::kScheduler);
  EXPECT_EQ(again->settled->hint, RunEnd::kNodeFailed);
  EXPECT_EQ(again->settled->failed_nodes, std::vector<std::string>{"n1"});
  EXPECT_EQ(again->settled->nodes, "n[1-2]");
  EXPECT_EQ(again->settled->idle, GpuMillis{345});
  const std::string bytes = book.Encode();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(JobBook::Decode(bytes.substr(0, n)).has_value()) << n;
  }
}

}  // namespace
}  // namespace attune::launch
