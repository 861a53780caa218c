// help: of a command, and topics that belong to none.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "commands.h"
#include "json_out.h"
#include "parse.h"

namespace attune::cli {
namespace {

std::string ExitCodes() {
  std::string text = "Exit codes:\n";
  for (const ExitCodeRow& row : ExitCodeTable()) {
    text += fmt::format("  {:>3}  {}\n", row.code, row.meaning);
  }
  return text;
}

constexpr std::string_view kEnvironment =
    "Environment, weaker than flags and stronger than files:\n"
    "  ATTUNE_CONFIG      your own config file, instead of $XDG_CONFIG_HOME/attune/config.yaml\n"
    "  ATTUNE_STATE_DIR   where campaigns are kept\n"
    "  ATTUNE_BUDGET      GPU-hours, or auto, where neither flag nor recipe says\n"
    "  ATTUNE_LOG         file of attune's own log\n"
    "  ATTUNE_NO_INPUT    never ask\n"
    "  ATTUNE_SSH         program that takes the place of ssh\n"
    "  ATTUNE_LLM_ENDPOINT, ATTUNE_LLM_MODEL   the model that an agent asks, and where it is\n"
    "  ATTUNE_LLM_API_KEY its key; or --llm-key-file, $CREDENTIALS_DIRECTORY/attune-llm-key, the "
    "config\n"
    "  NO_COLOR, TERM=dumb, CLICOLOR_FORCE   colour\n"
    "  XDG_CONFIG_HOME, XDG_STATE_HOME       where files are looked for and kept\n"
    "Variables of your own reach a job only when the recipe names them (launcher.pass_env).\n";

constexpr std::string_view kRecipe =
    "A recipe is a YAML file that says how one training job is started, and what may change:\n"
    "\n"
    "  schema: attune/recipe/1\n"
    "  name: my-model\n"
    "  framework: custom                # or megatron-lm\n"
    "  workload: {model: gpt, gpus: 2, gpu: cpu, seq_length: 128, global_batch: 8}\n"
    "  command: [python3, train.py, \"{{args}}\"]\n"
    "  args: {micro-batch-size: 1, lr: 3e-4}\n"
    "  declare:\n"
    "    - {lever: micro_batch, flag: --micro-batch-size, values: [1, 2, 4], class: batching}\n"
    "  log: {dialect: megatron-lm}\n"
    "  budget: {gpu_hours: 0.5}\n"
    "\n"
    "attune check recipe.yaml --print --origins shows what attune understands and from where.\n"
    "attune schema recipe prints a JSON Schema for your editor.\n";

class Help final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("WHAT", what_, "a command, or exit-codes, environment, recipe", false);
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(std::string text, Text());
    if (wire.flags().json) {
      JsonOut json("attune.help/1");
      json.Text("topic", what_);
      json.Text("text", text);
      text = json.Take() + "\n";
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

 private:
  Result<std::string> Text() const {
    if (what_ == "exit-codes") {
      return ExitCodes();
    }
    if (what_ == "environment") {
      return std::string(kEnvironment);
    }
    if (what_ == "recipe") {
      return std::string(kRecipe);
    }
    const CommandRow* row = FindCommand(what_);
    if (what_.empty() || (row != nullptr && !row->hidden)) {
      return HelpText(what_);
    }
    std::vector<std::string> known = {"exit-codes", "environment", "recipe"};
    for (const CommandRow& command : Commands()) {
      if (!command.hidden) {
        known.emplace_back(command.name);
      }
    }
    const std::string near = Nearest(what_, known);
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("no help on '{}'", EscapeForDisplay(what_, 80)),
                near.empty() ? "attune help" : fmt::format("did you mean '{}'?", near));
  }

  std::string what_;
};

}  // namespace

std::unique_ptr<Command> MakeHelp() { return std::make_unique<Help>(); }

}  // namespace attune::cli
