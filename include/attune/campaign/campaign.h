// The campaign: a pure decision and a thin loop around it (DESIGN decision 1). `run` and `resume`
// are one path: load the events, fold them, decide, act.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/launch/launcher.h"
#include "attune/model/action.h"
#include "attune/model/campaign.h"
#include "attune/propose/proposer.h"

namespace attune {

// Limits of this session, not of the campaign: not stored, another session may have others.
struct SessionLimits {
  std::optional<GpuMillis> budget;  // charged since the session began
  std::optional<Instant> deadline;  // no launch starts whose expected end is later
  GpuMillis charged_before;         // the ledger when the session began
};

// The next step. Pure: the same state, time and limits give the same action.
Action Decide(const CampaignState& state, Instant now, const SessionLimits& limits);

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
using Notifier = std::function<Status(const CampaignState&, const std::string& what)>;

struct CampaignParts {
  Journal& journal;
  Launcher& launcher;
  Proposer& proposer;
  Clock& clock;
  Shipper ship;
  Notifier notify;  // may be empty
  // Signals seen by the process: "drain", "cancel" or "detach", once each.
  std::function<std::optional<std::string>()> interrupted;
  // Progress for the terminal: after each committed event.
  std::function<void(const CampaignState&, const Event&)> on_event;
  // True while the pinned checkpoint and the recipe's files are as they were (Opened). Checked
  // before each launch; an error pauses the campaign.
  std::function<Status(const CampaignState&)> check_inputs;
  Env passed_env;  // values of recipe.launcher.pass_env; never stored
  SessionLimits limits;
};

struct CampaignEnd {
  int code = 0;  // cli.md section 3.2
  std::string why;
};

// Runs until Done. An error is the outside world's (disk full, lease lost): the state on disk is
// whole, and resume goes on from it.
Result<CampaignEnd> RunCampaign(CampaignState& state, const CampaignParts& parts);

// The gate as proposers may ask it: classes, defects, legality, duplicates; free.
Vet MakeVet(const CampaignState& state);

}  // namespace attune
