// The jobs that were seen under one token, and what they cost. Kept in the launch's folder, because
// slurmctld forgets jobs and rewrites the history of those it puts back into the queue.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attune/launch/launcher.h"
#include "slurm_text.h"

namespace attune::launch {

// Times in seconds on slurmctld's clock.
struct SeenJob {
  SlurmJob job;              // as it was seen last
  std::int64_t held_at = 0;  // the last time it was seen holding its nodes
  std::int64_t out_at = 0;   // the first time it was seen not to; 0: not yet
  bool requeued = false;     // this attempt was taken away and put back into the queue
  bool paused = false;       // was suspended at some time
  std::int64_t seen_at = 0;  // number of the last answer that showed it; not kept on disk

  bool operator==(const SeenJob&) const = default;
};
// In a final state.
bool IsOver(const SeenJob& seen);

// What a launch came to, said once: every later reader tells the same.
struct Settled {
  GpuMillis charged;
  ChargeSource source = ChargeSource::kWrapper;
  std::optional<RunEnd> hint;
  std::string detail, nodes;
  std::vector<std::string> failed_nodes;
  GpuMillis idle;  // part of `charged`
};

// What the run folder adds to a job's own times. Durations on the node's monotonic clock.
struct FolderTimes {
  std::string job_id;  // of the start record
  bool started = false;
  bool exited = false;
  Millis held{0};       // start to exit, or to the last sign of life and one beat more
  Millis start_lag{0};  // StartTime to the wrapper's start, when both clocks agree
};

class JobBook {
 public:
  // One answer of the queue. `now` on slurmctld's clock. True when something changed that must not
  // be forgotten.
  bool See(const std::vector<SlurmJob>& jobs, std::int64_t now);
  // Ends and attempts that the accounting knows and we do not.
  void Learn(const std::vector<SlurmJob>& accounted);

  const std::vector<SeenJob>& jobs() const { return jobs_; }
  bool IsKnown(const std::string& id) const;
  // The last answer of the queue showed this attempt.
  bool IsListed(const SeenJob& seen) const { return answers_ > 0 && seen.seen_at == answers_; }
  std::string Nodes() const;  // of the newest attempt that had some
  bool EverHeld() const;

  // All attempts of all jobs together.
  GpuMillis Charge(int slots, bool counts_gpus, Millis kill_wait, const FolderTimes& folder) const;

  std::int64_t skew = 0;  // slurmctld's clock minus ours, seconds
  std::optional<Settled> settled;

  std::string Encode() const;
  static std::optional<JobBook> Decode(std::string_view bytes);

 private:
  SeenJob* Find(const SlurmJob& job);
  std::vector<SeenJob> jobs_;
  std::int64_t answers_ = 0;
};

// How long one attempt held its nodes.
Millis HeldBy(const SeenJob& seen, Millis kill_wait, const FolderTimes& folder);

}  // namespace attune::launch
