// levers: what may change, by the gates' table or as a custom recipe declares it.
#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "commands.h"
#include "json_out.h"

namespace attune::cli {
namespace {

struct Lever {
  std::string id, cls;
  std::vector<std::string> names;   // flags and variables, the primary ones first
  std::vector<std::string> values;  // declared: in the order in which they are tried
  std::string state;                // "allowed", "denied", "not allowed" by the recipe
  std::string why;
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

std::vector<Lever> LeversOf(const Recipe& recipe, const Rules& rules) {
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
  return json.Take();
}

class Levers final : public Command {
 public:
  void Declare(Options& options) override {
    Options list = options.Sub("list", "[--recipe RECIPE | --framework F]", "all of them", chosen_);
    Source(list);
    Options show =
        options.Sub("show", "LEVER [--recipe RECIPE | --framework F]", "one of them", chosen_);
    show.Positional("LEVER", lever_, "its id");
    Source(show);
  }

  Result<int> Run(Wire& wire) override {
    Recipe recipe;
    recipe.framework = Framework::kMegatronLm;
    if (!recipe_.empty()) {
      ATTUNE_TRY(LoadedRecipe loaded, wire.ReadRecipe(recipe_));
      recipe = std::move(loaded.recipe);
    }
    const std::vector<Lever> levers = LeversOf(recipe, BuiltInRules());
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
      wire.terminal().Out(text);
      return kExitDone;
    }
    const std::string near = Nearest(lever_, ids);
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("no lever '{}'", EscapeForDisplay(lever_, 80)),
                near.empty() ? "attune levers list" : fmt::format("did you mean '{}'?", near));
  }

  std::string chosen_, lever_, recipe_, framework_;
};

}  // namespace

std::unique_ptr<Command> MakeLevers() { return std::make_unique<Levers>(); }

}  // namespace attune::cli
