#include "attempt.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "attune/os/files.h"
#include "run_folder.h"
#include "stage_child.h"
#include "stage_run.h"
#include "wrapper_control.h"

namespace attune::launch {
namespace {

constexpr std::int64_t kReserve = 64 << 10;

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string FromEnvironment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? std::string() : std::string(value).substr(0, 64);
}

class Attempt {
 public:
  Attempt(Plan plan, std::string launch_folder, int attempt)
      : plan_(std::move(plan)), folder_(AttemptFolder(launch_folder, attempt)), attempt_(attempt) {}

  // False: another has it.
  Result<bool> Claim() {
    if (const auto made = os::MakeFolderOnce(folder_); !made) {
      return Fail(made.error());
    }
    if (os::Exists(folder_ + "/start")) {
      return false;
    }
    Reserve();
    StartRecord start;
    start.token = plan_.spec.token.value;
    start.attempt = attempt_;
    start.process = os::Identify(getpid()).value_or(os::ProcessId{});
    start.host = NodeName();
    start.wall_ms = WrapperControl::WallNow();
    start.mono = started_ = WrapperControl::Now();
    start.job_id = FromEnvironment("SLURM_JOB_ID");
    return os::ClaimFile(folder_ + "/start", Encode(start));
  }

  void Run() {
    // What the job leaves behind becomes our child instead of the init process's: nothing escapes.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    WrapperControl control(folder_, plan_.times.poll, started_ + plan_.spec.limit);
    ExitRecord total;
    for (const Stage& stage : plan_.spec.stages) {
      const ExitRecord exit = RunStage(stage, control);
      total.log_bytes += exit.log_bytes;
      total.log_dropped += exit.log_dropped;
      total.user += exit.user;
      total.system += exit.system;
      total.max_rss_bytes = std::max(total.max_rss_bytes, exit.max_rss_bytes);
      total.strays += exit.strays;
      total.survivors += exit.survivors;
      if (exit.ending == Ending::kBroken) {
        total.ending = Ending::kBroken;
        total.detail = exit.detail;
      }
    }
    if (control.launch_ending() && total.ending != Ending::kBroken) {
      total.ending = *control.launch_ending();
    }
    total.mono = WrapperControl::Now();
    total.wall_ms = WrapperControl::WallNow();
    total.held = total.mono - started_;
    Insist(folder_ + "/exit", Encode(total));
    unlink((folder_ + "/reserve").c_str());
  }

 private:
  ExitRecord RunStage(const Stage& stage, WrapperControl& control) {
    const std::string folder = folder_ + "/" + stage.run.value;
    control.Look();
    ExitRecord exit;
    if (control.launch_ending() || control.StopAsked(folder)) {
      exit.ending = Ending::kSkipped;
      exit.wall_ms = WrapperControl::WallNow();
      exit.mono = WrapperControl::Now();
      exit.detail = control.launch_ending()
                        ? "launch " + std::string(Word(*control.launch_ending()))
                        : std::string(Word(Ending::kStopped));
      (void)os::MakeFolderOnce(folder);
    } else {
      StageRun run(
          plan_, stage, folder, attempt_, control,
          [&](const std::string& path, std::string_view bytes) { return Save(path, bytes); },
          [&](const std::string& name, std::int64_t log_bytes) {
            BeatRecord beat{WrapperControl::WallNow(), WrapperControl::Now(), name, log_bytes};
            // A beat that is missed because the disk is full is no reason to stop.
            (void)os::ReplaceFile(folder_ + "/beat", Encode(beat));
          });
      exit = run.Run();
      WhoseTerm(exit, control);
    }
    Insist(folder + "/exit", Encode(exit));
    return exit;
  }

  // A scheduler sends TERM to the job's processes and to us; theirs may come first.
  static void WhoseTerm(ExitRecord& exit, WrapperControl& control) {
    constexpr int kTermCode = 128 + SIGTERM;
    if (exit.ending != Ending::kExited || (exit.signal != SIGTERM && exit.code != kTermCode)) {
      return;
    }
    for (int i = 0; i < 10 && !control.launch_ending(); ++i) {
      usleep(50'000);
      control.Look();
    }
    exit.ending = control.launch_ending().value_or(exit.ending);
  }

  // Space set aside while there is some, given back when a record finds the disk full: a job that
  // fills the disk must not take its own exit record with it.
  void Reserve() {
    os::Fd fd(
        open((folder_ + "/reserve").c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd.valid() && posix_fallocate(fd.get(), 0, kReserve) != 0) {
      unlink((folder_ + "/reserve").c_str());
    }
  }

  Status Save(const std::string& path, std::string_view bytes) {
    Status saved = os::WriteFileAtomic(path, bytes);
    if (!saved && saved.error().code == ErrorCode::kFull) {
      unlink((folder_ + "/reserve").c_str());
      saved = os::WriteFileAtomic(path, bytes);
    }
    return saved;
  }

  // For a record without which the launch counts as lost: a shared file system may be away for a
  // moment.
  void Insist(const std::string& path, std::string_view bytes) {
    for (int i = 0; i < 20; ++i) {
      const Status saved = Save(path, bytes);
      if (saved) {
        return;
      }
      dprintf(2, "attune-wrapper: %s\n", saved.error().message.c_str());
      usleep(100'000);
    }
  }

  const Plan plan_;
  const std::string folder_;
  const int attempt_;
  Millis started_{0};
};

}  // namespace

Result<AttemptEnd> RunAttempt(const std::string& launch_folder, int attempt, os::Fd lock,
                              os::Fd ready) {
  ATTUNE_TRY(const std::string bytes, os::ReadFileBounded(launch_folder + "/plan", kMaxPlanBytes));
  ATTUNE_TRY(Plan plan, DecodePlan(bytes));
  if (BaseName(launch_folder) != plan.spec.token.value) {
    return Fail(ErrorCode::kInvalidInput, "the plan in " + launch_folder + " is for another token");
  }
  if (attempt > 0) {
    // The scheduler put the job back into its queue. What the first attempt has held is paid for;
    // a second one needs a hold of its own, so attune makes it a new launch.
    return AttemptEnd::kOwnedByOther;
  }
  WrapperControl::BlockSignals();
  Attempt run(std::move(plan), launch_folder, attempt);
  ATTUNE_TRY(const bool ours, run.Claim());
  lock.Close();
  if (ready.valid() && write(ready.get(), "c", 1) != 1) {
    // Whoever submitted is gone; the launch goes on without it.
  }
  ready.Close();
  if (!ours) {
    return AttemptEnd::kOwnedByOther;
  }
  run.Run();
  return AttemptEnd::kDone;
}

}  // namespace attune::launch
