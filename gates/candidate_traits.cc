#include "attune/gates/candidate_traits.h"

#include <algorithm>

#include "attune/gates/config_check.h"
#include "attune/model/training_job.h"

namespace attune {
namespace {

bool IsEnvOp(Edit::Op op) { return op == Edit::Op::kEnv || op == Edit::Op::kUnsetEnv; }

LeverClass ClassOf(const Recipe& recipe, const Rules& rules, const Edit& d) {
  if (recipe.framework == Framework::kCustom) {
    for (const DeclaredLever& l : recipe.declared) {
      if ((IsEnvOp(d.op) ? l.env : l.flag) == d.name) return l.cls;
    }
    return LeverClass::kUnknown;
  }
  if (IsEnvOp(d.op)) {
    const EnvRow* row = FindEnv(rules, d.name);
    return row != nullptr && row->allow ? row->cls : LeverClass::kUnknown;
  }
  const FlagRow* row = FindFlag(rules, d.name);
  if (row == nullptr) return LeverClass::kUnknown;
  // The vocabulary's enabler follows TP: it is part of that placement.
  return row->derived ? LeverClass::kPlacement : row->cls;
}

std::optional<TrainingJob> Resolve(const Recipe& recipe, const Effective& e) {
  if (recipe.framework != Framework::kMegatronLm) return std::nullopt;
  auto job = ResolveMegatron(e.args, e.env, recipe.workload);
  if (auto* resolved = std::get_if<TrainingJob>(&job)) return std::move(*resolved);
  return std::nullopt;
}

}  // namespace

std::vector<LeverClass> ClassesOfDifference(const Recipe& recipe, const Rules& rules,
                                            const Effective& from, const Effective& to) {
  std::vector<LeverClass> out;
  for (const Edit& d : Difference(from, to)) {
    const LeverClass c = ClassOf(recipe, rules, d);
    if (std::find(out.begin(), out.end(), c) == out.end()) out.push_back(c);
  }
  return out;
}

bool SameComposition(const Recipe& recipe, const Effective& from, const Effective& to) {
  if (recipe.framework == Framework::kCustom) {
    const std::vector<Edit> differences = Difference(from, to);
    return std::none_of(differences.begin(), differences.end(), [&](const Edit& d) {
      const LeverClass c = ClassOf(recipe, BuiltInRules(), d);
      return c == LeverClass::kBatching || c == LeverClass::kUnknown ||
             (c == LeverClass::kPlacement && !IsEnvOp(d.op));
    });
  }
  const std::optional<TrainingJob> a = Resolve(recipe, from), b = Resolve(recipe, to);
  return a && b && a->batch.mbs == b->batch.mbs && a->layout.dp == b->layout.dp;
}

bool HasExperts(const Recipe& recipe, const Effective& e) {
  const std::optional<TrainingJob> job = Resolve(recipe, e);
  return job ? job->shape.experts > 0 : e.args.Has("--num-experts");
}

bool DroplessOrVariable(const Recipe& recipe, const Effective& e) {
  if (recipe.workload.variable_rows) return true;
  const std::optional<TrainingJob> job = Resolve(recipe, e);
  if (job) return job->shape.experts > 0 && !job->switches.capacity_factor;
  return HasExperts(recipe, e) && !e.args.Has("--moe-expert-capacity-factor");
}

bool GraphsOrOverlaps(const Recipe& recipe, const Effective& e) {
  const std::optional<TrainingJob> job = Resolve(recipe, e);
  if (!job) return false;
  const Switches& w = job->switches;
  return !w.cuda_graph.empty() || w.ep_overlap || w.overlap_param_gather;
}

std::map<std::string, BlockDestination> BlockDestinationsOf(const Rules& rules) {
  std::map<std::string, BlockDestination> out;
  for (const FlagRow& row : rules.flags) {
    const bool turns_off = row.kind == ValueKind::kBool && row.otherwise == "on";
    if (BlockKey(row.flag) == row.dest && !turns_off) continue;
    BlockDestination d;
    d.key = std::string(row.dest);
    if (row.kind == ValueKind::kBool) d.when_present = turns_off ? "False" : "True";
    out.emplace(std::string(row.flag), std::move(d));
  }
  return out;
}

}  // namespace attune
