// The campaign: a pure decision and a thin loop around it (DESIGN decision 1). `run` and `resume`
// are one path: load the events, fold them, decide, act.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/gates/instrument.h"
#include "attune/launch/launcher.h"
#include "attune/model/action.h"
#include "attune/model/campaign.h"
#include "attune/propose/agent.h"
#include "attune/propose/proposer.h"

namespace attune {

// Opened.run_root of a campaign on the simulated cluster: its jobs lie nowhere. With the second its
// runs are profiled, and their traces are made when they are read.
inline constexpr std::string_view kSimRoot = "sim", kTracedSimRoot = "sim-traced";

// Limits of this session, not of the campaign: not stored, another session may have others.
struct SessionLimits {
  std::optional<GpuMillis> budget;  // charged since the session began
  std::optional<Instant> deadline;  // no launch starts whose expected end is later
  GpuMillis charged_before;         // the ledger when the session began
  std::string allocation;  // held one that launches become steps of; empty: each has its own
};

// Runs whose argument block, or first step, an earlier decision of this process found in order.
// What that was judged from never changes once it is there, so a running job is not judged by it
// again at every look. It saves time and changes no decision; nothing of it is stored.
struct FoundSound {
  std::set<RunId> blocks, first_steps;
};

// The next step. Pure: the same state, time and limits give the same action, with `sound` or
// without.
Action Decide(const CampaignState& state, Instant now, const SessionLimits& limits,
              FoundSound* sound = nullptr);

// The measured form's window of the next run: at most `steps` steps, its own files below `scratch`.
MeasuredWindow WindowFor(const CampaignState& state, int steps, const std::string& scratch);

// Nodes on which a run of this campaign lost its node: later launches leave them out.
std::vector<std::string> ExcludedNodes(const CampaignState& state);

// What is set aside for the final stage: its holds, the rehearsal's included. 0 before the first
// run has shown its pace.
GpuMillis Reserve(const CampaignState& state);

// What the loop needs of the store: durable appends under the lease. Implemented over Store by
// cli, and in memory by tests.
class Journal {
 public:
  virtual ~Journal() = default;
  // Commits the facts in one transaction, all or none, and gives them back as events. kUnavailable:
  // the lease is no longer ours; nothing was written.
  virtual Result<std::vector<Event>> Append(std::vector<Fact> facts, Instant at) = 0;
  // Before every effect: is the lease still ours? Also beats when a beat is due.
  virtual Status CheckLease() = 0;
  // Wishes of other processes (attune stop, attune retry) as committed UserAsked events, each once.
  virtual Result<std::vector<Event>> TakeWishes(Instant at) = 0;
};

// What Ship writes, made by the caller (recipe_io and report know the formats). Called again after
// a crash it writes the same bytes to the same place.
using Shipper = std::function<Result<Shipped>(const CampaignState&)>;
// Tells somebody. Whether that worked changes nothing for the campaign: the caller says so.
using Notifier = std::function<void(const CampaignState&, const std::string& what)>;

// `run --approve each`: may this candidate be launched? Asked when its launch would be recorded
// next, so that nothing is held or charged for one that may not; once a process for a proposal.
// `pulse` is to be called at least once a second; kLeave when it says false.
enum class Approval { kYes, kNo, kLeave };
using Approver = std::function<Result<Approval>(const CampaignState&, const ProposalRecord&,
                                                const LaunchIntended&, const Pulse& pulse)>;

struct CampaignParts {
  Journal& journal;
  Launcher& launcher;
  Proposer& proposer;
  Clock& clock;
  Shipper ship;
  Notifier notify;        // may be empty
  Approver approve = {};  // empty: every admitted candidate is launched
  // Signals seen by the process: "drain", "cancel" or "detach", once each.
  std::function<std::optional<std::string>()> interrupted;
  // Progress for the terminal: after each committed event.
  std::function<void(const CampaignState&, const Event&)> on_event;
  // Before each decision, events or not: at least once a slice.
  std::function<void(const CampaignState&, Instant now)> on_tick = {};
  // True while the pinned checkpoint and the recipe's files are as they were (Opened). Checked
  // before each launch; an error pauses the campaign. And after each: kInvalidInput, they are
  // not, makes its runs void.
  std::function<Status(const CampaignState&)> check_inputs;
  Env passed_env;           // values of recipe.launcher.pass_env; never stored
  std::string script = {};  // recipe.launcher.script as it lies there, whole; empty: it has none
  // Longest single wait: wishes of other processes are read and the lease is beaten in between. On
  // a virtual clock nothing passes meanwhile, so there it may be long.
  Millis slice = kSlice;
  static constexpr Millis kSlice{2'000};
  SessionLimits limits;
};

struct CampaignEnd {
  int code = 0;  // cli.md section 3.2
  std::string why;
};

// Runs until Done. An error is the outside world's (disk full, lease lost): the state on disk is
// whole, and resume goes on from it.
Result<CampaignEnd> RunCampaign(CampaignState& state, const CampaignParts& parts);

// The submission of an intended launch, as Submit makes it: a function of the record and of
// `passed` (recipe.launcher.pass_env) and of `script` (recipe.launcher.script).
LaunchSpec SpecOf(const CampaignState& state, const LaunchIntended& intent, const Env& passed,
                  const std::string& script);

// The gate as proposers may ask it: classes, defects, legality, duplicates; free. Of the state as
// it is now, which outlives it.
Vet MakeVet(const CampaignState& state);

// What an agent may be offered: the levers of the gates' table, or the declared ones, with their
// legal values, without those that the recipe closes.
std::vector<LeverOffer> LeverOffersOf(const Recipe& recipe);
// Memory and time of the leader with these edits by the estimate, as far as this campaign has
// corrected it. For an agent's questions.
Result<std::string> EstimateFor(const CampaignState& state, const Question& question);

}  // namespace attune
