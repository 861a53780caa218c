#include "fakes/fake_launcher.h"

#include <algorithm>
#include <set>

namespace attune::fakes {
namespace {

constexpr Millis kBeat{10'000};

using Kind = FakeFault::Kind;

std::vector<std::string> ArgsOf(const Stage& stage) {
  std::vector<std::string> args(stage.argv);
  if (!args.empty()) {
    args.erase(args.begin());
  }
  return args;
}

std::string Absolute(const std::string& path, const Stage& stage) {
  return path.empty() || path.starts_with('/') ? path : stage.workdir + "/" + path;
}

}  // namespace

FakeTraining PlayTraining(const Stage& stage) {
  const std::vector<std::string> args = ArgsOf(stage);
  const std::string load = Absolute(FlagValue(args, "load"), stage);
  return PlanFakeTraining(args, stage.env, stage.run.value,
                          load.empty() ? 0 : LatestCheckpoint(load));
}

// ---------------------------------------------------------------- world

FakeWorld::FakeWorld(Clock* clock) : play(PlayTraining), clock_(clock) {}

FakeWorld::Job* FakeWorld::Find(const Token& token) {
  for (const auto& job : jobs_) {
    if (job->spec.token == token) {
      return job.get();
    }
  }
  return nullptr;
}

const FakeWorld::Job* FakeWorld::Find(const Token& token) const {
  for (const auto& job : jobs_) {
    if (job->spec.token == token) {
      return job.get();
    }
  }
  return nullptr;
}

std::int64_t FakeWorld::WallOf(Millis monotonic) {
  return (clock_->Now() - (clock_->Monotonic() - monotonic)).ms;
}

// The earliest of: its own end, a stop, a cancel, the limit, a fault. Sets how it ended.
Millis FakeWorld::EndOfStage(const Job& job, const StageState& stage, StageFacts& facts,
                             bool& cut) const {
  const Millis start = *stage.facts.started;
  const FakeTraining& script = *stage.script;
  Millis end = script.ends_at == Millis::max() ? Millis::max() : start + script.ends_at;
  facts.exit_code = script.exit_code;
  facts.signal = script.signal;
  cut = false;

  const Millis grace = script.ignore_term ? kill_grace : Millis{0};
  const int killed_by = script.ignore_term ? 9 : 15;
  const auto killed = [&](Millis at, int signal) {
    if (at >= end) {
      return false;
    }
    end = at;
    facts.exit_code.reset();
    facts.signal = signal;
    facts.stopped_on_request = facts.limit_hit = cut = false;
    return true;
  };
  if (stage.stop_at && killed(std::max(*stage.stop_at, start) + grace, killed_by)) {
    facts.stopped_on_request = true;
  }
  if (job.cancel_at && killed(std::max(*job.cancel_at, start) + grace, killed_by)) {
    facts.stopped_on_request = cut = true;
  }
  if (killed(*job.started + job.spec.limit + grace, killed_by)) {
    facts.limit_hit = cut = true;
  }
  if ((job.fault.kind == Kind::kPreempted || job.fault.kind == Kind::kNodeFailed ||
       job.fault.kind == Kind::kLost) &&
      killed(*job.started + job.fault.after, 9)) {
    cut = true;
  }
  return end;
}

// True when the stage has ended by `now`.
bool FakeWorld::SettleStage(Job& job, StageState& stage, Millis now) {
  if (!stage.script) {
    stage.facts.started_wall_ms = WallOf(*stage.facts.started);
    stage.script = play(*std::find_if(job.spec.stages.begin(), job.spec.stages.end(),
                                      [&](const Stage& s) { return s.run == stage.facts.run; }));
  }
  StageFacts facts = stage.facts;
  bool cut = false;
  const Millis end = EndOfStage(job, stage, facts, cut);
  const std::string save_dir = [&] {
    for (const Stage& s : job.spec.stages) {
      if (s.run == stage.facts.run) {
        return Absolute(stage.script->save_dir, s);
      }
    }
    return std::string();
  }();
  while (stage.saves_written < stage.script->saves.size()) {
    const auto& [at, iteration] = stage.script->saves[stage.saves_written];
    if (const Millis when = *stage.facts.started + at; when > now || when > end) {
      break;
    }
    WriteCheckpoint(save_dir, iteration);
    ++stage.saves_written;
  }
  if (end > now) {
    return false;
  }
  stage.facts = facts;
  stage.facts.ended = end;
  job.cut = job.cut || cut;
  return true;
}

void FakeWorld::Settle(Job& job) {
  const Millis now = clock_->Monotonic();
  if (job.ended) {
    return;
  }
  if (job.fault.kind == Kind::kNeverStarts) {
    if (job.submitted + job.fault.after <= now) {
      job.ended = job.submitted + job.fault.after;
    }
    return;
  }
  if (!job.started) {
    if (job.cancel_at && *job.cancel_at < job.starts_at) {
      job.ended = *job.cancel_at;
      return;
    }
    if (job.starts_at > now) {
      return;
    }
    job.started = job.starts_at;
  }
  Millis t = *job.started;
  for (StageState& stage : job.stages) {
    if (job.cut) {
      break;
    }
    if (!stage.facts.started && stage.stop_at && *stage.stop_at <= t) {
      stage.facts.ended = t;  // stopped before its turn: it never starts
      stage.facts.stopped_on_request = true;
    }
    if (stage.facts.ended && !stage.facts.started) {
      continue;
    }
    if (!stage.facts.started) {
      stage.facts.started = t;
    }
    if (!stage.facts.ended && !SettleStage(job, stage, now)) {
      return;
    }
    t = *stage.facts.ended;
  }
  job.ended = t;
}

int FakeWorld::Submits(const Token& token) const {
  const auto it = submits_.find(token);
  return it == submits_.end() ? 0 : it->second;
}

int FakeWorld::Starts(const Token& token) const {
  return static_cast<int>(std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    return job->spec.token == token && job->started;
  }));
}

