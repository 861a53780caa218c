// Where time enters. The core takes `now` as a value; only the loop and the adapters hold a Clock.
#pragma once

#include "attune/base/units.h"

namespace attune {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() = 0;  // wall clock: may step back
  // Milliseconds from an arbitrary start, never going back (CLOCK_BOOTTIME): for intervals.
  virtual Millis Monotonic() = 0;
  // Lets time pass. A virtual clock jumps. Returns early when a signal asked to stop.
  virtual void SleepUntil(Instant t) = 0;
};

class SystemClock final : public Clock {
 public:
  Instant Now() override;
  Millis Monotonic() override;
  void SleepUntil(Instant t) override;
};

}  // namespace attune
