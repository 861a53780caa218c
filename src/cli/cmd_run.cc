// run: opens a campaign for a recipe, or takes up the one that was interrupted, and runs it.
#include <fmt/core.h>

#include <filesystem>

#include "ask_gates.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "commands.h"
#include "run_flags.h"

namespace attune::cli {
namespace {

class RunCommand final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RECIPE", path_, "the recipe to tune");
    flags_.Declare(options);
    options.Word("--tuner", tuner_, {"rules", "random", "scripted"}, "who proposes");
    options.Text("--script", script_, "FILE", "proposals for --tuner scripted, one a line");
    options.Int("--seed", seed_, 0, "of everything that is drawn");
    options.Int("--final-blocks", final_blocks_, 1, "blocks of the final stage");
    options.Duration("--run-limit", run_limit_, "longest that one run may take");
    options.Flag("--if-changed", if_changed_,
                 "exit 3 when this recipe and stack are tuned already");
    options.Texts("--set", set_, "KEY=VALUE", "a value of the recipe; KEY= removes it");
    options.Texts("--set-file", set_file_, "KEY=FILE", "the same, the text of a file");
  }

  Result<int> Run(Wire& wire) override;

 private:
  Status CheckRecipe(Wire& wire, const LoadedRecipe& loaded) const;
  Result<OpenFlags> Opening(Wire& wire, const LoadedRecipe& loaded) const;

  std::string path_, tuner_, script_;
  RunFlags flags_;
  std::optional<std::int64_t> seed_, final_blocks_;
  std::optional<Millis> run_limit_;
  bool if_changed_ = false;
  std::vector<std::string> set_, set_file_;
};

Status RunCommand::CheckRecipe(Wire& wire, const LoadedRecipe& loaded) const {
  for (const LoadWarning& warning : loaded.warnings) {
    wire.terminal().Warn(fmt::format("{}: {}", warning.at, warning.text));
  }
  if (!loaded.script_findings.empty() && !loaded.recipe.launcher.script_trusted) {
    const ScriptFinding& finding = loaded.script_findings.front();
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("{}: '{}' starts or ends jobs that are not attune's", finding.at, finding.word),
        "remove it, or say launcher.script.trusted: true");
  }
  ATTUNE_TRY(const std::vector<Finding> findings, AskGates(loaded));
  for (const Finding& finding : findings) {
    wire.terminal().Warn(fmt::format("{}: {}", finding.rule, finding.why));
  }
  return {};
}

Result<OpenFlags> RunCommand::Opening(Wire& wire, const LoadedRecipe& loaded) const {
  OpenFlags open;
  ATTUNE_TRY(const std::optional<RunFlags::Budget> budget, flags_.BudgetFlag(wire));
  if (budget) {
    open.automatic = budget->automatic;
    open.budget = budget->amount;
  } else {
    open.automatic = loaded.recipe.budget.automatic;
  }
  open.run_limit = run_limit_;
  open.policy.proposer = !tuner_.empty() ? tuner_ : (script_.empty() ? "rules" : "scripted");
  open.policy.name = open.policy.proposer;
  if (open.policy.proposer == "scripted") {
    if (script_.empty()) {
      return Fail(ErrorCode::kInvalidInput, "--tuner scripted needs --script FILE");
    }
    open.policy.script = std::filesystem::absolute(script_).lexically_normal().string();
    ATTUNE_TRY(const auto readable, MakeScriptedProposer(open.policy.script));
    (void)readable;
  } else if (!script_.empty()) {
    return Fail(ErrorCode::kInvalidInput, "--script goes with --tuner scripted");
  }
  open.policy.seed = static_cast<std::uint64_t>(seed_.value_or(0));
  open.policy.final_blocks = static_cast<int>(final_blocks_.value_or(0));
  return open;
}

Result<int> RunCommand::Run(Wire& wire) {
  ATTUNE_TRY(const LoadedRecipe loaded, wire.ReadRecipe(path_, set_, set_file_));
  ATTUNE_RETURN_IF_ERROR(CheckRecipe(wire, loaded));
  ATTUNE_TRY(const OpenFlags open, Opening(wire, loaded));
  ATTUNE_TRY(const SessionFlags session, flags_.Session(wire));
  ATTUNE_TRY(const std::string state, wire.StateFolder());
  ATTUNE_TRY(const std::unique_ptr<Store> store, Store::Open(state));

  // One run a recipe: the second finds the lock taken and leaves at once.
  const std::string absolute = std::filesystem::absolute(path_).lexically_normal().string();
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(state + "/locks"));
  ATTUNE_TRY(
      const std::optional<os::FileLock> lock,
      os::FileLock::Try(state + "/locks/" + Sha256Hex(absolute).substr(0, 32), session.lock_wait));
  if (!lock) {
    return Fail(ErrorCode::kUnavailable, fmt::format("another attune run works on {}", path_),
                "wait for it, or look with attune status");
  }
  ATTUNE_TRY(const std::optional<CampaignRow> newest, store->NewestOfPath(absolute));
  if (newest && !newest->Ended() && newest->recipe_hash == loaded.hash) {
    wire.terminal().Note(fmt::format("taking up {}, which was interrupted", newest->id.value));
    ATTUNE_TRY(const SessionEnd end, RunSession(*store, newest->id, session, wire.clock()));
    return TellEnd(wire, end);
  }
  if (if_changed_ && newest && newest->Ended() && newest->recipe_hash == loaded.hash) {
    ATTUNE_TRY(const std::string fingerprint, StackFingerprint(loaded.recipe));
    if (fingerprint == newest->stack_fingerprint) return kExitNothingToDo;
  }
  ATTUNE_TRY(const CampaignId id, OpenCampaign(*store, loaded, open, wire.clock()));
  ATTUNE_TRY(const SessionEnd end, RunSession(*store, id, session, wire.clock()));
  return TellEnd(wire, end);
}

}  // namespace

std::unique_ptr<Command> MakeRun() { return std::make_unique<RunCommand>(); }

}  // namespace attune::cli
