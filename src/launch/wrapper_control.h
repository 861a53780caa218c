// What the wrapper listens to while a job runs: signals, `stop` files, the clock.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "attune/base/clock.h"
#include "attune/os/fd.h"
#include "run_folder.h"

namespace attune::launch {

class WrapperControl {
 public:
  // Before the claim makes the process known: a launcher's SIGUSR1 would kill one that has not
  // blocked it yet.
  static void BlockSignals();
  // BlockSignals must have been called. `deadline` on the clock of Now().
  WrapperControl(std::string attempt_folder, Millis poll, Millis deadline);

  // Reads signals, looks for `stop` when it is time, and checks the deadline.
  void Look();
  // Set for good once the launch is to end.
  std::optional<Ending> launch_ending() const { return launch_ending_; }
  bool StopAsked(const std::string& stage_folder) const;
  bool child_changed() const { return child_changed_; }
  void ChildrenReaped() { child_changed_ = false; }

  int signal_fd() const { return signals_.get(); }
  Millis poll() const { return poll_; }
  static Millis Now();            // CLOCK_BOOTTIME
  static std::int64_t WallNow();  // milliseconds

 private:
  void ReadSignals();

  std::string folder_;
  Millis poll_, deadline_;
  os::Fd signals_;
  Millis looked_at_{-1'000'000};
  bool child_changed_ = false;
  std::optional<Ending> launch_ending_;
};

}  // namespace attune::launch
