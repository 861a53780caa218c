// Stack defects, legality rows and kernel evidence: everything that asks the resolved job.
#include <algorithm>
#include <array>

#include "attune/base/text.h"
#include "check_parts.h"
#include "values.h"

namespace attune::gates {
namespace {

bool Equals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           const auto low = [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c + 0; };
           return low(x) == low(y);
         });
}

bool InScope(std::string_view models, std::string_view model) {
  if (models == "*") return true;
  while (!models.empty()) {
    const std::size_t bar = models.find('|');
    if (Equals(models.substr(0, bar), model)) return true;
    if (bar == std::string_view::npos) return false;
    models.remove_prefix(bar + 1);
  }
  return false;
}

// Whether an entry's predicate and its version range hold; unknown when either is.
Truth Met(const DefectRow& row, const Recipe& recipe, const StackVersion& stack,
          const JobFacts& now) {
  if (!InScope(row.models, recipe.workload.model)) return Truth::kFalse;
  const Truth range = InRange(stack, row.from, row.until, row.until_date);
  if (range == Truth::kFalse) return Truth::kFalse;
  const Truth when = EvaluateAll(row.when, now, nullptr);
  if (when == Truth::kFalse) return Truth::kFalse;
  return when == Truth::kTrue && range == Truth::kTrue ? Truth::kTrue : Truth::kUnknown;
}

std::string RuleOf(const DefectRow& row) { return "defect." + std::string(row.id); }

std::string WhyOf(const DefectRow& row) {
  std::string why = std::string(row.why) + " (" + std::string(row.evidence) + ")";
  if (!row.lifted_by.empty()) why += "; lifted by " + std::string(row.lifted_by);
  return why;
}

}  // namespace

StackVersion StackOf(const Recipe& recipe, const Rules& rules) {
  StackVersion out;
  const auto stated = [&](const char* key) -> std::string_view {
    const auto it = recipe.stack.find(key);
    return it == recipe.stack.end() ? std::string_view() : std::string_view(it->second);
  };
  const std::string_view commit = stated("megatron-lm");
  for (const StackRow& row : rules.stacks) {
    // A commit may be given longer than the table has it, not shorter than seven characters.
    if (commit.size() < 7 || !commit.starts_with(row.commit)) continue;
    out.core = row.core;
    out.date = row.date;
  }
  if (const auto core = ParseVersion(stated("core"))) out.core = core;
  if (const auto date = ParseDate(stated("date"))) out.date = date;
  return out;
}

Truth InRange(const StackVersion& stack, std::int64_t from, std::int64_t until,
              std::int64_t until_date) {
  Truth out = Truth::kTrue;
  if (from > 0) {
    if (!stack.core) {
      out = Truth::kUnknown;
    } else if (*stack.core < from) {
      return Truth::kFalse;
    }
  }
  if (until == 0 && until_date == 0) return out;
  // Over core version, then date: the version decides where it is at or past the fix; before it,
  // the date may still show that the fix is in.
  if (until > 0 && stack.core && *stack.core >= until) return Truth::kFalse;
  if (until_date > 0 && stack.date) return *stack.date >= until_date ? Truth::kFalse : out;
  if (until > 0 && stack.core) return out;
  return Truth::kUnknown;
}

void CheckDefects(const Recipe& recipe, const JobFacts& now, const JobFacts& was,
                  const Rules& rules, const ConfigFacts& facts, Findings& out) {
  const StackVersion stack = StackOf(recipe, rules);
  for (const DefectRow& row : rules.defects) {
    const Truth met = Met(row, recipe, stack, now);
    const Truth base = Met(row, recipe, stack, was);
    if (met == Truth::kFalse) {
      if (base == Truth::kTrue && row.refuse) {
        out.push_back(Note(Severity::kAlarm, "differs_from_defective_baseline", std::string(row.id),
                           "", "",
                           "the baseline has this defect and the candidate does not: ships only "
                           "with gate.accept of " +
                               std::string(row.id)));
      } else if (base == Truth::kTrue) {
        out.push_back(Note(Severity::kNote, RuleOf(row) + ".left", std::string(row.id), "", "",
                           "the baseline meets this entry, the candidate does not"));
      }
      continue;
    }
    // The user's own working recipe is no news (check reports it), unless what is not known about
    // it is what the change moves.
    if (met == Truth::kUnknown ? !Touches(row.when, now, was) : base == met) continue;
    const bool escalated =
        std::find(facts.escalated.begin(), facts.escalated.end(), row.id) != facts.escalated.end();
    const bool certain = met == Truth::kTrue || row.effect == DefectEffect::kSilent;
    const bool refuse = escalated || (row.refuse && certain);
    std::string why = WhyOf(row);
    if (met == Truth::kUnknown) {
      const std::string value = FirstUnknown(row.when, now, nullptr);
      why += value.empty() ? "; the stack's version is not known"
                           : "; the value of " + value + " is not known";
    }
    if (escalated) why += "; it has failed twice in this campaign";
    out.push_back(Note(refuse ? Severity::kRefuse : Severity::kCaution, RuleOf(row),
                       std::string(row.id), "", "", std::move(why)));
  }
}

