// What is to be said of a launch that is over besides what it did: it may have cost more than was
// held for it, and what it ran may not be what was meant.
#include <fmt/core.h>

#include "effects.h"

namespace attune {

// `facts` ends with the launch's end; what is added is committed with it.
void Effects::LookBack(const CampaignState& state, const LaunchRecord& launch,
                       std::vector<Fact>& facts) {
  const LaunchEnded end = std::get<LaunchEnded>(facts.back());
  // A file that was edited while the job waited or ran: nobody knows which of the two it read
  // (control_plane.md section 2b).
  const Status inputs = parts_.check_inputs ? parts_.check_inputs(state) : Status();
  if (!inputs && inputs.error().code == ErrorCode::kInvalidInput) {
    for (const RunPlan& plan : launch.intent.runs) {
      if (state.runs.at(plan.id).judged) continue;
      Judged judged;
      judged.id = plan.id;
      judged.validity = Validity::kRetry;
      judged.standing = Standing::kEnvironment;
      judged.reason = "while it waited or ran: " + inputs.error().message;
      facts.emplace_back(std::move(judged));
    }
    facts.emplace_back(Paused{inputs.error().message, 75});
  }
  // More than was held is more than the budget was asked for (control_plane.md section 2).
  if (end.overrun.value > 0) {
    facts.emplace_back(Paused{
        fmt::format("{} was held {} GPU-h longer than the {} set aside for it{}: nothing more is "
                    "launched. attune resume goes on when the cause is known",
                    launch.intent.id.value, ShowGpuHours(end.overrun),
                    ShowGpuHours(launch.intent.hold),
                    end.detail.empty() ? std::string() : fmt::format(" ({})", end.detail)),
        5});
  }
}

}  // namespace attune
