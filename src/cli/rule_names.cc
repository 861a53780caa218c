#include "rule_names.h"

#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/gates/thresholds.h"

namespace attune::cli {
namespace {

bool MayChange(const FlagRow& row) { return row.lever; }

std::string ArgumentText(const FlagRow& row) {
  if (MayChange(row)) {
    return fmt::format("{}: may change, within the checks of its lever", Word(row.cls));
  }
  if (row.derived) {
    return fmt::format("{}: frozen, but for what a change of TP makes necessary", Word(row.cls));
  }
  return fmt::format("{}: frozen at the baseline's value", Word(row.cls));
}

RuleText OfArgument(const FlagRow& row) {
  const std::string topic =
      row.topic == "-" || row.topic == "frozen" ? "" : fmt::format(" ({})", row.topic);
  return {fmt::format("{}.{}", Word(row.cls), row.flag), MayChange(row) ? "allow" : "refuse",
          ArgumentText(row) + topic, ""};
}

RuleText OfVariable(const EnvRow& row) {
  const std::string values =
      row.choices.empty() ? fmt::format("{}..{}", row.lo, row.hi) : std::string(row.choices);
  if (row.allow) {
    return {fmt::format("env.{}", row.name), "allow", fmt::format("may change: {}", values), ""};
  }
  return {fmt::format("env.{}", row.name), "refuse",
          fmt::format("variables that set {} are the recipe's alone", row.reason), ""};
}

RuleText OfDefect(const DefectRow& row) {
  return {fmt::format("defect.{}", row.id), row.refuse ? "refuse" : "caution",
          row.lifted_by.empty() || row.lifted_by == "-"
              ? std::string(row.why)
              : fmt::format("{} (lifted by: {})", row.why, row.lifted_by),
          std::string(row.evidence)};
}

RuleText OfLegality(std::string_view group, const LegalityRow& row) {
  return {fmt::format("{}.{}", group, row.id), "refuse", std::string(row.why), ""};
}

// Checks that have no row in a table: what they compare with is Thresholds.
std::vector<RuleText> RunRules() {
  const Thresholds t;
  const auto percent = [](double share) { return fmt::format("{:g}%", 100 * share); };
  return {
      {"lever.several", "refuse", "one lever at a time, with at most three enablers", ""},
      {"lever.tied_alone", "refuse", "an argument that follows a lever moves with it only", ""},
      {"lever.unknown", "refuse", "no lever of this id is known for this recipe", ""},
      {"lever.foreign", "refuse", "the change edits what belongs to another lever", ""},
      {"lever.denied", "refuse", "the recipe denies this lever (levers.deny)", ""},
      {"lever.not_allowed", "refuse", "the recipe allows others only (levers.allow)", ""},
      {"lever.enabler_unused", "refuse", "an enabler that the change does not use", ""},
      {"schema.noop", "refuse", "already the leader's configuration: a launch would be wasted", ""},
      {"schema.render", "refuse", "rendered arguments parse back to the intended ones", ""},
      {"kernel.needs_component_test", "refuse",
       "a kernel swap needs evidence for this stack: gate.component_tests or gate.accept", ""},
      {"duplicate", "refuse", "this configuration was tried before", ""},
      {"budget.hold", "refuse", "the launch does not fit what is left of the budget", ""},
      {"paths.write", "refuse", "a run writes in its own folder and in declared caches only", ""},
      {"readback.value", "refuse",
       "what the job prints of its arguments must be what was meant, key by key", ""},
      {"step0.loss", "refuse",
       fmt::format("the first loss may differ from the baseline's by at most {}",
                   percent(t.step0_shift)),
       ""},
      {"step0.class", "alarm",
       fmt::format("beyond what a change of its class explains: placement and overlap {}, memory "
                   "and kernel {}, batching or experts {}",
                   percent(t.alarm_placement), percent(t.alarm_memory), percent(t.alarm_batching)),
       ""},
      {"loss.term_shift", "refuse",
       fmt::format("each loss term stays within {} of the baseline's, {} when micro-batches are "
                   "composed alike",
                   percent(t.term_shift), percent(t.term_shift_same)),
       ""},
      {"loss.term_missing", "refuse", "a loss term that the baseline logs is logged", ""},
      {"loss.trajectory", "refuse",
       fmt::format("the loss curve leaves the baseline's by more than {} or {:g} times its replica "
                   "spread",
                   percent(t.trajectory_floor), t.trajectory_factor),
       ""},
      {"measurement.clock", "refuse",
       fmt::format("printed step times and the arrival of their lines agree within {}",
                   percent(t.clock_tolerance)),
       ""},
      {"ship.gain", "refuse", "fresh runs of winner and baseline gain more than the band", ""},
      {"ship.headroom", "refuse",
       fmt::format("reserved memory stays below {} of the device, {} for dropless experts and "
                   "variable rows",
                   percent(t.headroom), percent(t.headroom_tight)),
       ""},
      {"ship.rehearsal", "refuse",
       "the winner has run in the user's own form, saved, and gone on from that save", ""},
  };
}

// Of a recipe that declares its levers itself (framework: custom).
std::vector<RuleText> CustomRules() {
  return {
      {"unknown", "refuse", "an argument that the recipe declares no lever over is frozen", ""},
      {"env.undeclared", "refuse", "a variable that the recipe declares no lever over is frozen",
       ""},
      {"value", "refuse", "a lever takes the values that the recipe declares for it", ""},
      {"frozen", "refuse", "whatever differs from the baseline is a declared lever", ""},
      {"legality.needs", "refuse", "what the lever needs, as declared, holds in the candidate", ""},
      {"legality.excludes", "refuse", "what the lever excludes, as declared, does not hold", ""},
      {"batch.order", "refuse",
       "a lever of class batching or placement moves only with workload.order: layout_free", ""},
      {"batch.mask", "refuse",
       "a lever of class batching or placement moves only with workload.loss_mask: full", ""},
  };
}

}  // namespace

std::vector<RuleText> ListRules(const Rules& rules, Framework framework) {
  std::vector<RuleText> out;
  if (framework == Framework::kCustom) {
    out = CustomRules();
    for (RuleText& rule : RunRules()) {
      out.push_back(std::move(rule));
    }
    return out;
  }
  for (const DefectRow& row : rules.defects) {
    out.push_back(OfDefect(row));
  }
  for (const LegalityRow& row : rules.legality) {
    out.push_back(OfLegality("legality", row));
  }
  for (const LegalityRow& row : rules.batch) {
    out.push_back(OfLegality("batch", row));
  }
  for (RuleText& rule : RunRules()) {
    out.push_back(std::move(rule));
  }
  return out;
}

std::vector<RuleText> ListArgumentRules(const Rules& rules, Framework framework) {
  std::vector<RuleText> out;
  if (framework == Framework::kCustom) {
    return out;  // its recipe says which there are
  }
  for (const FlagRow& row : rules.flags) {
    out.push_back(OfArgument(row));
  }
  for (const EnvRow& row : rules.env) {
    out.push_back(OfVariable(row));
  }
  return out;
}

std::optional<RuleText> ExplainRule(const Rules& rules, const std::string& id) {
  const Framework known = Framework::kMegatronLm;
  for (const std::vector<RuleText>& list :
       {ListRules(rules, known), ListArgumentRules(rules, known)}) {
    for (const RuleText& rule : list) {
      const std::string_view name = std::string_view(rule.id).substr(rule.id.find('.') + 1);
      if (rule.id == id || name == id || name == "--" + id) {
        return rule;
      }
    }
  }
  for (RuleText& rule : CustomRules()) {
    if (rule.id == id || id.starts_with(rule.id + ".")) {  // "value.--micro-batch-size"
      return rule;
    }
  }
  return std::nullopt;
}

}  // namespace attune::cli
