// From one fact to the rows that show it. Runs inside the transaction that writes the event, and
// again over all events when projections are rebuilt; both give the same rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/event.h"
#include "statement.h"

namespace attune {

struct ProjectionTable {
  const char* name;
  const char* key;  // columns of ORDER BY within a campaign
};
// Children before parents, so that rows can be deleted in this order.
inline constexpr ProjectionTable kProjections[] = {
    {"measurement", "run"},
    {"diagnosis", "run, position"},
    {"verdict", "seq, position"},
    {"run", "id"},
    {"launch", "id"},
    {"proposal", "id"},
    {"llm_call", "id"},
    {"calibration", "campaign"},
};

// An error means that the fact does not fit what is there (an unknown run, a launch that can't go
// from its state to the next): a bug of the caller, and nothing may be written.
class Projector {
 public:
  Projector(sql::Connection& connection, CampaignId campaign)
      : db_(connection), campaign_(std::move(campaign)) {}

  // `event` rows are written by the caller; Opened makes the campaign row.
  Status Project(const Event& event);

  // One visit a fact.
  Status operator()(const Opened& f);
  Status operator()(const Resumed& f);
  Status operator()(const BudgetSet& f);
  Status operator()(const PhaseSet& f);
  Status operator()(const Calibrated& f);
  Status operator()(const Proposed& f);
  Status operator()(const TurnedBack& f);
  Status operator()(const AskIntended& f);
  Status operator()(const Answered& f);
  Status operator()(const StopWished& f);
  Status operator()(const LaunchIntended& f);
  Status operator()(const LaunchBound& f);
  Status operator()(const LaunchEnded& f);
  Status operator()(const RunStarted& f);
  Status operator()(const StepsSeen& f);
  Status operator()(const DumpSeen& f);
  Status operator()(const MemoryNoted& f);
  Status operator()(const StopAsked& f);
  Status operator()(const StopSent& f);
  Status operator()(const RunEnded& f);
  Status operator()(const Judged& f);
  Status operator()(const Diagnosed& f);
  Status operator()(const FinalResult& f);
  Status operator()(const ShipIntended& f);
  Status operator()(const Shipped& f);
  Status operator()(const NoticeIntended& f);
  Status operator()(const Noticed& f);
  Status operator()(const UserAsked& f);
  Status operator()(const Paused& f);
  Status operator()(const LaunchUncertain& f);
  Status operator()(const LaunchAbsent& f);
  Status operator()(const FailureNoted& f);
  Status operator()(const LlmBudgetSet& f);

 private:
  template <class... A>
  Status One(std::string_view what, std::string_view sql, const A&... args);  // exactly one row
  template <class... A>
  Status Any(std::string_view sql, const A&... args);
  Status Findings(std::string_view subject, std::string_view id,
                  const std::vector<Finding>& findings);
  Result<LaunchState> Move(const LaunchId& id, LaunchNews news);
  Status KnownRun(const RunId& id);
  // Adds to a counter of the campaign's row; an empty column counts nothing.
  Status Count(std::string_view column, int by);
  Status Recount(std::string_view was, std::string_view is);
  // What a change is compared with: the leader's user form, else the baseline's.
  Result<std::optional<Effective>> LeaderForm();
  Result<std::string> Describe(const Proposal& proposal, const Effective* candidate);

  sql::Connection& db_;
  CampaignId campaign_;
  std::int64_t seq_ = 0;
  Instant at_;
};

}  // namespace attune