std::vector<Token> FakeWorld::Tokens() const {
  std::vector<Token> out;
  for (const auto& job : jobs_) {
    out.push_back(job->spec.token);
  }
  return out;
}

bool FakeWorld::Live(const Token& token) {
  Job* job = Find(token);
  if (job == nullptr) {
    return false;
  }
  Settle(*job);
  return job->started && !job->ended;
}

std::vector<FakeWorld::StageFacts> FakeWorld::Stages(const Token& token) {
  std::vector<StageFacts> out;
  if (Job* job = Find(token)) {
    Settle(*job);
    for (const StageState& stage : job->stages) {
      out.push_back(stage.facts);
    }
  }
  return out;
}

GpuMillis FakeWorld::Charge(const Token& token) {
  Job* job = Find(token);
  if (job == nullptr) {
    return {};
  }
  Settle(*job);
  if (!job->started) {
    return {};
  }
  return ChargeFor(job->spec.slots,
                   job->idle + job->ended.value_or(clock_->Monotonic()) - *job->started);
}

GpuMillis FakeWorld::TotalCharge() {
  GpuMillis sum;
  for (const auto& job : jobs_) {
    sum += Charge(job->spec.token);
  }
  return sum;
}

// ---------------------------------------------------------------- launcher

LaunchHandle FakeLauncher::HandleOf(const FakeWorld::Job& job) const {
  return {job.spec.token, job.id, world_->run_root + "/" + job.spec.token.value, job.allocation};
}

Result<Submitted> FakeLauncher::Submit(const LaunchSpec& spec) {
  const int nth = ++world_->submits_[spec.token];
  FakeWorld::Job* job = world_->Find(spec.token);
  const FakeFault fault = world_->fault ? world_->fault(spec, nth) : FakeFault{};
  const bool reaches = fault.kind != Kind::kRefused && fault.kind != Kind::kUnknownNothing;
  if (job == nullptr && reaches) {
    auto fresh = std::make_unique<FakeWorld::Job>();
    job = fresh.get();
    job->spec = spec;
    job->fault = fault;
    job->id = std::to_string(1000 + world_->jobs_.size());
    job->node =
        world_->node ? world_->node(spec) : "node" + std::to_string(world_->jobs_.size() % 16);
    job->allocation = world_->allocation;
    job->idle = world_->idle_before ? world_->idle_before(spec) : Millis{0};
    job->submitted = world_->clock_->Monotonic();
    job->starts_at = job->submitted + (world_->queue_time ? world_->queue_time(spec) : Millis{0});
    for (const Stage& stage : spec.stages) {
      job->stages.push_back({});
      job->stages.back().facts.run = stage.run;
    }
    world_->jobs_.push_back(std::move(fresh));
    world_->Settle(*job);
  }
  if (world_->after_effect) {
    world_->after_effect("submit");
  }
  if (fault.kind == Kind::kRefused) {
    return Submitted(SubmitRefused{"the fake cluster refuses"});
  }
  if (fault.kind == Kind::kUnknownRuns || fault.kind == Kind::kUnknownNothing) {
    return Submitted(SubmitUnknown{"the fake cluster did not answer"});
  }
  return Submitted(Bound{HandleOf(*job)});
}

