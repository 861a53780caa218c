// The side of a fork that becomes the job.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/os/fd.h"
#include "attune/os/process.h"

namespace attune::launch {

// A forked child that waits: it becomes the program only when Go is called, so that its start
// record lies on disk before it runs. When the wrapper dies first it ends without starting
// anything.
class WaitingChild {
 public:
  // stdin /dev/null, stdout into `output`, stderr into `errors`; own session; killed when the
  // wrapper dies.
  static Result<WaitingChild> Fork(const std::vector<std::string>& argv, const os::Environment& env,
                                   const std::string& workdir, int output, int errors);
  pid_t pid() const { return pid_; }
  // Empty: the program runs now. Else why it could not be started; the child is then ending.
  std::string Go();

 private:
  pid_t pid_ = 0;
  os::Fd go_, failure_;
  std::string program_;
};

// As the scheduler calls it, so that it can be named to the scheduler; else the host's own name.
std::string NodeName();

// What the job sees: the node's environment without ATTUNE_* and SSH_*, then the stage's names,
// then ours.
os::Environment JobEnvironment(os::Environment node, const os::Environment& stage,
                               const std::string& token, const std::string& folder);

}  // namespace attune::launch
