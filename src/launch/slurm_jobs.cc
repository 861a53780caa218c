#include "slurm_jobs.h"

#include <algorithm>

#include "attune/base/text.h"
#include "record.h"
#include "slurm_fate.h"

namespace attune::launch {
namespace {

// A start of the wrapper this long after StartTime is a prolog; longer is another clock.
constexpr Millis kLongestLag{120'000};

bool Holds(const SlurmJob& job) {
  switch (PhaseOf(job.state)) {
    case SlurmPhase::kHolding:
    case SlurmPhase::kPaused:
    case SlurmPhase::kEnding:
      return !job.nodes.empty();
    case SlurmPhase::kWaiting:
    case SlurmPhase::kFinal:
    case SlurmPhase::kStrange:
      break;
  }
  return false;
}

bool IsFinal(const SlurmJob& job) { return PhaseOf(job.state) == SlurmPhase::kFinal; }

// Slurm shows the moment of the decision as the end, and kills only KillWait later.
bool EndsBeforeItsProcesses(const std::string& state) {
  return state == "CANCELLED" || state == "TIMEOUT" || state == "PREEMPTED";
}

}  // namespace

bool IsOver(const SeenJob& seen) { return IsFinal(seen.job); }

SeenJob* JobBook::Find(const SlurmJob& job) {
  for (SeenJob& seen : jobs_) {
    if (seen.job.id == job.id && seen.job.restarts == job.restarts) {
      return &seen;
    }
  }
  return nullptr;
}

bool JobBook::See(const std::vector<SlurmJob>& jobs, std::int64_t now) {
  bool changed = false;
  ++answers_;
  for (const SlurmJob& job : jobs) {
    SeenJob* seen = Find(job);
    if (seen == nullptr) {
      for (SeenJob& old : jobs_) {  // the attempt before: its own end is overwritten by now
        if (old.job.id == job.id && old.job.restarts < job.restarts && !IsFinal(old.job)) {
          old.requeued = true;
          old.job.ended = job.submitted;  // a requeue is a new submit
          old.out_at = now;
        }
      }
      jobs_.push_back({});
      seen = &jobs_.back();
      changed = true;
    }
    changed = changed || seen->job.state != job.state || seen->job.nodes != job.nodes;
    SlurmJob fresh = job;
    // A cancelled job keeps its nodes in the queue's answer only while it holds them.
    if (fresh.nodes.empty()) {
      fresh.nodes = seen->job.nodes;
    }
    if (Holds(seen->job) && seen->job.started > 0 && fresh.started < seen->job.started) {
      fresh.started = seen->job.started;
    }
    if (Holds(job)) {
      seen->held_at = now;
    } else if (IsFinal(job) && seen->out_at == 0) {
      seen->out_at = now;
    }
    seen->paused = seen->paused || PhaseOf(job.state) == SlurmPhase::kPaused;
    seen->job = std::move(fresh);
    seen->seen_at = answers_;
  }
  return changed;
}

void JobBook::Learn(const std::vector<SlurmJob>& accounted) {
  for (const SlurmJob& job : accounted) {
    // sacct has no count of restarts: attempts of one id differ in their start.
    const auto same = std::find_if(jobs_.begin(), jobs_.end(), [&](const SeenJob& s) {
      return s.job.id == job.id && (s.job.started == job.started || s.job.started == 0);
    });
    if (same == jobs_.end()) {
      jobs_.push_back({job, 0, 0, job.state == "REQUEUED", false, 0});
    } else if (!IsFinal(same->job) && job.ended > 0) {
      same->job.state = job.state == "REQUEUED" ? same->job.state : job.state;
      same->job.started = job.started;
      same->job.ended = job.ended;
      same->job.nodes = same->job.nodes.empty() ? job.nodes : same->job.nodes;
    }
  }
}

bool JobBook::IsKnown(const std::string& id) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const SeenJob& s) { return s.job.id == id; });
}

std::string JobBook::Nodes() const {
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
    if (!it->job.nodes.empty()) {
      return it->job.nodes;
    }
  }
  return {};
}

bool JobBook::EverHeld() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const SeenJob& s) {
    return s.held_at > 0 || (IsFinal(s.job) && !s.job.nodes.empty());
  });
}

Millis HeldBy(const SeenJob& seen, Millis kill_wait, const FolderTimes& folder) {
  const SlurmJob& job = seen.job;
  const bool mine = folder.started && folder.job_id == job.id && (job.restarts == 0);
  // A last sign of life and a beat are a guess: where Slurm knows the end, only an exit record
  // stands beside it.
  const bool known = IsFinal(job) || seen.requeued;
  const Millis by_wrapper = mine && (folder.exited || !known) ? folder.held : Millis{0};
  if (job.nodes.empty() || job.started == 0) {
    return by_wrapper;  // cancelled while it waited: a start time alone does not mean that it ran
  }
  std::int64_t until = seen.held_at;
  if (known) {
    until = std::max(until, job.ended);
    if ((!mine || !folder.exited) && (seen.requeued || EndsBeforeItsProcesses(job.state))) {
      std::int64_t latest = job.ended + kill_wait.count() / 1000;
      if (seen.out_at > 0) {
        latest = std::min(latest, seen.out_at);
      }
      until = std::max(until, latest);
    }
  }
  const Millis by_slurm{std::max<std::int64_t>(0, until - job.started) * 1000};
  if (mine && !folder.exited && job.code == kClaimedByOther) {
    // The claim is this job's own, from a start that slurmctld forgot when it came back with an
    // older state. It ended that one before it made this one, and only the folder tells of it.
    return by_slurm + std::min(folder.held, Millis{std::max<std::int64_t>(
                                                       0, job.started - job.submitted) *
                                                   1000});
  }
  const Millis lag =
      folder.start_lag <= kLongestLag ? std::max(folder.start_lag, Millis{0}) : Millis{0};
  return std::max(by_slurm, by_wrapper > Millis{0} ? by_wrapper + lag : Millis{0});
}

