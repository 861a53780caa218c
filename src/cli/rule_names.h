// Names of rules for people: lists and explains what the gates may say. The rules themselves are
// the gates' tables; nothing is decided here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/gates/rules.h"
#include "attune/model/recipe.h"

namespace attune::cli {

struct RuleText {
  std::string id;
  std::string level;  // "refuse", "caution", "alarm"
  std::string text;
  std::string evidence;  // empty: none stated
};

// Rules of the configuration gate that have rows of their own, then the checks of a run.
std::vector<RuleText> ListRules(const Rules& rules, Framework framework);
// Argument classes: one rule a flag and variable. None for custom: its recipe declares levers.
std::vector<RuleText> ListArgumentRules(const Rules& rules, Framework framework);
// By id ("defect.D4", "objective.--lr", "step0.loss"), flag (with its dashes or without) or
// variable.
std::optional<RuleText> ExplainRule(const Rules& rules, const std::string& id);

}  // namespace attune::cli
