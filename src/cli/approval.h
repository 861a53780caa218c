// --approve each: what somebody is asked before a candidate is launched.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include "attune/campaign/campaign.h"

namespace attune::cli {

// "launch p004 (--tp 8->4)? It holds at most 2.31 GPU-h ($15.89); 40.2 of 60.0 are left; why: ..."
std::string ApprovalQuestion(const CampaignState& state, const ProposalRecord& proposal,
                             const LaunchIntended& launch);

// Puts a question to whoever types at `in`, while something else goes on: `pulse` is called twice a
// second. kLeave: it said false, the input ended, or the answer was "q". What is no yes is a no.
Approval AskWhile(int in, std::FILE* out, const std::string& question, const Pulse& pulse);

// At this process's terminal; `before` makes room for the question (live lines).
Approver AskAtTerminal(std::function<void()> before);

}  // namespace attune::cli
