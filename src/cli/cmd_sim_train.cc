// sim-train: a simulated training job as a program. Everything behind "--" is the framework's own
// argument list.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "attune/base/text.h"
#include "attune/sim/program.h"
#include "commands.h"
#include "simulate.h"

namespace attune::cli {
namespace {

class SimTrain final : public Command {
 public:
  void Declare(Options& options) override {
    options.Text("--world", world_, "FILE|FAMILY:SEED", "where it runs");
    options.Int("--seed", seed_, 0, "of everything that is drawn");
    options.Number("--speed", speed_, "N", "N times as fast, printed times too");
    options.Text("--gpu", gpu_, "NAME", "kind of GPU");
    options.Int("--gpus", gpus_, 1, "ranks of the job");
    options.Int("--gpus-per-node", per_node_, 1, "of them on a node");
    options.Texts("--stack", stack_, "KEY=VERSION", "as in a recipe: megatron-lm=1dcf0da");
    options.Texts("--shape", shape_, "KEY=N", "sizes that the arguments do not give");
    options.Text("--truth", truth_, "FILE", "the breakdown of a step, for tests");
    options.Positionals("ARGUMENTS", arguments_, "behind --: the framework's arguments", 1);
  }

  Result<int> Run(Wire& wire) override;

 private:
  Status Pairs(const std::vector<std::string>& given, const char* flag,
               std::map<std::string, std::string>& out) const {
    for (const std::string& pair : given) {
      const std::size_t equals = pair.find('=');
      if (equals == std::string::npos || equals == 0) {
        return Fail(ErrorCode::kInvalidInput,
                    fmt::format("{} {} is not KEY=VALUE", flag, EscapeForDisplay(pair, 60)));
      }
      out[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
    return {};
  }

  std::string world_, gpu_, truth_;
  std::optional<std::int64_t> seed_, gpus_, per_node_;
  std::optional<double> speed_;
  std::vector<std::string> stack_, shape_, arguments_;
};

void PrintAll(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

Result<int> SimTrain::Run(Wire& wire) {
  // Several ranks started on one machine are one job: the first one prints.
  const std::optional<std::string> rank = GetEnvironment("RANK");
  sim::ProgramSetup setup;
  Recipe& recipe = setup.cluster.recipe;
  recipe.name = "sim-train";
  recipe.framework = Framework::kMegatronLm;
  recipe.command = {"{{args}}"};
  recipe.workload.gpu = gpu_.empty() ? "H100" : gpu_;
  recipe.workload.gpus = static_cast<int>(std::min<std::int64_t>(gpus_.value_or(8), 1'000'000));
  recipe.workload.gpus_per_node =
      static_cast<int>(std::min<std::int64_t>(per_node_.value_or(8), recipe.workload.gpus));
  ATTUNE_RETURN_IF_ERROR(Pairs(stack_, "--stack", recipe.stack));
  ATTUNE_RETURN_IF_ERROR(Pairs(shape_, "--shape", recipe.workload.shape));
  setup.args = arguments_;
  recipe.base.args = ParseArguments(arguments_);
  ATTUNE_TRY(sim::WorldRef world,
             sim::OpenWorld(world_.empty() ? std::string(kDefaultWorld) : world_));
  setup.cluster = SetupOf(recipe, std::move(world), static_cast<std::uint64_t>(seed_.value_or(0)));
  setup.speed = speed_.value_or(1);
  setup.truth_file = truth_;
  setup.job = GetEnvironment("ATTUNE_RUN_DIR").value_or("");
  ATTUNE_TRY(const sim::ProgramEnd end,
             sim::RunProgram(setup, wire.clock(), [&](std::string_view text) {
               if (!rank || *rank == "0") PrintAll(text);
             }));
  if (end.signal) {
    (void)std::signal(*end.signal, SIG_DFL);
    (void)::kill(::getpid(), *end.signal);
  }
  return end.exit_code.value_or(1);
}

}  // namespace

std::unique_ptr<Command> MakeSimTrain() { return std::make_unique<SimTrain>(); }

}  // namespace attune::cli
