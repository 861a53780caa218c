// One launch on Slurm: what its run folder says, what the queue says, and what to do about it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/launch/slurm.h"
#include "folder_view.h"
#include "slurm_client.h"
#include "slurm_fate.h"
#include "slurm_jobs.h"

namespace attune::launch {

// In a launch's folder on this machine: what the scheduler said of it.
inline constexpr const char* kJobsFile = "jobs";

class SlurmLaunch {
 public:
  // Error: there is no such launch. `options` must outlive it.
  static Result<std::unique_ptr<SlurmLaunch>> Open(const SlurmOptions& options, const Token& token,
                                                   const std::string& folder);

  // An answer of the queue: all jobs with the token's name, maybe none. `now_s`: our wall clock.
  // True when it changed anything.
  bool Hear(const std::vector<SlurmJob>& jobs, std::int64_t now_s);
  void Learn(const std::vector<SlurmJob>& accounted) { book_.Learn(accounted); }
  void NoAnswer(const std::string& why);
  void SetSkew(std::int64_t seconds);

  // Reads what the folder has now: who claimed it decides.
  void Refresh() { view_.Refresh(); }
  // The job that counts: whose wrapper claimed the folder, else the oldest. Empty: none known.
  std::string OwnId() const;
  // Other jobs under the token that are not over: cancelled.
  void EndTwins(SlurmClient& client);
  // What the queue's answer calls for: scancel of what was asked to stop and did not, of what can
  // never start, of what was put back into the queue.
  void Enforce(SlurmClient& client);

  // Reads the folder and concludes. True when there is something the caller has not been told.
  bool Look(SlurmClient& client, Observation& o);

  const Plan& plan() const { return view_.plan(); }
  bool IsSettled() const { return book_.settled.has_value(); }
  // Settled, and all that its job wrote was handed out: nothing more is looked for.
  bool IsRead() const { return told_ == Observation::State::kEnded; }
  // The next answer is waited for: the job ended in the folder, or was asked to.
  bool WantsAnswer() const;

 private:
  SlurmLaunch(const SlurmOptions& options, std::string folder, Plan plan);

  const SeenJob* Own() const;
  Observation::State Now(SlurmClient& client);
  Observation::State Held();
  Observation::State Final(SlurmClient& client, const SeenJob& own);
  // Who cancelled the job; false: the accounting may still say it.
  bool LearnWho(SlurmClient& client, const SeenJob& own);
  Observation::State Unknown(SlurmClient& client);
  Observation::State Silent(SlurmClient& client);
  // Everything is known: writes down what it came to.
  Observation::State Settle(SlurmClient& client, SlurmVerdict verdict);
  FolderFacts Facts() const;
  FolderTimes Times() const;
  Millis Sign() const;  // the last sign of life of a launch that has begun
  bool BeatIsFresh();
  bool LimitHasPassed() const;
  static void HoldBack(std::vector<StageObservation>& stages);
  void Save();
  Millis Mono() const { return o_.clock->Monotonic(); }

  const SlurmOptions& o_;
  const std::string folder_;
  FolderView view_;
  JobBook book_;
  bool heard_ = false;   // the queue has answered at least once
  bool listed_ = false;  // ... and showed the job that counts the last time
  std::string trouble_;  // why it does not answer now; empty: it does
  std::optional<Millis> silent_since_, unlisted_since_, final_since_, hopeless_since_, stop_since_,
      cancelled_at_, who_asked_at_, began_;  // began_: its start record was seen
  Millis opened_at_{0};
  int cancels_ = 0;
  std::string who_;           // cancelled it, and was not us
  std::string cannot_start_;  // the reason, once it was cancelled for it
  Millis last_sign_{0};       // of the folder, and when it changed
  Millis sign_changed_at_{0};
  std::optional<Observation::State> told_;
  std::string told_word_;
};

}  // namespace attune::launch
