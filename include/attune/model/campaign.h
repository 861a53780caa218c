// The state of a campaign as a fold over its events: Apply(state, event) -> state, pure. Decide
// (campaign/decide.h) reads it, proposers and reports too.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attune/model/event.h"
#include "attune/model/recipe.h"

namespace attune {

struct LaunchRecord {
  LaunchIntended intent;
  LaunchState state = LaunchState::kIntended;
  std::optional<LaunchHandle> handle;
  std::optional<LaunchEnded> end;
  Instant intended_at, bound_at;
  bool uncertain = false;  // set by Resumed on intended and unbound launches: locate, don't repeat
  int absences = 0;        // times it was located and certainly not there
};

struct RunRecord {
  RunPlan plan;
  LaunchId launch;
  Purpose purpose = Purpose::kCandidate;
  std::optional<RunStarted> started;
  Instant started_at, last_news_at;  // last step, or start: hang is judged from here
  std::vector<Step> steps;
  std::map<std::string, std::string> block;
  MemorySeen memory;
  std::optional<FailureNoted> failure;
  std::optional<StopAsked> stop;
  bool stop_sent = false;
  std::optional<RunEnded> end;
  Instant ended_at;
  std::optional<Judged> judged;
  std::optional<Diagnosis> diagnosis;
};

struct ProposalRecord {
  ProposalId id;
  std::optional<Proposal> proposal;
  std::string source, llm_call;
  bool admitted = false;
  std::optional<Effective> candidate;
  std::string hash;
  GateVerdict verdict;
  std::string reason, detail;  // of a turned-back one
  RunId run;                   // launched as; empty until then
};

// One request to a model and what came of it.
struct ModelCall {
  AskIntended asked;
  std::optional<Answered> answer;
  bool uncertain = false;  // set by Resumed: sent or not, nobody knows
};

struct Leader {
  RunId run;                   // empty: the baseline
  Effective user;              // its configuration, user form
  std::vector<double> scores;  // measurements behind its mean
  // Measurements by the held allocation that they were made in; those of launches with an
  // allocation of their own under the empty name.
  std::map<std::string, std::vector<double>> measured = {};
  double mean = 0;
  double gain = 0;  // over the calibration mean, search-time figure
};

// Where the GPU-time went. charged = the sum; failed is part of search.
struct Ledger {
  GpuMillis calibration, search, final, idle, overrun;
  GpuMillis failed;
  GpuMillis held;  // holds of launches that are not over
  GpuMillis Charged() const { return calibration + search + final + idle + overrun; }
};

struct CampaignState {
  // Set once by whoever loads the campaign (the recipe is parsed from Opened.recipe_json).
  Recipe recipe;

  CampaignId id;
  std::int64_t seq = 0;  // of the last event applied
  Instant opened_at, last_at;
  std::optional<Opened> opened;
  Phase phase = Phase::kCalibrating;
  std::string phase_reason, stop;
  std::optional<GpuMillis> budget;
  Ledger ledger;
  std::optional<Calibration> calibration;
  CampaignId calibration_from;  // an earlier campaign's, put in force; empty: measured here
  Leader leader;
  std::vector<Leader> past_leaders;  // to fall back to, oldest first; the baseline is the first
  std::map<LaunchId, LaunchRecord> launches;
  std::map<RunId, RunRecord> runs;
  std::vector<ProposalRecord> proposals;
  std::optional<ProposalId> open_proposal;  // admitted, not launched yet
  std::vector<ModelCall> calls;
  std::size_t decision_from = 0;  // calls from here on belong to the decision that is being made
  std::int64_t llm_usd_micros = 0;  // of all answers; a call of unknown fate counts at its bound
  std::optional<std::int64_t> llm_budget_usd_micros;
  std::optional<StopWish> stop_wish;
  std::vector<FinalResult> finals;
  std::optional<ShipIntended> ship;
  std::optional<Shipped> shipped;
  std::vector<std::string> notices;      // intended, in order
  std::set<std::string> told;            // of them, those that were sent
  std::optional<std::string> user_wish;  // drain | detach | cancel; cleared by Resumed
  std::vector<RunId> retry;
  std::optional<Paused> paused;  // cleared by Resumed
  int no_launch_in_a_row = 0;
  int next_launch = 1, next_run = 1, next_proposal = 1;

  bool Ended() const {
    return phase == Phase::kShipped || phase == Phase::kNoGain || phase == Phase::kAborted;
  }
  const RunRecord* FindRun(const RunId& run) const;
  const ProposalRecord* FindProposal(const ProposalId& proposal) const;
  // How many runs the calibration was made from, here or by the earlier campaign.
  std::size_t CalibrationRuns() const;
  // The request that was intended and has no answer yet.
  const ModelCall* OpenCall() const {
    return calls.empty() || calls.back().answer ? nullptr : &calls.back();
  }
  // Launches that hold GPUs or may: intended, bound, running.
  std::vector<const LaunchRecord*> OpenLaunches() const;
};

CampaignState Apply(CampaignState state, const Event& event);

// The held allocation that the run's launch is a step of; empty: it has one of its own.
std::string AllocationOf(const CampaignState& state, const RunRecord& run);

// Where a launch's charge is booked.
GpuMillis& BookOf(Ledger& ledger, Purpose purpose);

// Same labels and rules for every reader: launches of the search that count as launched.
struct Counts {
  int launched = 0, win = 0, tie = 0, loss = 0, failed = 0, stopped_early = 0, rejected = 0;
  int refused = 0, turned_back = 0, duplicate = 0;
};
Counts CountsOf(const CampaignState& state);

}  // namespace attune
