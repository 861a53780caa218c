// What the store's read-only queries answer: rows of the projections, never a recomputed verdict.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/base/ids.h"
#include "attune/base/units.h"
#include "attune/model/campaign.h"

namespace attune {

struct CampaignRow {
  CampaignId id;
  std::string name;  // of the recipe
  std::string recipe_path, recipe_hash, stack_fingerprint;
  Instant opened_at, updated_at;
  std::int64_t last_seq = 0;
  Phase phase = Phase::kCalibrating;
  std::string phase_reason, stop;
  std::string proposer, policy;
  std::string run_root;
  bool Ended() const {
    return phase == Phase::kShipped || phase == Phase::kNoGain || phase == Phase::kAborted;
  }
};

// Who may write a campaign; empty host: released.
struct LeaseRow {
  std::int64_t epoch = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string boot_id;
  Instant since, last_beat;  // wall clock of the holder: for people, never for a decision
  std::int64_t beats = 0;
  bool released = true;
};

// What is known of a writer without waiting: on this host the OS lock tells, elsewhere only the age
// of the last beat.
enum class WriterSeen { kNone, kAlive, kGone, kSilent, kElsewhere };
// kNone: released. kAlive: it holds its OS lock, or beat within 30 s. kGone: same host and boot,
// its lock is free. kSilent: no beat for over 30 s by the wall clock. kElsewhere: another host.

struct FinalRow {
  RunId leader;
  bool passed = false, rehearsed = false;
  double baseline = 0, winner = 0, gain = 0, p = 1, p_floor = 1;
  std::vector<double> block_ratios;
  std::string strength, reason;
};

struct LeaderRow {
  RunId run;  // empty: the baseline
  std::string label;
  std::optional<double> score;
  std::optional<double> gain;  // over the calibration mean, search-time figure
};

// One row of `runs`: a run with its launch's money and its proposal's change.
struct RunRow {
  RunId id;
  std::string label;
  LaunchId launch;
  Purpose purpose = Purpose::kCandidate;
  ProposalId proposal;
  std::string lever;   // primary lever of its proposal
  std::string change;  // for people: "--micro-batch-size 1->2"
  std::string form;    // "measured", "user"
  LaunchState launch_state = LaunchState::kIntended;
  Instant intended_at;
  std::optional<Instant> started_at, ended_at;
  std::string node, folder;
  std::int64_t steps = 0;  // seen
  std::optional<std::int64_t> last_iteration;
  std::optional<RunEnd> end;
  std::optional<int> exit_code, signal;
  std::string failure_class, cause, evidence, evidence_at;
  std::string stop_why;
  Millis held{0}, startup{0};
  std::optional<Standing> standing;
  std::string validity, reason;
  std::optional<double> gain, score, mfu, step_ms, cv;
  std::optional<std::int64_t> max_reserved;
  bool leads = false;
  GpuMillis charged, hold;  // of its launch, shared by the launch's runs
};

// Everything `status` shows, in one read transaction and without reading events.
struct CampaignSummary {
  CampaignRow campaign;
  std::optional<GpuMillis> budget;
  Ledger ledger;
  std::optional<double> baseline_mean, sigma, band;
  int calibration_runs = 0;
  LeaderRow leader;
  std::optional<FinalRow> final_result;
  Counts counts;
  std::vector<RunRow> open_runs;    // of launches that are not over
  std::vector<RunRow> recent_runs;  // last ones that ended, oldest first
  std::int64_t runs = 0;
  std::optional<LeaseRow> lease;
  std::string shipped_bundle, shipped_recipe, paused;
  std::int64_t llm_calls = 0;
  std::vector<std::string> pending_wishes;
};

struct ProposalRow {
  ProposalId id;
  std::int64_t seq = 0;  // event
  Instant at;
  bool admitted = false;
  std::string source, llm_call, lever, label, hypothesis, change, reason, detail, rule;
  RunId run;  // launched as; empty if not
};

struct Wish {
  std::int64_t id = 0;
  Instant at;
  std::string what;  // UserAsked.what
  std::string by;
};

// One line of `db check`.
struct CheckLine {
  bool ok = true;
  std::string what, found;
};

}  // namespace attune
