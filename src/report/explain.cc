#include "attune/report/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "attune/base/text.h"

namespace attune {
namespace {

constexpr std::size_t kMaxNext = 6;  // lines of what attune did next

bool Has(const LaunchIntended& launch, const RunId& run) {
  return std::any_of(launch.runs.begin(), launch.runs.end(),
                     [&](const RunPlan& plan) { return plan.id == run; });
}

// What an event says of the run or proposal that is explained; empty: nothing.
struct Teller {
  const RunId& run;
  const LaunchId& launch;
  const ProposalId& proposal;
  bool first_step = true;

  std::string operator()(const Proposed& f) const {
    return f.id == proposal ? fmt::format("{} proposed by {}, admitted", f.id.value, f.source)
                            : std::string();
  }
  std::string operator()(const TurnedBack& f) const {
    return f.id == proposal ? fmt::format("{} turned back: {}", f.id.value, f.reason)
                            : std::string();
  }
  std::string operator()(const LaunchIntended& f) const {
    if (run.empty() || !Has(f, run)) return {};
    return fmt::format("{} intended: at most {}, {} GPU-h held", f.id.value, ShowDuration(f.limit),
                       ShowGpuHours(f.hold));
  }
  std::string operator()(const LaunchBound& f) const {
    return f.id == launch ? "bound: the launcher took it as " + f.handle.id : std::string();
  }
  std::string operator()(const LaunchUncertain& f) const {
    return f.id == launch ? "fate of the submission not known: " + f.why : std::string();
  }
  std::string operator()(const LaunchAbsent& f) const {
    return f.id == launch ? std::string("looked for and not there; submitted again")
                          : std::string();
  }
  std::string operator()(const RunStarted& f) const {
    return f.id == run ? "started on " + f.node : std::string();
  }
  std::string operator()(const StepsSeen& f) {
    if (f.id != run || f.steps.empty() || !std::exchange(first_step, false)) return {};
    return fmt::format("first step seen: iteration {}", f.steps.front().iteration);
  }
  std::string operator()(const FailureNoted& f) const {
    return f.id == run ? fmt::format("sign of failure: {} (line {})", f.cls, f.line_number)
                       : std::string();
  }
  std::string operator()(const StopAsked& f) const {
    if (f.id != run) return {};
    std::string text = fmt::format("told to stop: {}", Word(f.why));
    if (!f.detail.empty()) text += ", " + f.detail;
    return text;
  }
  std::string operator()(const RunEnded& f) const {
    if (f.id != run) return {};
    return fmt::format("ended: {} after {}", Word(f.detail.end), ShowDuration(f.held));
  }
  std::string operator()(const LaunchEnded& f) const {
    if (f.id != launch) return {};
    if (!f.reached) return "never reached the cluster: nothing charged";
    return fmt::format("{} GPU-h charged ({})", ShowGpuHours(f.charged), Word(f.source));
  }
  std::string operator()(const Judged& f) const {
    if (f.id != run) return {};
    return fmt::format("judged: {}{}", Word(f.standing), f.leads ? ", leads from here" : "");
  }
  std::string operator()(const Diagnosed& f) const {
    return f.id == run ? "diagnosed from " + f.diagnosis.source : std::string();
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }
};

// What the campaign did, as far as it is a step of its own.
struct Doer {
  std::string operator()(const Proposed& f) const {
    return fmt::format("{} {}: {}", f.id.value, f.proposal.label, f.proposal.hypothesis);
  }
  std::string operator()(const TurnedBack& f) const {
    return fmt::format("{} turned back: {}", f.id.value, f.reason);
  }
  std::string operator()(const StopWished& f) const {
    return fmt::format("{} wished to stop: {}", f.source, f.wish.reason);
  }
  std::string operator()(const PhaseSet& f) const {
    return fmt::format("{}: {}", Word(f.phase), f.reason);
  }
  std::string operator()(const Paused& f) const { return "paused: " + f.why; }
  std::string operator()(const FinalResult& f) const {
    return fmt::format("final result of {}: {}", f.leader.value, f.passed ? "passed" : f.reason);
  }
  std::string operator()(const LaunchIntended& f) const {
    std::vector<std::string> runs;
    for (const RunPlan& plan : f.runs) runs.push_back(plan.id.value + " " + plan.label);
    return fmt::format("launched {} ({})", Join(runs, ", "), Word(f.purpose));
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }
};

void AddTimeline(std::span<const Event> events, const LaunchId& launch, Explanation& e) {
  Teller tell{.run = e.run, .launch = launch, .proposal = e.proposal};
  std::int64_t last = 0;  // event that decided on it
  for (const Event& event : events) {
    std::string what = std::visit(tell, event.fact);
    if (what.empty()) continue;
    e.timeline.push_back({event.at, std::move(what)});
    const bool verdict = std::holds_alternative<Judged>(event.fact) ||
                         std::holds_alternative<TurnedBack>(event.fact);
    if (verdict) last = event.seq;
  }
  if (last == 0) return;
  for (const Event& event : events) {
    if (event.seq <= last) continue;
    std::string what = std::visit(Doer{}, event.fact);
    if (!what.empty()) e.next.push_back(std::move(what));
    // One launch on, the story is another run's.
    if (std::holds_alternative<LaunchIntended>(event.fact) || e.next.size() == kMaxNext) return;
  }
}

// The leader on which a proposal was made: the fold up to its event.
std::optional<Effective> LeaderAt(const CampaignState& s, std::span<const Event> events,
                                  const ProposalId& id) {
  CampaignState state;
  state.recipe = s.recipe;
  for (const Event& event : events) {
    const auto* proposed = std::get_if<Proposed>(&event.fact);
    if (proposed != nullptr && proposed->id == id) return state.leader.user;
    state = Apply(std::move(state), event);
  }
  return std::nullopt;
}

std::string ShowEdits(const std::vector<Edit>& edits) {
  std::vector<std::string> shown;
  for (const Edit& edit : edits) {
    std::string text = fmt::format("{} {}", Word(edit.op), edit.name);
    for (const std::string& value : edit.values) text += " " + value;
    shown.push_back(std::move(text));
  }
  return Join(shown, "; ");
}

void AddProposal(const CampaignState& s, std::span<const Event> events, const ProposalRecord& p,
                 Explanation& e) {
  e.proposal = p.id;
  e.source = p.source;
  e.llm_call = p.llm_call;
  e.has_gate = true;
  e.admitted = p.admitted;
  e.turned_back = p.reason;
  e.turned_back_detail = p.detail;
  e.gate = p.verdict.findings;
  if (!p.proposal) return;
  e.label = p.proposal->label;
  e.hypothesis = p.proposal->hypothesis;
  e.bottleneck = p.proposal->bottleneck;
  e.fits_because = p.proposal->fits_because;
  e.stop_if = p.proposal->stop_if;
  e.expected_gain = p.proposal->expected_gain;
  e.expected_peak_gb = p.proposal->expected_peak_gb;
  e.lever = p.proposal->change.lever;
  if (p.candidate) {
    if (const std::optional<Effective> leader = LeaderAt(s, events, p.id)) {
      e.change = DescribeDifference(*leader, *p.candidate);
    }
  }
  if (e.change.empty()) e.change = ShowEdits(p.proposal->change.edits);
}

// What was executed beside what the baseline executed: both forms are measured ones.
std::string ArgvDiff(const CampaignState& s, const RunRecord& run) {
  for (const auto& [id, other] : s.runs) {
    if (other.purpose == Purpose::kCalibration && other.plan.form == run.plan.form) {
      return DescribeDifference(other.plan.executed, run.plan.executed);
    }
  }
  return DescribeDifference(s.recipe.base, run.plan.user);
}

// Where the gain fell, against what was expected.
std::string ForecastWord(const Explanation& e) {
  if (!e.expected_gain || !e.gain) return {};
  if (*e.gain < e.expected_gain->first) return "below";
  return *e.gain > e.expected_gain->second ? "above" : "inside";
}

std::string OutcomeOf(const RunRecord& run, const LaunchRecord& launch) {
  if (run.judged) {
    std::string word(Word(run.judged->standing));
    if (run.judged->standing == Standing::kFailed && run.end) {
      word += fmt::format(" ({})", Word(run.end->detail.end));
    }
    return word;
  }
  if (run.end) return std::string(Word(run.end->detail.end)) + ", not judged";
  return std::string(Word(launch.state));
}

}  // namespace

std::optional<Explanation> ExplainRun(const CampaignState& s, std::span<const Event> events,
                                      const RunId& id, const Catalog& catalog) {
  const RunRecord* run = s.FindRun(id);
  if (run == nullptr) return std::nullopt;
  const LaunchRecord& launch = s.launches.at(run->launch);
  Explanation e;
  e.campaign = s.id;
  e.price = s.recipe.price_gpu_hour_usd;
  if (const ProposalRecord* p = s.FindProposal(run->plan.proposal)) AddProposal(s, events, *p, e);
  e.run = id;
  e.label = run->plan.label;
  e.purpose = Word(run->purpose);
  e.outcome = OutcomeOf(*run, launch);
  if (e.change.empty()) e.change = DescribeDifference(s.recipe.base, run->plan.user);
  e.argv_diff = ArgvDiff(s, *run);
  if (run->judged) {
    e.measurement = run->judged->measurement;
    e.gain = run->judged->gain;
    e.forecast = ForecastWord(e);
    e.reason = run->judged->reason;
    e.findings = run->judged->findings;
  }
  e.diagnosis = run->diagnosis;
  if (e.diagnosis) e.levers = LeversAgainst(*e.diagnosis, s.recipe, catalog);
  if (run->end) {
    const EndDetail& end = run->end->detail;
    e.failure_class = end.failure_class;
    e.cause = end.cause;
    e.evidence = end.evidence;
    e.evidence_at = end.evidence_at;
  } else if (run->failure) {
    e.failure_class = run->failure->cls;
    e.evidence = run->failure->line;
    e.evidence_at = fmt::format("line {}", run->failure->line_number);
  }
  if (launch.end) {
    e.charged = launch.end->charged;
  } else if (launch.state != LaunchState::kVoid) {
    e.held = launch.intent.hold;
  }
  e.runs_of_launch = static_cast<int>(launch.intent.runs.size());
  AddTimeline(events, run->launch, e);
  return e;
}

std::optional<Explanation> ExplainProposal(const CampaignState& s, std::span<const Event> events,
                                           const ProposalId& id, const Catalog& catalog) {
  const ProposalRecord* p = s.FindProposal(id);
  if (p == nullptr) return std::nullopt;
  if (!p->run.empty()) return ExplainRun(s, events, p->run, catalog);
  Explanation e;
  e.campaign = s.id;
  e.price = s.recipe.price_gpu_hour_usd;
  AddProposal(s, events, *p, e);
  e.outcome = p->admitted ? "admitted, not launched yet" : "turned back: " + p->reason;
  AddTimeline(events, LaunchId{}, e);
  return e;
}

}  // namespace attune
