// explain: the story of one run or proposal.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/report/explain.h"
#include "attune/traces/diagnose.h"
#include "attune/traces/trace_reader.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "draw_step.h"
#include "run_projection.h"
#include "session.h"
#include "transcript.h"

namespace attune::cli {
namespace {

class Explain final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RUN|PROPOSAL", name_, "its id, a unique prefix of it, or a run's label");
    options.Flag("--transcript", transcript_, "also what was asked of a model, and its answers");
    options.Flag("--trace", trace_, "with all that its traces tell, as attune diagnose");
    options.Text("--svg", svg_, "FILE", "draw the streams of one step of its trace");
    options.Text("--step", step_, "NAME", "which: ProfilerStep#12; else the one of median length");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, ""));
    const CampaignId& id = reading.campaign.id;
    ATTUNE_TRY(const std::vector<Event> events, reading.store->Load(id));
    ATTUNE_TRY(const CampaignState state, LoadState(*reading.store, id));
    const SkillInUse skill = SkillToShow(wire, state);
    const Catalog& catalog = skill.Get().catalog;
    std::optional<Explanation> told;
    // A campaign that goes on may have grown between the two reads: what is newer is not told.
    const Result<RunRow> run = reading.store->FindRun(id, name_);
    if (run) {
      told = ExplainRun(state, events, run->id, catalog);
    } else if (run.error().code != ErrorCode::kNotFound) {
      return Fail(Error(run.error()));
    } else if (const Result<ProposalRow> proposal = reading.store->FindProposal(id, name_);
               proposal) {
      told = ExplainProposal(state, events, proposal->id, catalog);
    } else if (proposal.error().code != ErrorCode::kNotFound) {
      return Fail(Error(proposal.error()));
    }
    if (!told) {
      return Fail(
          ErrorCode::kNotFound,
          fmt::format("{} has no run or proposal '{}'", id.value, EscapeForDisplay(name_, 80)),
          "-c CAMPAIGN names another campaign");
    }
    if (!told->run.empty()) told->projection = ProjectionOf(state, events, told->run);
    const std::string folder = ExchangeFolder(reading.store->folder(), id);
    if (!svg_.empty()) {
      ATTUNE_RETURN_IF_ERROR(Draw(*told));
      wire.terminal().Note("drawn: " + svg_);
    }
    if (transcript_ && wire.flags().json) {
      ATTUNE_TRY(const std::string calls, TranscriptJson(state, told->proposal, folder));
      wire.terminal().Out(calls + "\n");
      return kExitDone;
    }
    if (wire.flags().json) {
      wire.terminal().Out(ExplainJson(*told) + "\n");
      return kExitDone;
    }
    std::string text = ExplainText(*told);
    if (trace_) {
      ATTUNE_TRY(const TraceSet set, TracesOf(*told));
      text += "\n" + TracesText(set, DiagnoseTraces(set));
    }
    if (transcript_) {
      ATTUNE_TRY(const std::string calls, TranscriptText(state, told->proposal, folder));
      text += calls;
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

 private:
  static Result<TraceSet> TracesOf(const Explanation& told) {
    if (!told.diagnosis || told.diagnosis->traces.empty()) {
      std::string why = "runs are profiled after their timed window: see attune plan";
      if (told.diagnosis && !told.diagnosis->notes.empty()) why = told.diagnosis->notes.front();
      return Fail(ErrorCode::kNotFound,
                  fmt::format("{} has no trace on this machine",
                              told.run.empty() ? told.proposal.value : told.run.value),
                  why);
    }
    return ReadTraces({told.diagnosis->traces});
  }

  Status Draw(const Explanation& told) const {
    ATTUNE_TRY(const TraceSet set, TracesOf(told));
    return DrawStep(svg_, set, TraceOptions{}, step_);
  }

  std::string name_, svg_, step_;
  bool transcript_ = false, trace_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeExplain() { return std::make_unique<Explain>(); }

}  // namespace attune::cli
