#include "allocation.h"

#include <algorithm>

#include "attune/gates/calibration.h"
#include "plan.h"

namespace attune {
namespace {

constexpr int kTries = 2;  // of measuring the leader in one allocation

// A measurement of the leader, and nothing else.
bool Measures(const LaunchRecord& launch, const Leader& leader) {
  return launch.intent.purpose == Purpose::kProbe && launch.intent.runs.front().of == "leader" &&
         launch.intent.runs.front().user == leader.user;
}

}  // namespace

LeaderThere LeaderIn(const CampaignState& s, const std::string& allocation) {
  const auto there = s.leader.measured.find(allocation);
  if (there == s.leader.measured.end()) return {s.leader.scores, false};
  return {there->second, true};
}

Calibration NoiseIn(const CampaignState& s, const std::string& allocation) {
  return allocation.empty() ? *s.calibration : WithinAllocation(*s.calibration);
}

std::optional<LaunchIntended> MeasureLeader(const CampaignState& s, const std::string& allocation) {
  if (LeaderIn(s, allocation).measured) return std::nullopt;
  const auto tries = std::count_if(s.launches.begin(), s.launches.end(), [&](const auto& l) {
    const LaunchRecord& launch = l.second;
    return Measures(launch, s.leader) &&
           (!launch.handle || launch.handle->allocation == allocation);
  });
  if (tries >= kTries) return std::nullopt;
  RunDraft leader = LeaderDraft(s);
  leader.of = "leader";
  return PlanMeasured(s, Purpose::kProbe, {leader}, static_cast<int>(tries));
}

GpuMillis IdleIn(const CampaignState& s, const std::string& allocation, int slots, Instant now) {
  if (allocation.empty()) return {};
  std::optional<Instant> last;
  for (const auto& [id, run] : s.runs) {
    if (!run.end || AllocationOf(s, run) != allocation) continue;
    last = last ? std::max(*last, run.ended_at) : run.ended_at;
  }
  return last ? ChargeFor(slots, std::max(Millis{0}, now - *last)) : GpuMillis{};
}

}  // namespace attune
