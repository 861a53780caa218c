// What a launch is now, from its folder and the queue, and what it came to.
#include <algorithm>
#include <filesystem>

#include "attune/base/text.h"
#include "slurm_launch.h"

namespace attune::launch {
namespace {

using State = Observation::State;

constexpr Millis kWhoLag{10'000};

// Drops what a network file system remembers of the folder.
void LookAfresh(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::directory_iterator entries(folder, ignored);
}

}  // namespace

Observation::State SlurmLaunch::Held() {
  if (view_.exit() || view_.stop_asked()) {
    return State::kEnding;
  }
  return State::kRunning;
}

Observation::State SlurmLaunch::Final(SlurmClient& client, const SeenJob& own) {
  const bool others_over =
      std::all_of(book_.jobs().begin(), book_.jobs().end(),
                  [&](const SeenJob& s) { return IsOver(s) || s.requeued || !book_.IsListed(s); });
  if (!others_over) {
    return State::kEnding;
  }
  final_since_ = final_since_.value_or(Mono());
  // The claim may be this job's own, from a start that slurmctld forgot: that one may still live.
  if (!view_.exit() && own.job.code == kClaimedByOther && BeatIsFresh()) {
    return State::kEnding;
  }
  if (!view_.exit() && !own.job.nodes.empty() && Mono() - *final_since_ < o_.file_lag) {
    LookAfresh(folder_);
    LookAfresh(view_.attempt_folder());
    return State::kEnding;
  }
  const bool requeued =
      std::any_of(book_.jobs().begin(), book_.jobs().end(),
                  [&](const SeenJob& s) { return s.requeued && s.job.id == own.job.id; });
  const SlurmVerdict verdict = JudgeFinal(own.job, Facts(), requeued || own.job.restarts > 0);
  if (verdict.hint == RunEnd::kCancelledOutside && !LearnWho(client, own)) {
    return State::kEnding;
  }
  return Settle(client, verdict);
}

// The accounting hears of an end a moment after the queue shows it.
bool SlurmLaunch::LearnWho(SlurmClient& client, const SeenJob& own) {
  if (!client.HasAccounting() || !who_.empty() || Mono() - *final_since_ > kWhoLag) {
    return true;
  }
  if (who_asked_at_ && Mono() - *who_asked_at_ < o_.poll) {
    return false;
  }
  who_asked_at_ = Mono();
  for (const SlurmJob& job :
       client.Accounting({view_.plan().spec.token.value}, own.job.submitted)) {
    if (job.id == own.job.id && job.cancelled_by) {
      who_ = client.UserName(*job.cancelled_by);
    }
  }
  return !who_.empty() || !client.HasAccounting();
}

// The queue answers, and does not know the token.
Observation::State SlurmLaunch::Unknown(SlurmClient& client) {
  const State kept = view_.exit()    ? State::kEnding
                     : view_.start() ? told_.value_or(State::kRunning)
                                     : State::kUnknown;
  if (!view_.exit()) {
    if (BeatIsFresh()) {
      return Held();
    }
    if (Mono() - *unlisted_since_ < o_.lost_after) {
      return kept;
    }
    LookAfresh(view_.attempt_folder());
    if (view_.Refresh() && view_.exit()) {
      return kept;
    }
  }
  const SeenJob* own = Own();
  book_.Learn(client.Accounting({view_.plan().spec.token.value},
                                own != nullptr ? own->job.submitted : o_.clock->Now().ms / 1000));
  own = Own();
  if (own != nullptr && IsOver(*own)) {
    return Settle(client, JudgeFinal(own->job, Facts(), own->requeued));
  }
  // Its hold stands until its limit has passed: whatever is left of it has ended by then.
  if (view_.start() && !view_.exit() && !LimitHasPassed()) {
    return State::kUnknown;
  }
  return Settle(client, JudgeVanished(Facts()));
}

// No answer. The job's own records are believed after a while; nothing else is.
Observation::State SlurmLaunch::Silent(SlurmClient& client) {
  if (view_.exit()) {
    return Mono() - *silent_since_ > o_.find_for ? Settle(client, JudgeVanished(Facts()))
                                                 : State::kEnding;
  }
  return view_.start() ? Held() : told_.value_or(State::kUnknown);
}

Observation::State SlurmLaunch::Now(SlurmClient& client) {
  if (IsSettled()) {
    view_.MarkOver();
    view_.Refresh();
    return view_.LogsComplete() ? State::kEnded : State::kEnding;
  }
  if (!trouble_.empty()) {
    return Silent(client);
  }
  if (!heard_) {
    return view_.start() ? Held() : State::kUnknown;
  }
  const SeenJob* own = Own();
  if (own == nullptr || !listed_) {
    return Unknown(client);
  }
  switch (PhaseOf(own->job.state)) {
    case SlurmPhase::kWaiting:
      return own->job.restarts > 0 ? State::kEnding : view_.start() ? Held() : State::kQueued;
    case SlurmPhase::kHolding:
    case SlurmPhase::kPaused:
      return Held();
    case SlurmPhase::kEnding:
      return State::kEnding;
    case SlurmPhase::kFinal:
      return Final(client, *own);
    case SlurmPhase::kStrange:
      break;
  }
  return told_.value_or(State::kUnknown);
}

Observation::State SlurmLaunch::Settle(SlurmClient& client, SlurmVerdict verdict) {
  Settled s;
  if (!cannot_start_.empty() && !view_.start()) {
    verdict = {RunEnd::kNeverStarted, "cannot start: Slurm gives the reason " + cannot_start_,
               false};
  }
  const bool paused = std::any_of(book_.jobs().begin(), book_.jobs().end(),
                                  [](const SeenJob& seen) { return seen.paused; });
  if (paused && !verdict.hint) {
    verdict.hint = RunEnd::kPreempted;
    verdict.detail = "the scheduler suspended it: its step times contain the pause";
  }
  if (verdict.hint == RunEnd::kCancelledOutside) {
    verdict.detail += who_.empty() ? "; Slurm does not say by whom" : "; it was " + who_;
  }
  s.nodes = book_.Nodes();
  if (verdict.hint == RunEnd::kNodeFailed || verdict.hint == RunEnd::kPreempted) {
    s.failed_nodes = s.nodes.empty() ? std::vector<std::string>{} : client.DownNodes(s.nodes);
    if (!s.failed_nodes.empty()) {  // put back into the queue because of a node
      verdict.hint = RunEnd::kNodeFailed;
      verdict.detail = "a node failed: " + Join(s.failed_nodes, ", ");
    }
  }
  const Plan& plan = view_.plan();
  if (verdict.charged) {
    s.charged = book_.Charge(plan.spec.slots, o_.counts_gpus, o_.kill_wait, Times());
  }
  const SeenJob* own = Own();
  s.source = view_.exit()                     ? ChargeSource::kWrapper
             : own != nullptr && IsOver(*own) ? ChargeSource::kScheduler
             : view_.start()                  ? ChargeSource::kLastBeat
                                              : ChargeSource::kNeverStarted;
  s.hint = verdict.hint;
  s.detail = std::move(verdict.detail);
  if (view_.exit() && s.detail.empty()) {
    s.detail = view_.exit()->survivors > 0
                   ? std::to_string(view_.exit()->survivors) + " processes could not be killed"
                   : view_.exit()->detail;
  }
  if (view_.exit() && !s.hint && view_.exit()->ending == Ending::kTerminated) {
    s.hint = view_.stop_asked() ? RunEnd::kStopped : RunEnd::kCancelledOutside;
    s.detail = "somebody else sent its wrapper a signal";
  }
  book_.settled = std::move(s);
  Save();
  view_.MarkOver();
  view_.Refresh();
  return view_.LogsComplete() ? State::kEnded : State::kEnding;
}

}  // namespace attune::launch
