#include "stop_rules.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "declared.h"

namespace attune {
namespace {

void AddNamed(const RunRecord* run, std::vector<std::string>& classes) {
  if (run == nullptr || !run->diagnosis) return;
  for (const Bottleneck& b : run->diagnosis->bottlenecks) {
    if (b.named && std::find(classes.begin(), classes.end(), b.cls) == classes.end()) {
      classes.push_back(b.cls);
    }
  }
}

// Is there a value of a declared lever that could still be launched from the leader?
bool AnyMoveLeft(const CampaignState& s, const Vet& vet) {
  for (const DeclaredLever& lever : s.recipe.declared) {
    if (!IsOffered(s.recipe, lever)) continue;
    for (const std::string& value : lever.values) {
      const auto change = MoveTo(s.recipe, s.leader.user, lever, value);
      if (!change || ApplyEdits(s.leader.user, change->edits) == s.leader.user) continue;
      if (vet(*change).admitted) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> NamedClasses(const CampaignState& s) {
  std::vector<std::string> classes;
  // An arm that is shown no diagnosis is neither told its classes by a refusal.
  if (s.opened && !s.opened->policy.diagnosis) return classes;
  RunId leader = s.leader.run;
  if (leader.empty() && s.calibration && !s.calibration->runs.empty()) {
    leader = s.calibration->runs.back();
  }
  AddNamed(s.FindRun(leader), classes);
  for (auto it = s.runs.rbegin(); it != s.runs.rend(); ++it) {
    if (!it->second.judged || !it->second.diagnosis) continue;
    AddNamed(&it->second, classes);
    break;
  }
  return classes;
}

int NonWinsInARow(const CampaignState& s) {
  int row = 0;
  for (const auto& [id, run] : s.runs) {
    if (run.purpose != Purpose::kCandidate || !run.judged) continue;
    row = run.judged->leads || run.judged->standing == Standing::kWin ? 0 : row + 1;
  }
  return row;
}

std::string WhyNotStop(const CampaignState& s, const Vet& vet, const StopWish& wish) {
  const int launched = CountsOf(s).launched, row = NonWinsInARow(s);
  const bool declared = s.recipe.framework == Framework::kCustom;
  if (launched < kStopAfterLaunches && row < kStopAfterNonWins &&
      !(declared && !AnyMoveLeft(s, vet))) {
    return fmt::format(
        "the search may end after {} launches or {} in a row that did not win; there were {} and "
        "{}",
        kStopAfterLaunches, kStopAfterNonWins, launched, row);
  }
  std::vector<std::string> missing;
  for (const std::string& cls : NamedClasses(s)) {
    const bool said = std::any_of(wish.per_class.begin(), wish.per_class.end(), [&](const auto& c) {
      return c.first == cls && !Trim(c.second).empty();
    });
    if (!said) missing.push_back(cls);
  }
  if (missing.empty()) return {};
  return fmt::format("for each diagnosed class say a lever that was tried, or why none is: {}",
                     Join(missing, ", "));
}

}  // namespace attune
