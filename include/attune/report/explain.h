// The story of one run or proposal, from the events. Nothing is judged again.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attune/model/campaign.h"

namespace attune {

struct ExplainedMoment {
  Instant at;
  std::string what;
};

// Text is as the recipe, a log or a proposer gave it; the renderings escape it.
struct Explanation {
  CampaignId campaign;
  RunId run;            // empty: the proposal was never launched
  ProposalId proposal;  // empty: a run of the baseline or of a shipped candidate
  std::string label, purpose;
  std::string outcome;  // standing, else how it ended, else where it stands

  std::string source, hypothesis, bottleneck, fits_because, stop_if;
  std::optional<std::pair<double, double>> expected_gain;
  std::string lever;
  std::string change;     // over the leader of that moment
  std::string argv_diff;  // executed, against the executed baseline

  bool has_gate = false, admitted = false;
  std::string turned_back, turned_back_detail;
  std::vector<Finding> gate;

  std::vector<ExplainedMoment> timeline;
  std::optional<Measurement> measurement;
  std::optional<double> gain;  // over the leader of that moment
  std::string reason;
  std::vector<Finding> findings;  // of the run
  std::optional<Diagnosis> diagnosis;

  std::string failure_class, cause, evidence, evidence_at;  // evidence_at: "file:line"
  std::vector<std::string> next;                            // what attune did after the verdict

  GpuMillis charged, held;  // of its launch; held: while that is not over
  int runs_of_launch = 1;   // which share it
  double price = 0;         // $ a GPU-h; 0: not known
};

// nullopt: no such run, or proposal, in this campaign. `events` are all of the campaign, from the
// first; `state` is their fold.
std::optional<Explanation> ExplainRun(const CampaignState& state, std::span<const Event> events,
                                      const RunId& run);
// A proposal that was launched is told with its latest run.
std::optional<Explanation> ExplainProposal(const CampaignState& state,
                                           std::span<const Event> events, const ProposalId& id);

std::string ExplainText(const Explanation& e);
std::string ExplainJson(const Explanation& e);  // one line, schema attune.explain/1

}  // namespace attune
