#include "attune/model/campaign.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "attune/base/check.h"

namespace attune {
namespace {

// One handler a fact. Facts come from committed events, so a reference to a launch or run that does
// not exist is a bug of ours (or a damaged file, which the store refuses before).
struct Applier {
  CampaignState& s;
  Instant at;

  LaunchRecord& Launch(const LaunchId& id) {
    const auto it = s.launches.find(id);
    ATTUNE_CHECK(it != s.launches.end(), "an event names a launch that was never intended");
    return it->second;
  }
  RunRecord& Run(const RunId& id) {
    const auto it = s.runs.find(id);
    ATTUNE_CHECK(it != s.runs.end(), "an event names a run that was never planned");
    return it->second;
  }
  void Move(LaunchRecord& launch, LaunchNews news) {
    const std::optional<LaunchState> to = Next(launch.state, news);
    ATTUNE_CHECK(to.has_value(), "an event moves a launch where it can't go");
    launch.state = *to;
  }

  void MeasureLeader(const RunRecord& run) {
    if (!run.judged || !run.judged->measurement) return;
    s.leader.measured[AllocationOf(s, run)].push_back(
        run.judged->measurement->tokens_per_s_per_slot);
  }

  void operator()(const Opened& f) {
    s.opened = f;
    s.id = f.id;
    s.opened_at = at;
    s.budget = f.budget;
    s.leader = Leader{.run = {}, .user = s.recipe.base, .scores = {}, .mean = 0, .gain = 0};
  }
  void operator()(const Resumed&) {
    for (auto& [id, launch] : s.launches) {
      if (launch.state == LaunchState::kIntended) launch.uncertain = true;
    }
    if (s.OpenCall() != nullptr) s.calls.back().uncertain = true;
    s.user_wish.reset();
    s.paused.reset();
  }
  void operator()(const BudgetSet& f) { s.budget = f.budget; }
  void operator()(const PhaseSet& f) {
    s.phase = f.phase;
    s.phase_reason = f.reason;
    if (!f.stop.empty()) s.stop = f.stop;
  }
  void operator()(const Calibrated& f) {
    s.calibration = f.calibration;
    s.calibration_from = f.reused;
    s.leader.mean = f.calibration.mean;
    s.leader.scores.clear();
    s.leader.measured.clear();
    if (!f.reused.empty()) {
      ATTUNE_CHECK(s.opened && s.opened->earlier, "a calibration is reused that was not offered");
      s.leader.scores = s.opened->earlier->scores;
      // Those of allocations of their own speak for every other one; what was measured in a held
      // one ended with it.
      const bool own = f.calibration.within_runs == 0;
      if (own) s.leader.measured[""] = s.leader.scores;
      for (const RunId& id : f.calibration.runs) {
        const RunRecord* run = s.FindRun(id);
        if (run != nullptr && (!own || !AllocationOf(s, *run).empty())) MeasureLeader(*run);
      }
      return;
    }
    for (const RunId& run : f.calibration.runs) {
      const RunRecord& r = Run(run);
      if (r.judged && r.judged->measurement) {
        s.leader.scores.push_back(r.judged->measurement->tokens_per_s_per_slot);
      }
      MeasureLeader(r);
    }
  }
  void operator()(const Proposed& f) {
    s.decision_from = s.calls.size();
    s.proposals.push_back({.id = f.id,
                           .proposal = f.proposal,
                           .source = f.source,
                           .llm_call = f.llm_call,
                           .admitted = true,
                           .candidate = f.candidate,
                           .hash = f.hash,
                           .verdict = f.verdict,
                           .reason = {},
                           .detail = {},
                           .run = {}});
    s.open_proposal = f.id;
    s.next_proposal++;
  }
  void operator()(const TurnedBack& f) {
    s.decision_from = s.calls.size();
    // An admitted proposal that can't be paid for is turned back under its own id.
    const auto known = std::find_if(s.proposals.begin(), s.proposals.end(),
                                    [&](const ProposalRecord& p) { return p.id == f.id; });
    if (known != s.proposals.end()) {
      known->admitted = false;
      known->reason = f.reason;
      known->detail = f.detail;
    } else {
      s.proposals.push_back({.id = f.id,
                             .proposal = f.proposal,
                             .source = f.source,
                             .llm_call = f.llm_call,
                             .admitted = false,
                             .candidate = {},
                             .hash = {},
                             .verdict = f.verdict,
                             .reason = f.reason,
                             .detail = f.detail,
                             .run = {}});
      s.next_proposal++;
    }
    if (s.open_proposal == f.id) s.open_proposal.reset();
    s.no_launch_in_a_row++;
  }
  void operator()(const AskIntended& f) {
    ATTUNE_CHECK(s.OpenCall() == nullptr, "a model is asked while a request has no answer");
    s.calls.push_back({f, {}, false});
  }
  void operator()(const Answered& f) {
    ATTUNE_CHECK(s.OpenCall() != nullptr && s.calls.back().asked.call == f.call,
                 "an answer to a request that was never intended");
    s.calls.back().answer = f;
    s.calls.back().uncertain = false;
    s.llm_usd_micros += f.usd_micros.value_or(0);
  }
  void operator()(const LlmBudgetSet& f) { s.llm_budget_usd_micros = f.usd_micros; }
  void operator()(const StopWished& f) {
    s.decision_from = s.calls.size();
    s.stop_wish = f.wish;
  }
  void operator()(const LaunchIntended& f) {
    LaunchRecord launch;
    launch.intent = f;
    launch.intended_at = at;
    s.launches.emplace(f.id, std::move(launch));
    s.ledger.held += f.hold;
    s.next_launch++;
    for (const RunPlan& plan : f.runs) {
      RunRecord run;
      run.plan = plan;
      run.launch = f.id;
      run.purpose = f.purpose;
      run.last_news_at = at;
      s.runs.emplace(plan.id, std::move(run));
      s.next_run++;
      if (f.purpose != Purpose::kCandidate) continue;
      for (ProposalRecord& p : s.proposals) {
        if (p.id == plan.proposal) p.run = plan.id;
      }
    }
    if (f.purpose == Purpose::kCandidate) {
      s.open_proposal.reset();
      s.no_launch_in_a_row = 0;
    }
    std::erase_if(s.retry, [&](const RunId& r) {
      return std::any_of(f.runs.begin(), f.runs.end(), [&](const RunPlan& plan) {
        const RunRecord* old = s.FindRun(r);
        return old != nullptr && old->plan.proposal == plan.proposal;
      });
    });
  }
  void operator()(const LaunchBound& f) {
    LaunchRecord& launch = Launch(f.id);
    Move(launch, LaunchNews::kTaken);
    launch.handle = f.handle;
    launch.bound_at = at;
    launch.uncertain = false;
    for (const RunPlan& plan : launch.intent.runs) Run(plan.id).last_news_at = at;
  }
  void operator()(const LaunchEnded& f) {
    LaunchRecord& launch = Launch(f.id);
    Move(launch, f.reached ? LaunchNews::kReleased : LaunchNews::kNeverReached);
    launch.end = f;
    launch.uncertain = false;
    s.ledger.held -= launch.intent.hold;
    const GpuMillis booked = f.charged - f.overrun - f.idle;
    BookOf(s.ledger, launch.intent.purpose) += booked;
    s.ledger.overrun += f.overrun;
    s.ledger.idle += f.idle;
    if (launch.intent.purpose != Purpose::kCandidate) return;
    const bool failed =
        std::any_of(launch.intent.runs.begin(), launch.intent.runs.end(), [&](const RunPlan& plan) {
          const RunRecord& run = Run(plan.id);
          return run.end && IsFailed(run.end->detail.end);
        });
    if (failed) s.ledger.failed += booked;
  }
  void operator()(const RunStarted& f) {
    RunRecord& run = Run(f.id);
    run.started = f;
    run.started_at = run.last_news_at = at;
    LaunchRecord& launch = Launch(run.launch);
    if (launch.state == LaunchState::kBound) Move(launch, LaunchNews::kStarted);
  }
  void operator()(const StepsSeen& f) {
    RunRecord& run = Run(f.id);
    run.steps.insert(run.steps.end(), f.steps.begin(), f.steps.end());
    run.last_news_at = at;
  }
  void operator()(const DumpSeen& f) { Run(f.id).block = f.block; }
  void operator()(const MemoryNoted& f) {
    MemorySeen& memory = Run(f.id).memory;
    memory.max_allocated = std::max(memory.max_allocated, f.memory.max_allocated);
    memory.max_reserved = std::max(memory.max_reserved, f.memory.max_reserved);
  }
  void operator()(const StopAsked& f) { Run(f.id).stop = f; }
  void operator()(const StopSent& f) { Run(f.id).stop_sent = true; }
  void operator()(const RunEnded& f) {
    RunRecord& run = Run(f.id);
    run.end = f;
    run.ended_at = at;
  }
  void operator()(const Judged& f) {
    RunRecord& run = Run(f.id);
    run.judged = f;
    if (run.purpose == Purpose::kProbe && run.plan.of == "leader" &&
        run.plan.user == s.leader.user && f.validity == Validity::kValid) {
      MeasureLeader(run);
    }
    if (!f.leads) return;
    s.past_leaders.push_back(s.leader);
    s.leader = Leader{.run = f.id, .user = run.plan.user, .scores = {}, .mean = 0, .gain = 0};
    if (f.measurement) {
      s.leader.scores = {f.measurement->tokens_per_s_per_slot};
      s.leader.mean = f.measurement->tokens_per_s_per_slot;
      s.leader.gain = GainOf(run, f);
      MeasureLeader(run);
    }
  }
  // Over the baseline, of a run that leads from now on. What was measured in a held allocation is
  // set beside what was measured there; where that is not the baseline, gains follow on each other.
  double GainOf(const RunRecord& run, const Judged& judged) const {
    if (!s.calibration || s.calibration->mean <= 0) return 0;
    const std::string allocation = AllocationOf(s, run);
    const double score = judged.measurement->tokens_per_s_per_slot;
    const bool anywhere = s.past_leaders.front().measured.contains("");
    if (allocation.empty() && anywhere) return score / s.calibration->mean - 1;
    const auto& here = s.past_leaders.front().measured;
    if (const auto it = here.find(allocation); it != here.end()) {
      return score * static_cast<double>(it->second.size()) /
                 std::accumulate(it->second.begin(), it->second.end(), 0.0) -
             1;
    }
    return (1 + s.past_leaders.back().gain) * (1 + judged.gain.value_or(0)) - 1;
  }
  void operator()(const Diagnosed& f) { Run(f.id).diagnosis = f.diagnosis; }
  void operator()(const FinalResult& f) {
    s.finals.push_back(f);
    if (f.passed || s.past_leaders.empty()) return;
    s.leader = s.past_leaders.back();  // fall back
    s.past_leaders.pop_back();
  }
  void operator()(const ShipIntended& f) { s.ship = f; }
  void operator()(const Shipped& f) { s.shipped = f; }
  void operator()(const NoticeIntended& f) { s.notices.push_back(f.what); }
  void operator()(const Noticed& f) { s.told.insert(f.what); }
  void operator()(const UserAsked& f) {
    if (f.what.starts_with("retry:")) {
      s.retry.emplace_back(f.what.substr(6));
    } else {
      s.user_wish = f.what;
    }
  }
  void operator()(const Paused& f) {
    s.paused = f;
    s.decision_from = s.calls.size();  // resume begins the decision again
  }
  void operator()(const LaunchUncertain& f) { Launch(f.id).uncertain = true; }
  void operator()(const LaunchAbsent& f) {
    LaunchRecord& launch = Launch(f.id);
    launch.uncertain = false;
    launch.absences++;
  }
  void operator()(const FailureNoted& f) { Run(f.id).failure = f; }
};

}  // namespace

GpuMillis& BookOf(Ledger& ledger, Purpose purpose) {
  switch (purpose) {
    case Purpose::kCalibration:
      return ledger.calibration;
    case Purpose::kCandidate:
    case Purpose::kPair:
    case Purpose::kProbe:
    case Purpose::kComponentTest:
      return ledger.search;
    case Purpose::kFinal:
    case Purpose::kRehearsal:
      return ledger.final;
  }
  ATTUNE_CHECK(false, "a purpose without a book");
}

std::string AllocationOf(const CampaignState& state, const RunRecord& run) {
  const LaunchRecord& launch = state.launches.at(run.launch);
  return launch.handle ? launch.handle->allocation : std::string();
}

CampaignState Apply(CampaignState state, const Event& event) {
  ATTUNE_CHECK(event.seq == state.seq + 1, "events are applied in order, without gaps");
  state.seq = event.seq;
  state.last_at = event.at;
  std::visit(Applier{state, event.at}, event.fact);
  return state;
}

const RunRecord* CampaignState::FindRun(const RunId& run) const {
  const auto it = runs.find(run);
  return it == runs.end() ? nullptr : &it->second;
}

const ProposalRecord* CampaignState::FindProposal(const ProposalId& proposal) const {
  const auto it = std::find_if(proposals.begin(), proposals.end(),
                               [&](const ProposalRecord& p) { return p.id == proposal; });
  return it == proposals.end() ? nullptr : &*it;
}

std::size_t CampaignState::CalibrationRuns() const {
  if (!calibration) return 0;
  return calibration_from.empty() ? calibration->runs.size() : opened->earlier->scores.size();
}

std::vector<const LaunchRecord*> CampaignState::OpenLaunches() const {
  std::vector<const LaunchRecord*> open;
  for (const auto& [launch_id, launch] : launches) {
    if (launch.state != LaunchState::kEnded && launch.state != LaunchState::kVoid) {
      open.push_back(&launch);
    }
  }
  return open;
}

Counts CountsOf(const CampaignState& state) {
  Counts c;
  for (const auto& [id, launch] : state.launches) {
    if (launch.intent.purpose == Purpose::kCandidate && launch.state != LaunchState::kVoid) {
      c.launched++;
    }
  }
  for (const auto& [id, run] : state.runs) {
    if (run.purpose != Purpose::kCandidate || !run.judged) continue;
    switch (run.judged->standing) {
      case Standing::kWin:
        c.win++;
        break;
      case Standing::kTie:
        c.tie++;
        break;
      case Standing::kLoss:
        c.loss++;
        break;
      case Standing::kStoppedEarly:
        c.stopped_early++;
        break;
      case Standing::kRejected:
        c.rejected++;
        break;
      case Standing::kFailed:
        c.failed++;
        break;
      case Standing::kReference:
      case Standing::kInvalid:
      case Standing::kEnvironment:
        break;
    }
  }
  for (const ProposalRecord& p : state.proposals) {
    if (p.admitted) continue;
    if (p.reason == "duplicate") {
      c.duplicate++;
    } else if (p.reason.starts_with("gate.")) {
      c.refused++;
    } else {
      c.turned_back++;
    }
  }
  return c;
}

}  // namespace attune
