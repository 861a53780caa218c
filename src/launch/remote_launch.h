// A launch, or one host's share of one, whose run folder lies on another machine: what to ask, and
// what the answers make of it. Reads through a mirror here; does no I/O over the network itself.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "attune/base/clock.h"
#include "exchange.h"
#include "folder_view.h"
#include "mirror.h"

namespace attune::launch {

class RemoteLaunch {
 public:
  // `node`: how the user calls the machine. `mirror`: folder of the launch here. `look_after`:
  // exchange.h.
  RemoteLaunch(std::string node, std::string mirror, Plan plan, int attempt, bool look_after);

  LookRequest::Launch Question() const;
  // Takes one answer; returns whether there is anything new. Errors are of Mirror::Apply.
  Result<bool> Take(const LookAnswer& answer, const LookAnswer::Launch& launch, Clock& clock);

  // With the machine's own clock set against ours; log chunks are moved out.
  std::vector<StageObservation> TakeStages(Clock& clock);
  // Of the folder as it is mirrored: kUnknown before the first answer.
  Observation::State state() const;
  bool absent() const { return told_ == FolderState::kAbsent; }
  bool ended() const { return state() == Observation::State::kEnded; }
  // What is charged, once it has ended.
  void Conclude(Observation& o) const { launch::Conclude(view_, lost_, o); }

  // Hands out what is mirrored and was not handed out yet; true when there was some.
  bool Refresh() { return view_.Refresh(); }
  const std::string& node() const { return node_; }
  const Plan& plan() const { return view_.plan(); }
  const FolderView& view() const { return view_; }

 private:
  void ReadLost();

  const std::string node_;
  const bool look_after_;
  const int attempt_;
  FolderView view_;
  Mirror mirror_;
  std::optional<FolderState> told_;
  std::optional<LostRecord> lost_;
  Millis clock_ahead_{0};  // of the machine's wall clock
  // The machine's monotonic clock at the last answer, and ours then.
  Millis their_mono_{0}, our_mono_{0};
  std::string their_boot_;
};

}  // namespace attune::launch
