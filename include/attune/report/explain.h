// The story of one run or proposal, from the events. Nothing is judged again.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/model/campaign.h"
#include "attune/report/levers_against.h"

namespace attune {

struct ExplainedMoment {
  Instant at;
  std::string what;
};

// What the estimate said of a run before it was launched, by all that the campaign had measured
// until then and by the bare formulas, and what came.
struct RunProjection {
  int runs = 0;  // that had corrected it
  double step_seconds = 0, step_sd = 0, bare_step_seconds = 0;
  double peak_bytes = 0, peak_sd = 0;
  std::optional<double> got_step_seconds, got_peak_bytes;
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
  std::optional<double> expected_peak_gb;
  std::string forecast;  // "inside", "above", "below" of what was expected; empty: no score
  std::optional<RunProjection> projection;  // filled by who has the estimate
  std::string llm_call;  // of the request that made the proposal
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
  std::vector<BottleneckLevers> levers;  // of the named bottlenecks

  std::string failure_class, cause, evidence, evidence_at;  // evidence_at: "file:line"
  std::vector<std::string> next;                            // what attune did after the verdict

  GpuMillis charged, held;  // of its launch; held: while that is not over
  int runs_of_launch = 1;   // which share it
  double price = 0;         // $ a GPU-h; 0: not known
};

// nullopt: no such run, or proposal, in this campaign. `events` are all of the campaign, from the
// first; `state` is their fold; `catalog` is the one that the campaign reads.
std::optional<Explanation> ExplainRun(const CampaignState& state, std::span<const Event> events,
                                      const RunId& run, const Catalog& catalog);
// A proposal that was launched is told with its latest run.
std::optional<Explanation> ExplainProposal(const CampaignState& state,
                                           std::span<const Event> events, const ProposalId& id,
                                           const Catalog& catalog);

std::string ExplainText(const Explanation& e);
// Summary, a bar a rank, the named bottlenecks with what acts on them, notes; each line after
// `indent`. Escaped.
std::string DiagnosisText(const Diagnosis& diagnosis, const std::vector<BottleneckLevers>& levers,
                          std::string_view indent);
// The object that ExplainJson has under "diagnosis".
std::string DiagnosisJson(const Diagnosis& diagnosis, const std::vector<BottleneckLevers>& levers);
std::string ExplainJson(const Explanation& e);  // one line, schema attune.explain/1

}  // namespace attune
