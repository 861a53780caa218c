// Bounds, spelling, repeats and no-ops of a change, before anybody asks what it means.
#include <algorithm>

#include "attune/base/text.h"
#include "check_parts.h"
#include "values.h"

namespace attune::gates {
namespace {

bool IsEnvOp(Edit::Op op) { return op == Edit::Op::kEnv || op == Edit::Op::kUnsetEnv; }

// The attribute that an edit sets: two spellings of one argument are one thing.
std::string_view Target(const Edit& e, const Rules& rules) {
  if (IsEnvOp(e.op)) return e.name;
  const FlagRow* row = FindFlag(rules, e.name);
  return row == nullptr ? std::string_view(e.name) : row->dest;
}

// Whether an edit of a known flag changes what the program sees, a spelt-out default included.
bool Alters(const Effective& leader, const Effective& candidate, const Edit& e,
            const Rules& rules) {
  if (IsEnvOp(e.op)) return ShowEnv(leader.env, e.name) != ShowEnv(candidate.env, e.name);
  const Argument* was = leader.args.Find(e.name);
  const Argument* now = candidate.args.Find(e.name);
  const FlagRow* row = FindFlag(rules, e.name);
  const auto value = [&](const Argument* a) -> std::string {
    if (a != nullptr) return a->values.empty() ? std::string("on") : Join(a->values, " ");
    if (row == nullptr || row->kind == ValueKind::kBool || row->otherwise == "-") return "off";
    return std::string(row->otherwise);
  };
  const ValueKind kind = row == nullptr ? ValueKind::kAny : row->kind;
  return !SameValue(kind, value(was), value(now));
}

}  // namespace

Finding Note(Severity severity, std::string rule, std::string key, std::string was, std::string now,
             std::string why) {
  return {severity,       std::move(rule), std::move(key),
          std::move(was), std::move(now),  std::move(why)};
}

bool Refuses(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.severity == Severity::kRefuse; });
}

std::string ShowFlag(const Arguments& args, std::string_view flag) {
  const Argument* a = args.Find(flag);
  if (a == nullptr) return "off";
  return a->values.empty() ? "on" : Join(a->values, " ");
}

std::string ShowEnv(const Env& env, std::string_view name) {
  const auto it = env.find(std::string(name));
  return it == env.end() ? "unset" : it->second;
}

void CheckBounds(const Change& change, const Rules& rules, Findings& out) {
  const ConfigLimits& limits = rules.limits;
  if (change.edits.empty()) {
    out.push_back(Refusal("schema.empty", "changes", "", "", "a change edits something"));
  }
  if (change.edits.size() > limits.edits) {
    out.push_back(Refusal("schema.edits", "changes", "", std::to_string(change.edits.size()),
                          "more than " + std::to_string(limits.edits) + " edits"));
    return;
  }
  if (change.enablers.size() > limits.enablers) {
    out.push_back(Refusal("schema.enablers", "enablers", "", std::to_string(change.enablers.size()),
                          "more than " + std::to_string(limits.enablers) + " enablers"));
  }
  for (const Edit& e : change.edits) {
    const bool env = IsEnvOp(e.op);
    const std::string shown = EscapeForDisplay(e.name, 80);
    if (e.name.size() > limits.name_bytes ||
        !(env ? IsEnvSpelling(e.name) : IsFlagSpelling(e.name))) {
      out.push_back(Refusal(env ? "schema.env" : "schema.flag", shown, "", "",
                            env ? "not the name of a variable"
                                : "not an exact flag: two dashes, then letters, digits, - and _"));
    }
    const bool takes_values = e.op == Edit::Op::kSet || e.op == Edit::Op::kEnv;
    if ((!takes_values && !e.values.empty()) || (e.op == Edit::Op::kEnv && e.values.size() != 1) ||
        e.values.size() > limits.list_values) {
      out.push_back(Refusal("schema.values", shown, "", std::to_string(e.values.size()) + " values",
                            "a wrong number of values for this edit"));
    }
    for (const std::string& v : e.values) {
      if (v.size() <= limits.value_bytes && IsPrintableAscii(v)) continue;
      out.push_back(Refusal("schema.value", shown, "", EscapeForDisplay(v, 80),
                            "a value is printable ASCII of at most " +
                                std::to_string(limits.value_bytes) + " bytes"));
      break;
    }
  }
}

void CheckRepeats(const Change& change, const Rules& rules, Findings& out) {
  for (std::size_t i = 0; i < change.edits.size(); ++i) {
    for (std::size_t j = i + 1; j < change.edits.size(); ++j) {
      const Edit& a = change.edits[i];
      const Edit& b = change.edits[j];
      if (IsEnvOp(a.op) != IsEnvOp(b.op)) continue;
      if (Target(a, rules) != Target(b, rules)) continue;
      out.push_back(Refusal("schema.repeated", EscapeForDisplay(b.name, 80), "", "",
                            "one thing is edited twice: which edit holds is not for us to guess"));
      return;
    }
  }
  for (std::size_t i = 0; i < change.enablers.size(); ++i) {
    const bool twice =
        std::find(change.enablers.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  change.enablers.end(), change.enablers[i]) != change.enablers.end();
    if (twice || change.enablers[i] == change.lever) {
      out.push_back(Refusal("schema.repeated", change.enablers[i], "", "",
                            "an enabler stands twice, or is the lever itself"));
      return;
    }
  }
}

void CheckNoOp(const Effective& leader, const Effective& candidate, const Change& change,
               const Rules& rules, Findings& out) {
  const bool alters = std::any_of(change.edits.begin(), change.edits.end(), [&](const Edit& e) {
    return Alters(leader, candidate, e, rules);
  });
  if (alters) return;
  const std::string& name = change.edits.front().name;
  out.push_back(Refusal("schema.noop", name, ShowFlag(leader.args, name),
                        ShowFlag(candidate.args, name),
                        "already the leader's configuration: a launch would be wasted"));
}

void CheckBudget(const ConfigFacts& facts, Findings& out) {
  if (!facts.hold || !facts.available || facts.hold->value <= facts.available->value) return;
  out.push_back(Refusal("budget.hold", "budget", ShowGpuHours(*facts.available),
                        ShowGpuHours(*facts.hold),
                        "the launch would hold more GPU-hours than the budget has left"));
}

}  // namespace attune::gates
