// Cases of the configuration gate, one a line; the format is docs/formats/cases.md.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/gates/instrument.h"
#include "gates/base_recipes.h"
#include "gates/suite.h"

namespace attune {
namespace {

struct Setting {  // everything a line is judged in
  Recipe recipe;
  Effective leader;
  ConfigFacts facts;
  std::vector<PassedTest> tests;
  std::vector<std::string> escalated;
  std::vector<DraftDefect> drafts;
  std::set<std::string> known;
  SiteRefusals site;
  MeasuredWindow window;
};

struct Case {
  std::string at;      // file:line
  std::string text;    // the line, for ordering by hint
  std::string expect;  // "admit", "refuse RULE", ...
  Change change;
  std::shared_ptr<const Setting> setting;
};

std::vector<std::string> Pieces(const std::string& text, char by) {
  std::vector<std::string> out;
  for (const std::string_view p : Split(text, by)) out.emplace_back(Trim(p));
  return out;
}

std::optional<std::string> After(const std::string& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return std::string(Trim(std::string_view(text).substr(prefix.size())));
}

// "--flag v v", "--flag", "unset --flag", "env N=v", "unset_env N".
Edit ReadEdit(const std::string& text) {
  if (const auto flag = After(text, "unset ")) return {Edit::Op::kUnset, *flag, {}};
  if (const auto name = After(text, "unset_env ")) return {Edit::Op::kUnsetEnv, *name, {}};
  if (const auto pair = After(text, "env ")) {
    const std::size_t equals = pair->find('=');
    return {Edit::Op::kEnv, pair->substr(0, equals), {pair->substr(equals + 1)}};
  }
  std::vector<std::string> words = Tokens(text);
  Edit e{Edit::Op::kSet, words.empty() ? std::string() : words.front(), {}};
  if (!words.empty()) e.values.assign(words.begin() + 1, words.end());
  return e;
}

std::vector<Edit> ReadEdits(const std::string& text) {
  std::vector<Edit> out;
  if (text == "none") return out;
  for (const std::string& piece : Pieces(text, ';')) {
    if (piece.empty()) continue;
    out.push_back(ReadEdit(piece));
  }
  return out;
}

// One piece of a `given` line.
bool Give(const std::string& piece, Setting& s) {
  const std::map<std::string, std::function<void(const std::string&)>> words = {
      {"workload.order=", [&](const std::string& v) { s.recipe.workload.order = v; }},
      {"workload.loss_mask=", [&](const std::string& v) { s.recipe.workload.loss_mask = v; }},
      {"workload.model=", [&](const std::string& v) { s.recipe.workload.model = v; }},
      {"workload.gpu=", [&](const std::string& v) { s.recipe.workload.gpu = v; }},
      {"workload.gpus=", [&](const std::string& v) { s.recipe.workload.gpus = std::stoi(v); }},
      {"workload.rows=",
       [&](const std::string& v) { s.recipe.workload.variable_rows = v == "variable"; }},
      {"workload.reads=", [&](const std::string& v) { s.recipe.workload.reads.push_back(v); }},
      {"workload.caches=", [&](const std::string& v) { s.recipe.workload.caches.push_back(v); }},
      {"allow=", [&](const std::string& v) { s.recipe.allow.push_back(v); }},
      {"deny=", [&](const std::string& v) { s.recipe.deny.push_back(v); }},
      {"accept=",
       [&](const std::string& v) {
         s.recipe.gate.accept.push_back({v, "case"});
       }},
      {"test=",
       [&](const std::string& v) {
         const std::vector<std::string> p = Pieces(v, ':');
         s.tests.push_back({p[0], p.size() > 1 ? p[1] : std::string()});
       }},
      {"escalated=", [&](const std::string& v) { s.escalated.push_back(v); }},
      {"draft=",
       [&](const std::string& v) {
         s.drafts.push_back({"X1", {ReadEdit(v)}, "case"});
       }},
      {"start_samples=", [&](const std::string& v) { s.facts.start_samples = std::stoll(v); }},
      {"hold=", [&](const std::string& v) { s.facts.hold = GpuMillis{std::stoll(v)}; }},
      {"available=", [&](const std::string& v) { s.facts.available = GpuMillis{std::stoll(v)}; }},
      {"site.flag=", [&](const std::string& v) { s.site.flags.push_back(v); }},
      {"site.env=", [&](const std::string& v) { s.site.env.push_back(v); }},
      {"site.lever=", [&](const std::string& v) { s.site.levers.push_back(v); }},
      {"window.start=", [&](const std::string& v) { s.window.start_iteration = std::stoll(v); }},
      {"window.profile_after=",
       [&](const std::string& v) { s.window.profile_after = static_cast<int>(*ParseInt(v)); }},
      {"window.profile=", [&](const std::string& v) { s.window.profile = v == "on"; }},
      {"leader ", [&](const std::string& v) { s.leader = ApplyEdits(s.leader, {ReadEdit(v)}); }},
      {"known ",
       [&](const std::string& v) {
         s.known.insert(CanonicalHash(ApplyEdits(s.recipe.base, {ReadEdit(v)})));
       }},
  };
  for (const auto& [word, give] : words) {
    if (const auto value = After(piece, word)) {
      give(*value);
      return true;
    }
  }
  for (const auto& [prefix, table] : {std::pair{std::string("stack."), &s.recipe.stack},
                                      std::pair{std::string("shape."), &s.recipe.workload.shape}}) {
    const auto rest = After(piece, prefix);
    if (!rest) continue;
    const std::size_t equals = rest->find('=');
    if (equals == std::string::npos) return false;
    if (equals + 1 == rest->size()) {
      table->erase(rest->substr(0, equals));
    } else {
      (*table)[rest->substr(0, equals)] = rest->substr(equals + 1);
    }
    return true;
  }
  const bool edit =
      piece.starts_with("--") || piece.starts_with("unset") || piece.starts_with("env ");
  if (!edit) return false;
  const bool same = s.leader == s.recipe.base;
  s.recipe.base = ApplyEdits(s.recipe.base, {ReadEdit(piece)});
  if (same) s.leader = s.recipe.base;
  return true;
}

std::string Rule(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings) out += " " + std::string(Word(f.severity)) + ":" + f.rule;
  return out.empty() ? " nothing" : out;
}

// What the gate said, in the words of the expectation; `wanted` decides the question.
class Answer {
 public:
  Answer(const Case& c, const Rules& rules) : c_(c), s_(*c.setting), rules_(rules) {
    facts_ = s_.facts;
    facts_.passed_tests = s_.tests;
    facts_.escalated = s_.escalated;
    facts_.drafts = s_.drafts;
    facts_.known = &s_.known;
  }

