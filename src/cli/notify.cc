#include "notify.h"

#include <fmt/core.h>

#include "attune/base/log.h"
#include "attune/base/text.h"
#include "attune/os/process.h"
#include "summary.h"

namespace attune::cli {

void Notify(const CampaignState& state, const std::string& what) {
  if (state.recipe.notify_command.empty()) return;
  os::Command command;
  command.argv = state.recipe.notify_command;
  command.argv.push_back(what);
  command.input = SummaryJson(state, 0, state.phase_reason) + "\n";
  os::PosixProcessRunner runner;
  const Result<os::CommandResult> done = runner.Run(command);
  if (!done) {
    log::Warn("notify.command: {}", done.error().message);
  } else if (done->exit_code != 0) {
    log::Warn("notify.command ended with {}: {}", done->exit_code,
              EscapeForDisplay(Trim(done->err), 300));
  }
}

}  // namespace attune::cli
