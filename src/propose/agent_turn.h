// Where the decision that is being made stands: read from the calls since the last one ended.
#pragma once

#include <string>
#include <vector>

#include "agent_action.h"
#include "attune/model/campaign.h"
#include "attune/propose/agent.h"

namespace attune {

inline constexpr int kErrorsInARow = 3;  // format errors, or truncated replies, end the turn

// A member's proposal in a committee, under the letter by which the others speak of it.
struct Draft {
  std::string letter;
  std::string arguments;  // as sent
  Proposal proposal;
  std::string call;
};

struct TurnView {
  std::vector<const ModelCall*> answered;  // of this decision, oldest first
  int inspections = 0;
  int errors_in_a_row = 0;     // format errors since the last good answer
  int truncated_in_a_row = 0;  // cut ones since then
  bool too_long = false;       // a prompt of this campaign did not fit a model's window
  std::size_t model = 0;       // index of the model to ask
  std::vector<Draft> drafts;   // committee
  std::vector<Ballot> ballots;
  bool voting = false;
  std::string role;  // of the next call: "decide", "propose 2", "vote 1"
  ActionRules rules;
};

TurnView ViewOf(const CampaignState& state, const AgentDesk& desk);

}  // namespace attune