GpuMillis JobBook::Charge(int slots, bool counts_gpus, Millis kill_wait,
                          const FolderTimes& folder) const {
  GpuMillis sum;
  bool wrapper_told = false;
  for (const SeenJob& seen : jobs_) {
    const int gpus = counts_gpus && seen.job.gpus ? *seen.job.gpus : slots;
    sum += ChargeFor(gpus, HeldBy(seen, kill_wait, folder));
    wrapper_told = wrapper_told || seen.job.id == folder.job_id;
  }
  if (folder.started && !wrapper_told) {
    sum += ChargeFor(slots, folder.held);  // a job that no answer of the queue ever showed
  }
  return sum;
}

std::string JobBook::Encode() const {
  Record r("jobs");
  r.Add("skew_s", skew);
  for (const SeenJob& seen : jobs_) {
    r.Add("job", seen.job.id);
    r.Add("name", seen.job.name);
    r.Add("state", seen.job.state);
    r.Add("reason", seen.job.reason);
    r.Add("submitted", seen.job.submitted);
    r.Add("started", seen.job.started);
    r.Add("ended", seen.job.ended);
    r.Add("restarts", seen.job.restarts);
    r.Add("code", seen.job.code.value_or(-1));
    r.Add("signal", seen.job.signal.value_or(-1));
    r.Add("gpus", seen.job.gpus.value_or(-1));
    r.Add("nodes", seen.job.nodes);
    r.Add("batch_host", seen.job.batch_host);
    r.Add("held_at", seen.held_at);
    r.Add("out_at", seen.out_at);
    r.Add("requeued", seen.requeued ? 1 : 0);
    r.Add("paused", seen.paused ? 1 : 0);
  }
  if (settled) {
    r.Add("charged", settled->charged.value);
    r.Add("source", std::string(Word(settled->source)));
    r.Add("hint", settled->hint ? std::string(Word(*settled->hint)) : std::string());
    r.Add("detail", settled->detail);
    r.Add("at", settled->nodes);
    if (settled->idle > GpuMillis{}) {
      r.Add("idle", settled->idle.value);
    }
    for (const std::string& node : settled->failed_nodes) {
      r.Add("failed_node", node);
    }
  }
  return r.Encode();
}

std::optional<JobBook> JobBook::Decode(std::string_view bytes) {
  const auto r = DecodeRecord(bytes, "jobs");
  if (!r) {
    return std::nullopt;
  }
  JobBook book;
  book.skew = r->Int("skew_s").value_or(0);
  for (const auto& [key, value] : r->fields()) {
    const std::int64_t n = ParseInt(value).value_or(0);
    if (key == "job") {
      book.jobs_.push_back({});
      book.jobs_.back().job.id = value;
      continue;
    }
    if (key == "charged") {
      book.settled = Settled{};
      book.settled->charged = GpuMillis{n};
      continue;
    }
    if (book.settled) {
      Settled& s = *book.settled;
      if (key == "source") {
        for (const ChargeSource source :
             {ChargeSource::kWrapper, ChargeSource::kScheduler, ChargeSource::kLastBeat,
              ChargeSource::kFullHold, ChargeSource::kNeverStarted}) {
          s.source = Word(source) == value ? source : s.source;
        }
      } else if (key == "hint" && !value.empty()) {
        s.hint = ParseRunEnd(value);
      } else if (key == "detail") {
        s.detail = value;
      } else if (key == "at") {
        s.nodes = value;
      } else if (key == "idle") {
        s.idle = GpuMillis{n};
      } else if (key == "failed_node") {
        s.failed_nodes.push_back(value);
      }
      continue;
    }
    if (book.jobs_.empty()) {
      continue;
    }
    SeenJob& seen = book.jobs_.back();
    const auto maybe = [&]() { return n < 0 ? std::optional<int>() : static_cast<int>(n); };
    if (key == "name") seen.job.name = value;
    if (key == "state") seen.job.state = value;
    if (key == "reason") seen.job.reason = value;
    if (key == "submitted") seen.job.submitted = n;
    if (key == "started") seen.job.started = n;
    if (key == "ended") seen.job.ended = n;
    if (key == "restarts") seen.job.restarts = static_cast<int>(n);
    if (key == "code") seen.job.code = maybe();
    if (key == "signal") seen.job.signal = maybe();
    if (key == "gpus") seen.job.gpus = maybe();
    if (key == "nodes") seen.job.nodes = value;
    if (key == "batch_host") seen.job.batch_host = value;
    if (key == "held_at") seen.held_at = n;
    if (key == "out_at") seen.out_at = n;
    if (key == "requeued") seen.requeued = n != 0;
    if (key == "paused") seen.paused = n != 0;
  }
  return book;
}

}  // namespace attune::launch