Result<std::optional<LaunchHandle>> FakeLauncher::Find(const Token& token) {
  if (world_->find_failures > 0) {
    --world_->find_failures;
    return Fail(ErrorCode::kUnavailable, "the fake cluster does not answer");
  }
  const FakeWorld::Job* job = world_->Find(token);
  return job == nullptr ? std::optional<LaunchHandle>() : HandleOf(*job);
}

Observation FakeLauncher::Look(FakeWorld::Job& job) {
  world_->Settle(job);
  const Millis now = world_->clock_->Monotonic();
  Seen& seen = seen_[job.spec.token];
  Observation o;
  o.handle = HandleOf(job);
  // A lost job says nothing more from then on; only its limit makes the loss certain.
  const bool lost =
      job.fault.kind == Kind::kLost && job.started && now >= *job.started + job.fault.after;
  const bool lost_for_good = lost && now >= *job.started + job.spec.limit + world_->release_margin;
  o.state = lost_for_good ? Observation::State::kEnded
            : lost        ? Observation::State::kUnknown
            : job.ended   ? Observation::State::kEnded
            : job.started ? Observation::State::kRunning
                          : Observation::State::kQueued;
  o.nodes = job.started ? job.node : std::string();
  for (FakeWorld::StageState& stage : job.stages) {
    StageObservation s;
    s.run = stage.facts.run;
    s.node = job.node;
    s.folder = o.handle.folder + "/a0/" + s.run.value;
    if (stage.facts.ended && !stage.facts.started && !lost) {
      s.ended = s.stopped_on_request = true;
    }
    if (stage.facts.started) {
      const Millis start = *stage.facts.started;
      const Millis end = stage.facts.ended.value_or(now);
      s.started = true;
      s.started_wall_ms = stage.facts.started_wall_ms;
      s.held = end - start;
      s.last_beat_wall_ms = s.started_wall_ms + (s.held / kBeat) * kBeat.count();
      std::size_t& next = seen.lines[s.run];
      while (next < stage.script->events.size() && start + stage.script->events[next].at <= end) {
        const FakeEvent& e = stage.script->events[next++];
        s.log.push_back({0, e.at.count(), e.line + "\n"});
      }
      if (stage.facts.ended && !lost) {
        s.ended = true;
        s.exit_code = stage.facts.exit_code;
        s.signal = stage.facts.signal;
        s.stopped_on_request = stage.facts.stopped_on_request;
        s.limit_hit = stage.facts.limit_hit;
      }
    }
    o.stages.push_back(std::move(s));
  }
  if (o.state == Observation::State::kEnded) {
    o.charged = world_->Charge(job.spec.token);
    o.idle = job.started ? ChargeFor(job.spec.slots, job.idle) : GpuMillis{};
    if (!job.started) {
      o.source = ChargeSource::kNeverStarted;
      o.end_hint = RunEnd::kNeverStarted;
      o.detail = job.cancel_at ? "cancelled while queued" : "the launch never started";
    } else if (lost) {
      o.source = ChargeSource::kLastBeat;
      o.charged = ChargeFor(job.spec.slots, (job.fault.after / kBeat + 1) * kBeat);
      o.end_hint = RunEnd::kLost;
      o.detail = "no news of it any more";
    } else if (job.fault.kind == Kind::kPreempted && job.cut) {
      o.end_hint = RunEnd::kPreempted;
      o.scheduler_word = "PREEMPTED";
    } else if (job.fault.kind == Kind::kNodeFailed && job.cut) {
      o.end_hint = RunEnd::kNodeFailed;
      o.scheduler_word = "NODE_FAIL";
    }
  }
  seen.state.clear();
  seen.state += std::to_string(static_cast<int>(o.state));
  for (const StageObservation& s : o.stages) {
    seen.state += s.ended ? 'e' : s.started ? 's' : '-';
  }
  return o;
}

