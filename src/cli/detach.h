// run --detach: the campaign goes on in a session of its own, without this terminal.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "attune/base/result.h"
#include "attune/model/run.h"
#include "attune/os/fd.h"
#include "wire.h"

namespace attune::cli {

class Departure {
 public:
  // Forks, before anything is opened. In the child: nothing, and its messages still reach the
  // terminal. In the parent: waits until the child's campaign has begun, or until the child has
  // ended, says so, and gives the exit code.
  static Result<std::optional<int>> Leave(Wire& wire, Departure& child);

  // In the child: the campaign is leased and goes on. From here on everything it says goes into
  // LOG, and the parent is let go. Without effect when nobody left.
  Status Begun(const CampaignId& campaign, const std::string& state_folder);

 private:
  os::Fd tell_;
};

}  // namespace attune::cli
