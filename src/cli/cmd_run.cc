// run: opens a campaign for a recipe, or takes up the one that was interrupted, and runs it.
#include <fmt/core.h>

#include <filesystem>

#include "ask_gates.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "commands.h"
#include "hold.h"
#include "plan_view.h"
#include "policy_flag.h"
#include "run_flags.h"
#include "simulate.h"
#include "summary.h"

namespace attune::cli {
namespace {

class RunCommand final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RECIPE", path_, "the recipe to tune");
    flags_.Declare(options, true);
    options.Word("--tuner", tuner_, {"rules", "agent", "random", "scripted"}, "who proposes");
    options.Text("--policy", policy_, "NAME",
                 "what the tuner may read and do; default: the tuner's");
    options.Text("--skill", skill_, "DIR",
                 "search rules, levers, lessons; default: the built-in ones");
    options.Text("--script", script_, "FILE", "proposals for --tuner scripted, one a line");
    options.Int("--seed", seed_, 0, "of everything that is drawn");
    options.Word("--launcher", launcher_, {"slurm", "ssh", "local", "sim"},
                 "instead of the recipe's launcher.kind; sim: a rehearsal");
    options.Text("--world", world_, "FILE|FAMILY:SEED", "the world of --launcher sim");
    options.Flag("--traces", traces_, "its runs are profiled too, as real ones are");
    options.Int("--final-blocks", final_blocks_, 1, "blocks of the final stage");
    options.Duration("--run-limit", run_limit_, "longest that one run may take");
    options.Duration("--hold", hold_, "hold Slurm's nodes this long, and run in the allocation");
    options.Flag("--dry-run", dry_run_, "say what would be done; launch and write nothing");
    options.Flag("--recalibrate", recalibrate_,
                 "measure the baseline anew, also within 7 days of the last time");
    options.Flag("--if-changed", if_changed_,
                 "exit 3 when this recipe and stack are tuned already");
    options.Texts("--set", set_, "KEY=VALUE", "a value of the recipe; KEY= removes it");
    options.Texts("--set-file", set_file_, "KEY=FILE", "the same, the text of a file");
  }

  Result<int> Run(Wire& wire) override;

 private:
  Status CheckRecipe(Wire& wire, const LoadedRecipe& loaded) const;
  Result<OpenFlags> Opening(Wire& wire, const LoadedRecipe& loaded) const;
  Result<std::optional<int>> Hold(Wire& wire, const LoadedRecipe& loaded, const OpenFlags& open,
                                  bool in_allocation) const;
  Result<int> DryRun(Wire& wire, const LoadedRecipe& loaded, const OpenFlags& open) const;

  std::string path_, tuner_, policy_, skill_, script_, launcher_, world_;
  RunFlags flags_;
  std::optional<std::int64_t> seed_, final_blocks_;
  std::optional<Millis> run_limit_, hold_;
  bool if_changed_ = false, dry_run_ = false, recalibrate_ = false, traces_ = false;
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
  std::string tuner = tuner_;
  if (tuner.empty() && policy_.empty()) tuner = script_.empty() ? "rules" : "scripted";
  ATTUNE_TRY(const PolicyRecord* record, PolicyFor(tuner, policy_));
  ApplyRecord(*record, open.policy);
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
  if (!skill_.empty()) {
    if (open.policy.proposer != "agent" && open.policy.proposer != "rules") {
      return Fail(ErrorCode::kInvalidInput, "--skill goes with --tuner agent or rules");
    }
    open.policy.skill = std::filesystem::absolute(skill_).lexically_normal().string();
  }
  open.policy.seed = static_cast<std::uint64_t>(seed_.value_or(0));
  open.policy.final_blocks = static_cast<int>(final_blocks_.value_or(0));
  open.recalibrate = recalibrate_;
  return open;
}

// Whether a simulated campaign was opened in this world with this seed. True for real ones.
Result<bool> SameWorld(Store& store, const std::optional<CampaignRow>& row, const OpenFlags& open) {
  if (!row || open.world.empty()) return true;
  ATTUNE_TRY(const CampaignState state, LoadState(store, row->id));
  return state.opened->world == WorldName(open.world) &&
         (state.opened->run_root == kTracedSimRoot) == open.traces &&
         state.opened->policy.seed == open.policy.seed;
}

