// The events of a campaign: the only truth. Every table besides `event` is a projection of these,
// written in the same transaction; CampaignState is a fold over them (campaign.h). The store maps
// each fact to a word (FactWord) and a JSON body. Facts only grow: a field is never renamed, and a
// newer program never recomputes a verdict that stands here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "attune/base/ids.h"
#include "attune/base/units.h"
#include "attune/model/diagnosis.h"
#include "attune/model/measurement.h"
#include "attune/model/proposal.h"
#include "attune/model/run.h"
#include "attune/model/verdict.h"

namespace attune {

enum class Phase { kCalibrating, kSearching, kFinalizing, kShipped, kNoGain, kAborted };
std::string_view Word(Phase p);
std::optional<Phase> ParsePhase(std::string_view word);

// Frozen before the first launch; resume with another value is refused.
struct Policy {
  std::string proposer = "rules";  // agent | rules | tpe | random | optico-like | scripted
  std::string name = "rules";      // policy record ("full", "paper", ...)
  bool prefilter = true;
  std::string script;  // scripted: path of the proposals file
  std::uint64_t seed = 0;
  int final_blocks = 0;  // 0: by rule
  // What the agent is given; a policy record (propose/policy.h) says them together.
  bool rules = true;             // the skill's search rules
  std::string catalog = "full";  // full | public | none
  bool lessons = true;
  bool diagnosis = true;
  int inspections = 6;         // read-only questions that one decision may ask
  std::string space = "open";  // open | fixed: the knobs of a fixed list only
  int agents = 1;              // more than one: they propose, criticise and vote
  std::vector<std::string> models;  // that may answer, first choice first
  std::string replay;               // campaign, or folder, whose exchanges answer instead
  std::string skill;                // folder of the user's own skill; empty: the built-in one

