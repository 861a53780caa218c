#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "attune/report/levers_against.h"
#include "attune/report/report.h"

namespace attune {
namespace {

// GPU-hours charged when each launch was over, in the order of the launches: one runs at a time.
std::map<LaunchId, double> ChargedAfter(const CampaignState& s) {
  std::map<LaunchId, double> after;
  GpuMillis sum;
  for (const auto& [id, launch] : s.launches) {
    if (launch.end) sum += launch.end->charged;
    after[id] = sum.Hours();
  }
  return after;
}

// Runs that executed the leader's configuration: the candidate itself and the final stage's.
bool IsOfLeader(const CampaignState& s, const RunRecord& run) {
  return !s.leader.run.empty() && run.plan.user == s.leader.user;
}

ReportTrial TrialOf(const CampaignState& s, const RunId& id, const RunRecord& run) {
  ReportTrial trial;
  trial.run = id;
  trial.label = run.plan.label;
  const ProposalRecord* p = s.FindProposal(run.plan.proposal);
  if (p != nullptr && p->proposal) trial.lever = p->proposal->change.lever;
  trial.change = DescribeDifference(s.recipe.base, run.plan.user);
  trial.result = Word(run.judged->standing);
  trial.gain = run.judged->gain;
  if (run.judged->measurement) trial.score = run.judged->measurement->tokens_per_s_per_slot;
  trial.reason = run.judged->reason;
  return trial;
}

void AddTrials(const CampaignState& s, Report& r) {
  // A leader that did not pass the final stage has paid nothing, whatever the search saw.
  std::set<RunId> chain;
  if (s.phase != Phase::kNoGain) {
    for (const Leader& past : s.past_leaders) chain.insert(past.run);
    chain.insert(s.leader.run);
  }
  for (const auto& [id, run] : s.runs) {
    if (run.purpose != Purpose::kCandidate || !run.judged) continue;
    ReportTrial trial = TrialOf(s, id, run);
    if (chain.contains(id)) {
      r.paid.push_back(std::move(trial));
      continue;
    }
    for (const FinalResult& f : s.finals) {
      if (f.leader != id || f.passed) continue;
      trial.result = "fell";
      trial.reason = f.reason;
    }
    r.no_gain.push_back(std::move(trial));
  }
}

void AddCurve(const CampaignState& s, Report& r) {
  if (!s.calibration || s.calibration->mean <= 0) return;
  const std::map<LaunchId, double> charged = ChargedAfter(s);
  double calibrated = 0, finished = 0;
  for (const auto& [id, launch] : s.launches) {
    if (launch.intent.purpose == Purpose::kCalibration) calibrated = charged.at(id);
    if (launch.end) finished = charged.at(id);
  }
  r.curve.push_back({.gpu_hours = calibrated, .gain = 0, .run = {}, .verified = false});
  for (const auto& [id, run] : s.runs) {
    if (!run.judged || !run.judged->leads || !run.judged->measurement) continue;
    const double gain = run.judged->measurement->tokens_per_s_per_slot / s.calibration->mean - 1;
    r.curve.push_back({charged.at(run.launch), gain, id, false});
  }
  if (r.final) r.curve.push_back({finished, r.final->gain, r.final->leader, true});
}

ReportRefusal RefusalOf(const ProposalRecord& p) {
  ReportRefusal refusal;
  refusal.proposal = p.id;
  if (p.proposal) refusal.label = p.proposal->label;
  refusal.rule = p.reason.starts_with("gate.") ? p.reason.substr(5) : p.reason;
  refusal.why = p.detail;
  if (const Finding* f = p.verdict.FirstRefusal()) {
    refusal.rule = f->rule;
    refusal.was = f->was;
    refusal.now = f->now;
    refusal.why = f->why;
  }
  return refusal;
}

void AddGate(const CampaignState& s, Report& r) {
  for (const ProposalRecord& p : s.proposals) {
    if (p.admitted) {
      r.admitted++;
    } else if (p.reason == "duplicate") {
      r.duplicates++;
    } else if (p.reason.starts_with("gate.")) {
      r.refused.push_back(RefusalOf(p));
    } else {
      r.turned_back.push_back(RefusalOf(p));
    }
  }
}

// The baseline's own first loss is the mean over its calibration runs.
std::optional<double> BaselineStep0(const CampaignState& s) {
  double sum = 0;
  int n = 0;
  for (const RunId& id : s.calibration->runs) {
    const RunRecord* run = s.FindRun(id);
    if (run == nullptr || !run->judged || !run->judged->measurement) continue;
    if (const std::optional<double>& loss = run->judged->measurement->step0_loss) {
      sum += *loss;
      n++;
    }
  }
  if (n == 0 || sum == 0) return std::nullopt;
  return sum / n;
}

void AddEvidenceOfLeader(const CampaignState& s, Report& r) {
  const std::optional<double> was = s.calibration ? BaselineStep0(s) : std::nullopt;
  ReportStep0 step0;
  step0.limit = s.recipe.gate.step0_loss;
  double mfu = 0;
  int with_mfu = 0;
  for (const auto& [id, run] : s.runs) {
    if (!IsOfLeader(s, run)) continue;
    const auto steps = static_cast<std::int64_t>(run.steps.size());
    r.steps_survived += steps;
    r.longest_run = std::max(r.longest_run, steps);
    if (steps > 0) r.runs_of_leader++;
    if (!run.judged) continue;
    for (const Finding& f : run.judged->findings) {
      if (f.rule == "step0.weak") step0.weak = true;
      const bool told = f.severity == Severity::kAlarm || f.severity == Severity::kCaution;
      if (told && std::find(r.alarms.begin(), r.alarms.end(), f) == r.alarms.end()) {
        r.alarms.push_back(f);
      }
    }
    const std::optional<Measurement>& m = run.judged->measurement;
    if (!m) continue;
    if (was && m->step0_loss) {
      step0.largest = std::max(step0.largest, std::abs(*m->step0_loss / *was - 1));
      step0.runs++;
    }
    if (run.purpose == Purpose::kFinal && m->mfu) {
      mfu += *m->mfu;
      with_mfu++;
    }
  }
  if (step0.runs > 0) r.step0 = step0;
  if (with_mfu > 0) r.mfu = mfu / with_mfu;
}

std::vector<ReportStep> StepTimes(const RunRecord& run) {
  std::vector<ReportStep> times;
  for (const Step& step : run.steps) {
    if (step.printed_ms > 0 && std::isfinite(step.printed_ms)) {
      times.push_back({step.iteration, step.printed_ms});
    }
  }
  return times;
}

void AddRemaining(const CampaignState& s, const Catalog& catalog, const Diagnosis& diagnosis,
                  Report& r) {
  std::set<std::string> tried;
  for (const auto& [id, run] : s.runs) {
    const ProposalRecord* p = s.FindProposal(run.plan.proposal);
    if (p == nullptr || !p->proposal) continue;
    tried.insert(p->proposal->change.lever);
    tried.insert(p->proposal->change.enablers.begin(), p->proposal->change.enablers.end());
  }
  for (BottleneckLevers& row : LeversAgainst(diagnosis, s.recipe, catalog)) {
    ReportRemaining left;
    left.bottleneck = row.bottleneck;
    for (const Bottleneck& b : diagnosis.bottlenecks) {
      if (b.named && b.cls == row.bottleneck) left.share = b.share;
    }
    for (std::string& lever : row.levers) {
      (tried.contains(lever) ? left.tried : left.untried).push_back(std::move(lever));
    }
    if (row.levers.empty()) left.classes = std::move(row.classes);
    r.remaining.push_back(std::move(left));
  }
}

// The last valid run of each: those of the final stage when there was one, which ran in turn.
void AddStepTimes(const CampaignState& s, const Catalog& catalog, Report& r) {
  const RunRecord* baseline = nullptr;
  const RunRecord* leader = nullptr;
  const Diagnosis* of_baseline = nullptr;
  const Diagnosis* of_leader = nullptr;
  for (const auto& [id, run] : s.runs) {
    if (!run.judged || run.judged->validity != Validity::kValid) continue;
    if (!run.judged->measurement) continue;  // a component test is valid and times no step
    if (IsOfLeader(s, run)) {
      leader = &run;
    } else if (run.plan.user == s.recipe.base && run.plan.form == Form::kMeasured) {
      baseline = &run;
    }
    if (!run.diagnosis) continue;
    if (IsOfLeader(s, run)) of_leader = &*run.diagnosis;
    if (run.plan.user == s.recipe.base) of_baseline = &*run.diagnosis;
  }
  if (of_leader != nullptr) r.leader_time = of_leader->summary;
  if (of_baseline != nullptr) r.baseline_time = of_baseline->summary;
  const Diagnosis* last = of_leader != nullptr ? of_leader : of_baseline;
  if (last != nullptr) AddRemaining(s, catalog, *last, r);
  if (baseline != nullptr) {
    r.baseline_run = baseline->plan.id;
    r.baseline_steps = StepTimes(*baseline);
  }
  if (leader != nullptr) {
    r.leader_run = leader->plan.id;
    r.leader_steps = StepTimes(*leader);
  }
}

}  // namespace

Report MakeReport(const CampaignState& s, const Catalog& catalog) {
  Report r;
  r.campaign = s.id;
  r.recipe = s.recipe.name;
  r.model = s.recipe.workload.model;
  r.gpu = s.recipe.workload.gpu;
  r.gpus = s.recipe.workload.gpus;
  r.phase = s.phase;
  r.phase_reason = s.phase_reason;
  r.stop = s.stop;
  if (s.paused) r.paused = s.paused->why;
  r.opened_at = s.opened_at;
  r.last_at = s.last_at;
  if (s.calibration) {
    r.baseline = ReportBaseline{.mean = s.calibration->mean,
                                .sigma = s.calibration->sigma,
                                .band = s.calibration->band,
                                .how = s.calibration->how,
                                .runs = static_cast<int>(s.CalibrationRuns()),
                                .distinct_nodes = s.calibration->distinct_nodes};
  }
  r.relaxed = s.recipe.measure.relaxed;
  for (const FinalResult& f : s.finals) {
    if (f.passed) {
      r.final = f;
    } else {
      r.fell.push_back(f);
    }
  }
  r.leader = s.leader.run;
  r.leader_mean = s.leader.mean;
  r.leader_gain = s.leader.gain;
  if (s.phase != Phase::kNoGain) {
    r.changes = DescribeDifference(s.recipe.base, s.leader.user);
  }
  AddTrials(s, r);
  AddGate(s, r);
  AddEvidenceOfLeader(s, r);
  AddStepTimes(s, catalog, r);
  AddCurve(s, r);
  r.accepted = s.recipe.gate.accept;
  r.ledger = s.ledger;
  r.budget = s.budget;
  r.price = s.recipe.price_gpu_hour_usd;
  r.counts = CountsOf(s);
  if (s.shipped) {
    r.bundle = s.shipped->bundle;
    r.shipped_recipe = s.shipped->recipe_path;
  }
  return r;
}

}  // namespace attune
