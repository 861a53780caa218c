// resume: takes up a campaign where its events end. The same loop as run.
#include <fmt/core.h>

#include "commands.h"
#include "run_flags.h"

namespace attune::cli {
namespace {

class Resume final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    flags_.Declare(options);
    options.Flag("--take-over", take_over_,
                 "take the lease of a writer whose fate cannot be seen from here");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(SessionFlags session, flags_.Session(wire));
    session.take_over = take_over_;
    ATTUNE_TRY(const std::string state, wire.StateFolder());
    ATTUNE_TRY(const std::unique_ptr<Store> store, Store::Open(state));
    const std::string& named = campaign_.empty() ? wire.flags().campaign : campaign_;
    ATTUNE_TRY(const CampaignRow row, store->FindCampaign(named.empty() ? "latest" : named));
    if (row.Ended()) {
      wire.terminal().Note(fmt::format("{} ended ({}); nothing to do", row.id.value,
                                       row.stop.empty() ? std::string(Word(row.phase)) : row.stop));
      return kExitNothingToDo;
    }
    ATTUNE_TRY(const std::optional<RunFlags::Budget> budget, flags_.BudgetFlag(wire));
    if (budget && budget->amount) ATTUNE_RETURN_IF_ERROR(Raise(wire, *store, row.id, *budget));
    ATTUNE_TRY(const SessionEnd end, RunSession(*store, row.id, session, wire.clock()));
    return TellEnd(wire, end);
  }

 private:
  // Only upwards in effect: never below what is charged and held.
  static Status Raise(Wire& wire, Store& store, const CampaignId& id,
                      const RunFlags::Budget& budget) {
    ATTUNE_TRY(const CampaignState state, LoadState(store, id));
    if (state.budget && *state.budget == *budget.amount) return {};
    const GpuMillis least = state.ledger.Charged() + state.ledger.held;
    if (*budget.amount < least) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("--budget {}: {} GPU-h are charged and held already",
                              ShowGpuHours(*budget.amount), ShowGpuHours(least)));
    }
    ATTUNE_TRY(const std::unique_ptr<Writer> writer, store.Acquire(id, wire.clock()));
    ATTUNE_TRY(const Event event,
               writer->Append(BudgetSet{*budget.amount, "set by the user"}, wire.clock().Now()));
    (void)event;
    return writer->Release(wire.clock().Now());
  }

  std::string campaign_;
  RunFlags flags_;
  bool take_over_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeResume() { return std::make_unique<Resume>(); }

}  // namespace attune::cli
