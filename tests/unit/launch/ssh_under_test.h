// The ssh launcher over a run root "on the hosts" and a mirror here, with times that suit jobs of
// 50 ms.
#pragma once

#include <string>

#include "attune/launch/ssh.h"
#include "unit/launch/local_under_test.h"

namespace attune {

inline SshOptions QuickSsh(const std::string& folder, Clock* clock, os::ProcessRunner* runner) {
  SshOptions o;
  o.hosts = {"gpu01"};
  o.run_root = folder + "/on-hosts";
  o.mirror_root = folder + "/runs";
  o.wrapper = BuiltProgram("attune-wrapper");
  o.clock = clock;
  o.runner = runner;
  o.poll = Millis{10};
  o.most_poll = Millis{20};
  o.wait = Millis{400};
  o.pause = Millis{20};
  o.patience = Millis{0};
  o.grace = Millis{150};
  o.beat = Millis{50};
  o.stop_poll = Millis{10};
  return o;
}

}  // namespace attune
