// What a campaign came to, for people: one reading of its state (MakeReport), four renderings.
// Nothing is judged here; every verdict is the one that stands in the events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attune/model/campaign.h"
#include "attune/skill/skill.h"

namespace attune {

// Text in these structs is as the recipe, a log or a proposer gave it. Each rendering escapes all
// of it for its own format: terminal controls, JSON, Markdown with its HTML, HTML.

struct ReportRefusal {
  ProposalId proposal;
  std::string label, rule, was, now, why;
};

// A candidate that was launched and judged.
struct ReportTrial {
  RunId run;
  std::string label, lever;
  std::string change;           // over the recipe as given
  std::string result;           // Word(Standing); "fell" for a leader that the final stage refused
  std::optional<double> gain;   // over the leader of that moment, relative
  std::optional<double> score;  // tokens/s/GPU
  std::string reason;
};

// Best so far: the gain over the calibration mean, which the search saw, and at the end the one of
// the final stage.
struct ReportPoint {
  double gpu_hours = 0;  // charged when it was known
  double gain = 0;
  RunId run;  // empty: the baseline
  bool verified = false;
};

struct ReportStep {
  std::int64_t iteration = 0;
  double ms = 0;  // as the job printed it
};

struct ReportBaseline {
  double mean = 0, sigma = 0, band = 0;
  std::string how;
  int runs = 0;
  bool distinct_nodes = false;
};

// A bottleneck that the diagnosis of the leader still names, and the levers against it.
struct ReportRemaining {
  std::string bottleneck;
  double share = 0;  // of the step; negative: not known
  std::vector<std::string> tried, untried;
  std::vector<std::string> classes;  // of levers, for a recipe that names none
};

struct ReportStep0 {
  double largest = 0;  // |loss / baseline's - 1| of the first iteration, largest over `runs`
  int runs = 0;
  double limit = 0;
  bool weak = false;  // layouts can't be compared by the first loss: the rule step0.weak was noted
};

struct Report {
  CampaignId campaign;
  std::string recipe, model, gpu;
  int gpus = 1;
  Phase phase = Phase::kCalibrating;
  std::string phase_reason, stop, paused;
  Instant opened_at, last_at;

  std::optional<ReportBaseline> baseline;
  std::vector<std::string> relaxed;  // measure fields that the recipe weakened

  std::optional<FinalResult> final;  // the one that passed
  std::vector<FinalResult> fell;
  std::optional<double> mfu;  // of the shipped configuration, mean over the final blocks

  RunId leader;  // empty: the recipe as given
  double leader_mean = 0;
  double leader_gain = 0;            // search-time figure
  std::string changes;               // of the leader over the recipe; empty: none
  std::vector<ReportTrial> paid;     // the steps that led to the leader, in order
  std::vector<ReportTrial> no_gain;  // every other judged candidate

  int admitted = 0, duplicates = 0;
  std::vector<ReportRefusal> refused;      // by the configuration gate
  std::vector<ReportRefusal> turned_back;  // by anything else; `rule` is the reason
  std::vector<Finding> alarms;             // of the leader's runs: alarms and cautions
  std::optional<ReportStep0> step0;
  std::int64_t steps_survived = 0, longest_run = 0;  // steps of the leader's configuration
  int runs_of_leader = 0;
  std::vector<AcceptedLever> accepted;  // kernels and defects, by the recipe's owner

  Ledger ledger;
  std::optional<GpuMillis> budget;
  double price = 0;  // $ a GPU-h; 0: not known
  Counts counts;

  std::vector<ReportPoint> curve;
  RunId baseline_run, leader_run;  // whose step times are shown
  std::vector<ReportStep> baseline_steps, leader_steps;
  std::string baseline_time, leader_time;  // where it goes: summaries of the diagnoses
  std::vector<ReportRemaining> remaining;  // of the leader's diagnosis, else the recipe's

  std::string bundle, shipped_recipe;
};

// `catalog`: the one that the campaign reads.
Report MakeReport(const CampaignState& state, const Catalog& catalog);

// "after 619 GPU-h of the recipe as given (9.7 h on 64 GPUs)": training by when what was spent is
// saved again. `gain` above 0; gpus 0: not known.
std::string PaysBack(GpuMillis spent, double gain, int gpus);

std::string ReportText(const Report& report);
std::string ReportJson(const Report& report);  // one line, schema attune.report/1
std::string ReportMarkdown(const Report& report);
// One file that needs nothing else: no script, no link, no font; charts are SVG.
std::string ReportHtml(const Report& report);

}  // namespace attune
