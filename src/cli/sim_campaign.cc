#include "sim_campaign.h"

#include "session.h"
#include "simulate.h"
#include "store_journal.h"

namespace attune::cli {

Result<CampaignState> RunSimCampaign(const SimCampaign& campaign, Proposer& proposer, Store& store,
                                     Clock& machine_clock) {
  OpenFlags flags;
  flags.policy = campaign.policy;
  flags.budget = campaign.budget;
  ATTUNE_TRY(const CampaignId id, OpenSimulated(store, *campaign.recipe, flags, campaign.world));
  ATTUNE_TRY(const std::unique_ptr<Writer> writer, store.Acquire(id, machine_clock));
  ATTUNE_TRY(CampaignState state, LoadState(store, id));
  sim::VirtualClock clock(state.last_at);
  ATTUNE_TRY(
      const std::unique_ptr<Launcher> launcher,
      sim::MakeSimLauncher(SetupOf(state.recipe, campaign.world, campaign.policy.seed), clock));
  StoreJournal journal(store, *writer, machine_clock);
  CampaignParts parts{
      .journal = journal,
      .launcher = *launcher,
      .proposer = proposer,
      .clock = clock,
      .ship =
          [](const CampaignState& s) {
            return Result<Shipped>(Shipped{s.ship->bundle, s.ship->bundle, s.leader.gain});
          },
      .notify = {},
      .interrupted = {},
      .on_event = {},
      .check_inputs = {},
      .passed_env = {},
      .slice = kSimulatedSlice,
      .limits = {}};
  ATTUNE_TRY(const CampaignEnd end, RunCampaign(state, parts));
  (void)end;
  ATTUNE_RETURN_IF_ERROR(writer->Release(machine_clock.Now()));
  return state;
}

}  // namespace attune::cli
