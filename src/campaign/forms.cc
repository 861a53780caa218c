// Provisional until gates/instrument lands.
#include <algorithm>

#include "attune/base/text.h"
#include "config_gate.h"

namespace attune {

Effective MeasuredForm(const CampaignState& s, const Effective& user, int steps) {
  Effective e = user;
  const std::int64_t start = s.opened ? s.opened->start_iteration : 0;
  for (const std::string& flag : s.recipe.measure.instrument_remove) e.args.Unset(flag);
  for (const auto& [flag, value] : s.recipe.measure.instrument_set) {
    e.args.Set(flag, {value == "{n}" ? std::to_string(start + steps) : value});
  }
  return e;
}

RehearsalForms RehearsalOf(const CampaignState& s, const Effective& user,
                           const std::string& folder) {
  constexpr std::int64_t kSteps = 6;
  const std::int64_t at = (s.opened ? s.opened->start_iteration : 0) + kSteps;
  RehearsalForms forms{.first = user, .second = user, .first_steps = 1, .restart_iteration = at};
  const std::string when = std::to_string(at);
  for (const char* flag : {"--save-interval", "--eval-interval", "--exit-interval"}) {
    forms.first.args.Set(flag, {when});
  }
  forms.first.args.Set("--save", {folder});
  const auto interval = user.args.Value("--log-interval");
  if (interval && ParseInt(*interval).value_or(1) > kSteps) {
    forms.first.args.Set("--log-interval", {"1"});
  }
  forms.second = forms.first;
  forms.second.args.Set("--load", {folder});
  forms.second.args.Unset("--ckpt-step");
  forms.second.args.Set("--exit-interval", {std::to_string(at + 2)});
  return forms;
}

}  // namespace attune