  // Empty when it is as expected, else what came instead.
  std::string Mismatch() const {
    const std::vector<std::string> words = Tokens(c_.expect);
    if (words.empty()) return "no expectation";
    const std::string rest = c_.expect.size() > words[0].size()
                                 ? std::string(Trim(c_.expect.substr(words[0].size())))
                                 : "";
    if (words[0] == "admit" || words[0] == "refuse") {
      return Verdict(CheckConfig(s_.recipe, s_.leader, c_.change, rules_, facts_), words[0], rest);
    }
    if (words[0] == "shipped" && words.size() >= 2) {
      const Effective shipped = ApplyEdits(s_.recipe.base, c_.change.edits);
      return Verdict(CheckShipped(s_.recipe, shipped, c_.change.edits, rules_, facts_), words[1],
                     words.size() > 2 ? words[2] : "");
    }
    if (words[0] == "baseline") {
      Recipe recipe = s_.recipe;
      recipe.base = ApplyEdits(recipe.base, c_.change.edits);
      const std::vector<Finding> found = CheckBaseline(recipe, rules_, facts_);
      return rest == "clean" ? (found.empty() ? "" : Rule(found)) : Has(found, rest);
    }
    if (words[0] == "measured" && words.size() >= 2) return Measured(words[1], rest);
    if (words[0] == "path" && words.size() == 3) return Path(words[1], words[2]);
    if (words[0] == "paths") return Paths(rest);
    return "unknown question";
  }

 private:
  static std::string Has(const std::vector<Finding>& findings, const std::string& rule) {
    for (const Finding& f : findings) {
      if (f.rule == rule) return {};
    }
    return Rule(findings);
  }
  static std::string Verdict(const GateVerdict& v, const std::string& wanted,
                             const std::string& rule) {
    if (wanted == "admit") {
      if (!v.admitted) return Rule(v.findings);
      // "admit" alone: nothing to be said about it either.
      if (rule.empty()) return v.findings.empty() ? "" : Rule(v.findings);
      return Has(v.findings, rule);
    }
    const Finding* refusal = v.FirstRefusal();
    return refusal != nullptr && refusal->rule == rule ? "" : Rule(v.findings);
  }

