#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "attune/store/store.h"
#include "gtest/gtest.h"
#include "made.h"
#include "os_lock.h"

namespace attune {
namespace {

using made::HandClock;
using made::OpenedOf;
using made::TempFolder;

struct LeaseTest : testing::Test {
  TempFolder folder;
  HandClock clock;
  const CampaignId id{"c-1"};

  void SetUp() override { ASSERT_TRUE(Open()->Create(OpenedOf(id.value), clock.Now())); }

  std::unique_ptr<Store> Open(std::optional<WriterIdentity> identity = std::nullopt) {
    auto store = Store::Open(folder / "state", {.identity = std::move(identity)});
    if (!store) ADD_FAILURE() << store.error().message;
    return store ? *std::move(store) : nullptr;
  }
  static WriterIdentity On(const std::string& host, const std::string& boot = "boot") {
    return {.host = host, .boot_id = boot, .pid = 30122};
  }
  std::int64_t EventCount() { return static_cast<std::int64_t>(Open()->Load(id)->size()); }
};

TEST_F(LeaseTest, ASecondWriterIsTurnedAwayAtOnceWithHostPidAndAge) {
  const auto first_store = Open(On("login2"));
  const auto first = first_store->Acquire(id, clock);
  ASSERT_TRUE(first) << first.error().message;
  clock.Pass(Millis{4'000});
  const auto second_store = Open(On("login2"));
  const Millis before = clock.Monotonic();
  const auto second = second_store->Acquire(id, clock);
  ASSERT_FALSE(second);
  EXPECT_EQ(clock.Monotonic(), before) << "waits for nothing";
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(second.error().message,
            "another attune writes this campaign: login2 pid 30122, last heartbeat 4s ago");
  EXPECT_TRUE((*first)->Check());
}

TEST_F(LeaseTest, AReleasedLeaseIsTakenWithoutJudgement) {
  const auto store = Open(On("login2"));
  auto first = store->Acquire(id, clock).value();
  ASSERT_TRUE(first->Release(clock.Now()));
  EXPECT_FALSE(first->Append(Paused{"x"}, clock.Now())) << "released means no more writes";
  const auto other = Open(On("login3"));
  const auto second = other->Acquire(id, clock);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ((*second)->epoch(), 2);
  EXPECT_FALSE((*second)->TakenFrom().has_value());
}

TEST_F(LeaseTest, AWriterThatDiedOnThisHostIsReplacedAtOnce) {
  auto dead = Open(On("login2"));
  {
    const auto writer = dead->Acquire(id, clock).value();
    // Its destructor does not release: to the next writer this is a crash.
  }
  const auto store = Open(On("login2"));
  const Millis before = clock.Monotonic();
  const auto writer = store->Acquire(id, clock);
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_EQ(clock.Monotonic(), before);
  ASSERT_TRUE((*writer)->TakenFrom().has_value());
  EXPECT_EQ((*writer)->TakenFrom()->pid, 30122);
}

TEST_F(LeaseTest, AProcessThatIsKilledLeavesAFreeLease) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    HandClock own;
    auto store = Store::Open(folder / "state");
    const bool ok = store && (*store)->Acquire(id, own);
    ::_exit(ok ? 0 : 1);  // as kill -9: no destructor runs
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto store = Open();
  const auto lease = store->Lease(id).value();
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(store->Seen(id, *lease, clock.Now()), WriterSeen::kGone);
  const auto writer = store->Acquire(id, clock);
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_EQ((*writer)->TakenFrom()->pid, child);
}

TEST_F(LeaseTest, AStoppedWriterIsTakenOverOnRequestAndThenWritesNothing) {
  // As SIGSTOP leaves it: the OS lock held, no beats.
  const auto stopped_store = Open(On("login2"));
  const auto stopped = stopped_store->Acquire(id, clock).value();
  const auto store = Open(On("login2"));
  EXPECT_FALSE(store->Acquire(id, clock)) << "not without --take-over";
  const Millis before = clock.Monotonic();
  const auto writer = store->Acquire(id, clock, {.take_over = true});
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_GE(clock.Monotonic() - before, Writer::kSilence);
  const std::int64_t events = EventCount();

  // SIGCONT: it goes on where it was.
  EXPECT_EQ(stopped->Check().error().code, ErrorCode::kUnavailable);
  const auto late = stopped->Append(Paused{"late"}, clock.Now());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(late.error().message.find("taken over"), std::string::npos);
  EXPECT_FALSE(stopped->Beat(clock.Now()));
  EXPECT_FALSE(stopped->TakeWishes(clock.Now() + Millis{1}).has_value() && EventCount() != events);
  EXPECT_FALSE(stopped->Release(clock.Now()));
  EXPECT_EQ(EventCount(), events);
  EXPECT_TRUE((*writer)->Append(Paused{"the new one writes"}, clock.Now()));
}

TEST_F(LeaseTest, TheStoppedWritersLockDoesNotMakeItsSuccessorLookDead) {
  const auto stopped_store = Open(On("login2"));
  auto stopped = stopped_store->Acquire(id, clock).value();
  const auto store = Open(On("login2"));
  const auto writer = store->Acquire(id, clock, {.take_over = true}).value();
  stopped.reset();  // the old process ends at last, its lock is freed
  const auto third = Open(On("login2"));
  const auto refused = third->Acquire(id, clock);
  ASSERT_FALSE(refused) << "the second writer lives";
  EXPECT_TRUE(writer->Check());
}

TEST_F(LeaseTest, AWriterThatBeatsIsNotTakenOver) {
  const auto alive_store = Open(On("login2"));
  const auto alive = alive_store->Acquire(id, clock).value();
  int sleeps = 0;
  clock.on_sleep = [&] {
    if (++sleeps % 20 != 0) return;
    ASSERT_TRUE(alive->Beat(clock.Now()));
  };
  for (const char* host : {"login2", "login3"}) {
    const auto store = Open(On(host));
    const auto refused = store->Acquire(id, clock, {.take_over = true});
    ASSERT_FALSE(refused) << host;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().help, "it is alive: stop it first (attune stop)");
  }
  EXPECT_TRUE(alive->Check());
}

TEST_F(LeaseTest, AppendCountsAsABeat) {
  const auto alive_store = Open(On("login2"));
  const auto alive = alive_store->Acquire(id, clock).value();
  int sleeps = 0;
  clock.on_sleep = [&] {
    if (++sleeps % 20 != 0) return;
    ASSERT_TRUE(alive->Append(Paused{"x"}, clock.Now()));
  };
  EXPECT_FALSE(Open(On("login3"))->Acquire(id, clock, {.take_over = true}));
}

TEST_F(LeaseTest, AnotherHostIsJudgedOnlyOnRequestAndByOurOwnMonotonicClock) {
  const auto far_store = Open(On("login2", "boot-a"));
  const auto far = far_store->Acquire(id, clock).value();
  clock.Pass(Millis{180'000});
  const auto store = Open(On("login3", "boot-b"));
  const auto refused = store->Acquire(id, clock);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "another attune writes this campaign: login2 pid 30122, last heartbeat 3m ago");
  EXPECT_EQ(refused.error().help, "if login2 is gone, add --take-over");
  // However old the last beat looks by the wall clock, 30 s are watched.
  const Millis before = clock.Monotonic();
  ASSERT_TRUE(store->Acquire(id, clock, {.take_over = true}));
  EXPECT_GE(clock.Monotonic() - before, Writer::kSilence);
  EXPECT_FALSE(far->Check());
}

TEST_F(LeaseTest, AClockSetBackNeitherStealsNorLosesALease) {
  const auto store = Open(On("login2"));
  const auto writer = store->Acquire(id, clock).value();
  clock.wall_shift = Millis{-3'600'000};
  const auto refused = Open(On("login2"))->Acquire(id, clock);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("last heartbeat just now"), std::string::npos);
  EXPECT_TRUE(writer->Append(Paused{"x"}, clock.Now()));
  EXPECT_TRUE(writer->Beat(clock.Now()));
  clock.wall_shift = Millis{+3'600'000};
  EXPECT_FALSE(Open(On("login2"))->Acquire(id, clock));
}

TEST_F(LeaseTest, AHostThatRestartedIsJudgedByItsSilence) {
  const auto old_store = Open(On("login2", "boot-a"));
  const auto old_writer = old_store->Acquire(id, clock).value();
  const auto store = Open(On("login2", "boot-b"));
  const Millis before = clock.Monotonic();
  const auto writer = store->Acquire(id, clock);
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_GE(clock.Monotonic() - before, Writer::kSilence);
}

TEST_F(LeaseTest, WhereTheLockFileIsGoneTheProcessIsLookedFor) {
  WriterIdentity self = On("login2");
  self.pid = ::getpid();
  const auto first_store = Open(self);
  const auto first = first_store->Acquire(id, clock).value();
  std::filesystem::remove_all(folder / "state/locks");
  EXPECT_FALSE(Open(self)->Acquire(id, clock)) << "the process is there";
}

TEST_F(LeaseTest, LockWaitTriesUntilTheTimeIsOver) {
  const auto first_store = Open(On("login2"));
  auto first = first_store->Acquire(id, clock).value();
  const auto store = Open(On("login2"));
  const Millis before = clock.Monotonic();
  EXPECT_FALSE(store->Acquire(id, clock, {.wait = Millis{10'000}}));
  EXPECT_EQ(clock.Monotonic() - before, Millis{10'000});
  clock.on_sleep = [&] {
    if (clock.Monotonic() - before > Millis{15'000} && first) {
      ASSERT_TRUE(first->Release(clock.Now()));
      first.reset();
    }
  };
  EXPECT_TRUE(store->Acquire(id, clock, {.wait = Millis{20'000}}));
}

TEST_F(LeaseTest, AnInterruptEndsTheWaiting) {
  const auto first_store = Open(On("login2"));
  const auto first = first_store->Acquire(id, clock).value();
  clock.interrupted = true;
  const auto store = Open(On("login2"));
  EXPECT_EQ(store->Acquire(id, clock, {.take_over = true}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(store->Acquire(id, clock, {.wait = Millis{10'000}}).error().code,
            ErrorCode::kUnavailable);
}

TEST_F(LeaseTest, OfTwoThatTakeOverAtOnceOneWins) {
  const auto old_store = Open(On("far"));
  const auto old_writer = old_store->Acquire(id, clock).value();
  const auto a = Open(On("login2"));
  const auto b = Open(On("login3"));
  std::unique_ptr<Writer> b_writer;
  bool inside = false;
  clock.on_sleep = [&] {
    if (inside || b_writer) return;
    inside = true;  // while a watches, b does the same and is faster
    HandClock own;
    auto won = b->Acquire(id, own, {.take_over = true});
    if (won) b_writer = *std::move(won);
  };
  const auto lost = a->Acquire(id, clock, {.take_over = true});
  ASSERT_TRUE(b_writer);
  EXPECT_FALSE(lost);
  EXPECT_TRUE(b_writer->Check());
  EXPECT_EQ(b_writer->epoch(), 2);
}

TEST_F(LeaseTest, CampaignsHaveLeasesOfTheirOwn) {
  const auto store = Open(On("login2"));
  ASSERT_TRUE(store->Create(OpenedOf("c-2"), clock.Now()));
  const auto one = store->Acquire(id, clock);
  const auto two = store->Acquire(CampaignId("c-2"), clock);
  EXPECT_TRUE(one);
  EXPECT_TRUE(two);
  EXPECT_EQ(store->Acquire(CampaignId("c-3"), clock).error().code, ErrorCode::kNotFound);
}

TEST_F(LeaseTest, WhatStatusSeesOfAWriter) {
  const auto store = Open(On("login2"));
  auto writer = store->Acquire(id, clock).value();
  const auto seen = [&](const char* host, Millis later) {
    const auto reader = Open(On(host));
    return reader->Seen(id, *reader->Lease(id).value(), clock.Now() + later);
  };
  EXPECT_EQ(seen("login2", Millis{0}), WriterSeen::kAlive);
  EXPECT_EQ(seen("login2", Millis{60'000}), WriterSeen::kSilent) << "stopped, its lock is held";
  EXPECT_EQ(seen("login3", Millis{0}), WriterSeen::kAlive);
  EXPECT_EQ(seen("login3", Millis{60'000}), WriterSeen::kElsewhere);
  ASSERT_TRUE(writer->Release(clock.Now()));
  EXPECT_EQ(seen("login2", Millis{0}), WriterSeen::kNone);
  writer = store->Acquire(id, clock).value();
  writer.reset();
  EXPECT_EQ(seen("login2", Millis{0}), WriterSeen::kGone);
}

TEST_F(LeaseTest, LookingAtALockDoesNotTakeIt) {
  const std::string path = folder / "x.lock";
  EXPECT_EQ(OsLock::Look(path), LockSeen::kUnknown);
  const auto lock = OsLock::Take(path);
  ASSERT_TRUE(lock);
  EXPECT_EQ(OsLock::Look(path), LockSeen::kHeld);
  EXPECT_EQ(OsLock::Take(path).error().code, ErrorCode::kUnavailable);
  { const OsLock moved = std::move(*const_cast<Result<OsLock>&>(lock)); }
  EXPECT_EQ(OsLock::Look(path), LockSeen::kFree);
}

}  // namespace
}  // namespace attune
