// The agent's read-only questions. Answers are bounded and plain, because they go into the next
// request as they are and are kept with the call.
#pragma once

#include <string>

#include "attune/propose/agent.h"

namespace attune {

// What is read, or why it can't be, under a line that repeats the question.
std::string AnswerTo(const CampaignState& s, const AgentDesk& desk, const Question& question);

}  // namespace attune
