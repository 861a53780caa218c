// The configuration check of `framework: custom`: a trainer that attune does not know. Only what
// the recipe declares may change, only to the values it lists, and only where it says so.
#include <algorithm>

#include "attune/base/text.h"
#include "check_parts.h"

namespace attune::gates {
namespace {

bool NeverALever(LeverClass c) {
  return c == LeverClass::kObjective || c == LeverClass::kIoLogging || c == LeverClass::kUnsafe ||
         c == LeverClass::kUnknown;
}

// "true" and "false" of a bare flag, else its value; "unset" and "off" are no values.
std::string ValueOf(const Effective& e, std::string_view flag, std::string_view env) {
  if (!env.empty()) return ShowEnv(e.env, env);
  const Argument* a = e.args.Find(flag);
  if (a == nullptr) return "false";
  return a->values.empty() ? "true" : Join(a->values, " ");
}

bool Holds(const Effective& e, const LeverCondition& c) {
  if (c.is.empty()) {
    return c.env.empty() ? e.args.Has(c.flag) : e.env.contains(c.env);
  }
  const std::string now = ValueOf(e, c.flag, c.env);
  if (now == c.is) return true;
  const std::optional<int> order = CompareDecimal(now, c.is);
  return order && *order == 0;
}

std::string Show(const LeverCondition& c) {
  return (c.env.empty() ? c.flag : c.env) + (c.is.empty() ? " present" : " " + c.is);
}

bool Names(const DeclaredLever& d, const Edit& e) {
  const bool env = e.op == Edit::Op::kEnv || e.op == Edit::Op::kUnsetEnv;
  return env ? d.env == e.name : d.flag == e.name;
}

// The lever's value after the edit, in the words of `values`.
std::string EditedValue(const Edit& e) {
  switch (e.op) {
    case Edit::Op::kSet:
    case Edit::Op::kEnv:
      return e.values.empty() ? std::string("true") : Join(e.values, " ");
    case Edit::Op::kUnset:
    case Edit::Op::kUnsetEnv:
      return "false";
  }
  return {};
}

class Custom {
 public:
  Custom(const Recipe& recipe, const Effective& leader, const Change& change, const Rules& rules,
         const ConfigFacts& facts)
      : recipe_(recipe),
        leader_(leader),
        change_(change),
        rules_(rules),
        facts_(facts),
        candidate_(ApplyEdits(leader, change.edits)) {}

  Findings Run() {
    CheckBounds(change_, rules_, out_);
    CheckRepeats(change_, rules_, out_);
    if (Refuses(out_)) return std::move(out_);
    Edits();
    if (Refuses(out_)) return std::move(out_);
    NoOp();
    if (Refuses(out_)) return std::move(out_);
    if (facts_.known != nullptr && facts_.known->contains(CanonicalHash(candidate_))) {
      out_.push_back(
          Refusal("duplicate", change_.lever, "", "", "this configuration was tried before"));
      return std::move(out_);
    }
    Levers();
    Frozen();
    if (Refuses(out_)) return std::move(out_);
    CheckDrafts(candidate_, facts_.drafts, out_);
    Conditions();
    Composition();
    if (!RoundTrips(candidate_)) {
      out_.push_back(Refusal("schema.render", "arguments", "", "",
                             "the rendered arguments do not parse back to the intended ones"));
    }
    if (Refuses(out_)) return std::move(out_);
    Kernels();
    CheckBudget(facts_, out_);
    return std::move(out_);
  }

 private:
  const DeclaredLever* Declared(std::string_view id) const {
    for (const DeclaredLever& d : recipe_.declared) {
      if (d.id == id) return &d;
    }
    return nullptr;
  }
  // The declaration that covers an edit: of the change's lever, else of an enabler. A lever may be
  // declared over several arguments, under one id.
  const DeclaredLever* Cover(const Edit& e) const {
    for (const DeclaredLever& d : recipe_.declared) {
      const bool named = d.id == change_.lever ||
                         std::find(change_.enablers.begin(), change_.enablers.end(), d.id) !=
                             change_.enablers.end();
      if (named && Names(d, e)) return &d;
    }
    return nullptr;
  }

  void Edits() {
    for (const Edit& e : change_.edits) {
      const bool env = e.op == Edit::Op::kEnv || e.op == Edit::Op::kUnsetEnv;
      const bool declared = std::any_of(recipe_.declared.begin(), recipe_.declared.end(),
                                        [&](const DeclaredLever& d) { return Names(d, e); });
      if (!declared) {
        out_.push_back(Refusal((env ? "env.undeclared." : "unknown.") + e.name, e.name,
                               env ? ShowEnv(leader_.env, e.name) : ShowFlag(leader_.args, e.name),
                               EscapeForDisplay(EditedValue(e), 80),
                               "the recipe declares no lever over it: frozen"));
        continue;
      }
      const DeclaredLever* d = Cover(e);
      if (d == nullptr) {
        out_.push_back(Refusal("lever.foreign", e.name, "", "",
                               "belongs neither to " + change_.lever +
                                   " nor to a declared enabler: one lever at a time"));
        continue;
      }
      const std::string value = EditedValue(e);
      if (std::find(d->values.begin(), d->values.end(), value) == d->values.end()) {
        out_.push_back(Refusal("value." + e.name, e.name, ValueOf(leader_, d->flag, d->env),
                               EscapeForDisplay(value, 80),
                               "must be one of " + Join(d->values, ", ")));
      }
    }
  }

  void NoOp() {
    if (!Difference(leader_, candidate_).empty()) return;
    out_.push_back(Refusal("schema.noop", change_.lever, "", "",
                           "already the leader's configuration: a launch would be wasted"));
  }