bool FakeLauncher::HasNews(FakeWorld::Job& job) {
  const Seen before = seen_[job.spec.token];
  const Observation o = Look(job);
  const bool news = seen_[job.spec.token].state != before.state ||
                    std::any_of(o.stages.begin(), o.stages.end(),
                                [](const StageObservation& s) { return !s.log.empty(); });
  seen_[job.spec.token] = before;
  return news;
}

std::optional<Millis> FakeLauncher::NextNews(FakeWorld::Job& job, int steps) {
  std::optional<Millis> next;
  const Millis now = world_->clock_->Monotonic();
  const auto consider = [&](Millis t) {
    if (t > now && (!next || t < *next)) {
      next = t;
    }
  };
  if (!job.started) {
    if (job.ended) {
      return next;
    }
    consider(job.fault.kind == Kind::kNeverStarts ? job.submitted + job.fault.after
                                                  : job.starts_at);
    return next;
  }
  if (job.fault.kind == Kind::kLost) {
    consider(*job.started + job.fault.after);
    consider(*job.started + job.spec.limit + world_->release_margin);
  }
  for (FakeWorld::StageState& stage : job.stages) {
    if (!stage.facts.started || stage.facts.ended) {
      continue;
    }
    FakeWorld::StageFacts facts = stage.facts;
    bool cut = false;
    if (const Millis end = world_->EndOfStage(job, stage, facts, cut); end != Millis::max()) {
      consider(end);
    }
    int counted = 0;
    for (std::size_t i = seen_[job.spec.token].lines[stage.facts.run];
         i < stage.script->events.size(); ++i) {
      const FakeEvent& e = stage.script->events[i];
      if (!e.step || ++counted >= std::max(1, steps)) {
        consider(*stage.facts.started + e.at);
        break;
      }
    }
  }
  return next;
}

Result<std::vector<Observation>> FakeLauncher::Observe(std::span<const LaunchHandle> handles,
                                                       Instant until, int steps) {
  std::vector<FakeWorld::Job*> jobs;
  for (const LaunchHandle& handle : handles) {
    jobs.push_back(world_->Find(handle.token));
  }
  Clock& clock = *world_->clock_;
  while (clock.Now() < until) {
    std::optional<Millis> next;
    bool news = false;
    for (FakeWorld::Job* job : jobs) {
      if (job == nullptr) {
        continue;
      }
      news = news || HasNews(*job);
      if (const auto t = NextNews(*job, steps); t && (!next || *t < *next)) {
        next = t;
      }
    }
    if (news || (!next && until == Instant::Never())) {
      break;
    }
    Instant wake = until;
    if (next) {
      wake = std::min(until, clock.Now() + (*next - clock.Monotonic()));
    }
    clock.SleepUntil(wake);
  }
  std::vector<Observation> out;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i] == nullptr) {
      Observation o;
      o.handle = handles[i];
      o.detail = "no such launch";
      out.push_back(std::move(o));
    } else {
      out.push_back(Look(*jobs[i]));
    }
  }
  return out;
}

Status FakeLauncher::Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) {
  FakeWorld::Job* job = world_->Find(handle.token);
  if (job == nullptr) {
    return Fail(ErrorCode::kNotFound, "no launch " + handle.token.value);
  }
  if (world_->cancel_failures > 0) {
    --world_->cancel_failures;
    return Fail(ErrorCode::kUnavailable, "the fake cluster does not answer");
  }
  world_->Settle(*job);
  const Millis now = world_->clock_->Monotonic();
  if (!run) {
    job->cancel_at = job->cancel_at.value_or(now);
  } else {
    for (FakeWorld::StageState& stage : job->stages) {
      if (stage.facts.run == *run) {
        stage.stop_at = stage.stop_at.value_or(now);
      }
    }
  }
  world_->Settle(*job);
  if (world_->after_effect) {
    world_->after_effect("cancel");
  }
  return {};
}

Result<std::string> FakeLauncher::Fetch(const LaunchHandle& handle, const std::string& path,
                                        std::int64_t offset, std::int64_t size) {
  const std::string whole =
      path.starts_with(handle.folder + "/") ? path : handle.folder + "/" + path;
  const auto it = world_->files.find(whole);
  if (it == world_->files.end()) {
    return Fail(ErrorCode::kNotFound, "no file " + whole);
  }
  if (offset < 0 || size < 0 || offset >= static_cast<std::int64_t>(it->second.size())) {
    return std::string();
  }
  return it->second.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

}  // namespace attune::fakes
