#include "host_side.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "attune/os/process.h"
#include "ranks.h"

namespace attune::launch {
namespace {

constexpr std::int64_t kMaxFetch = 64 << 20;
constexpr Millis kLockWait{10'000};
constexpr int kScans = 50;
constexpr long kScanNapNs = 20'000'000;

std::optional<StartRecord> ReadClaim(const std::string& folder, const Token& token) {
  const auto bytes = ReadRecordFile(AttemptFolder(folder, 0) + "/start");
  auto start = bytes ? DecodeStart(*bytes) : std::nullopt;
  return start && start->token == token.value ? start : std::nullopt;
}

// Ends every process that carries the token; how many there were.
int EndCarriers(const Token& token) {
  int found = 0;
  for (const pid_t pid : os::ProcessesCarrying("ATTUNE_TOKEN", token.value)) {
    const auto id = os::Identify(pid);
    if (id && os::IsAlive(*id)) {
      ++found;
      (void)os::SendSignal(*id, SIGKILL);
    }
  }
  return found;
}

// The wrapper is gone and left no exit record: nobody ends its job any more, so we do.
Fate Bereaved(const Attempt& a, Clock& clock, Leftovers& left) {
  if (!left.lost) {
    if (const auto bytes = ReadRecordFile(a.folder + "/lost")) {
      left.lost = DecodeLost(*bytes);
    }
  }
  if (left.lost) {
    return Fate::kLost;
  }
  // Two empty looks in turn, because a look through /proc misses what is born while it looks.
  int empty = 0;
  for (int i = 0; i < kScans && empty < 2; ++i) {
    if (i > 0) {
      const timespec nap{0, kScanNapNs};
      nanosleep(&nap, nullptr);
    }
    const bool any = EndCarriers(a.plan->spec.token) > 0;
    left.survivors = left.survivors || any;
    empty = any ? 0 : empty + 1;
  }
  if (empty < 2) {
    return Fate::kEnding;
  }
  const Millis age = clock.Monotonic() - a.start->mono;
  LostRecord lost;
  lost.survivors = left.survivors;
  lost.held = left.survivors ? age : LastSign(a) + a.plan->times.beat;
  if (a.start->process.boot_id == os::BootId()) {
    lost.held = std::min(lost.held, age);
  }
  lost.held = std::max(Millis{0}, lost.held);
  left.lost = lost;
  // Should this fail, the next process works it out again.
  (void)os::WriteFileAtomic(a.folder + "/lost", Encode(lost));
  return Fate::kLost;
}

// The wrapper lives but does not do its work (stopped, or stuck): past its own deadlines.
bool Overdue(const Attempt& a, Millis margin, Clock& clock) {
  if (clock.Monotonic() > a.start->mono + a.plan->spec.limit + margin) {
    return true;
  }
  if (!a.stop_asked) {
    return false;
  }
  const auto stop = os::StatFile(a.folder + "/stop");
  return stop &&
         clock.Now() - Instant{stop->modified_wall_ms} > a.plan->times.grace + Millis{5'000};
}

}  // namespace

Millis LastSign(const Attempt& a) {
  Millis last{0};
  if (const auto bytes = ReadRecordFile(a.folder + "/beat")) {
    if (const auto beat = DecodeBeat(*bytes)) {
      last = std::max(last, beat->mono - a.start->mono);
    }
  }
  for (const Stage& stage : a.plan->spec.stages) {
    const std::string folder = a.folder + "/" + stage.run.value;
    if (const auto bytes = ReadRecordFile(folder + "/exit")) {
      if (const auto exit = DecodeExit(*bytes)) {
        last = std::max(last, exit->mono - a.start->mono);
      }
    }
    for (int rank = 0; rank < LogsOf(stage) && !a.mirrored; ++rank) {
      // File times are wall time: set against the start record's wall time, never against now.
      if (const auto facts = os::StatFile(folder + "/" + RankFile("out", rank))) {
        last = std::max(last, Millis{facts->modified_wall_ms - a.start->wall_ms});
      }
    }
  }
  return last;
}

Result<std::optional<StartRecord>> FindClaim(const std::string& root, const Token& token) {
  const std::string folder = root + "/" + token.value;
  if (auto start = ReadClaim(folder, token)) {
    return start;
  }
  if (!os::Exists(folder)) {
    return std::optional<StartRecord>();
  }
  // A link in its place is an error, not "not there".
  if (const auto made = os::MakeFolderOnce(folder); !made) {
    return Fail(made.error());
  }
  // Held from the submit until the claim: with the lock in hand a missing start record is certain.
  ATTUNE_TRY(const auto lock, os::FileLock::Try(folder + "/lock", kLockWait));
  if (!lock) {
    return Fail(ErrorCode::kUnavailable, "a submit of " + token.value + " is still going on");
  }
  return ReadClaim(folder, token);
}

Result<Plan> ReadPlan(const std::string& root, const Token& token) {
  ATTUNE_TRY(const std::string bytes,
             os::ReadFileBounded(root + "/" + token.value + "/plan", kMaxPlanBytes));
  ATTUNE_TRY(Plan plan, DecodePlan(bytes));
  if (plan.spec.token != token) {
    return Fail(ErrorCode::kCorrupt,
                "the plan in " + root + "/" + token.value + " is for another token");
  }
  return plan;
}

Result<bool> PlaceBatch(const std::string& root, const BatchFiles& files, Clock& clock) {
  const std::string folder = root + "/" + files.token.value;
  if (const auto made = os::MakeFolderOnce(folder); !made) {
    return Fail(made.error());
  }
  const bool fresh = !os::Exists(folder + "/" + kSubmitMark);
  if (!fresh) {
    ATTUNE_TRY(const std::string before, os::ReadFileBounded(folder + "/plan", kMaxPlanBytes));
    if (before != files.plan) {
      return Fail(ErrorCode::kInvalidInput, folder + " holds another plan under the same token");
    }
  }
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(folder + "/plan", files.plan));
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(folder + "/batch.sh", files.script));
  // From here on a job may exist: whoever comes after us looks for it before believing otherwise.
  ATTUNE_RETURN_IF_ERROR(
      os::WriteFileAtomic(folder + "/" + kSubmitMark, EncodeStop("attune", clock.Now().ms)));
  return fresh;
}

std::string PlacedWrapper(const std::string& root, std::string_view bytes) {
  return root + "/attune-wrapper." + Sha256Hex(bytes).substr(0, 16);
}

Status PlaceWrapper(const std::string& root, std::string_view bytes) {
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(root));
  const std::string path = PlacedWrapper(root, bytes);
  const auto there = os::StatFile(path);
  if (!there || there->size != static_cast<std::int64_t>(bytes.size())) {
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(path, bytes));
  }
  if (chmod(path.c_str(), 0700) != 0) {
    return os::FailErrno("making " + path + " executable", errno);
  }
  return {};
}

