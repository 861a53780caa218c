#include "remote_launch.h"

#include <algorithm>

namespace attune::launch {

using State = Observation::State;

RemoteLaunch::RemoteLaunch(std::string node, std::string mirror, Plan plan, int attempt,
                           bool look_after)
    : node_(std::move(node)),
      look_after_(look_after),
      attempt_(attempt),
      view_(mirror, std::move(plan), attempt),
      mirror_(mirror, view_.plan(), attempt) {
  if (mirror_.final()) {
    told_ = FolderState::kOver;
    ReadLost();
    view_.Refresh();
  }
}

void RemoteLaunch::ReadLost() {
  if (const auto bytes = ReadRecordFile(view_.attempt_folder() + "/lost"); bytes && !lost_) {
    lost_ = DecodeLost(*bytes);
  }
  if (lost_) {
    view_.MarkOver();
  }
}

LookRequest::Launch RemoteLaunch::Question() const {
  LookRequest::Launch q;
  q.token = view_.plan().spec.token;
  q.attempt = attempt_;
  q.told = told_;
  q.look_after = look_after_;
  q.files = mirror_.Wanted();
  return q;
}

Result<bool> RemoteLaunch::Take(const LookAnswer& answer, const LookAnswer::Launch& launch,
                                Clock& clock) {
  ATTUNE_RETURN_IF_ERROR(mirror_.Apply(launch));
  const bool changed = told_ != launch.state;
  told_ = launch.state;
  their_boot_ = answer.boot_id;
  their_mono_ = answer.mono;
  our_mono_ = clock.Monotonic();
  clock_ahead_ = Instant{answer.wall_ms} - clock.Now();
  if (launch.state == FolderState::kOver && mirror_.whole()) {
    ReadLost();
  }
  return view_.Refresh() || changed;
}

std::vector<StageObservation> RemoteLaunch::TakeStages(Clock& clock) {
  const bool same_boot = view_.start() && view_.start()->process.boot_id == their_boot_;
  std::vector<StageObservation> stages =
      view_.TakeStages(their_mono_ + (clock.Monotonic() - our_mono_), same_boot);
  for (StageObservation& s : stages) {
    if (s.started) {
      s.node = node_;
      s.started_wall_ms -= clock_ahead_.count();
      s.last_beat_wall_ms -= clock_ahead_.count();
    }
  }
  return stages;
}

State RemoteLaunch::state() const {
  if (!told_ || !view_.start()) {
    return State::kUnknown;
  }
  if (*told_ == FolderState::kOver) {
    const bool final = view_.exit() || lost_;
    return final && mirror_.whole() && view_.LogsComplete() ? State::kEnded : State::kEnding;
  }
  return *told_ == FolderState::kEnding ? State::kEnding : State::kRunning;
}

}  // namespace attune::launch
