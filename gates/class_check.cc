// Argument classes and lever grouping of a Megatron-LM change.
#include <algorithm>

#include "attune/base/text.h"
#include "check_parts.h"
#include "values.h"

namespace attune::gates {
namespace {

bool IsEnvOp(Edit::Op op) { return op == Edit::Op::kEnv || op == Edit::Op::kUnsetEnv; }

bool NeverALever(LeverClass c) {
  switch (c) {
    case LeverClass::kObjective:
    case LeverClass::kIoLogging:
    case LeverClass::kUnsafe:
    case LeverClass::kUnknown:
      return true;
    case LeverClass::kPlacement:
    case LeverClass::kMemory:
    case LeverClass::kOverlap:
    case LeverClass::kBatching:
    case LeverClass::kKernel:
    case LeverClass::kEnv:
      return false;
  }
  return true;
}

std::string WhyFrozen(LeverClass c, std::string_view topic) {
  std::string about =
      topic == "-" || topic == "frozen" ? std::string() : " (" + std::string(topic) + ")";
  switch (c) {
    case LeverClass::kObjective:
      return "it sets what is learned" + about + ": frozen at the baseline's value";
    case LeverClass::kIoLogging:
      return "it sets what is written or printed" + about +
             ": the recipe's and the control plane's";
    case LeverClass::kUnsafe:
      return "it names code, paths or checkpoints" + about + ": the recipe's alone";
    case LeverClass::kUnknown:
      return "what it does to a training step is not known" + about + ": frozen";
    case LeverClass::kPlacement:
    case LeverClass::kMemory:
    case LeverClass::kOverlap:
    case LeverClass::kBatching:
    case LeverClass::kKernel:
    case LeverClass::kEnv:
      return "the table marks it as no lever";
  }
  return {};
}

// How an unknown flag may have been meant: for the message, never for a repair.
Finding UnknownFlag(const std::string& flag, const Rules& rules) {
  const auto first =
      std::lower_bound(rules.flags.begin(), rules.flags.end(), flag,
                       [](const FlagRow& row, const std::string& f) { return row.flag < f; });
  if (first != rules.flags.end() && first->flag.starts_with(flag)) {
    return Refusal("unknown.abbreviation", flag, "", "",
                   "an abbreviation, of " + std::string(first->flag) + " or others: spell it out");
  }
  std::string dashed = flag;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  if (dashed != flag && FindFlag(rules, dashed) != nullptr) {
    return Refusal("unknown.spelling", flag, "", "", "the exact name is " + dashed);
  }
  return Refusal("unknown.flag", flag, "", "", "not an argument of this framework");
}

bool Contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Rows of a lever that name `name`.
const LeverRow* RowOf(const Rules& rules, std::string_view lever, std::string_view name) {
  for (const LeverRow& row : rules.levers) {
    if (row.lever == lever && row.name == name) return &row;
  }
  return nullptr;
}
bool IsLeverId(const Rules& rules, std::string_view lever) {
  return std::any_of(rules.levers.begin(), rules.levers.end(),
                     [&](const LeverRow& row) { return row.lever == lever; });
}

Finding UnknownLever(const Rules& rules, const std::string& lever) {
  std::vector<std::string> ids;
  for (const LeverRow& row : rules.levers) {
    if (ids.empty() || ids.back() != row.lever) ids.emplace_back(row.lever);
  }
  const std::string near = Nearest(lever, ids);
  return Refusal("lever.unknown", EscapeForDisplay(lever, 80), "", "",
                 "no lever of this id" + (near.empty() ? "" : ": did you mean " + near));
}

// A choice a lever offers one at a time; how many of them, and of its primaries, a change edits.
struct Touched {
  int primary = 0, choice = 0, tied = 0;
};
Touched Touch(const Rules& rules, std::string_view lever, const Change& change) {
  Touched t;
  for (const Edit& e : change.edits) {
    const LeverRow* row = RowOf(rules, lever, e.name);
    if (row == nullptr) continue;
    switch (row->role) {
      case LeverRole::kPrimary:
        ++t.primary;
        break;
      case LeverRole::kChoice:
        ++t.choice;
        break;
      case LeverRole::kTied:
        ++t.tied;
        break;
    }
  }
  return t;
}

}  // namespace

ClassesResult CheckClasses(const Recipe& recipe, const Change& change, const Rules& rules) {
  ClassesResult out;
  const StackVersion stack = StackOf(recipe, rules);
  for (const Edit& e : change.edits) {
    if (IsEnvOp(e.op)) {
      const EnvRow* row = FindEnv(rules, e.name);
      if (row == nullptr) {
        out.refused.push_back(Refusal("env.unknown", e.name, "", "",
                                      "no variable of the allow-list: what it does is not known"));
      } else if (!row->allow) {
        out.refused.push_back(
            Refusal("env." + std::string(row->reason), e.name, "", "",
                    "variables that set " + std::string(row->reason) + " are the recipe's alone"));
      }
      if (Contains(rules.site.env, e.name)) {
        out.refused.push_back(Refusal("site.env", e.name, "", "", "refused by this site"));
      }
      continue;
    }
    if (Contains(rules.site.flags, e.name)) {
      out.refused.push_back(Refusal("site.flag", e.name, "", "", "refused by this site"));
    }
    const FlagRow* row = FindFlag(rules, e.name);
    if (row == nullptr) {
      out.refused.push_back(UnknownFlag(e.name, rules));
      continue;
    }
    const std::string now = e.op == Edit::Op::kUnset ? "off" : Join(e.values, " ");
    const std::string was = ShowFlag(recipe.base.args, e.name);
    if (NeverALever(row->cls) && !row->derived) {
      out.refused.push_back(Refusal(std::string(Word(row->cls)) + "." + e.name, e.name, was,
                                    EscapeForDisplay(now, 80), WhyFrozen(row->cls, row->topic)));
    } else if (!row->lever && !row->derived) {
      out.deferred.push_back(Refusal("frozen." + e.name, e.name, was, EscapeForDisplay(now, 80),
                                     WhyFrozen(row->cls, row->topic)));
    }
    if (row->version == "after-1dcf0da" && e.op == Edit::Op::kSet && stack.core) {
      // Read at two commits only: between them it is not known in which release a flag came.
      const std::optional<std::int64_t> pin = ParseVersion("0.16");
      if (*stack.core <= *pin) {
        out.refused.push_back(Refusal("version." + e.name, e.name, was, now,
                                      "this stack is older than the argument: start-up fails"));
      }
    }
  }
  return out;
}

void CheckAllowed(const Recipe& recipe, std::string_view lever, const Rules& rules, Findings& out) {
  const std::string id(lever);
  const auto why = recipe.why.find(id);
  const std::string because = why == recipe.why.end() ? std::string() : ": " + why->second;
  if (Contains(recipe.deny, lever)) {
    out.push_back(Refusal("lever.denied", id, "", "", "denied by the recipe" + because));
  } else if (!recipe.allow.empty() && !Contains(recipe.allow, lever)) {
    out.push_back(
        Refusal("lever.not_allowed", id, "", "", "not among the recipe's allowed levers"));
  }
  if (Contains(rules.site.levers, lever)) {
    out.push_back(Refusal("site.lever", id, "", "", "refused by this site"));
  }
}

void CheckGrouping(const Recipe& recipe, const Change& change, const Rules& rules, Findings& out) {
  if (!IsLeverId(rules, change.lever)) {
    out.push_back(UnknownLever(rules, change.lever));
    return;
  }
  CheckAllowed(recipe, change.lever, rules, out);
  for (const std::string& id : change.enablers) {
    if (!IsLeverId(rules, id)) {
      out.push_back(UnknownLever(rules, id));
      continue;
    }
    CheckAllowed(recipe, id, rules, out);
    const Touched t = Touch(rules, id, change);
    if (t.primary + t.choice == 0) {
      out.push_back(Refusal("lever.enabler_unused", id, "", "", "the change does not use it"));
    }
  }
  for (const Edit& e : change.edits) {
    // A frozen argument belongs to no lever; that it is frozen is said elsewhere.
    const FlagRow* row = IsEnvOp(e.op) ? nullptr : FindFlag(rules, e.name);
    if (row != nullptr && !row->lever && !row->derived) continue;
    const auto covers = [&](std::string_view id) { return RowOf(rules, id, e.name) != nullptr; };
    if (covers(change.lever)) continue;
    if (std::any_of(change.enablers.begin(), change.enablers.end(), covers)) continue;
    out.push_back(Refusal(
        "lever.foreign", e.name, "", "",
        "belongs neither to " + change.lever + " nor to a declared enabler: one lever at a time"));
  }
  const Touched t = Touch(rules, change.lever, change);
  if (t.primary + t.choice == 0 && t.tied > 0) {
    out.push_back(Refusal("lever.tied_alone", change.lever, "", "",
                          "only arguments that follow this lever are edited, not the lever"));
  }
  if (t.choice > 1) {
    out.push_back(Refusal("lever.several", change.lever, "", std::to_string(t.choice),
                          "several independent switches at once: no attribution"));
  }
}

void CheckValues(const Change& change, const Rules& rules, Findings& out) {
  for (const Edit& e : change.edits) {
    std::string why;
    if (e.op == Edit::Op::kEnv) {
      const EnvRow* row = FindEnv(rules, e.name);
      if (row == nullptr || !row->allow) continue;
      why = WhyIllegal(row->kind, row->choices, row->lo, row->hi, e.values, rules.limits);
    } else if (e.op == Edit::Op::kSet) {
      const FlagRow* row = FindFlag(rules, e.name);
      if (row == nullptr || (!row->lever && !row->derived)) continue;
      const bool free_int = row->derived;  // no range of its own: any size
      why = WhyIllegal(row->kind, row->choices, free_int ? 1 : row->lo, free_int ? 1e6 : row->hi,
                       e.values, rules.limits);
    }
    if (why.empty()) continue;
    out.push_back(
        Refusal("value." + e.name, e.name, "", EscapeForDisplay(Join(e.values, " "), 80), why));
  }
}

void CheckFrozen(const Effective& baseline, const Effective& candidate, const Rules& rules,
                 Findings& out) {
  for (const Edit& d : Difference(baseline, candidate)) {
    if (IsEnvOp(d.op)) {
      const EnvRow* row = FindEnv(rules, d.name);
      if (row != nullptr && row->allow) continue;
      out.push_back(Refusal("frozen.env", d.name, ShowEnv(baseline.env, d.name),
                            ShowEnv(candidate.env, d.name), "differs from the baseline"));
      continue;
    }
    const FlagRow* row = FindFlag(rules, d.name);
    if (row != nullptr && (row->lever || row->derived)) continue;
    out.push_back(Refusal("frozen." + d.name, d.name, ShowFlag(baseline.args, d.name),
                          ShowFlag(candidate.args, d.name), "differs from the baseline"));
  }
}

}  // namespace attune::gates
