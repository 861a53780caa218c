// gate: the configuration gate by hand. `check` asks it about a whole recipe against another, lever
// by lever; a live proposal goes through the same CheckConfig.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "commands.h"
#include "gate_loss.h"
#include "json_out.h"
#include "rule_names.h"

namespace attune::cli {
namespace {

struct Verdict {
  std::string verdict;  // refused | caution | note | allowed
  std::string id, was, now, where, why;
};

// Edits by the lever that they belong to: as its primary where there is one, else as what is tied
// to a lever that changes too, else on their own under an empty id.
std::map<std::string, std::vector<Edit>> ByLever(const Recipe& recipe, const Rules& rules,
                                                 const std::vector<Edit>& edits) {
  std::map<std::string, std::vector<Edit>> groups;
  std::vector<Edit> tied;
  for (const Edit& edit : edits) {
    std::string lever;
    bool follows = false;
    if (recipe.framework == Framework::kCustom) {
      for (const DeclaredLever& d : recipe.declared) {
        if (edit.name == d.flag || edit.name == d.env) {
          lever = d.id;
        }
      }
    } else {
      for (const LeverRow& row : rules.levers) {
        if (row.name != edit.name) {
          continue;
        }
        if (row.role == LeverRole::kTied) {
          follows = true;
        } else if (lever.empty()) {
          lever = row.lever;
        }
      }
    }
    if (lever.empty() && follows) {
      tied.push_back(edit);
    } else {
      groups[lever].push_back(edit);
    }
  }
  for (const Edit& edit : tied) {
    std::string home;
    for (const LeverRow& row : rules.levers) {
      if (row.name == edit.name && (home.empty() || groups.contains(std::string(row.lever)))) {
        home = row.lever;
        if (groups.contains(home)) {
          break;
        }
      }
    }
    groups[home].push_back(edit);
  }
  return groups;
}

std::string ShowEdit(const Effective& e, const Edit& edit) {
  if (edit.op == Edit::Op::kEnv || edit.op == Edit::Op::kUnsetEnv) {
    const auto it = e.env.find(edit.name);
    return it == e.env.end() ? "unset" : it->second;
  }
  const Argument* argument = e.args.Find(edit.name);
  if (argument == nullptr) {
    return "off";
  }
  return argument->values.empty() ? "on" : Join(argument->values, " ");
}

class GateCheck {
 public:
  GateCheck(const LoadedRecipe& base, const LoadedRecipe& candidate, const Rules& rules)
      : base_(base), candidate_(candidate), rules_(rules) {}

  std::vector<Verdict> Run() {
    OutsideArguments();
    const std::vector<Edit> edits = Difference(base_.recipe.base, candidate_.recipe.base);
    const auto groups = ByLever(base_.recipe, rules_, edits);
    for (const auto& [lever, group] : groups) {
      CheckGroup(lever, group, groups);
    }
    std::stable_sort(out_.begin(), out_.end(),
                     [](const Verdict& a, const Verdict& b) { return Rank(a) < Rank(b); });
    return std::move(out_);
  }

 private:
  static int Rank(const Verdict& v) {
    return v.verdict == "refused" ? 0 : v.verdict == "allowed" ? 2 : 1;
  }

  std::string WhereOf(const std::string& key) const {
    for (const std::string& full : {"args." + key, "launcher.env." + key, key}) {
      for (const Origin& origin : candidate_.origins) {
        if (origin.key == full) {
          return origin.at;
        }
      }
    }
    return candidate_.path;
  }

  // A change outside arguments and environment is none that a gate could look into.
  void OutsideArguments() {
    for (const RecipeChange& change : CompareRecipes(base_.recipe, candidate_.recipe)) {
      if (change.free || change.key.starts_with("base.") || change.key == "folder") {
        continue;
      }
      out_.push_back({"refused", "recipe." + change.key, change.was, change.now,
                      WhereOf(change.key), "only arguments and variables may differ"});
    }
  }

