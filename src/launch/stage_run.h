// One stage: starts its ranks, carries their output, ends them when asked, leaves no process
// behind.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "log_sink.h"
#include "run_folder.h"
#include "wrapper_control.h"

namespace attune::launch {

class StageRun {
 public:
  // Writes a record of the stage durably, on a full disk too where that is possible.
  using SaveRecord = std::function<Status(const std::string& path, std::string_view bytes)>;
  using Beat = std::function<void(const std::string& run, std::int64_t log_bytes)>;

  StageRun(const Plan& plan, const Stage& stage, std::string folder, int attempt,
           WrapperControl& control, SaveRecord save, Beat beat);
  ~StageRun();
  StageRun(const StageRun&) = delete;
  StageRun& operator=(const StageRun&) = delete;

  // To the end of the stage; its exit record is the caller's to write.
  ExitRecord Run();

 private:
  struct Rank {
    int number = 0;
    pid_t pid = 0;
    os::Fd output, errors;  // read ends
    std::unique_ptr<LogSink> sink;
    bool reaped = false;
    std::optional<int> code, signal;
  };

  bool Begin();  // false: exit_ says why not
  void AskToEnd(Ending ending);
  void Loop();
  void Wait();
  void PumpAll();
  bool Pump(Rank& rank, os::Fd& pipe);  // false: nothing to read now
  void Reap();
  void NoteRankEnd(Rank& rank, int status);
  void EnforceEnd();
  void SignalTree(int signal);
  std::vector<pid_t> Tree() const;
  void Finish();
  bool AllReaped() const;
  std::int64_t LogBytes() const;
  Millis Since() const { return WrapperControl::Now() - started_; }

  const Plan& plan_;
  const Stage& stage_;
  const std::string folder_;
  const int attempt_;
  WrapperControl& control_;
  SaveRecord save_;
  Beat beat_;

  Millis started_{0}, last_beat_{0};
  std::vector<Rank> ranks_;
  std::optional<Ending> asked_;  // why we are ending it; unset while it runs by itself
  std::optional<Millis> term_at_, kill_at_;
  Millis last_kill_{0};
  Millis grace_{0};
  std::set<pid_t> strays_;  // alive after every rank had ended
  bool childless_ = false;  // the kernel says that nothing we or the job started is left
  bool over_ = false;
  ExitRecord exit_;
};

}  // namespace attune::launch
