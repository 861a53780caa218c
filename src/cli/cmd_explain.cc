// explain: the story of one run or proposal.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/report/explain.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "session.h"

namespace attune::cli {
namespace {

class Explain final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RUN|PROPOSAL", name_, "its id, a unique prefix of it, or a run's label");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, ""));
    const CampaignId& id = reading.campaign.id;
    ATTUNE_TRY(const std::vector<Event> events, reading.store->Load(id));
    ATTUNE_TRY(const CampaignState state, LoadState(*reading.store, id));
    std::optional<Explanation> told;
    // A campaign that goes on may have grown between the two reads: what is newer is not told.
    const Result<RunRow> run = reading.store->FindRun(id, name_);
    if (run) {
      told = ExplainRun(state, events, run->id);
    } else if (run.error().code != ErrorCode::kNotFound) {
      return Fail(Error(run.error()));
    } else if (const Result<ProposalRow> proposal = reading.store->FindProposal(id, name_);
               proposal) {
      told = ExplainProposal(state, events, proposal->id);
    } else if (proposal.error().code != ErrorCode::kNotFound) {
      return Fail(Error(proposal.error()));
    }
    if (!told) {
      return Fail(
          ErrorCode::kNotFound,
          fmt::format("{} has no run or proposal '{}'", id.value, EscapeForDisplay(name_, 80)),
          "-c CAMPAIGN names another campaign");
    }
    wire.terminal().Out(wire.flags().json ? ExplainJson(*told) + "\n" : ExplainText(*told));
    return kExitDone;
  }

 private:
  std::string name_;
};

}  // namespace

std::unique_ptr<Command> MakeExplain() { return std::make_unique<Explain>(); }

}  // namespace attune::cli
