#include "attune/base/clock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

namespace attune {
namespace {

TEST(SystemClock, CountsFromTheUnixEpochInMilliseconds) {
  SystemClock clock;
  const Instant before{
      std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch())
          .count()};
  // A minute of slack for a clock that is being set while this runs.
  EXPECT_LT(std::chrono::abs(clock.Now() - before), std::chrono::minutes(1));
}

TEST(SystemClock, MonotonicNeverGoesBack) {
  SystemClock clock;
  Millis last = clock.Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const Millis now = clock.Monotonic();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(SystemClock, SleepingUntilThePastReturnsAtOnce) {
  SystemClock clock;
  clock.SleepUntil(Instant{0});
  clock.SleepUntil(Instant{-5});
  clock.SleepUntil(clock.Now());
}

extern "C" void Ignore(int) {}

// The test would end in its time limit if the sleep went on after a signal.
TEST(SystemClock, ASignalEndsTheSleep) {
  struct sigaction action {};
  struct sigaction old_action {};
  action.sa_handler = Ignore;
  ASSERT_EQ(sigaction(SIGALRM, &action, &old_action), 0);
  // Repeats, so that one which comes before the sleep begins is followed by another.
  const itimerval often{{0, 5000}, {0, 5000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);

  SystemClock clock;
  clock.SleepUntil(clock.Now() + std::chrono::hours(24));
  clock.SleepUntil(Instant::Never());

  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old_action, nullptr);
}

}  // namespace
}  // namespace attune