  std::string Measured(const std::string& name, const std::string& rest) const {
    const Effective user = ApplyEdits(s_.recipe.base, c_.change.edits);
    const Instrumented m = Instrument(s_.recipe, user, s_.window, rules_);
    if (Strip(m) != user) return "stripping does not give the user's recipe back";
    const std::string wanted(Trim(std::string_view(rest).substr(name.size())));
    std::string shown = "off";
    if (name.starts_with("--")) {
      if (const Argument* a = m.effective.args.Find(name)) {
        shown = a->values.empty() ? "on" : Join(a->values, " ");
      }
    } else if (m.effective.env.contains(name)) {
      shown = m.effective.env.at(name);
    }
    return shown == wanted ? "" : " " + shown;
  }
  std::string Path(const std::string& use, const std::string& name) const {
    const Effective user = ApplyEdits(s_.recipe.base, c_.change.edits);
    std::string found = " nothing";
    for (const PathFound& p : FindPaths(s_.recipe, user, rules_)) {
      if (p.name != name) continue;
      switch (p.use) {
        case PathUse::kRead:
          found = "read";
          break;
        case PathUse::kCache:
          found = "cache";
          break;
        case PathUse::kWrite:
          found = "write";
          break;
        case PathUse::kUnknown:
          found = "unknown";
          break;
      }
    }
    return found == use ? "" : " " + found;
  }
  std::string Paths(const std::string& rule) const {
    const Effective user = ApplyEdits(s_.recipe.base, c_.change.edits);
    const Instrumented m = Instrument(s_.recipe, user, s_.window, rules_);
    const std::vector<Finding> found =
        CheckPaths(s_.recipe, m.effective, s_.window.run_dir, rules_);
    if (rule == "clean") return found.empty() ? "" : Rule(found);
    return Has(found, rule);
  }

  const Case& c_;
  const Setting& s_;
  const Rules& rules_;
  ConfigFacts facts_;
};

// ----- mutants

template <class Row>
std::string Key(const Row& row);
template <>
std::string Key(const FlagRow& r) {
  return std::string(r.flag);
}
template <>
std::string Key(const LeverRow& r) {
  return std::string(r.name);
}
template <>
std::string Key(const EnvRow& r) {
  std::string name(r.name);
  std::erase(name, '*');
  return name;
}
template <>
std::string Key(const LegalityRow& r) {
  return std::string(r.id);
}
template <>
std::string Key(const DefectRow& r) {
  return std::string(r.id);
}
template <>
std::string Key(const StackRow& r) {
  return std::string(r.commit);
}
template <>
std::string Key(const EvidenceRow& r) {
  return std::string(r.flag);
}
template <>
std::string Key(const InstrumentRow& r) {
  return std::string(r.name);
}
template <>
std::string Key(const PathRow& r) {
  return std::string(r.name);
}

struct Mutant {
  std::string name;
  std::string hint;  // cases that hold it are tried first
  std::function<std::vector<std::string>(
      const std::function<std::vector<std::string>(const Rules&)>&)>
      with;  // calls back with the mutated rules
};

template <class Row>
void DropEach(std::span<const Row> Rules::*table, const std::string& name,
              std::vector<Mutant>& out) {
  const std::span<const Row> rows = BuiltInRules().*table;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string label = "config " + name + " " + Key(rows[i]);
    if constexpr (std::is_same_v<Row, LeverRow>) label += " of " + std::string(rows[i].lever);
    out.push_back({label + " dropped", Key(rows[i]), [table, i](const auto& run) {
                     const std::span<const Row> all = BuiltInRules().*table;
                     std::vector<Row> less(all.begin(), all.end());
                     less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
                     Rules mutated = BuiltInRules();
                     mutated.*table = less;
                     return run(mutated);
                   }});
  }
}

void FlipLimit(std::size_t ConfigLimits::*limit, const std::string& name, int by,
               std::vector<Mutant>& out) {
  out.push_back(
      {"config limits." + name + (by > 0 ? " + 1" : " - 1"), "limit", [=](const auto& run) {
         Rules mutated = BuiltInRules();
         mutated.limits.*limit += static_cast<std::size_t>(by);
         return run(mutated);
       }});
}

class ConfigSuite final : public CaseSuite {
 public:
  explicit ConfigSuite(std::vector<Case> cases) : cases_(std::move(cases)) {
    DropEach(&Rules::flags, "flags", mutants_);
    DropEach(&Rules::levers, "levers", mutants_);
    DropEach(&Rules::env, "env", mutants_);
    DropEach(&Rules::legality, "legality", mutants_);
    DropEach(&Rules::batch, "batch", mutants_);
    DropEach(&Rules::defects, "defects", mutants_);
    DropEach(&Rules::stacks, "stacks", mutants_);
    DropEach(&Rules::kernel_evidence, "kernel_evidence", mutants_);
    DropEach(&Rules::instrument, "instrument", mutants_);
    DropEach(&Rules::paths, "paths", mutants_);
    for (const int by : {1, -1}) {
      FlipLimit(&ConfigLimits::value_bytes, "value_bytes", by, mutants_);
      FlipLimit(&ConfigLimits::name_bytes, "name_bytes", by, mutants_);
      FlipLimit(&ConfigLimits::edits, "edits", by, mutants_);
      FlipLimit(&ConfigLimits::list_values, "list_values", by, mutants_);
      FlipLimit(&ConfigLimits::enablers, "enablers", by, mutants_);
    }
  }