  // Each lever is judged as the last step into the candidate, so that what is legal only together
  // is judged together.
  void CheckGroup(const std::string& lever, const std::vector<Edit>& group,
                  const std::map<std::string, std::vector<Edit>>& groups) {
    // What is no lever at all is refused by itself and must not taint the rest.
    std::vector<Edit> others;
    for (const auto& [other, edits] : groups) {
      if (other != lever && !other.empty() && !lever.empty()) {
        others.insert(others.end(), edits.begin(), edits.end());
      }
    }
    const Effective before = ApplyEdits(base_.recipe.base, others);
    const GateVerdict verdict =
        CheckConfig(base_.recipe, before, {lever, group, {}}, rules_, ConfigFacts{});
    for (const Finding& finding : verdict.findings) {
      const bool again = finding.rule.starts_with("frozen.") && refused_.contains(finding.key);
      if (finding.severity == Severity::kRefuse) {
        refused_.insert(finding.key);
      }
      if (!again && seen_.insert(finding.rule + "\n" + finding.key).second) {
        out_.push_back({std::string(finding.severity == Severity::kRefuse ? "refused"
                                                                          : Word(finding.severity)),
                        finding.rule, finding.was, finding.now, WhereOf(finding.key), finding.why});
      }
    }
    if (!verdict.admitted) {
      return;
    }
    std::vector<std::string> was, now;
    for (const Edit& edit : group) {
      was.push_back(ShowEdit(base_.recipe.base, edit));
      now.push_back(ShowEdit(candidate_.recipe.base, edit));
    }
    out_.push_back({"allowed", lever, Join(was, ", "), Join(now, ", "), WhereOf(group[0].name),
                    std::string(Word(ClassOfLever(base_.recipe, rules_, lever)))});
  }

  const LoadedRecipe& base_;
  const LoadedRecipe& candidate_;
  const Rules& rules_;
  std::set<std::string> seen_;     // rule and key: a legality rule may be met by several levers
  std::set<std::string> refused_;  // keys
  std::vector<Verdict> out_;
};

class Gate final : public Command {
 public:
  void Declare(Options& options) override {
    Options check = options.Sub("check", "RECIPE --against BASE [--set KEY=VALUE]...",
                                "may this recipe be tried against that one?", chosen_);
    check.Positional("RECIPE", path_, "the changed recipe");
    check.Text("--against", base_, "BASE", "the recipe that it is compared with");
    check.Texts("--set", set_, "KEY=VALUE", "a value of RECIPE; KEY= removes it");
    Options loss = options.Sub("loss", "BASE_LOG CANDIDATE_LOG",
                               "do two runs learn alike, by their logs?", chosen_);
    loss.Positional("BASE_LOG", base_, "log of the run as it was");
    loss.Positional("CANDIDATE_LOG", path_, "log of the changed run");
    Options list = options.Sub("list", "[--framework F] [--arguments]", "the rules", chosen_);
    list.Word("--framework", framework_, {"megatron-lm", "custom"},
              "whose rules; default: megatron-lm");
    list.Flag("--arguments", arguments_, "one line an argument and variable instead");
    Options explain = options.Sub("explain", "RULE", "one rule", chosen_);
    explain.Positional("RULE", rule_, "its id, or a flag without dashes, or a variable");
  }

  Result<int> Run(Wire& wire) override {
    if (chosen_ == "check") {
      return CheckRecipe(wire);
    }
    if (chosen_ == "loss") {
      return Loss(wire);
    }
    return chosen_ == "list" ? List(wire) : Explain(wire);
  }

 private:
  Result<int> CheckRecipe(Wire& wire) const {
    if (base_.empty()) {
      return Fail(ErrorCode::kInvalidInput, "gate check needs the recipe to compare with",
                  "attune gate check RECIPE --against BASE");
    }
    ATTUNE_TRY(const LoadedRecipe base, wire.ReadRecipe(base_));
    ATTUNE_TRY(const LoadedRecipe candidate, wire.ReadRecipe(path_, set_));
    const std::vector<Verdict> verdicts = GateCheck(base, candidate, BuiltInRules()).Run();
    int refused = 0;
    int allowed = 0;
    for (const Verdict& v : verdicts) {
      refused += v.verdict == "refused" ? 1 : 0;
      allowed += v.verdict == "allowed" ? 1 : 0;
    }
    Terminal& terminal = wire.terminal();
    if (wire.flags().json) {
      terminal.Out(Json(verdicts, refused) + "\n");
    } else {
      for (const Verdict& v : verdicts) {
        terminal.Out(Line(terminal, v));
      }
      terminal.Out(verdicts.empty() ? std::string("no difference\n")
                                    : fmt::format("{} refused, {} allowed\n", refused, allowed));
    }
    return refused > 0 ? kExitRefused : kExitDone;
  }

