// The launcher of the simulated cluster. A job's prints are made as far as somebody has waited for
// them; waiting moves the virtual clock to the next print that matters. Nothing is kept that could
// not be made again from (world, seed, submission, times of submit and stops).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/sim/cluster.h"
#include "job_script.h"
#include "log_text.h"
#include "setup.h"

namespace attune::sim {
namespace {

constexpr int kTermSignal = 15, kKillSignal = 9;
constexpr Millis kBeat{10'000};
constexpr Millis kMargin{15'000};
constexpr Instant kNever = Instant::Never();

struct SimStage {
  Stage stage;
  std::unique_ptr<JobScript> script;
  std::deque<Print> ahead;  // made, not handed out yet
  std::optional<Instant> started, ended, stop_at;
  std::optional<int> exit_code, signal;
  bool stopped_on_request = false, limit_hit = false;
};

enum class Cut { kNone, kCancelled, kLimit, kPreempted, kNodeFailed };

// The folders that the stages of one launch write and load.
class JobCheckpoints final : public Checkpoints {
 public:
  std::optional<std::int64_t> Latest(const std::string& folder) override {
    const auto it = saved_.find(folder);
    return it == saved_.end() ? std::nullopt : std::optional(it->second);
  }
  void Saved(const std::string& folder, std::int64_t iteration) override {
    saved_[folder] = iteration;
  }

 private:
  std::map<std::string, std::int64_t> saved_;
};

struct SimJob {
  LaunchSpec spec;
  Allocation allocation;
  std::string id, node, nodes;
  Instant submitted, starts;
  std::optional<Instant> started, ended, cancel_at;
  Cut cut = Cut::kNone;
  std::vector<SimStage> stages;
  JobCheckpoints checkpoints;
  std::string told;  // what the last Observe said of the states
};

Instant After(Instant start, double ms) {
  return ms > 1e15 ? kNever : start + Millis{static_cast<std::int64_t>(std::ceil(ms))};
}

class SimLauncher final : public Launcher {
 public:
  SimLauncher(ClusterSetup setup, Site site, VirtualClock& clock)
      : setup_(std::move(setup)), site_(std::move(site)), clock_(clock) {}

  void Restore(const PastLaunch& past) {
    SimJob& job = Make(past.spec, past.submitted);
    for (const PastLaunch::Stop& stop : past.stops) StopAt(job, stop.run, stop.at);
  }

  Result<Submitted> Submit(const LaunchSpec& spec) override {
    SimJob* job = JobOf(spec.token);
    if (job == nullptr) job = &Make(spec, clock_.Now());
    return Submitted(Bound{HandleOf(*job)});
  }

  Result<std::optional<LaunchHandle>> Find(const Token& token) override {
    const SimJob* job = JobOf(token);
    return job == nullptr ? std::optional<LaunchHandle>() : HandleOf(*job);
  }

  Result<std::vector<Observation>> Observe(std::span<const LaunchHandle> handles, Instant until,
                                           int steps) override;
  Status Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) override {
    SimJob* job = JobOf(handle.token);
    if (job == nullptr) return Fail(ErrorCode::kNotFound, "no launch " + handle.token.value);
    StopAt(*job, run, clock_.Now());
    return {};
  }
  Result<std::string> Fetch(const LaunchHandle&, const std::string& path, std::int64_t,
                            std::int64_t) override {
    return Fail(ErrorCode::kNotFound, fmt::format("the simulated cluster keeps no file {}", path));
  }
  Result<std::string> BringHere(const LaunchHandle& handle, const std::string& path,
                                std::int64_t max_bytes) override;
  Millis ReleaseMargin() const override { return kMargin; }

 private:
  SimJob& Make(const LaunchSpec& spec, Instant submitted);
  SimJob* JobOf(const Token& token) {
    const auto it = jobs_.find(token.value);
    return it == jobs_.end() ? nullptr : it->second.get();
  }
  static LaunchHandle HandleOf(const SimJob& job) {
    return {job.spec.token, job.id, "sim/" + job.spec.token.value};
  }
  static void StopAt(SimJob& job, const std::optional<RunId>& run, Instant at) {
    if (!run) {
      job.cancel_at = job.cancel_at.value_or(at);
      return;
    }
    for (SimStage& stage : job.stages) {
      if (stage.stage.run == *run) stage.stop_at = stage.stop_at.value_or(at);
    }
  }
  Millis Release() const {
    return Millis{static_cast<std::int64_t>(1000 * setup_.world->starting.release_s)};
  }

  void BeginStage(SimJob& job, SimStage& stage);
  struct Kill {
    Instant at = kNever;
    Cut cut = Cut::kNone;  // of the whole launch; none: of the stage alone
    int signal = kTermSignal;
  };
  Kill KillOf(const SimJob& job, const SimStage& stage) const;
  bool SettleStage(SimJob& job, SimStage& stage, Instant now);
  void Settle(SimJob& job, Instant now);
  bool HasNews(const SimJob& job, Instant now) const;
  Instant NextNews(SimJob& job, int steps);
  Observation Look(SimJob& job, Instant now);
  void LookAtStage(const SimJob& job, SimStage& stage, Instant now, StageObservation& s);
  static std::string StateWord(const SimJob& job);

  ClusterSetup setup_;
  Site site_;
  VirtualClock& clock_;
  std::map<std::string, std::unique_ptr<SimJob>> jobs_;
};

SimJob& SimLauncher::Make(const LaunchSpec& spec, Instant submitted) {
  auto job = std::make_unique<SimJob>();
  job->spec = spec;
  job->allocation = DrawAllocation(*setup_.world, setup_.seed, spec.token.value);
  const int width = std::max(1, spec.slots / std::max(1, setup_.recipe.workload.gpus_per_node));
  const auto name = [](int n) { return fmt::format("sim-n{:03}", n); };
  while (std::find(spec.exclude.begin(), spec.exclude.end(), name(job->allocation.first_node)) !=
         spec.exclude.end()) {
    ++job->allocation.first_node;
  }
  const int first = job->allocation.first_node;
  job->node = name(first);
  job->nodes = width == 1 ? job->node : fmt::format("sim-n[{:03}-{:03}]", first, first + width - 1);
  job->id = std::to_string(100'000 + job->allocation.seed % 900'000);
  job->submitted = submitted;
  job->starts = After(submitted, 1000 * setup_.world->starting.queue_s);
  for (const Stage& stage : spec.stages) {
    job->stages.emplace_back().stage = stage;
  }
  SimJob& made = *job;
  jobs_[spec.token.value] = std::move(job);
  return made;
}

void SimLauncher::BeginStage(SimJob& job, SimStage& stage) {
  JobSetup js;
  js.site = &site_;
  js.block_flags = &setup_.block_flags;
  js.allocation = job.allocation;
  js.run_seed = MixText(job.allocation.seed, stage.stage.run.value);
  // A command that is not the recipe's own (a component test) is an argument list all the same:
  // one that does not resolve is refused as the framework would.
  js.args = ArgumentsOf(setup_.recipe.command, stage.stage.argv).value_or(Arguments());
  js.workload = setup_.recipe.workload;
  js.env = stage.stage.env;
  js.job_id = job.id;
  js.node = job.node;
  js.wall_start = *stage.started;
  js.hung_after_ms =
      1000 * job.allocation.hung_s - static_cast<double>((*stage.started - *job.started).count());
  js.checkpoints = &job.checkpoints;
  stage.script = std::make_unique<JobScript>(std::move(js));
  stage.script->Peek();  // reads the checkpoint folder, now
}

SimLauncher::Kill SimLauncher::KillOf(const SimJob& job, const SimStage& stage) const {
  Kill kill;
  const auto earlier = [&](Instant at, Cut cut, int signal) {
    if (at < kill.at) kill = {at, cut, signal};
  };
  const Instant start = *stage.started;
  if (stage.stop_at) earlier(std::max(*stage.stop_at, start) + Release(), Cut::kNone, kTermSignal);
  if (job.cancel_at) {
    earlier(std::max(*job.cancel_at, start) + Release(), Cut::kCancelled, kTermSignal);
  }
  earlier(*job.started + job.spec.limit, Cut::kLimit, kTermSignal);
  earlier(After(*job.started, 1000 * job.allocation.preempted_s), Cut::kPreempted, kKillSignal);
  earlier(After(*job.started, 1000 * job.allocation.node_failed_s), Cut::kNodeFailed, kKillSignal);
  return kill;
}

// True when the stage has ended by `now`.
bool SimLauncher::SettleStage(SimJob& job, SimStage& stage, Instant now) {
  if (stage.script == nullptr) BeginStage(job, stage);
  const Kill kill = KillOf(job, stage);
  const Instant bound = std::min(now, kill.at);
  const Print* print = stage.script->Peek();
  while (print != nullptr && After(*stage.started, print->at_ms) <= bound) {
    stage.ahead.push_back(stage.script->Take());
    print = stage.script->Peek();
  }
  if (print == nullptr) {
    const JobEnd& end = stage.script->end();
    if (const Instant at = After(*stage.started, end.at_ms); at <= bound) {
      stage.ended = at;
      stage.exit_code = end.exit_code;
      stage.signal = end.signal;
      return true;
    }
  }
  if (kill.at > now) return false;
  stage.ended = kill.at;
  stage.signal = kill.signal;
  stage.stopped_on_request = kill.cut == Cut::kNone || kill.cut == Cut::kCancelled;
  stage.limit_hit = kill.cut == Cut::kLimit;
  job.cut = kill.cut;
  while (!stage.ahead.empty() && After(*stage.started, stage.ahead.back().at_ms) > kill.at) {
    stage.ahead.pop_back();  // made, and never printed
  }
  const double at_ms = static_cast<double>((kill.at - *stage.started).count());
  if (kill.cut == Cut::kPreempted) {
    stage.ahead.push_back({at_ms, PreemptedLine(job.id, job.node, kill.at), false, true});
  } else if (kill.cut == Cut::kNodeFailed) {
    stage.ahead.push_back({at_ms, NodeFailedLine(job.node), false, true});
  }
  return true;
}

void SimLauncher::Settle(SimJob& job, Instant now) {
  if (job.ended) return;
  if (!job.started) {
    if (job.cancel_at && *job.cancel_at < job.starts) {
      job.ended = *job.cancel_at;
      return;
    }
    if (job.starts > now) return;
    job.started = job.starts;
  }
  Instant t = *job.started;
  for (SimStage& stage : job.stages) {
    if (job.cut != Cut::kNone) break;
    if (!stage.started && stage.stop_at && *stage.stop_at <= t) {
      stage.ended = t;  // stopped before its turn
      stage.stopped_on_request = true;
    }
    if (stage.ended && !stage.started) continue;
    if (!stage.started) stage.started = t;
    if (!stage.ended && !SettleStage(job, stage, now)) return;
    t = *stage.ended;
  }
  job.ended = t;
}

std::string SimLauncher::StateWord(const SimJob& job) {
  std::string word = job.ended ? "E" : job.started ? "R" : "Q";
  for (const SimStage& stage : job.stages) {
    word += stage.ended ? 'e' : stage.started ? 's' : '-';
  }
  return word;
}

bool SimLauncher::HasNews(const SimJob& job, Instant now) const {
  if (StateWord(job) != job.told) return true;
  for (const SimStage& stage : job.stages) {
    for (const Print& p : stage.ahead) {
      if ((p.step || p.news) && After(*stage.started, p.at_ms) <= now) return true;
    }
  }
  return false;
}

Instant SimLauncher::NextNews(SimJob& job, int steps) {
  if (job.ended) return kNever;
  if (!job.started) return job.starts;
  Instant next = kNever;
  for (SimStage& stage : job.stages) {
    if (!stage.started || stage.ended) continue;
    next = std::min(next, KillOf(job, stage).at);
    int seen = 0;
    bool found = false;
    const auto matters = [&](const Print& p) {
      found = p.step ? ++seen >= std::max(1, steps) : p.news;
      if (found) next = std::min(next, After(*stage.started, p.at_ms));
    };
    for (const Print& p : stage.ahead) {
      if (!found) matters(p);
    }
    while (!found) {
      const Print* p = stage.script->Peek();
      if (p == nullptr) {
        next = std::min(next, After(*stage.started, stage.script->end().at_ms));
        break;
      }
      if (After(*stage.started, p->at_ms) >= next) break;
      stage.ahead.push_back(stage.script->Take());
      matters(stage.ahead.back());
    }
  }
  return next;
}

void SimLauncher::LookAtStage(const SimJob& job, SimStage& stage, Instant now,
                              StageObservation& s) {
  s.run = stage.stage.run;
  s.node = job.node;
  s.folder = fmt::format("sim/{}/{}", job.spec.token.value, s.run.value);
  s.ended = stage.ended.has_value();
  s.stopped_on_request = stage.stopped_on_request;
  if (!stage.started) return;
  const Instant start = *stage.started;
  const Instant end = stage.ended.value_or(now);
  s.started = true;
  s.started_wall_ms = start.ms;
  s.held = end - start;
  s.last_beat_wall_ms = start.ms + s.held / kBeat * kBeat.count();
  while (!stage.ahead.empty() && After(start, stage.ahead.front().at_ms) <= end) {
    Print p = std::move(stage.ahead.front());
    stage.ahead.pop_front();
    s.log.push_back({0, (After(start, p.at_ms) - start).count(), std::move(p.text)});
  }
  if (!stage.ended) return;
  s.exit_code = stage.exit_code;
  s.signal = stage.signal;
  s.limit_hit = stage.limit_hit;
}

Observation SimLauncher::Look(SimJob& job, Instant now) {
  Observation o;
  o.handle = HandleOf(job);
  o.state = job.ended     ? Observation::State::kEnded
            : job.started ? Observation::State::kRunning
                          : Observation::State::kQueued;
  if (job.started) o.nodes = job.nodes;
  for (SimStage& stage : job.stages) LookAtStage(job, stage, now, o.stages.emplace_back());
  if (job.ended) {
    o.source = ChargeSource::kWrapper;
    if (!job.started) {
      o.source = ChargeSource::kNeverStarted;
      o.end_hint = RunEnd::kNeverStarted;
      o.detail = "cancelled while queued";
    } else {
      o.charged = ChargeFor(job.spec.slots, *job.ended - *job.started);
    }
    if (job.cut == Cut::kPreempted) o.end_hint = RunEnd::kPreempted;
    if (job.cut == Cut::kNodeFailed) o.end_hint = RunEnd::kNodeFailed;
  }
  job.told = StateWord(job);
  return o;
}

// A job's trace is made when somebody wants to read it: most are never looked at, and it is a
// function of the same things as its log.
Result<std::string> SimLauncher::BringHere(const LaunchHandle& handle, const std::string& path,
                                           std::int64_t) {
  SimJob* job = JobOf(handle.token);
  if (setup_.trace_root.empty() || job == nullptr) return handle.folder;
  Settle(*job, clock_.Now());
  const std::string root = setup_.trace_root + "/" + handle.token.value;
  for (const SimStage& stage : job->stages) {
    if (!stage.started || stage.script == nullptr || !stage.script->profiled()) continue;
    ProfiledStep step = *stage.script->profiled();
    const bool asked = step.wish.folder.ends_with("/" + path);
    const bool made = stage.ended && After(*stage.started, step.end_ms) <= *stage.ended;
    if (!asked || !made || !stage.script->job()) continue;
    step.wish.folder = root + "/" + path;
    ATTUNE_RETURN_IF_ERROR(WriteTrace(step.wish, *stage.script->job(), stage.script->truth(),
                                      {.number = step.wish.step,
                                       .seconds = (step.end_ms - step.begin_ms) / 1000,
                                       .begin = After(*stage.started, step.begin_ms),
                                       .rank = step.wish.rank}));
  }
  return root;
}

Result<std::vector<Observation>> SimLauncher::Observe(std::span<const LaunchHandle> handles,
                                                      Instant until, int steps) {
  for (bool news = false; !news && clock_.Now() < until;) {
    Instant next = kNever;
    for (const LaunchHandle& handle : handles) {
      SimJob* job = JobOf(handle.token);
      if (job == nullptr) continue;
      Settle(*job, clock_.Now());
      news = news || HasNews(*job, clock_.Now());
      if (!news) next = std::min(next, NextNews(*job, steps));
    }
    if (news) break;
    if (next == kNever && until == kNever) break;
    clock_.SleepUntil(std::min(until, next));
  }
  std::vector<Observation> out;
  for (const LaunchHandle& handle : handles) {
    SimJob* job = JobOf(handle.token);
    if (job == nullptr) {
      Observation& o = out.emplace_back();
      o.handle = handle;
      o.detail = "no such launch";
      continue;
    }
    Settle(*job, clock_.Now());
    out.push_back(Look(*job, clock_.Now()));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Launcher>> MakeSimLauncher(const ClusterSetup& setup, VirtualClock& clock,
                                                  std::span<const PastLaunch> past) {
  ATTUNE_TRY(Site site, PrepareSite(setup));
  auto launcher = std::make_unique<SimLauncher>(setup, std::move(site), clock);
  for (const PastLaunch& launch : past) launcher->Restore(launch);
  return launcher;
}

}  // namespace attune::sim
