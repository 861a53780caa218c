// The texts of one request, built from the state (docs/agent.md). `system` is the same through a
// campaign, so that providers cache it: role, rules, levers, catalog, lessons. `user` is the state:
// budget, leader, diagnosis, failures, refusals, forecasts, runs, and what this decision has read.
#pragma once

#include <string>

#include "agent_turn.h"
#include "attune/base/result.h"
#include "attune/propose/agent.h"

namespace attune {

// Below this the brief forms are all, so that a small model always sees the same few lines.
inline constexpr int kCompactBytes = 4'000;
bool IsCompact(const CampaignState& s);
// Whether a policy offers the lever: a fixed space has the knobs alone.
bool InSpace(const Policy& policy, const std::string& lever);

Result<std::string> SystemText(const CampaignState& s, const AgentDesk& desk, std::size_t bytes);
Result<std::string> UserText(const CampaignState& s, const AgentDesk& desk, const TurnView& view,
                             std::size_t bytes);

// ----- pieces that `inspect` shows too

// "--tensor-model-parallel-size 1; --sequence-parallel off".
std::string EditsText(const std::vector<Edit>& edits);
std::string RunLine(const CampaignState& s, const RunRecord& run);  // one row of the run table
std::string LeverLine(const LeverOffer& lever);

}  // namespace attune