  Result<int> Loss(Wire& wire) const {
    ATTUNE_TRY(const std::vector<Step> baseline, ReadStepsOf(base_));
    ATTUNE_TRY(const std::vector<Step> candidate, ReadStepsOf(path_));
    const LossComparison compared = CompareLosses(baseline, candidate);
    std::vector<Verdict> verdicts;
    for (const Finding& f : compared.verdict.findings) {
      verdicts.push_back(
          {std::string(f.severity == Severity::kRefuse ? "refused" : Word(f.severity)), f.rule,
           f.was, f.now, path_, f.why});
    }
    const int refused = compared.verdict.admitted ? 0 : 1;
    Terminal& terminal = wire.terminal();
    if (wire.flags().json) {
      terminal.Out(Json(verdicts, refused) + "\n");
    } else {
      for (const Verdict& v : verdicts) {
        terminal.Out(Line(terminal, v));
      }
      terminal.Out(fmt::format("{}: first loss {:+.3f}%, {} steps compared\n",
                               compared.verdict.admitted ? "alike" : "not alike",
                               100 * compared.shift, compared.compared));
    }
    return refused > 0 ? kExitRefused : kExitDone;
  }

  static std::string Line(const Terminal& terminal, const Verdict& v) {
    const Ink ink = v.verdict == "refused"   ? Ink::kBad
                    : v.verdict == "allowed" ? Ink::kGood
                                             : Ink::kWarn;
    std::string line = fmt::format("{}  {}", terminal.Paint(ink, fmt::format("{:<8}", v.verdict)),
                                   v.id.empty() ? "-" : v.id);
    if (!v.was.empty() || !v.now.empty()) {
      line +=
          fmt::format("   {} -> {}", EscapeForDisplay(v.was, 120), EscapeForDisplay(v.now, 120));
    }
    if (v.verdict == "allowed") {
      return fmt::format("{}   {}   {}\n", line, v.why, v.where);
    }
    return fmt::format("{}   {}\n{:10}{}\n", line, v.where, "", EscapeForDisplay(v.why, 600));
  }

  static std::string Json(const std::vector<Verdict>& verdicts, int refused) {
    std::vector<std::string> rules;
    for (const Verdict& v : verdicts) {
      JsonOut rule("");
      rule.Text("id", v.id);
      rule.Text("verdict", v.verdict);
      rule.Text("was", v.was);
      rule.Text("now", v.now);
      rule.Text("where", v.where);
      rule.Text("why", v.why);
      rules.push_back(rule.Take());
    }
    JsonOut json("attune.gate/1");
    json.Text("verdict", refused > 0 ? "refused" : "admitted");
    json.Objects("rules", rules);
    return json.Take();
  }

  static std::string RuleJson(const RuleText& rule) {
    JsonOut json("");
    json.Text("id", rule.id);
    json.Text("level", rule.level);
    json.Text("text", rule.text);
    json.Text("evidence", rule.evidence);
    return json.Take();
  }

  Result<int> List(Wire& wire) const {
    const Framework framework =
        framework_ == "custom" ? Framework::kCustom : Framework::kMegatronLm;
    const std::vector<RuleText> rules = arguments_ ? ListArgumentRules(BuiltInRules(), framework)
                                                   : ListRules(BuiltInRules(), framework);
    std::string text;
    std::vector<std::string> objects;
    for (const RuleText& rule : rules) {
      text += fmt::format("{:<8} {:<44} {}\n", rule.level, rule.id, rule.text);
      objects.push_back(RuleJson(rule));
    }
    if (wire.flags().json) {
      JsonOut json("attune.gate_list/1");
      json.Objects("rules", objects);
      text = json.Take() + "\n";
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

  Result<int> Explain(Wire& wire) const {
    const std::optional<RuleText> rule = ExplainRule(BuiltInRules(), rule_);
    if (!rule) {
      std::vector<std::string> known;
      for (const std::vector<RuleText>& list :
           {ListRules(BuiltInRules(), Framework::kMegatronLm),
            ListRules(BuiltInRules(), Framework::kCustom),
            ListArgumentRules(BuiltInRules(), Framework::kMegatronLm)}) {
        for (const RuleText& other : list) {
          known.push_back(other.id);
          known.push_back(other.id.substr(other.id.find('.') + 1));
        }
      }
      const std::string near = Nearest(rule_, known);
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("no rule '{}'", EscapeForDisplay(rule_, 80)),
                  near.empty() ? "attune gate list" : fmt::format("did you mean '{}'?", near));
    }
    if (wire.flags().json) {
      JsonOut json("attune.gate_rule/1");
      json.Raw("rule", RuleJson(*rule));
      wire.terminal().Out(json.Take() + "\n");
      return kExitDone;
    }
    std::string text = fmt::format("{}  ({})\n{}\n", rule->id, rule->level, rule->text);
    if (!rule->evidence.empty()) {
      text += fmt::format("evidence: {}\n", rule->evidence);
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

  std::string chosen_, path_, base_, rule_, framework_;
  std::vector<std::string> set_;
  bool arguments_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeGate() { return std::make_unique<Gate>(); }

}  // namespace attune::cli