Fate LookAfter(const Attempt& a, Millis margin, Clock& clock, Leftovers& leftovers) {
  if (os::IsAlive(a.start->process)) {
    if (Overdue(a, margin, clock)) {
      (void)os::SendSignal(a.start->process, SIGKILL);
      return Fate::kEnding;
    }
    return a.stop_asked ? Fate::kEnding : Fate::kRunning;
  }
  // It may have written its exit record and ended since the folder was read.
  const auto bytes = ReadRecordFile(a.folder + "/exit");
  if (bytes && DecodeExit(*bytes)) {
    return Fate::kOver;
  }
  return Bereaved(a, clock, leftovers);
}

Status AskToStop(const std::string& attempt_folder, const Plan& plan,
                 const std::optional<RunId>& run, Clock& clock) {
  const std::vector<Stage>& stages = plan.spec.stages;
  std::string folder = attempt_folder;
  if (const auto made = os::MakeFolderOnce(folder); !made) {
    return Fail(made.error());
  }
  if (run) {
    if (std::none_of(stages.begin(), stages.end(), [&](const Stage& s) { return s.run == *run; })) {
      return Fail(ErrorCode::kNotFound, "no run " + run->value + " in " + plan.spec.token.value);
    }
    folder += "/" + run->value;
    if (const auto made = os::MakeFolderOnce(folder); !made) {
      return Fail(made.error());
    }
  }
  if (!os::Exists(folder + "/stop")) {
    ATTUNE_RETURN_IF_ERROR(
        os::WriteFileAtomic(folder + "/stop", EncodeStop("attune", clock.Now().ms)));
  }
  // Only to be heard sooner: the file alone is enough. CONT, should somebody have stopped it.
  const auto bytes = ReadRecordFile(attempt_folder + "/start");
  const auto start = bytes ? DecodeStart(*bytes) : std::nullopt;
  if (start && start->token == plan.spec.token.value) {
    for (const int signal : {SIGCONT, SIGUSR1}) {
      if (const auto sent = os::SendSignal(start->process, signal); !sent) {
        return Fail(sent.error());
      }
    }
  }
  return {};
}

Result<std::string> FetchBelow(const std::string& folder, const LaunchHandle& handle,
                               const std::string& path, std::int64_t offset, std::int64_t size) {
  if (handle.folder != folder || offset < 0 || size < 0) {
    return Fail(ErrorCode::kInvalidInput, handle.folder + " is no run folder of this launcher");
  }
  const std::string relative =
      path.starts_with(folder + "/") ? path.substr(folder.size() + 1) : path;
  ATTUNE_TRY(const os::Fd fd, os::OpenBelow(folder, relative));
  return os::ReadFd(fd.get(), offset, std::min(size, kMaxFetch));
}

}  // namespace attune::launch
