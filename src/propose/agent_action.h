// What the agent may answer: one call of one tool, read strictly. Nothing is repaired.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "attune/llm/client.h"
#include "attune/model/campaign.h"
#include "attune/model/proposal.h"
#include "attune/propose/agent.h"

namespace attune {

// A member's view of the committee's proposals, and its vote.
struct Ballot {
  std::vector<std::pair<std::string, std::string>> criticism;  // letter of a proposal, text
  std::string vote;                                            // a letter
};

using AgentAction = std::variant<Proposal, StopWish, Question, Ballot, BadReply>;

// What this request allows.
struct ActionRules {
  std::vector<std::string> questions;  // of `inspect`; empty: it is not offered
  bool stop = true;
  std::vector<std::string> ballot;  // letters; not empty: only `vote` is offered
};

std::vector<llm::Tool> ToolsOf(const ActionRules& rules);
AgentAction ReadAction(const ActionRules& rules, const CampaignState& state, std::string_view tool,
                       std::string_view arguments);

}  // namespace attune
