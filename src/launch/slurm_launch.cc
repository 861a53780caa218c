#include "slurm_launch.h"

#include <algorithm>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "host_side.h"

namespace attune::launch {
namespace {

using State = Observation::State;

// scancel of what was asked to stop and did not: launchers.md section 5, "Cancel, verified".
constexpr Millis kCancelAfterGrace{10'000}, kCancelEvery{30'000}, kStillHolding{300'000};

}  // namespace

SlurmLaunch::SlurmLaunch(const SlurmOptions& options, std::string folder, Plan plan)
    : o_(options), folder_(std::move(folder)), view_(folder_, std::move(plan), 0) {
  opened_at_ = Mono();
  sign_changed_at_ = opened_at_;
  if (const auto bytes = ReadRecordFile(folder_ + "/" + kJobsFile)) {
    if (auto book = JobBook::Decode(*bytes)) {
      book_ = std::move(*book);
    }
  }
  view_.Refresh();
}

Result<std::unique_ptr<SlurmLaunch>> SlurmLaunch::Open(const SlurmOptions& options,
                                                       const Token& token,
                                                       const std::string& folder) {
  ATTUNE_TRY(const std::string bytes, os::ReadFileBounded(folder + "/plan", kMaxPlanBytes));
  ATTUNE_TRY(Plan plan, DecodePlan(bytes));
  if (plan.spec.token != token) {
    return Fail(ErrorCode::kCorrupt, "the plan in " + folder + " is for another token");
  }
  return std::unique_ptr<SlurmLaunch>(new SlurmLaunch(options, folder, std::move(plan)));
}

void SlurmLaunch::Save() {
  // Should it fail, the next process asks the scheduler again.
  (void)os::WriteFileAtomic(folder_ + "/" + kJobsFile, book_.Encode());
}

void SlurmLaunch::SetSkew(std::int64_t seconds) {
  book_.skew = seconds;
  Save();
}

bool SlurmLaunch::Hear(const std::vector<SlurmJob>& jobs, std::int64_t now_s) {
  heard_ = true;
  trouble_.clear();
  silent_since_.reset();
  const bool changed = book_.See(jobs, now_s + book_.skew);
  const SeenJob* own = Own();
  listed_ = own != nullptr && book_.IsListed(*own);
  if (listed_) {
    unlisted_since_.reset();
  } else if (!unlisted_since_) {
    unlisted_since_ = Mono();
  }
  if (changed) {
    Save();
  }
  return changed;
}

void SlurmLaunch::NoAnswer(const std::string& why) {
  trouble_ = why;
  if (!silent_since_) {
    silent_since_ = Mono();
  }
}

const SeenJob* SlurmLaunch::Own() const {
  const std::string claimed = view_.start() ? view_.start()->job_id : std::string();
  const SeenJob* best = nullptr;
  // Later entries of one id are its later attempts.
  const auto rank = [&](const SeenJob& s) {
    const bool holds = s.held_at > 0 && !IsOver(s);
    return s.job.id == claimed ? 2 : holds ? 1 : 0;
  };
  for (const SeenJob& seen : book_.jobs()) {
    if (best == nullptr || rank(seen) > rank(*best) ||
        (rank(seen) == rank(*best) &&
         (seen.job.id == best->job.id ? seen.job.restarts > best->job.restarts
                                      : seen.job.submitted < best->job.submitted))) {
      best = &seen;
    }
  }
  return best;
}

std::string SlurmLaunch::OwnId() const {
  if (view_.start() && !view_.start()->job_id.empty()) {
    return view_.start()->job_id;
  }
  const SeenJob* own = Own();
  return own == nullptr ? std::string() : own->job.id;
}

void SlurmLaunch::EndTwins(SlurmClient& client) {
  view_.Refresh();  // who claimed it decides
  const std::string own = OwnId();
  std::vector<std::string> ids;
  for (const SeenJob& seen : book_.jobs()) {
    const SlurmPhase phase = PhaseOf(seen.job.state);
    if (seen.job.id != own && !seen.requeued &&
        (phase == SlurmPhase::kWaiting || phase == SlurmPhase::kHolding)) {
      ids.push_back(seen.job.id);
    }
  }
  if (!ids.empty()) {
    (void)client.Cancel(view_.plan().spec.token.value, ids, SlurmClient::Force::kNo);
  }
}

void SlurmLaunch::Enforce(SlurmClient& client) {
  view_.Refresh();
  const SeenJob* own = Own();
  if (own == nullptr || !listed_ || IsOver(*own)) {
    return;
  }
  const Millis now = Mono();
  const bool waiting = PhaseOf(own->job.state) == SlurmPhase::kWaiting;
  // A start record beside PENDING is no requeue: the job may have begun since the queue answered.
  bool cancel = own->job.restarts > 0 || !cannot_start_.empty();
  if (view_.stop_asked()) {
    stop_since_ = stop_since_.value_or(now);
    // A job that runs sees `stop` by itself and ends with its records in order.
    cancel =
        cancel || waiting || !view_.start() || now - *stop_since_ > o_.grace + kCancelAfterGrace;
  }
  if (waiting && !cancel && IsHopeless(own->job.reason)) {
    if (!hopeless_since_) {
      hopeless_since_ = now;  // seen twice: reasons flicker while slurmctld makes up its mind
    } else {
      cannot_start_ = own->job.reason;
      cancel = true;
    }
  } else if (waiting && !IsHopeless(own->job.reason)) {
    hopeless_since_.reset();
  }
  if (!cancel || (cancelled_at_ && cancels_ > 1 && now - *cancelled_at_ < kCancelEvery)) {
    return;
  }
  const auto force = cancels_ > 2 ? SlurmClient::Force::kKill : SlurmClient::Force::kNo;
  if (client.Cancel(view_.plan().spec.token.value, {own->job.id}, force)) {
    ++cancels_;
    cancelled_at_ = now;
  }
}

bool SlurmLaunch::WantsAnswer() const {
  return view_.exit().has_value() || view_.stop_asked() || !listed_ || !cannot_start_.empty();
}

FolderFacts SlurmLaunch::Facts() const {
  return {view_.start().has_value(), view_.exit(), view_.stop_asked()};
}

FolderTimes SlurmLaunch::Times() const {
  FolderTimes t;
  if (!view_.start()) {
    return t;
  }
  t.started = true;
  t.job_id = view_.start()->job_id;
  t.exited = view_.exit().has_value();
  t.held = t.exited ? view_.exit()->held : Sign() + view_.plan().times.beat;
  if (const SeenJob* own = Own(); own != nullptr && own->job.started > 0) {
    t.start_lag = Millis{view_.start()->wall_ms - own->job.started * 1000};
  }
  return t;
}

Millis SlurmLaunch::Sign() const {
  return LastSign({view_.attempt_folder(), &view_.plan(), &*view_.start(), view_.stop_asked(),
                   !o_.login.empty()});
}

// By changes since we look, on our own clock: the node's may be off by hours.
bool SlurmLaunch::BeatIsFresh() {
  const Millis sign = view_.start() ? Sign() : Millis{0};
  if (sign != last_sign_) {
    last_sign_ = sign;
    sign_changed_at_ = Mono();
  }
  return last_sign_ > Millis{0} &&
         Mono() - sign_changed_at_ < 2 * view_.plan().times.beat + o_.poll;
}

bool SlurmLaunch::LimitHasPassed() const {
  return Mono() - began_.value_or(opened_at_) >
         view_.plan().spec.limit + SlurmReleaseMargin(o_.kill_wait, o_.over_time);
}

// A stage that failed may have been preempted, or have met a limit on memory: that is Slurm's to
// say, and comes with the end of the launch. One after which another stage ran was its own.
void SlurmLaunch::HoldBack(std::vector<StageObservation>& stages) {
  const auto last = std::find_if(stages.rbegin(), stages.rend(),
                                 [](const StageObservation& s) { return s.started; });
  if (last == stages.rend() || !last->ended || last->stopped_on_request || last->limit_hit ||
      (!last->signal && last->exit_code == 0)) {
    return;
  }
  last->ended = false;
  last->exit_code.reset();
  last->signal.reset();
}

bool SlurmLaunch::Look(SlurmClient& client, Observation& o) {
  bool news = view_.Refresh();
  if (view_.start() && !began_) {
    began_ = Mono();
  }
  o.state = Now(client);
  o.stages = view_.TakeStages(Mono(), false);
  if (o.state != State::kEnded) {
    HoldBack(o.stages);
  }
  if (const SeenJob* own = Own()) {
    o.scheduler_word = own->job.state;
    if (PhaseOf(own->job.state) == SlurmPhase::kWaiting && !own->job.reason.empty()) {
      o.scheduler_word += " (" + own->job.reason + ")";
    }
  }
  if (!trouble_.empty()) {
    o.scheduler_word = "no answer: " + trouble_;
  }
  o.nodes = book_.Nodes();
  if (o.nodes.empty() && view_.start()) {
    o.nodes = view_.start()->host;
  }
  if (stop_since_ && Mono() - *stop_since_ > kStillHolding) {
    o.detail = "asked to stop " + ShowDuration(Mono() - *stop_since_) + " ago and still holding " +
               std::to_string(view_.plan().spec.slots) + " GPUs";
  }
  if (o.state == State::kEnded) {
    const Settled& s = *book_.settled;
    o.charged = s.charged;
    o.source = s.source;
    o.end_hint = s.hint;
    o.detail = s.detail;
    o.failed_nodes = s.failed_nodes;
  }
  news = news || told_ != o.state || told_word_ != o.scheduler_word ||
         std::any_of(o.stages.begin(), o.stages.end(),
                     [](const StageObservation& s) { return !s.log.empty(); });
  told_ = o.state;
  told_word_ = o.scheduler_word;
  return news;
}

}  // namespace attune::launch
