#include "attune/base/clock.h"

#include <time.h>

namespace attune {
namespace {

std::int64_t ReadMillis(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

}  // namespace

Instant SystemClock::Now() { return {ReadMillis(CLOCK_REALTIME)}; }

// BOOTTIME and not MONOTONIC: a suspended laptop has let time pass too.
Millis SystemClock::Monotonic() { return Millis{ReadMillis(CLOCK_BOOTTIME)}; }

void SystemClock::SleepUntil(Instant t) {
  if (t <= Now()) {
    return;
  }
  timespec until{};
  until.tv_sec = static_cast<time_t>(t.ms / 1000);
  until.tv_nsec = static_cast<long>(t.ms % 1000) * 1'000'000;
  // One call without a retry: EINTR means that a handler ran, and its flag is the caller's to read.
  // Absolute, so a clock that is set forward ends the sleep at the time asked for.
  clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace attune