  bool operator==(const Policy&) const = default;
};

// What an earlier campaign of the same recipe, start point, cluster and stack measured of the
// baseline. It is in force once one fresh run lies inside its band (control_plane.md section 1).
struct EarlierCalibration {
  CampaignId campaign;
  Instant at;  // when it was made
  Calibration calibration;
  std::vector<double> scores;  // tokens/s/slot of its runs, in order
};

struct Opened {
  CampaignId id;
  std::string recipe_json;  // the effective recipe, canonical (recipe_io)
  std::string recipe_path;
  std::string recipe_hash;
  std::string stack_fingerprint;
  std::string skill_version;
  std::string attune_version;
  std::string run_root;  // folder that holds the run folders
  Policy policy;
  std::optional<GpuMillis> budget;  // unset: "auto"
  std::optional<Millis> run_limit;
  // The pinned start point (control_plane.md section 2b): checked before each launch.
  std::int64_t start_iteration = 0;
  std::string checkpoint;  // folder; empty: from random initialisation
  // Hash over the names, sizes and times of the files in it: runs must leave it as it is.
  std::string checkpoint_files;
  // The launcher's terms, so that Decide can compute holds: hold = slots x (limit + margin).
  Millis release_margin{15'000};
  Millis limit_step{1};  // limits are rounded up to a multiple of this
  // A rehearsal on the simulated cluster: its world as it was named, and the hash of what it holds.
  // Empty: a real launcher. Times of such a campaign are virtual.
  std::string world, world_hash;
  std::optional<EarlierCalibration> earlier;  // at most 7 days old at the opening
};
struct Resumed {
  std::string by;  // host and pid
};
struct BudgetSet {
  GpuMillis budget;
  std::string why;  // "auto: 30 x 0.031 GPU-h", "raised by user"
};
struct PhaseSet {
  Phase phase = Phase::kCalibrating;
  std::string reason;
  std::string stop;  // agent | budget | no_launch | aborted | user | "" while it goes on
};
struct Calibrated {
  Calibration calibration;
  CampaignId reused;  // Opened.earlier is put in force; `calibration.runs` is the run that confirms
};
struct Proposed {
  ProposalId id;
  Proposal proposal;
  std::string source;    // proposer's name
  std::string llm_call;  // id of the llm_call row, when one made it
  Effective candidate;   // user form: leader + change
  std::string hash;      // CanonicalHash(candidate)
  GateVerdict verdict;   // of the config gate: admitted
};
// Refused by a gate, a duplicate, turned back by the pre-filter, or unparsable. Costs nothing.
struct TurnedBack {
  ProposalId id;
  std::optional<Proposal> proposal;  // absent when the reply was none
  std::string source;
  std::string llm_call;
  std::string reason;  // "gate.objective.--lr", "duplicate", "prefilter.memory", "schema", "budget"
  GateVerdict verdict;
  std::string detail;  // the error, or the earlier result that a duplicate has
};
// A request to a model, committed before it is sent (llm.md section 0, item 8). Money is in
// millionths of a dollar; absent: the model's price is not known.
struct AskIntended {
  std::string call;  // id of the llm_call row: "q001"
  std::string body_hash;
  std::string model;
  std::string profile = {};
  std::string role = {};  // "decide"; of a committee: "propose 2", "vote 1"
  std::optional<std::int64_t> bound_usd_micros = {};  // at most; counted when no answer comes
  std::string repeats = {};  // the call of unknown fate whose body this one sends once more
};
// What came back. The text is kept: the requests that follow are built from it.
struct Answered {
  std::string call;
  std::string outcome;         // llm::Word(TurnKind), or "unknown"
  std::string model = {};      // as the reply names it
  std::string tool = {};       // of an action: propose | inspect | stop | vote
  std::string arguments = {};  // as the model sent them, bounded
  std::string error = {};      // what did not fit, or what went wrong
  std::string shown = {};      // of inspect: what was read, as the next request shows it
  std::int64_t in_tokens = 0, out_tokens = 0, cached_tokens = 0, cache_written_tokens = 0,
               reasoning_tokens = 0;
  std::optional<std::int64_t> usd_micros = {};
  int tries = 0;   // HTTP requests
  int status = 0;  // of the last one
  Millis latency{0};
  std::string request_id = {};  // the provider's
};
// The ceiling of model calls, from --llm-budget or raised by resume.
struct LlmBudgetSet {
  std::int64_t usd_micros = 0;
  std::string why;
};
struct StopWished {
  StopWish wish;
  std::string source;
};
struct LaunchIntended {
  LaunchId id;
  Token token;
  Purpose purpose = Purpose::kCandidate;
  int slots = 1;
  GpuMillis hold;
  Millis limit{0};
  std::vector<RunPlan> runs;
  std::vector<std::string> exclude;
  int attempt = 0;  // of the same purpose, after an environment failure
};
struct LaunchBound {
  LaunchId id;
  LaunchHandle handle;
};
// Where a charge comes from, first that exists (control_plane.md section 2).
enum class ChargeSource { kWrapper, kScheduler, kLastBeat, kFullHold, kNeverStarted };
std::string_view Word(ChargeSource s);
struct LaunchEnded {
  LaunchId id;
  bool reached = true;  // false: void, it never reached the cluster; nothing is charged
  GpuMillis charged;
  GpuMillis overrun;  // part of `charged` beyond the hold
  ChargeSource source = ChargeSource::kWrapper;
  std::string nodes;
  std::string detail;  // scheduler's word, or why it never started
  std::vector<std::string> failed_nodes;  // known to be broken: later launches leave them out
  GpuMillis idle = {};  // part of `charged`: held for nobody before the launch began
};
struct RunStarted {
  RunId id;
  std::string node;
  std::string folder;
};
struct StepsSeen {
  RunId id;
  std::vector<Step> steps;
};
struct DumpSeen {  // the framework's printed argument block, once a run
  RunId id;
  std::map<std::string, std::string> block;
};
struct MemoryNoted {
  RunId id;
  MemorySeen memory;
};
enum class StopWhy {
  kEnough,     // the wanted steps are there (frameworks without a safe exit argument)
  kEarlyLoss,  // the early look: cannot win
  kEarlyWin,   // the early look: has won
  kStep0,      // step-0 gate
  kReadback,   // the printed block is not the intent
  kTrajectory,
  kWrongStart,  // first iteration is not s + 1
  kHang,
  kFatalLine,  // fail fast on the first fatal line
  kUser,
  kLimit,
};
std::string_view Word(StopWhy w);
struct StopAsked {
  RunId id;
  StopWhy why = StopWhy::kUser;
  std::vector<Finding> findings;
  std::string detail;
};
struct StopSent {  // the effect of StopAsked has been carried out
  RunId id;
};
struct RunEnded {
  RunId id;
  EndDetail detail;
  Millis held{0};     // start to exit by the wrapper's records
  Millis startup{0};  // start to first step
};
struct Judged {
  RunId id;
  Validity validity = Validity::kInvalid;
  Standing standing = Standing::kInvalid;
  std::optional<Measurement> measurement;
  std::optional<double> gain;  // against the leader at that moment
  std::vector<Finding> findings;
  std::string reason;  // one line
  bool leads = false;  // becomes the leader
};
struct Diagnosed {
  RunId id;
  Diagnosis diagnosis;
};
struct ShipIntended {
  std::string verdict;  // "gain" | "no_gain"
  RunId winner;         // empty for no_gain
  std::string bundle;   // folder
};
struct Shipped {
  std::string bundle;
  std::string recipe_path;
  double gain = 0;
};
struct FinalResult {  // after the blocks: what the final stage says of one leader
  RunId leader;       // the search run whose recipe was re-measured
  bool passed = false;
  double baseline_mean = 0, winner_mean = 0, gain = 0;
  std::vector<double> block_ratios;
  double p = 1, p_floor = 1;
  bool rehearsed = false;
  std::string strength;  // "full" | "basic"
  std::vector<Finding> findings;
  std::string reason;
};
struct NoticeIntended {
  std::string what;
};
struct Noticed {
  std::string what;
};
// stop --after-run | --now | --cancel-jobs, retry, Ctrl-C.
struct UserAsked {
  std::string what;  // "drain" | "detach" | "cancel" | "retry:r007"
};
struct Paused {  // the campaign can't go on now; resume tries again
  std::string why;
  int exit_code = 75;
};

// The submit's fate is not known: locate by token before anything else.
struct LaunchUncertain {
  LaunchId id;
  std::string why;
};
// Located and certainly not there: submitted again under the same token.
struct LaunchAbsent {
  LaunchId id;
};
// A failure's sign in the log, the best one so far; fatal ones end the run at once.
struct FailureNoted {
  RunId id;
  std::string cls, line, detail;
  std::int64_t line_number = 0;
  bool fatal = false;
};

using Fact =
    std::variant<Opened, Resumed, BudgetSet, PhaseSet, Calibrated, Proposed, TurnedBack,
                 AskIntended, Answered, StopWished, LaunchIntended, LaunchBound, LaunchEnded,
                 RunStarted, StepsSeen, DumpSeen, MemoryNoted, StopAsked, StopSent, RunEnded,
                 Judged, Diagnosed, FinalResult, ShipIntended, Shipped, NoticeIntended, Noticed,
                 UserAsked, Paused, LaunchUncertain, LaunchAbsent, FailureNoted, LlmBudgetSet>;
std::string_view FactWord(const Fact& fact);  // "opened", "steps_seen" ...

struct Event {
  std::int64_t seq = 0;  // from 1, without gaps, per campaign
  Instant at;
  Fact fact;
};

}  // namespace attune
