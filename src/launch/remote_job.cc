#include "remote_job.h"

#include <algorithm>
#include <iterator>

#include "ranks.h"

namespace attune::launch {
namespace {

using State = Observation::State;

bool Failed(const StageObservation& s) {
  return s.ended && !s.stopped_on_request && (s.signal || s.exit_code.value_or(0) != 0);
}

// One more host's view of a stage. The first host is rank zero's; a host that failed by itself
// speaks for all, and one that was only ended because of it does not.
void Merge(StageObservation& all, StageObservation&& one) {
  std::move(one.log.begin(), one.log.end(), std::back_inserter(all.log));
  const bool speaks =
      Failed(one) ? !Failed(all) : all.stopped_on_request && !one.stopped_on_request;
  if (one.ended && all.ended && speaks) {
    all.exit_code = one.exit_code;
    all.signal = one.signal;
    all.stopped_on_request = one.stopped_on_request;
  }
  all.held = std::max(all.held, one.held);
  all.last_beat_wall_ms = std::min(all.last_beat_wall_ms, one.last_beat_wall_ms);
  all.limit_hit = all.limit_hit || one.limit_hit;
  all.started = all.started || one.started;
  all.ended = all.ended && one.ended;
}

State StateOf(const Share& share) {
  if (share.Over()) {
    return State::kEnded;
  }
  return share.failures > 0 ? State::kUnknown : share.launch->state();
}

State Together(const std::vector<State>& states) {
  const auto any = [&](State s) {
    return std::find(states.begin(), states.end(), s) != states.end();
  };
  if (any(State::kUnknown)) {
    return State::kUnknown;
  }
  if (any(State::kRunning)) {
    // One host that has ended while another runs: the launch is on its way out.
    return any(State::kEnded) ? State::kEnding : State::kRunning;
  }
  return any(State::kEnding) ? State::kEnding : State::kEnded;
}

void TakeStages(Share& share, std::vector<StageObservation>& all, Clock& clock) {
  std::vector<StageObservation> stages = share.launch->TakeStages(clock);
  share.stages.clear();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& plan = share.launch->plan().spec.stages[i];
    for (LogChunk& chunk : stages[i].log) {
      chunk.rank += plan.node_rank * LogsOf(plan);
    }
    StageObservation kept = stages[i];
    kept.log.clear();
    share.stages.push_back(std::move(kept));
    const auto known = std::find_if(
        all.begin(), all.end(), [&](const StageObservation& s) { return s.run == stages[i].run; });
    if (known == all.end()) {
      all.push_back(std::move(stages[i]));
    } else if (stages[i].started || stages[i].ended || !share.Over()) {
      // What a host that is over never began does not keep the stage open.
      Merge(*known, std::move(stages[i]));
    }
  }
}

Observation ConcludeShare(const Share& share, const Observation& launch, Millis margin) {
  Observation one;
  if (share.missing) {
    one.end_hint = RunEnd::kNeverStarted;
    one.detail = share.why.empty() ? "it did not start there" : share.why;
  } else if (share.unreachable) {
    const LaunchSpec& spec = share.launch->plan().spec;
    one.charged = ChargeFor(spec.slots, spec.limit + margin);
    one.source = ChargeSource::kFullHold;
    one.end_hint = RunEnd::kNodeFailed;
    one.detail = "it did not answer until the launch's limit had passed: " + share.why;
  } else {
    one.stages = launch.stages;
    share.launch->Conclude(one);
    return one;
  }
  return one;
}

}  // namespace

bool Share::OverBadly() const {
  if (missing || unreachable) {
    return true;
  }
  if (!launch->ended()) {
    return false;
  }
  const auto& exit = launch->view().exit();
  return !exit || exit->ending == Ending::kTerminated || exit->ending == Ending::kBroken;
}

Observation Combine(RemoteJob& job, const LaunchHandle& handle, Millis margin, Clock& clock) {
  Observation o;
  o.handle = handle;
  std::vector<State> states;
  for (Share& share : job.shares) {
    o.nodes += (o.nodes.empty() ? "" : ",") + share.host;
    states.push_back(StateOf(share));
    TakeStages(share, o.stages, clock);
    if (states.back() == State::kUnknown && !share.why.empty()) {
      o.scheduler_word = "no news from " + share.host;
      o.detail = share.why;
    }
  }
  o.state = Together(states);
  if (o.state != State::kEnded) {
    return o;
  }
  for (const Share& share : job.shares) {
    Observation one = ConcludeShare(share, o, margin);
    o.charged += one.charged;
    if (share.unreachable) {
      o.failed_nodes.push_back(share.host);
    }
    o.source = std::max(o.source, one.source);
    if (one.end_hint && !o.end_hint) {
      o.end_hint = one.end_hint;
      o.detail = job.shares.size() > 1 ? share.host + ": " + one.detail : one.detail;
    } else if (o.detail.empty()) {
      o.detail = one.detail;
    }
  }
  return o;
}

std::vector<StopWish> WhatToStop(const RemoteJob& job) {
  std::vector<StopWish> wishes;
  const auto wish = [&](std::size_t share, const RunId* run) {
    StopWish w;
    w.share = share;
    if (run != nullptr) {
      w.run = *run;
    }
    if (!job.asked.contains(w)) {
      wishes.push_back(std::move(w));
    }
  };
  const bool bad = std::any_of(job.shares.begin(), job.shares.end(),
                               [](const Share& s) { return s.OverBadly(); });
  for (std::size_t i = 0; i < job.shares.size(); ++i) {
    const Share& share = job.shares[i];
    if (share.Over()) {
      continue;
    }
    if (bad) {
      wish(i, nullptr);
      continue;
    }
    for (const StageObservation& mine : share.stages) {
      const bool another_failed =
          !mine.ended && std::any_of(job.shares.begin(), job.shares.end(), [&](const Share& s) {
            return std::any_of(s.stages.begin(), s.stages.end(), [&](const StageObservation& o) {
              return o.run == mine.run && Failed(o);
            });
          });
      if (another_failed) {
        wish(i, &mine.run);
      }
    }
  }
  return wishes;
}

}  // namespace attune::launch
