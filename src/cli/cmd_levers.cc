// levers: what may change, by the gates' table or as a custom recipe declares it.
#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "attune/skill/skill.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "json_out.h"
#include "session.h"

namespace attune::cli {
namespace {

struct Lever {
  std::string id, cls;
  std::vector<std::string> names;   // flags and variables, the primary ones first
  std::vector<std::string> values;  // declared: in the order in which they are tried
  std::string state;                // "allowed", "denied", "not allowed" by the recipe
  std::string why;
  const CatalogLever* entry = nullptr;  // of the catalog; null: it has none
};

std::string RoleWord(LeverRole role) {
  switch (role) {
    case LeverRole::kPrimary:
      return "";
    case LeverRole::kChoice:
      return " (one at a time)";
    case LeverRole::kTied:
      return " (follows)";
  }
  return "";
}

std::vector<Lever> LeversOf(const Recipe& recipe, const Rules& rules, const Catalog& catalog) {
  std::vector<Lever> out;
  for (const std::string& id : LeverIds(recipe, rules)) {
    Lever lever;
    lever.id = id;
    lever.cls = Word(ClassOfLever(recipe, rules, id));
    if (recipe.framework == Framework::kCustom) {
      for (const DeclaredLever& d : recipe.declared) {
        if (d.id == id) {
          lever.names.push_back(d.flag.empty() ? d.env : d.flag);
          lever.values.insert(lever.values.end(), d.values.begin(), d.values.end());
          lever.why = d.why;
        }
      }
    } else {
      for (const LeverRow& row : rules.levers) {
        if (row.lever == id) {
          lever.names.push_back(std::string(row.name) + RoleWord(row.role));
        }
      }
      lever.entry = catalog.Find(id);
    }
    const auto has = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    lever.state = has(recipe.deny)                              ? "denied"
                  : !recipe.allow.empty() && !has(recipe.allow) ? "not allowed"
                                                                : "allowed";
    if (const auto why = recipe.why.find(id); why != recipe.why.end()) {
      lever.why = why->second;
    }
    out.push_back(std::move(lever));
  }
  return out;
}

std::string LeverJson(const Lever& lever) {
  JsonOut json("");
  json.Text("lever", lever.id);
  json.Text("class", lever.cls);
  json.Texts("names", lever.names);
  json.Texts("values", lever.values);
  json.Text("state", lever.state);
  json.Text("why", lever.why);
  json.Texts("helps", lever.entry != nullptr ? lever.entry->helps : std::vector<std::string>());
  return json.Take();
}

std::vector<std::string> NeedsOf(const LeverMove& move) {
  std::vector<std::string> needs;
  for (const JobCondition& need : move.needs) needs.push_back(need.Text());
  return needs;
}

std::vector<std::string> EditsOf(const LeverMove& move) {
  std::vector<std::string> edits;
  for (const Edit& edit : move.edits) {
    const bool off = edit.op == Edit::Op::kUnset || edit.op == Edit::Op::kUnsetEnv;
    edits.push_back(edit.name + (off                   ? " off"
                                 : edit.values.empty() ? " on"
                                                       : " " + Join(edit.values, " ")));
  }
  return edits;
}

std::string EntryText(const CatalogLever& entry) {
  std::string text = fmt::format("  {}\n", entry.title);
  if (!entry.helps.empty()) text += fmt::format("  against {}\n", Join(entry.helps, ", "));
  text += fmt::format("  when    {}\n  costs   {}\n", entry.when, entry.costs);
  for (const LeverMove& move : entry.moves) {
    text += fmt::format("  move    {}: {}\n", move.name, Join(EditsOf(move), "; "));
    if (!move.needs.empty()) text += fmt::format("          needs {}\n", Join(NeedsOf(move), ", "));
  }
  for (const LeverEvidence& e : entry.evidence) {
    text += fmt::format("  known   {} ({})\n", e.claim, e.source);
  }
  return text;
}

std::string EntryJson(const CatalogLever& entry) {
  JsonOut json("");
  json.Text("title", entry.title);
  json.Texts("helps", entry.helps);
  json.Text("when", entry.when);
  json.Text("costs", entry.costs);
  std::vector<std::string> moves, evidence;
  for (const LeverMove& move : entry.moves) {
    JsonOut one("");
    one.Text("name", move.name);
    one.Texts("edits", EditsOf(move));
    one.Texts("needs", NeedsOf(move));
    moves.push_back(one.Take());
  }
  for (const LeverEvidence& e : entry.evidence) {
    JsonOut one("");
    one.Text("claim", e.claim);
    one.Text("source", e.source);
    evidence.push_back(one.Take());
  }
  json.Objects("moves", moves);
  json.Objects("evidence", evidence);
  return json.Take();
}

class Levers final : public Command {
 public:
  void Declare(Options& options) override {
    constexpr std::string_view kSource = "[--recipe RECIPE | --framework F | -c CAMPAIGN]";
    Options list = options.Sub("list", kSource, "all of them", chosen_);
    Source(list);
    Options show =
        options.Sub("show", fmt::format("LEVER {} [--skill DIR]", kSource), "one of them", chosen_);
    show.Positional("LEVER", lever_, "its id");
    Source(show);
    show.Text("--skill", skill_, "DIR",
              "by this folder's catalog; default: the campaign's, else built in");
  }

