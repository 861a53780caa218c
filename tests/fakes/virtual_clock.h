// A clock that jumps: sleeping is instant. Wall and monotonic time move together unless a test
// steps the wall clock, which is how a machine's clock is set back.
#pragma once

#include "attune/base/clock.h"

namespace attune::fakes {

class VirtualClock final : public Clock {
 public:
  // 2026-11-30T20:00:00Z, so that printed dates are stable.
  explicit VirtualClock(Instant start = Instant{1'796'068'800'000}) : now_(start) {}

  Instant Now() override { return now_; }
  Millis Monotonic() override { return monotonic_; }
  void SleepUntil(Instant t) override {
    if (t > now_) {
      Advance(t - now_);
    }
  }

  void Advance(Millis d) {
    now_ = now_ + d;
    monotonic_ += d;
  }
  // The wall clock alone; negative sets it back.
  void StepWall(Millis d) { now_ = now_ + d; }

 private:
  Instant now_;
  Millis monotonic_{1'000};
};

}  // namespace attune::fakes
