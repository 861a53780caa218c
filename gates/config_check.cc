#include "attune/gates/config_check.h"

#include <algorithm>
#include <memory>

#include "attune/base/text.h"
#include "attune/model/training_job.h"
#include "check_parts.h"
#include "values.h"

namespace attune {
namespace {

using namespace gates;

GateVerdict Done(Findings findings) { return VerdictOf(std::move(findings)); }

// Two spellings of one attribute in one argument list: which one holds depends on their order.
void CheckAliases(const Arguments& args, std::string_view flag, const Rules& rules, Findings& out) {
  const FlagRow* own = FindFlag(rules, flag);
  if (own == nullptr || !args.Has(flag)) return;
  for (const FlagRow& row : rules.flags) {
    if (row.dest != own->dest || row.flag == flag || !args.Has(row.flag)) continue;
    out.push_back(Refusal("schema.alias", std::string(flag), "", "",
                          "stands beside " + std::string(row.flag) + ", which sets the same"));
  }
}

// The vocabulary's enabler may be edited only where TP moves and the padding would move with it.
void CheckDerived(const Recipe& recipe, const Effective& candidate, const Change& change,
                  const TrainingJob& was, const Rules& rules, Findings& out) {
  for (const Edit& e : change.edits) {
    const FlagRow* row = FindFlag(rules, e.name);
    if (row == nullptr || !row->derived) continue;
    Effective without = candidate;
    const Argument* base = recipe.base.args.Find(e.name);
    if (base != nullptr) {
      without.args.Set(e.name, base->values);
    } else {
      without.args.Unset(e.name);
    }
    const auto job = ResolveMegatron(without.args, without.env, recipe.workload);
    const TrainingJob* resolved = std::get_if<TrainingJob>(&job);
    const bool needed = resolved != nullptr &&
                        resolved->batch.padded_vocab != was.batch.padded_vocab &&
                        resolved->layout.tp != was.layout.tp;
    if (needed) continue;
    out.push_back(Refusal(std::string(Word(row->cls)) + "." + e.name, e.name,
                          ShowFlag(recipe.base.args, e.name), Join(e.values, " "),
                          "only where it holds the padded vocabulary that a change of TP moves"));
  }
}

// The per-micro-batch balancing loss moves with the micro-batch: allowed, and named in the report.
void NoteAuxiliaryLoss(const JobFacts& now, const JobFacts& was, Findings& out) {
  if (now.Key(JobKey::k_aux_loss).text != "on" || now.Key(JobKey::k_experts).number == 0) return;
  if (now.Key(JobKey::k_mbs).number == was.Key(JobKey::k_mbs).number) return;
  out.push_back(Note(Severity::kNote, "batch.auxiliary_loss", "--micro-batch-size",
                     std::to_string(was.Key(JobKey::k_mbs).number),
                     std::to_string(now.Key(JobKey::k_mbs).number),
                     "the load-balancing loss is taken per micro-batch and moves slightly"));
}

GateVerdict CheckMegatron(const Recipe& recipe, const Effective& leader, const Change& change,
                          const Rules& rules, const ConfigFacts& facts) {
  Findings out;
  CheckBounds(change, rules, out);
  CheckRepeats(change, rules, out);
  if (Refuses(out)) return Done(std::move(out));
  const Effective candidate = ApplyEdits(leader, change.edits);

  ClassesResult classes = CheckClasses(recipe, change, rules);
  // A frozen argument is refused even where the edit alters nothing: say that first.
  if (!classes.refused.empty()) return Done(std::move(classes.refused));
  CheckValues(change, rules, out);
  if (Refuses(out)) return Done(std::move(out));
  if (classes.deferred.empty()) CheckNoOp(leader, candidate, change, rules, out);
  if (Refuses(out)) return Done(std::move(out));
  if (facts.known != nullptr && facts.known->contains(CanonicalHash(candidate))) {
    out.push_back(
        Refusal("duplicate", change.lever, "", "", "this configuration was tried before"));
    return Done(std::move(out));
  }
  CheckGrouping(recipe, change, rules, out);
  for (const Edit& e : change.edits) CheckAliases(candidate.args, e.name, rules, out);
  if (classes.deferred.empty()) CheckFrozen(recipe.base, candidate, rules, out);
  if (Refuses(out)) return Done(std::move(out));

  const auto base_job = ResolveMegatron(recipe.base.args, recipe.base.env, recipe.workload);
  if (const Finding* f = std::get_if<Finding>(&base_job)) {
    out.push_back(Refusal("baseline." + f->rule, f->key, f->was, f->now,
                          "the baseline itself does not resolve: " + f->why));
    return Done(std::move(out));
  }
  const auto job = ResolveMegatron(candidate.args, candidate.env, recipe.workload);
  if (const Finding* f = std::get_if<Finding>(&job)) {
    out.push_back(*f);
    for (Finding& d : classes.deferred) out.push_back(std::move(d));
    return Done(std::move(out));
  }
  const TrainingJob& was_job = std::get<TrainingJob>(base_job);
  JobFacts was, now;
  was.Fill(was_job, recipe.base, recipe, facts.start_samples);
  now.Fill(std::get<TrainingJob>(job), candidate, recipe, facts.start_samples);

  CheckDefects(recipe, now, was, rules, facts, out);
  CheckDrafts(candidate, facts.drafts, out);
  for (Finding& d : classes.deferred) out.push_back(std::move(d));
  if (Refuses(out)) return Done(std::move(out));

  CheckRows(rules.legality, "legality", now, was, out);
  CheckRows(rules.batch, "batch", now, was, out);
  CheckDerived(recipe, candidate, change, was_job, rules, out);
  if (!RoundTrips(candidate)) {
    out.push_back(Refusal("schema.render", "arguments", "", "",
                          "the rendered arguments do not parse back to the intended ones"));
  }
  if (Refuses(out)) return Done(std::move(out));

  CheckKernels(recipe, candidate, change.lever, rules, facts, out);
  CheckBudget(facts, out);
  NoteAuxiliaryLoss(now, was, out);
  return Done(std::move(out));
}

}  // namespace

GateVerdict CheckConfig(const Recipe& recipe, const Effective& leader, const Change& change,
                        const Rules& rules, const ConfigFacts& facts) {
  switch (recipe.framework) {
    case Framework::kMegatronLm:
      return CheckMegatron(recipe, leader, change, rules, facts);
    case Framework::kCustom:
      return CheckCustom(recipe, leader, change, rules, facts);
  }
  return {};
}

bool RoundTrips(const Effective& e) { return ParsesBack(e.args); }

GateVerdict CheckDifference(const Effective& from, const Effective& to,
                            std::span<const Edit> edits) {
  Findings out;
  const Effective meant = ApplyEdits(from, {edits.begin(), edits.end()});
  for (const Edit& d : Difference(meant, to)) {
    const bool env = d.op == Edit::Op::kEnv || d.op == Edit::Op::kUnsetEnv;
    out.push_back(Refusal("difference." + d.name, d.name,
                          env ? ShowEnv(meant.env, d.name) : ShowFlag(meant.args, d.name),
                          env ? ShowEnv(to.env, d.name) : ShowFlag(to.args, d.name),
                          "what would be executed is not what was meant"));
  }
  return Done(std::move(out));
}

GateVerdict CheckShipped(const Recipe& recipe, const Effective& shipped,
                         std::span<const Edit> edits, const Rules& rules,
                         const ConfigFacts& facts) {
  Findings out = CheckDifference(recipe.base, shipped, edits).findings;
  if (recipe.framework == Framework::kCustom) return Done(std::move(out));
  CheckFrozen(recipe.base, shipped, rules, out);
  const auto base_job = ResolveMegatron(recipe.base.args, recipe.base.env, recipe.workload);
  const auto job = ResolveMegatron(shipped.args, shipped.env, recipe.workload);
  for (const auto* resolved : {&base_job, &job}) {
    if (const Finding* f = std::get_if<Finding>(resolved)) out.push_back(*f);
  }
  if (Refuses(out)) return Done(std::move(out));
  JobFacts was, now;
  was.Fill(std::get<TrainingJob>(base_job), recipe.base, recipe, facts.start_samples);
  now.Fill(std::get<TrainingJob>(job), shipped, recipe, facts.start_samples);
  CheckDefects(recipe, now, was, rules, facts, out);
  for (Finding& f : out) {
    if (f.rule != "differs_from_defective_baseline" || IsAccepted(recipe, f.key)) continue;
    f.severity = Severity::kRefuse;
  }
  CheckRows(rules.legality, "legality", now, was, out);
  CheckRows(rules.batch, "batch", now, was, out);
  return Done(std::move(out));
}

std::vector<Finding> CheckBaseline(const Recipe& recipe, const Rules& rules,
                                   const ConfigFacts& facts) {
  Findings out;
  const bool megatron = recipe.framework == Framework::kMegatronLm;
  std::set<std::string_view> seen;
  for (const Argument& a : recipe.base.args.items()) {
    const std::string shown = EscapeForDisplay(a.flag.empty() ? Join(a.values, " ") : a.flag, 80);
    if (a.flag == "--" || a.flag.starts_with("@") ||
        std::any_of(a.values.begin(), a.values.end(),
                    [](const std::string& v) { return v == "--" || v.starts_with("@"); })) {
      out.push_back(Refusal("recipe.ambiguous", shown, "", "",
                            "\"--\" and \"@file\" let arguments through that nobody has read"));
    }
    if (a.flag.empty()) continue;
    if (!seen.insert(a.flag).second) {
      out.push_back(Refusal("recipe.repeated", shown, "", "",
                            "the flag stands twice: only the last one would hold"));
    }
    if (!megatron || FindFlag(rules, a.flag) != nullptr) continue;
    Finding unknown =
        CheckClasses(recipe, {.lever = {}, .edits = {{Edit::Op::kSet, a.flag, {}}}, .enablers = {}},
                     rules)
            .refused.front();
    if (unknown.rule == "unknown.abbreviation") {
      unknown.rule = "recipe.abbreviation";
      out.push_back(std::move(unknown));
    } else {
      out.push_back(Note(Severity::kNote, "recipe.unknown", shown, "", "",
                         "not in the table: carried as it stands, frozen"));
    }
  }
  if (!RoundTrips(recipe.base)) {
    out.push_back(Refusal("recipe.ambiguous", "arguments", "", "",
                          "the rendered arguments do not parse back to themselves"));
  }
  if (!megatron) return out;
  for (const Argument& a : recipe.base.args.items()) {
    CheckAliases(recipe.base.args, a.flag, rules, out);
  }
  const auto job = ResolveMegatron(recipe.base.args, recipe.base.env, recipe.workload);
  if (const Finding* f = std::get_if<Finding>(&job)) {
    out.push_back(*f);
    return out;
  }
  JobFacts now;
  now.Fill(std::get<TrainingJob>(job), recipe.base, recipe, facts.start_samples);
  for (const std::string_view id : MetDefects(recipe, now, rules, false)) {
    const auto row = std::find_if(rules.defects.begin(), rules.defects.end(),
                                  [&](const DefectRow& d) { return d.id == id; });
    out.push_back(Note(Severity::kCaution, "defect." + std::string(id), std::string(id), "", "",
                       "the baseline meets it: " + std::string(row->why)));
  }
  for (const LegalityRow& row : rules.legality) {
    if (EvaluateAll(row.when, now, &now) != Truth::kTrue) continue;
    out.push_back(
        Note(Severity::kCaution, "legality." + std::string(row.id), std::string(row.source), "", "",
             "the baseline breaks a start-up rule as we know it: " + std::string(row.why)));
  }
  return out;
}

LeverClass ClassOfLever(const Recipe& recipe, const Rules& rules, std::string_view lever) {
  if (recipe.framework == Framework::kCustom) {
    for (const DeclaredLever& d : recipe.declared) {
      if (d.id == lever) return d.cls;
    }
    return LeverClass::kUnknown;
  }
  for (const LeverRow& row : rules.levers) {
    if (row.lever == lever) return row.cls;
  }
  return LeverClass::kUnknown;
}

std::vector<std::string> LeverIds(const Recipe& recipe, const Rules& rules) {
  std::vector<std::string> ids;
  if (recipe.framework == Framework::kCustom) {
    for (const DeclaredLever& d : recipe.declared) {
      if (std::find(ids.begin(), ids.end(), d.id) == ids.end()) ids.push_back(d.id);
    }
    return ids;
  }
  for (const LeverRow& row : rules.levers) {
    if (ids.empty() || ids.back() != row.lever) ids.emplace_back(row.lever);
  }
  return ids;
}

}  // namespace attune
