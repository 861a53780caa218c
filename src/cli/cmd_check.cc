// check: reads a recipe strictly, launches and writes nothing.
#include <fmt/core.h>

#include "ask_gates.h"
#include "attune/base/text.h"
#include "attune/logs/log_parser.h"
#include "commands.h"
#include "json_out.h"

namespace attune::cli {
namespace {

class Check final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RECIPE", path_, "the recipe");
    options.Texts("--set", set_, "KEY=VALUE", "a value of the recipe; KEY= removes it");
    options.Texts("--set-file", set_file_, "KEY=FILE", "the same, the text of a file");
    options.Flag("--print", print_, "print the effective recipe");
    options.Flag("--origins", origins_, "print it with file:line of each value");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const LoadedRecipe loaded, wire.ReadRecipe(path_, set_, set_file_));
    Terminal& terminal = wire.terminal();
    ATTUNE_RETURN_IF_ERROR(CheckPattern(loaded));
    ATTUNE_TRY(const std::vector<Finding> findings, AskGates(loaded));
    for (const Finding& finding : findings) {
      terminal.Warn(fmt::format("{}: {}: {}", finding.rule, finding.key, finding.why));
    }
    for (const LoadWarning& warning : loaded.warnings) {
      terminal.Warn(fmt::format("{}: {}", warning.at, warning.text));
    }
    for (const ScriptFinding& finding : loaded.script_findings) {
      terminal.Warn(fmt::format(
          "{}: '{}' starts or ends jobs; attune run refuses it{}", finding.at, finding.word,
          loaded.recipe.launcher.script_trusted ? " unless trusted, which it is"
                                                : " unless launcher.script.trusted"));
    }
    if (wire.flags().json) {
      terminal.Out(Json(loaded, findings) + "\n");
    } else if (print_ || origins_) {
      terminal.Out(ShowRecipe(loaded, origins_));
    } else {
      terminal.Out(Summary(loaded));
    }
    return kExitDone;
  }

 private:
  static std::string Summary(const LoadedRecipe& loaded) {
    const Recipe& recipe = loaded.recipe;
    std::string levers = recipe.framework == Framework::kCustom
                             ? fmt::format(", {} levers declared", recipe.declared.size())
                             : std::string();
    return fmt::format("ok  {}  {} arguments{}  recipe {}\n", recipe.name,
                       recipe.base.args.items().size(), levers, loaded.hash.substr(0, 12));
  }

  // Only the log readers know what a pattern must have.
  static Status CheckPattern(const LoadedRecipe& loaded) {
    const auto parser = MakeLogParser(loaded.recipe.log);
    if (!parser) {
      return Fail(PlaceOf(loaded, "log.pattern"), parser.error());
    }
    return {};
  }

  std::string Json(const LoadedRecipe& loaded, const std::vector<Finding>& gates) const {
    JsonOut json("attune.check/1");
    json.Bool("ok", true);
    json.Text("name", loaded.recipe.name);
    json.Text("recipe_hash", loaded.hash);
    json.Texts("sources", loaded.sources);
    std::vector<std::string> warnings;
    for (const LoadWarning& warning : loaded.warnings) {
      JsonOut inner("");
      inner.Text("at", warning.at);
      inner.Text("text", warning.text);
      warnings.push_back(inner.Take());
    }
    json.Objects("warnings", warnings);
    std::vector<std::string> findings;
    for (const ScriptFinding& finding : loaded.script_findings) {
      JsonOut inner("");
      inner.Text("at", finding.at);
      inner.Text("word", finding.word);
      findings.push_back(inner.Take());
    }
    json.Objects("script", findings);
    std::vector<std::string> said;
    for (const Finding& finding : gates) {
      JsonOut inner("");
      inner.Text("id", finding.rule);
      inner.Text("severity", Word(finding.severity));
      inner.Text("key", finding.key);
      inner.Text("why", finding.why);
      said.push_back(inner.Take());
    }
    json.Objects("gate", said);
    if (print_ || origins_) {
      json.Raw("recipe", loaded.canonical_json);
    }
    if (origins_) {
      std::vector<std::string> origins;
      for (const Origin& origin : loaded.origins) {
        JsonOut inner("");
        inner.Text("key", origin.key);
        inner.Text("value", origin.value);
        inner.Text("at", origin.at);
        origins.push_back(inner.Take());
      }
      json.Objects("origins", origins);
    }
    return json.Take();
  }

  std::string path_;
  std::vector<std::string> set_, set_file_;
  bool print_ = false, origins_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCheck() { return std::make_unique<Check>(); }

}  // namespace attune::cli
