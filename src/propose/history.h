// What a campaign's runs have shown, in the estimate's terms.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attune/estimate/estimate.h"
#include "attune/model/campaign.h"

namespace attune::rules {

struct Trial {  // one launched candidate, in order
  const RunRecord* run = nullptr;
  const ProposalRecord* proposal = nullptr;
  std::optional<TrainingJob> job;
  std::optional<double> seconds;  // of its steps, as far as it made them
  bool won = false, failed = false, wrong = false;  // wrong: a gate rejected what it trained
  bool out_of_memory = false;
  bool slow = false;  // it trained, and was ended by the clock
};

struct History {
  std::vector<Measured> measured;  // one a configuration
  std::vector<Trial> trials;
  int since_win = 0;  // launches since the last win, or since the start
  bool any_win = false;
  std::set<std::string> named;  // diagnosis classes named in the leader's run
  std::string top_class = "unknown";
};

History HistoryOf(const CampaignState& state);

}  // namespace attune::rules
