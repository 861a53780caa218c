// plan: what a campaign would do first and what it may cost; launches and writes nothing.
#include "ask_launcher.h"
#include "commands.h"
#include "plan_view.h"
#include "show_prompt.h"

namespace attune::cli {
namespace {

class Plan final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RECIPE", path_, "the recipe");
    options.Text("--budget", budget_, "H|auto", "GPU-hours; default: the recipe's, else auto");
    options.Duration("--run-limit", run_limit_, "longest that one run may take");
    options.Flag("--ask-scheduler", ask_scheduler_,
                 "ask the machines too: when could it start, is everything there?");
    options.Flag("--show-command", show_command_, "print the whole command of a measured run");
    options.Flag("--show-prompt", show_prompt_, "print what an agent would be asked now");
    options.Text("--policy", policy_, "NAME", "of that prompt; default: the campaign's, else full");
    options.Text("--skill", skill_, "DIR",
                 "of that prompt; default: the campaign's, else built in");
    options.Texts("--set", set_, "KEY=VALUE", "a value of the recipe; KEY= removes it");
    options.Texts("--set-file", set_file_, "KEY=FILE", "the same, the text of a file");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const LoadedRecipe loaded, wire.ReadRecipe(path_, set_, set_file_));
    if (show_prompt_) {
      ATTUNE_TRY(const std::string prompt, PromptText(wire, loaded, policy_, skill_));
      wire.terminal().Out(prompt);
      return kExitDone;
    }
    if (!policy_.empty() || !skill_.empty()) {
      return Fail(ErrorCode::kInvalidInput, "--policy and --skill go with --show-prompt");
    }
    ATTUNE_TRY(const auto budget,
               RunFlags::ParseBudget(budget_.empty() ? wire.config().budget : budget_));
    ATTUNE_TRY(Planned planned, PlanFor(wire, loaded, budget, run_limit_));
    if (ask_scheduler_) {
      ATTUNE_TRY(const std::string state_folder, wire.StateFolder());
      const std::optional<Millis> limit =
          planned.first ? std::optional<Millis>(planned.first->limit) : std::nullopt;
      planned.machines_asked = true;
      planned.asked = AskLauncher(loaded.recipe, state_folder, limit, wire.clock());
    }
    wire.terminal().Out(wire.flags().json ? PlanJson(planned, "") + "\n"
                                          : PlanText(planned, show_command_));
    return WorstCode(planned.asked);
  }

 private:
  std::string path_, budget_, policy_, skill_;
  std::optional<Millis> run_limit_;
  bool show_command_ = false, show_prompt_ = false, ask_scheduler_ = false;
  std::vector<std::string> set_, set_file_;
};

}  // namespace

std::unique_ptr<Command> MakePlan() { return std::make_unique<Plan>(); }

}  // namespace attune::cli
