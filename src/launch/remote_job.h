// All shares of a launch, one a host, as one launch: what its ranks printed, how it ended, what it
// costs. No I/O over the network.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "remote_launch.h"

namespace attune::launch {

struct Share {
  std::string host;
  std::unique_ptr<RemoteLaunch> launch;
  bool missing = false;      // certainly never started there
  bool unreachable = false;  // given up: its limit has passed without an answer
  std::string why;           // of either, or of the last look without an answer
  int failures = 0;          // looks in turn without an answer
  Millis due{0};             // when to look again, on our monotonic clock
  Millis first_look{-1};
  std::int64_t most = 4 << 20;           // bytes of logs to ask for
  std::vector<StageObservation> stages;  // of the last Combine, without their logs

  bool Over() const { return missing || unreachable || launch->ended(); }
  // Over in a way in which the others can't go on.
  bool OverBadly() const;
};

// What one host's failure asks of another: a run of its to stop, or, with no run, all of it.
struct StopWish {
  std::size_t share = 0;
  std::optional<RunId> run;
  auto operator<=>(const StopWish&) const = default;
};

struct RemoteJob {
  std::vector<Share> shares;
  std::optional<Observation::State> told;  // what the caller knows
  std::set<StopWish> asked;
};

// The launch as its shares show it; log chunks are moved out. `margin`: from the limit to the end
// of the hold, which a share that nobody can reach costs.
Observation Combine(RemoteJob& job, const LaunchHandle& handle, Millis margin, Clock& clock);

// After a Combine; without what was asked already.
std::vector<StopWish> WhatToStop(const RemoteJob& job);

}  // namespace attune::launch
