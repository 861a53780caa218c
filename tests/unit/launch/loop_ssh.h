// A runner that takes the place of ssh: what it is told to run on a host runs here, in a home of
// its own, through /bin/sh as sshd would have the login shell do it. Lines break on demand.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "attune/os/process.h"

namespace attune {

class LoopSsh final : public os::ProcessRunner {
 public:
  explicit LoopSsh(std::string home) : home_(std::move(home)) {}

  enum class Line {
    kGood,
    kRefused,     // no connection: nothing ran
    kSilent,      // the call hangs until its limit: nothing ran
    kAnswerLost,  // it ran, and its answer did not arrive
    kDenied,      // ssh was not let in
    kNoSuchName,  // the resolver does not know the host
    kAnswerCut,   // it ran, and its answer ends in the middle
  };
  // What happens to the next calls that run something, in turn; then kGood. Both tries of one call
  // meet one fault each.
  std::deque<Line> next;
  std::set<std::string> down;          // hosts that refuse every call
  std::string path = "/usr/bin:/bin";  // PATH of what runs there
  std::map<std::string, int> calls;    // a host: commands that did run

  // The last words of every ssh that ran a command, without the options before "--".
  std::vector<std::string> remote_commands;

  using ProcessRunner::Run;
  Result<os::CommandResult> Run(const os::Command& command) override;

 private:
  std::string home_;
  os::PosixProcessRunner real_;
};

}  // namespace attune
