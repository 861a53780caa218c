// resume: takes up a campaign where its events end. The same loop as run.
#include <fmt/core.h>
#include <unistd.h>

#include <map>

#include "attune/base/text.h"
#include "attune/os/process.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "hold.h"
#include "run_flags.h"
#include "summary.h"

namespace attune::cli {
namespace {

class Resume final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    flags_.Declare(options, false);
    options.Word("--retry", retry_, {"none", "infra", "failed"},
                 "launch again what the environment spoiled, or what failed too");
    options.Flag("--take-over", take_over_,
                 "take the lease of a writer whose fate cannot be seen from here");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(SessionFlags session, flags_.Session(wire));
    session.take_over = take_over_;
    ATTUNE_TRY(const std::optional<int> held, Hold(wire, session));
    if (held) return *held;
    Departure departure;
    ATTUNE_TRY(const std::optional<int> left, flags_.LeaveIfAsked(wire, session, departure));
    if (left) return *left;
    ATTUNE_TRY(const std::unique_ptr<Store> store, OpenExisting(wire));
    const std::string& named = campaign_.empty() ? wire.flags().campaign : campaign_;
    ATTUNE_TRY(const CampaignRow row, store->FindCampaign(named.empty() ? "latest" : named));
    if (row.Ended()) {
      wire.terminal().Note(fmt::format("{} ended ({}); nothing to do", row.id.value,
                                       row.stop.empty() ? std::string(Word(row.phase)) : row.stop));
      if (wire.flags().json) {
        ATTUNE_TRY(const CampaignState ended, LoadState(*store, row.id));
        wire.terminal().Out(SummaryJson(ended, kExitNothingToDo, "it has ended") + "\n");
      }
      return kExitNothingToDo;
    }
    ATTUNE_TRY(std::optional<RunFlags::Budget> budget, flags_.BudgetFlag(wire));
    {
      ATTUNE_TRY(const CampaignState state, LoadState(*store, row.id));
      if (!session.recipe_now) {
        ATTUNE_TRY(session.recipe_now, RecipeNow(wire, state));
      }
      const std::optional<GpuMillis> edited = EditedBudget(state, *session.recipe_now);
      if (!budget && edited) budget = RunFlags::Budget{false, *edited};
    }
    ATTUNE_RETURN_IF_ERROR(AskRetries(wire, *store, row.id));
    if (budget && budget->amount)
      ATTUNE_RETURN_IF_ERROR(Raise(wire, *store, row.id, *budget, session));
    ATTUNE_TRY(const SessionEnd end, RunSession(*store, row.id, session, wire.clock()));
    return TellEnd(wire, end);
  }

 private:
  // Asks for an allocation and leaves, where the recipe wants the campaign to run in a held one;
  // unset: it goes on in this process. In the allocation the same words take it up.
  Result<std::optional<int>> Hold(Wire& wire, SessionFlags& session) const {
    ATTUNE_TRY(const std::string folder, wire.StateFolder());
    StoreOptions reading;
    reading.read_only = true;
    const auto store = Store::Open(folder, reading);
    if (!store) return std::optional<int>();  // what is wrong with it is said by who opens it
    const std::string& named = campaign_.empty() ? wire.flags().campaign : campaign_;
    const auto row = (*store)->FindCampaign(named.empty() ? "latest" : named);
    if (!row || row->Ended()) return std::optional<int>();
    ATTUNE_TRY(CampaignState state, LoadState(**store, row->id));
    if (state.recipe.launcher.kind != "slurm") return std::optional<int>();
    ATTUNE_TRY(session.recipe_now, RecipeNow(wire, state));
    TakeOver(state.recipe, *session.recipe_now);
    const auto time = SessionToHold(std::nullopt, state.recipe, session.in_allocation, &state);
    if (!time) return std::optional<int>();
    HoldAsked asked;
    asked.time = *time;
    asked.campaign = &state;
    if (named.empty()) asked.more = {"--campaign", state.id.value};
    ATTUNE_TRY(const int code, AskToHold(wire, state.recipe, state.opened->recipe_path, asked));
    return std::optional<int>(code);
  }

  // A wish for each candidate whose last run ended that way; the session takes them up.
  Status AskRetries(Wire& wire, Store& store, const CampaignId& id) const {
    if (retry_.empty() || retry_ == "none") return {};
    ATTUNE_TRY(const std::vector<RunRow> runs, store.Runs(id, {}));
    std::map<ProposalId, const RunRow*> last;
    for (const RunRow& run : runs) {
      if (run.purpose == Purpose::kCandidate && !run.proposal.empty()) last[run.proposal] = &run;
    }
    const std::string by = fmt::format("{} pid {}", os::HostName(), getpid());
    for (const auto& [proposal, run] : last) {
      const bool spoiled = run->standing == Standing::kEnvironment;
      const bool failed = retry_ == "failed" && run->standing == Standing::kFailed;
      if (!spoiled && !failed) continue;
      ATTUNE_RETURN_IF_ERROR(
          store.AddWish(id, "retry:" + run->id.value, by, wire.clock().Now()));
      wire.terminal().Note(fmt::format("{} {} is launched again", run->id.value, run->label));
    }
    return {};
  }

  // Only upwards in effect: never below what is charged and held.
  static Status Raise(Wire& wire, Store& store, const CampaignId& id,
                      const RunFlags::Budget& budget, const SessionFlags& session) {
    ATTUNE_TRY(const CampaignState state, LoadState(store, id));
    if (state.budget && *state.budget == *budget.amount) return {};
    const GpuMillis least = state.ledger.Charged() + state.ledger.held;
    if (*budget.amount < least) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("--budget {}: {} GPU-h are charged and held already",
                              ShowGpuHours(*budget.amount), ShowGpuHours(least)));
    }
    AcquireOptions lease;
    lease.take_over = session.take_over;
    lease.wait = session.lock_wait;
    ATTUNE_TRY(const std::unique_ptr<Writer> writer, store.Acquire(id, wire.clock(), lease));
    ATTUNE_TRY(const Event event,
               writer->Append(BudgetSet{*budget.amount, "set by the user"}, wire.clock().Now()));
    (void)event;
    return writer->Release(wire.clock().Now());
  }

  std::string campaign_, retry_;
  RunFlags flags_;
  bool take_over_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeResume() { return std::make_unique<Resume>(); }

}  // namespace attune::cli
