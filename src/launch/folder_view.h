// A launch as its run folder shows it: shared by every launcher that can read the folder. Keeps how
// far each log was handed out, so one view a launch and process.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/launch/launcher.h"
#include "run_folder.h"

namespace attune::launch {

class FolderView {
 public:
  FolderView(std::string launch_folder, Plan plan, int attempt);
  FolderView(const FolderView&) = delete;  // stages point into the plan
  FolderView& operator=(const FolderView&) = delete;

  // Reads what is new. Returns whether anything differs from the last call.
  bool Refresh();
  // Of what TakeStages would hand out: whole lines, and bytes.
  std::int64_t fresh_lines() const;
  std::int64_t fresh_bytes() const;
  // Whether the last Refresh found a record or a state, and not only more output.
  bool records_changed() const { return records_changed_; }

  // Nobody writes here any more although no exit record says so: what no stamp covers is final too.
  void MarkOver() { over_ = true; }

  // From the last Refresh. Log chunks are moved out: a second call has none.
  std::vector<StageObservation> TakeStages(Millis now_mono, bool same_boot);
  const Plan& plan() const { return plan_; }
  const std::optional<StartRecord>& start() const { return start_; }
  const std::optional<ExitRecord>& exit() const { return exit_; }
  std::string attempt_folder() const { return folder_; }
  bool stop_asked() const { return stop_asked_; }
  bool LogsComplete() const;  // every byte of every stage that has ended was read

 private:
  struct RankLog {
    std::int64_t given = 0;        // bytes handed out
    std::int64_t stamps_read = 0;  // bytes of `stamps` decoded
    std::vector<Stamp> stamps;     // not used up yet
    bool complete = false;
  };
  struct StageView {
    const Stage* stage = nullptr;
    std::string folder;
    std::optional<StartRecord> start;
    std::optional<ExitRecord> exit;
    std::vector<RankLog> logs;
    std::vector<LogChunk> fresh;
  };
  bool ReadLog(StageView& view, int rank);

  std::string folder_;
  Plan plan_;
  std::optional<StartRecord> start_;
  std::optional<ExitRecord> exit_;
  std::optional<BeatRecord> beat_;
  bool stop_asked_ = false, over_ = false, records_changed_ = false;
  std::vector<StageView> stages_;
};

// What is charged and how the launch ended, once it is over: by its exit record, else by `lost`.
// The stages of `o` must be set.
void Conclude(const FolderView& view, const std::optional<LostRecord>& lost, Observation& o);

}  // namespace attune::launch