std::vector<std::string_view> MetDefects(const Recipe& recipe, const JobFacts& facts,
                                         const Rules& rules, bool refuse_only) {
  const StackVersion stack = StackOf(recipe, rules);
  std::vector<std::string_view> ids;
  for (const DefectRow& row : rules.defects) {
    if (refuse_only && !row.refuse) continue;
    if (Met(row, recipe, stack, facts) == Truth::kTrue) ids.push_back(row.id);
  }
  return ids;
}

void CheckDrafts(const Effective& candidate, std::span<const DraftDefect> drafts, Findings& out) {
  for (const DraftDefect& draft : drafts) {
    const bool all =
        !draft.edits.empty() &&
        std::all_of(draft.edits.begin(), draft.edits.end(), [&](const Edit& e) {
          switch (e.op) {
            case Edit::Op::kSet: {
              const Argument* a = candidate.args.Find(e.name);
              return a != nullptr && a->values == e.values;
            }
            case Edit::Op::kUnset:
              return !candidate.args.Has(e.name);
            case Edit::Op::kEnv: {
              const auto it = candidate.env.find(e.name);
              return it != candidate.env.end() && !e.values.empty() && it->second == e.values[0];
            }
            case Edit::Op::kUnsetEnv:
              return !candidate.env.contains(e.name);
          }
          return false;
        });
    if (!all) continue;
    out.push_back(Refusal("defect." + draft.id, draft.id, "", "",
                          "rejected earlier in this campaign: " + draft.why));
  }
}

void CheckRows(std::span<const LegalityRow> rows, std::string_view prefix, const JobFacts& now,
               const JobFacts& was, Findings& out) {
  for (const LegalityRow& row : rows) {
    const Truth met = EvaluateAll(row.when, now, &was);
    if (met == Truth::kFalse) continue;
    if (met == EvaluateAll(row.when, was, &was) &&
        (met == Truth::kTrue || !Touches(row.when, now, was))) {
      continue;  // no news: the baseline itself stands so
    }
    std::string why(row.why);
    bool refuse = true;
    if (met == Truth::kUnknown) {
      if (!Touches(row.when, now, was)) continue;
      refuse = row.unknown_refuses;
      why += "; the value of " + FirstUnknown(row.when, now, &was) + " is not known";
    }
    out.push_back(Note(refuse ? Severity::kRefuse : Severity::kCaution,
                       std::string(prefix) + "." + std::string(row.id), std::string(row.source), "",
                       "", std::move(why)));
  }
}

bool IsAccepted(const Recipe& recipe, std::string_view lever_or_id) {
  return std::any_of(recipe.gate.accept.begin(), recipe.gate.accept.end(),
                     [&](const AcceptedLever& a) { return a.lever == lever_or_id; });
}

bool IsTested(std::span<const PassedTest> tests, std::string_view lever, std::string_view flag,
              std::string_view value) {
  return std::any_of(tests.begin(), tests.end(), [&](const PassedTest& t) {
    if (t.lever != lever && t.lever != flag) return false;
    return t.value.empty() || t.value == flag || t.value == value;
  });
}

void CheckKernels(const Recipe& recipe, const Effective& candidate, std::string_view lever,
                  const Rules& rules, const ConfigFacts& facts, Findings& out) {
  const StackVersion stack = StackOf(recipe, rules);
  for (const Edit& d : Difference(recipe.base, candidate)) {
    if (d.op == Edit::Op::kEnv || d.op == Edit::Op::kUnsetEnv) continue;
    const FlagRow* row = FindFlag(rules, d.name);
    if (row == nullptr || row->cls != LeverClass::kKernel) continue;
    const std::string value = ShowFlag(candidate.args, d.name);
    const bool listed = std::any_of(
        rules.kernel_evidence.begin(), rules.kernel_evidence.end(), [&](const EvidenceRow& e) {
          return e.flag == d.name && (e.value == "*" || e.value == value) &&
                 InRange(stack, e.from, e.until, 0) == Truth::kTrue;
        });
    // The lever that a test or an acceptance names: the change's own, or any that has this flag
    // (a leader may carry a kernel swap of an earlier change).
    const auto evidence = [&](std::string_view id) {
      return IsTested(facts.passed_tests, id, d.name, value);
    };
    bool tested = evidence(lever) || evidence(d.name);
    bool accepted = IsAccepted(recipe, lever) || IsAccepted(recipe, d.name);
    for (const LeverRow& l : rules.levers) {
      if (l.name != d.name) continue;
      tested = tested || evidence(l.lever);
      accepted = accepted || IsAccepted(recipe, l.lever);
    }
    if (listed || tested) continue;
    if (accepted) {
      out.push_back(Note(Severity::kNote, "kernel.accepted", d.name,
                         ShowFlag(recipe.base.args, d.name), value,
                         "accepted by the recipe's owner, not tested"));
      continue;
    }
    std::string why = "a kernel swap needs evidence for this stack: ";
    const auto test = std::find_if(recipe.gate.component_tests.begin(),
                                   recipe.gate.component_tests.end(), [&](const ComponentTest& t) {
                                     const PassedTest as{t.lever, t.value};
                                     return IsTested({&as, 1}, lever, d.name, value);
                                   });
    why += test != recipe.gate.component_tests.end()
               ? "run its component test: " + Join(test->command, " ")
               : "add a gate.component_tests entry for " + std::string(lever);
    out.push_back(Refusal("kernel.needs_component_test", d.name, ShowFlag(recipe.base.args, d.name),
                          value, std::move(why)));
  }
}

}  // namespace attune::gates