  std::string Name() const override { return "config"; }
  std::vector<std::string> Mutants() const override {
    std::vector<std::string> names;
    for (const Mutant& m : mutants_) names.push_back(m.name);
    return names;
  }
  std::vector<std::string> Failures(std::optional<std::size_t> m, bool first_only) override {
    if (!m) return Run(BuiltInRules(), "", first_only);
    const Mutant& mutant = mutants_[*m];
    return mutant.with([&](const Rules& rules) { return Run(rules, mutant.hint, first_only); });
  }

 private:
  std::vector<std::string> Run(const Rules& base, const std::string& hint, bool first_only) const {
    std::vector<std::string> failed;
    // First the cases that name what was mutated, then all others.
    for (const bool hinted : {true, false}) {
      for (const Case& c : cases_) {
        if ((c.text.find(hint) != std::string::npos) != hinted) continue;
        Rules with_site;
        const Rules* rules = &base;
        const SiteRefusals& site = c.setting->site;
        if (!site.flags.empty() || !site.env.empty() || !site.levers.empty()) {
          with_site = base;
          with_site.site = site;
          rules = &with_site;
        }
        const std::string mismatch = Answer(c, *rules).Mismatch();
        if (mismatch.empty()) continue;
        failed.push_back(c.at + ": " + c.text + "\n    got:" + mismatch);
        if (first_only) return failed;
      }
    }
    return failed;
  }

  std::vector<Case> cases_;
  std::vector<Mutant> mutants_;
};

// "|" columns: expectation | lever | edits | enablers.
std::string ReadFile(const std::filesystem::path& path, std::vector<Case>& out) {
  std::ifstream in(path);
  std::string line;
  Setting named;    // of the last `recipe`
  Setting current;  // with the last `given`
  std::shared_ptr<const Setting> shared;
  bool have_recipe = false;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string at = path.filename().string() + ":" + std::to_string(number);
    const std::string text(Trim(line));
    if (text.empty() || text[0] == '#') continue;
    if (const auto name = After(text, "recipe ")) {
      const std::optional<Recipe> recipe = BaseRecipe(*name);
      if (!recipe) return at + ": no recipe of this name";
      named = {};
      named.recipe = *recipe;
      named.leader = recipe->base;
      named.window = {.start_iteration = 0,
                      .steps = 25,
                      .profile = false,
                      .profile_steps = 2,
                      .profile_ranks = {0},
                      .run_dir = "/run/r1"};
      current = named;
      shared.reset();
      have_recipe = true;
      continue;
    }
    if (text == "given nothing" || text.starts_with("given ")) {
      current = named;
      shared.reset();
      if (text == "given nothing") continue;
      for (const std::string& piece : Pieces(text.substr(6), ';')) {
        if (!Give(piece, current)) return at + ": not understood: " + piece;
      }
      continue;
    }
    if (!have_recipe) return at + ": a case before any recipe";
    if (!shared) shared = std::make_shared<const Setting>(current);
    // " | " with its spaces: a pipeline layout holds bare bars.
    std::vector<std::string> columns;
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t bar = std::min(text.find(" | ", from), text.size());
      columns.emplace_back(Trim(std::string_view(text).substr(from, bar - from)));
      from = bar + 3;
    }
    if (columns.size() < 3) return at + ": a case has three columns";
    Case c;
    c.at = at;
    c.text = text;
    c.expect = columns[0];
    c.change.lever = columns[1];
    c.change.edits = ReadEdits(columns[2]);
    if (columns.size() > 3) c.change.enablers = Tokens(columns[3]);
    c.setting = shared;
    out.push_back(std::move(c));
  }
  return {};
}

}  // namespace

std::unique_ptr<CaseSuite> MakeConfigSuite(const std::string& folder, std::string& error) {
  std::vector<std::filesystem::path> files;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("config_") && name.ends_with(".case")) files.push_back(entry.path());
  }
  if (ec || files.empty()) {
    error = "no config_*.case below " + folder;
    return nullptr;
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& file : files) {
    error = ReadFile(file, cases);
    if (!error.empty()) return nullptr;
  }
  return std::make_unique<ConfigSuite>(std::move(cases));
}

}  // namespace attune
