// The blocks of a request's user text that tell what was tried (agent_runs.cc), and what they share
// with the others (agent_user.cc).
#pragma once

#include <string>
#include <vector>

#include "attune/propose/agent.h"
#include "sheet.h"

namespace attune {

inline constexpr double kGb = 1e9;
inline constexpr std::size_t kBriefList = 80;  // bytes of a list in a brief form
inline constexpr std::size_t kBriefText = 60;
inline constexpr std::size_t kWords = 200;        // of a model's or a job's words in a row
inline constexpr std::size_t kMostChanges = 400;  // of a change in a row

std::string Percent(double x);  // "+3.1%"
// Judged runs of candidates, newest first.
std::vector<const RunRecord*> Candidates(const CampaignState& s);
bool HasFailed(const RunRecord& run);  // failed, rejected or invalid
// Of its whole launch, profile included; 0 while that goes on.
GpuMillis ChargeOf(const CampaignState& s, const RunRecord& run);
// "launch_bound 31% of the step".
std::string ShareOf(const Bottleneck& bottleneck);

Block FailedBlock(const CampaignState& s);
Block RefusedBlock(const CampaignState& s);
Block ForecastBlock(const CampaignState& s);
Block RunsBlock(const CampaignState& s);
// What the record leaves open: enablers to take back, minor levers to stack, levers never moved.
Block OpenBlock(const CampaignState& s, const AgentDesk& desk);

}  // namespace attune