  void Levers() {
    std::vector<std::string> ids = {change_.lever};
    ids.insert(ids.end(), change_.enablers.begin(), change_.enablers.end());
    for (const std::string& id : ids) {
      const DeclaredLever* d = Declared(id);
      if (d == nullptr) {
        std::vector<std::string> known;
        for (const DeclaredLever& other : recipe_.declared) known.push_back(other.id);
        const std::string near = Nearest(id, known);
        out_.push_back(Refusal(
            "lever.unknown", EscapeForDisplay(id, 80), "", "",
            "no lever of this id is declared" + (near.empty() ? "" : ": did you mean " + near)));
        continue;
      }
      CheckAllowed(recipe_, id, rules_, out_);
      if (NeverALever(d->cls)) {
        out_.push_back(Refusal(std::string(Word(d->cls)) + "." + id, id, "", "",
                               "declared with a class that may not change"));
      }
      const bool used = std::any_of(change_.edits.begin(), change_.edits.end(), [&](const Edit& e) {
        return std::any_of(recipe_.declared.begin(), recipe_.declared.end(),
                           [&](const DeclaredLever& x) { return x.id == id && Names(x, e); });
      });
      if (!used) {
        out_.push_back(Refusal("lever.enabler_unused", id, "", "", "the change does not use it"));
      }
    }
  }

  // Whatever differs from the baseline is a declared lever, whoever changed it and when.
  void Frozen() {
    for (const Edit& d : Difference(recipe_.base, candidate_)) {
      const bool declared = std::any_of(recipe_.declared.begin(), recipe_.declared.end(),
                                        [&](const DeclaredLever& x) { return Names(x, d); });
      if (!declared) {
        out_.push_back(Refusal("frozen." + d.name, d.name, "", "", "differs from the baseline"));
      }
    }
  }

  // needs and excludes of every lever that is away from the baseline, on the whole candidate.
  void Conditions() {
    for (const DeclaredLever& d : recipe_.declared) {
      const std::string now = ValueOf(candidate_, d.flag, d.env);
      if (now == ValueOf(recipe_.base, d.flag, d.env)) continue;
      const std::string& name = d.env.empty() ? d.flag : d.env;
      for (const LeverCondition& c : d.excludes) {
        if (!Holds(candidate_, c)) continue;
        out_.push_back(Refusal("legality.excludes", name, "", now,
                               d.id + " excludes " + Show(c) + ", which the candidate has"));
      }
      for (const LeverCondition& c : d.needs) {
        if (Holds(candidate_, c)) continue;
        out_.push_back(Refusal("legality.needs", name, "", now,
                               d.id + " needs " + Show(c) + ", which the candidate lacks"));
      }
    }
  }

  // Nothing is known about this trainer's loader and loss: the owner says that neither depends on
  // the micro-batch or on the ranks, or such a lever stays where it is.
  void Composition() {
    for (const DeclaredLever& d : recipe_.declared) {
      const bool ranks = d.cls == LeverClass::kPlacement && d.env.empty();
      if (d.cls != LeverClass::kBatching && !ranks) continue;
      const std::string was = ValueOf(recipe_.base, d.flag, d.env);
      const std::string now = ValueOf(candidate_, d.flag, d.env);
      if (was == now) continue;
      const std::string& name = d.env.empty() ? d.flag : d.env;
      if (recipe_.workload.order != "layout_free") {
        out_.push_back(Refusal("batch.order", name, was, now,
                               "the data order may depend on it: state workload.order: "
                               "layout_free where it does not"));
      }
      if (recipe_.workload.loss_mask != "full" &&
          !candidate_.args.Has("--calculate-per-token-loss")) {
        out_.push_back(Refusal("batch.mask", name, was, now,
                               "the loss may be averaged over micro-batches: state "
                               "workload.loss_mask: full where every position counts"));
      }
    }
  }

  void Kernels() {
    for (const DeclaredLever& d : recipe_.declared) {
      if (d.cls != LeverClass::kKernel) continue;
      const std::string was = ValueOf(recipe_.base, d.flag, d.env);
      const std::string now = ValueOf(candidate_, d.flag, d.env);
      if (was == now) continue;
      const std::string& name = d.env.empty() ? d.flag : d.env;
      if (IsTested(facts_.passed_tests, d.id, name, now)) continue;
      if (IsAccepted(recipe_, d.id)) {
        out_.push_back(Note(Severity::kNote, "kernel.accepted", name, was, now,
                            "accepted by the recipe's owner, not tested"));
        continue;
      }
      const auto test =
          std::find_if(recipe_.gate.component_tests.begin(), recipe_.gate.component_tests.end(),
                       [&](const ComponentTest& t) {
                         return t.lever == d.id && (t.value.empty() || t.value == now);
                       });
      out_.push_back(Refusal("kernel.needs_component_test", name, was, now,
                             "a kernel swap needs evidence for this stack: " +
                                 (test != recipe_.gate.component_tests.end()
                                      ? "run its component test: " + Join(test->command, " ")
                                      : "add a gate.component_tests entry for " + d.id)));
    }
  }

  const Recipe& recipe_;
  const Effective& leader_;
  const Change& change_;
  const Rules& rules_;
  const ConfigFacts& facts_;
  const Effective candidate_;
  Findings out_;
};

}  // namespace

GateVerdict CheckCustom(const Recipe& recipe, const Effective& leader, const Change& change,
                        const Rules& rules, const ConfigFacts& facts) {
  return VerdictOf(Custom(recipe, leader, change, rules, facts).Run());
}

}  // namespace attune::gates