  Result<int> Run(Wire& wire) override {
    Recipe recipe;
    recipe.framework = Framework::kMegatronLm;
    SkillInUse skill;
    if (!recipe_.empty() && !wire.flags().campaign.empty()) {
      return Fail(ErrorCode::kInvalidInput,
                  "levers are those of a recipe (--recipe) or of a campaign (-c), not of both");
    }
    if (!recipe_.empty()) {
      ATTUNE_TRY(LoadedRecipe loaded, wire.ReadRecipe(recipe_));
      recipe = std::move(loaded.recipe);
    } else if (!wire.flags().campaign.empty()) {
      ATTUNE_TRY(const Reading reading, OpenForReading(wire, ""));
      ATTUNE_TRY(CampaignState state, LoadState(*reading.store, reading.campaign.id));
      if (skill_.empty()) skill = SkillToShow(wire, state);
      recipe = std::move(state.recipe);
    }
    if (!skill_.empty()) {
      ATTUNE_TRY(Skill own, ReadSkill(skill_));
      skill.own = std::make_unique<const Skill>(std::move(own));
    }
    const std::vector<Lever> levers = LeversOf(recipe, BuiltInRules(), skill.Get().catalog);
    return chosen_ == "list" ? List(wire, levers) : Show(wire, levers);
  }

 private:
  void Source(Options& options) {
    options.Text("--recipe", recipe_, "RECIPE", "the levers of this recipe");
    options.Word("--framework", framework_, {"megatron-lm"}, "the levers of a framework");
  }

  static Result<int> List(Wire& wire, const std::vector<Lever>& levers) {
    std::string text;
    std::vector<std::string> objects;
    for (const Lever& lever : levers) {
      text += fmt::format("{:<28} {:<10} {:<11} {}\n", lever.id, lever.cls, lever.state,
                          Join(lever.names, ", "));
      objects.push_back(LeverJson(lever));
    }
    if (wire.flags().json) {
      JsonOut json("attune.levers/1");
      json.Objects("levers", objects);
      text = json.Take() + "\n";
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

  Result<int> Show(Wire& wire, const std::vector<Lever>& levers) const {
    std::vector<std::string> ids;
    for (const Lever& lever : levers) {
      ids.push_back(lever.id);
      if (lever.id != lever_) {
        continue;
      }
      if (wire.flags().json) {
        JsonOut json("attune.lever/1");
        json.Raw("lever", LeverJson(lever));
        if (lever.entry != nullptr) {
          json.Raw("catalog", EntryJson(*lever.entry));
        } else {
          json.Null("catalog");
        }
        wire.terminal().Out(json.Take() + "\n");
        return kExitDone;
      }
      std::string text = fmt::format("{}  ({}, {})\n", lever.id, lever.cls, lever.state);
      for (const std::string& name : lever.names) {
        text += fmt::format("  sets {}\n", name);
      }
      if (!lever.values.empty()) {
        text += fmt::format("  values {}\n", Join(lever.values, ", "));
      }
      if (!lever.why.empty()) {
        text += fmt::format("  {}\n", EscapeForDisplay(lever.why));
      }
      if (lever.entry != nullptr) text += EntryText(*lever.entry);
      wire.terminal().Out(text);
      return kExitDone;
    }
    const std::string near = Nearest(lever_, ids);
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("no lever '{}'", EscapeForDisplay(lever_, 80)),
                near.empty() ? "attune levers list" : fmt::format("did you mean '{}'?", near));
  }

  std::string chosen_, lever_, recipe_, framework_, skill_;
};

}  // namespace

std::unique_ptr<Command> MakeLevers() { return std::make_unique<Levers>(); }

}  // namespace attune::cli
