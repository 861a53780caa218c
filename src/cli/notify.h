// notify: the user's own command, told with the campaign's summary on its stdin.
#pragma once

#include <string>

#include "attune/model/campaign.h"

namespace attune::cli {

// Runs recipe.notify_command with one more argument (end, fail or budget) and the summary as JSON
// on stdin. It has 30 s. What goes wrong is a line of the log; nothing waits for more.
void Notify(const CampaignState& state, const std::string& what);

}  // namespace attune::cli