// The newest campaign that this recipe would be taken up with or compared with.
Result<std::optional<CampaignRow>> Earlier(Store& store, const LoadedRecipe& loaded,
                                           const std::string& path, const OpenFlags& open) {
  ATTUNE_TRY(std::optional<CampaignRow> newest, store.NewestOf(loaded.hash));
  // A rehearsal is no news for the real campaign of the same file, nor the other way round.
  if (newest && newest->recipe_path != path) newest.reset();
  ATTUNE_TRY(const bool same, SameWorld(store, newest, open));
  if (!same) newest.reset();
  return newest;
}

// Whether recipe, stack and skill are those of a campaign that has ended.
Result<bool> Unchanged(Store& store, const LoadedRecipe& loaded,
                       const std::optional<CampaignRow>& newest, const OpenFlags& open) {
  if (!newest || !newest->Ended()) return false;
  ATTUNE_TRY(const std::string fingerprint, open.world.empty() ? StackFingerprint(loaded.recipe)
                                                               : SimulatedStack(open.world));
  if (fingerprint != newest->stack_fingerprint) return false;
  ATTUNE_TRY(const CampaignState state, LoadState(store, newest->id));
  Opened now;
  now.policy = open.policy;
  ATTUNE_TRY(const SkillInUse skill, SkillOf(now));
  const std::string& then = state.opened->skill_version;
  return then.empty() || then == skill.Get().version;
}

Result<int> RunCommand::DryRun(Wire& wire, const LoadedRecipe& loaded,
                               const OpenFlags& open) const {
  ATTUNE_TRY(const std::string state, wire.StateFolder());
  std::string outcome = "would open a new campaign";
  int code = kExitDone;
  StoreOptions reading;
  reading.read_only = true;
  // Without a database there is no earlier campaign.
  if (const auto store = Store::Open(state, reading)) {
    const std::string absolute = std::filesystem::absolute(path_).lexically_normal().string();
    ATTUNE_TRY(const std::optional<CampaignRow> newest, Earlier(**store, loaded, absolute, open));
    if (newest && !newest->Ended()) {
      outcome = fmt::format("would take up {}, which was interrupted", newest->id.value);
    } else if (if_changed_) {
      ATTUNE_TRY(const bool unchanged, Unchanged(**store, loaded, newest, open));
      if (unchanged) {
        outcome = fmt::format("would do nothing: {} tuned the same recipe and stack",
                              newest->id.value);
        code = kExitNothingToDo;
      }
    }
  } else if (store.error().code != ErrorCode::kNotFound) {
    return Fail(store.error());
  }
  std::optional<RunFlags::Budget> budget;  // unset: the recipe's
  if (open.automatic || open.budget) budget = RunFlags::Budget{open.automatic, open.budget};
  ATTUNE_TRY(const Planned planned, PlanFor(wire, loaded, budget, run_limit_, recalibrate_));
  wire.terminal().Out(wire.flags().json ? PlanJson(planned, outcome) + "\n"
                                        : PlanText(planned, true) + outcome + "\n");
  return code;
}

// Asks for an allocation and leaves, where the campaign is to run in a held one; unset: it goes on
// in this process.
Result<std::optional<int>> RunCommand::Hold(Wire& wire, const LoadedRecipe& loaded,
                                            const OpenFlags& open, bool in_allocation) const {
  if (!SessionToHold(hold_, loaded.recipe, in_allocation, nullptr)) return std::optional<int>();
  ATTUNE_TRY(const std::string state, wire.StateFolder());
  const std::string absolute = std::filesystem::absolute(path_).lexically_normal().string();
  StoreOptions reading;
  reading.read_only = true;
  std::optional<CampaignState> goes_on;
  if (const auto store = Store::Open(state, reading)) {
    ATTUNE_TRY(const std::optional<CampaignRow> newest, Earlier(**store, loaded, absolute, open));
    if (newest && !newest->Ended()) {
      ATTUNE_TRY(goes_on, LoadState(**store, newest->id));
    } else if (if_changed_) {
      ATTUNE_TRY(const bool unchanged, Unchanged(**store, loaded, newest, open));
      if (unchanged) return std::optional<int>();  // nothing is held to find nothing to do
    }
  } else if (store.error().code != ErrorCode::kNotFound) {
    return Fail(store.error());
  }
  HoldAsked asked;
  asked.campaign = goes_on ? &*goes_on : nullptr;
  const auto time = SessionToHold(hold_, loaded.recipe, in_allocation, asked.campaign);
  if (!time) {
    wire.terminal().Note("final blocks are jobs of their own: no allocation is held for them");
    return std::optional<int>();
  }
  asked.time = *time;
  ATTUNE_TRY(const int code, AskToHold(wire, loaded.recipe, path_, asked));
  return std::optional<int>(code);
}

