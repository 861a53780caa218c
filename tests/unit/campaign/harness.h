// A whole campaign in memory: fake launcher on a virtual clock, events in a vector, cut points
// wherever a test wants one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/campaign/campaign.h"
#include "attune/propose/proposer.h"
#include "fakes/fake_launcher.h"
#include "fakes/virtual_clock.h"

namespace attune::testing {

// Thrown at a cut point: the process is gone, the world (jobs, committed events) goes on.
struct Cut {};

// Events of one campaign, and where to cut.
class MemoryJournal final : public Journal {
 public:
  Result<std::vector<Event>> Append(std::vector<Fact> facts, Instant at) override;
  Status CheckLease() override {
    return lease_lost ? Status(Fail(ErrorCode::kUnavailable, "lease lost")) : Status();
  }
  Result<std::vector<Event>> TakeWishes(Instant at) override;

  std::vector<Event> events;
  std::vector<UserAsked> wishes;
  bool lease_lost = false;
  int commits = 0;
  int cut_before = 0, cut_after = 0, full_at = 0;  // the Nth commit of this process; 0: never
  std::function<void(const Event&)> on_event;
};

// The recipe of most tests: two slots, fake training with real levers.
Recipe FakeRecipe();

struct Campaign {
  explicit Campaign(Recipe recipe);

  // Opens (the first time) or resumes, and runs to the end of this process. Throws Cut.
  Result<CampaignEnd> Go();
  // The fold over the committed events.
  CampaignState State() const;
  // "baseline:reference", "micro_batch-2:win" ... in order: what two campaigns must share.
  std::vector<std::string> RunTable() const;
  const RunRecord* Run(const CampaignState& s, const std::string& label) const;

  fakes::VirtualClock clock;
  fakes::FakeWorld world{&clock};
  MemoryJournal journal;
  Recipe recipe;
  Opened opening;
  std::function<std::unique_ptr<Proposer>()> proposer = MakeRulesProposer;
  SessionLimits limits;
  std::function<Status(const CampaignState&)> check_inputs;
  std::function<std::optional<std::string>()> interrupted;
  Approver approve;
  std::function<void(const char*)> effect_hook;  // after spawn, signal, rename
  int processes = 0;
  int ships = 0;
};

// The invariants that hold after every event, whatever was cut: charged + held <= budget, and no
// hold without an open launch. Empty: all hold.
std::string BrokenInvariant(const CampaignState& s);
// What must be true of an ended campaign against the world that ran it: one start a token, nothing
// alive, each charge as the world counts it, sums equal. Empty: all true.
std::string BrokenBooks(Campaign& c);

}  // namespace attune::testing