// A campaign of this file that was interrupted, and that another recipe, world or seed now stands
// beside: its jobs may still run, and nobody would look after them.
Status TellInterrupted(Wire& wire, Store& store, const std::string& path) {
  ATTUNE_TRY(const std::optional<CampaignRow> other, store.NewestOfPath(path));
  if (!other || other->Ended()) return {};
  ATTUNE_TRY(const CampaignState state, LoadState(store, other->id));
  if (!state.opened->world.empty()) return {};  // no job of it goes on by itself
  const std::size_t open = state.OpenLaunches().size();
  wire.terminal().Warn(fmt::format(
      "{} of this file was interrupted{}, and is another campaign: attune resume {} goes on with "
      "it",
      other->id.value, open > 0 ? fmt::format(" with {} launches open", open) : std::string(),
      other->id.value));
  return {};
}

Result<int> RunCommand::Run(Wire& wire) {
  std::vector<std::string> set = set_;
  if (!launcher_.empty() && launcher_ != "sim") set.push_back("launcher.kind=" + launcher_);
  ATTUNE_TRY(LoadedRecipe loaded, wire.ReadRecipe(path_, set, set_file_));
  ATTUNE_RETURN_IF_ERROR(CheckRecipe(wire, loaded));
  const bool rehearse = launcher_ == "sim" || loaded.recipe.launcher.kind == "sim";
  if (!rehearse && !world_.empty()) {
    return Fail(ErrorCode::kInvalidInput, "--world goes with --launcher sim");
  }
  if (!rehearse && traces_) {
    return Fail(ErrorCode::kInvalidInput, "--traces goes with --launcher sim",
                "runs on a real cluster are profiled unless the recipe says profile: {off: true}");
  }
  if (rehearse) Rehearse(loaded);
  ATTUNE_TRY(OpenFlags open, Opening(wire, loaded));
  open.source = RecipeSource{set, set_file_};
  if (rehearse) open.world = world_.empty() ? std::string(kDefaultWorld) : world_;
  open.traces = traces_;
  if (dry_run_) return DryRun(wire, loaded, open);
  ATTUNE_TRY(SessionFlags session, flags_.Session(wire));
  ATTUNE_TRY(const std::optional<int> held, Hold(wire, loaded, open, session.in_allocation));
  if (held) return *held;
  Departure departure;
  ATTUNE_TRY(const std::optional<int> left, flags_.LeaveIfAsked(wire, session, departure));
  if (left) return *left;
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
  ATTUNE_TRY(const std::optional<CampaignRow> newest, Earlier(*store, loaded, absolute, open));
  if (newest && !newest->Ended()) {
    wire.terminal().Note(fmt::format("taking up {}, which was interrupted", newest->id.value));
    session.recipe_now = loaded.recipe;
    ATTUNE_TRY(const SessionEnd end, RunSession(*store, newest->id, session, wire.clock()));
    return TellEnd(wire, end);
  }
  ATTUNE_RETURN_IF_ERROR(TellInterrupted(wire, *store, absolute));
  if (if_changed_) {
    ATTUNE_TRY(const bool unchanged, Unchanged(*store, loaded, newest, open));
    if (unchanged && wire.flags().json) {
      ATTUNE_TRY(const CampaignState ended, LoadState(*store, newest->id));
      wire.terminal().Out(SummaryJson(ended, kExitNothingToDo, "nothing has changed since") + "\n");
    }
    if (unchanged) return kExitNothingToDo;
  }
  if (open.policy.proposer == "agent") {
    ATTUNE_RETURN_IF_ERROR(flags_.ChooseModels(wire, *store, loaded.recipe, open.policy));
  } else if (flags_.NamesModel()) {
    return Fail(ErrorCode::kInvalidInput, "--llm, --model and --llm-budget go with --tuner agent");
  }
  ATTUNE_TRY(const CampaignId id, OpenCampaign(*store, loaded, open, wire.clock()));
  ATTUNE_TRY(const SessionEnd end, RunSession(*store, id, session, wire.clock()));
  return TellEnd(wire, end);
}

}  // namespace

std::unique_ptr<Command> MakeRun() { return std::make_unique<RunCommand>(); }

}  // namespace attune::cli
