#include "attune/launch/local.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <map>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "folder_view.h"
#include "run_folder.h"

namespace attune {
namespace {

using launch::FolderView;
using State = Observation::State;

constexpr Millis kLockWait{10'000};
constexpr std::int64_t kMaxFetch = 64 << 20;

class LocalLauncher final : public Launcher {
 public:
  explicit LocalLauncher(LocalOptions options) : o_(std::move(options)) {
    ATTUNE_CHECK(o_.clock != nullptr, "a local launcher needs a clock");
    if (o_.runner == nullptr) {
      o_.runner = &own_runner_;
    }
  }

  Result<Submitted> Submit(const LaunchSpec& spec) override;
  Result<std::optional<LaunchHandle>> Find(const Token& token) override;
  Result<std::vector<Observation>> Observe(std::span<const LaunchHandle> handles, Instant until,
                                           int steps) override;
  Status Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) override;
  Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                            std::int64_t offset, std::int64_t size) override;
  Millis ReleaseMargin() const override { return o_.release_margin; }

 private:
  struct Watched {
    std::unique_ptr<FolderView> view;
    std::optional<State> told;  // the state that the caller knows
    std::optional<launch::LostRecord> lost;
    bool survivors = false;
  };

  std::string FolderOf(const Token& token) const { return o_.run_root + "/" + token.value; }
  LaunchHandle HandleOf(const launch::StartRecord& start) const {
    return {Token(start.token), std::to_string(start.process.pid), FolderOf(Token(start.token))};
  }
  std::optional<launch::StartRecord> ReadStart(const Token& token) const;
  FolderView* ViewOf(const Token& token);
  // True when there is something the caller has not been told.
  bool Look(const LaunchHandle& handle, Observation& o);
  State StateOf(Watched& w);
  bool Overdue(const FolderView& view) const;
  State Bereaved(Watched& w);
  int EndCarriers(const Token& token) const;
  void Conclude(const Watched& w, Observation& o) const;

  LocalOptions o_;
  os::PosixProcessRunner own_runner_;
  std::map<Token, Watched> watched_;
};

std::optional<launch::StartRecord> LocalLauncher::ReadStart(const Token& token) const {
  const auto bytes = launch::ReadRecordFile(launch::AttemptFolder(FolderOf(token), 0) + "/start");
  auto start = bytes ? launch::DecodeStart(*bytes) : std::nullopt;
  return start && start->token == token.value ? start : std::nullopt;
}

Result<Submitted> LocalLauncher::Submit(const LaunchSpec& spec) {
  if (std::string why = launch::WhyInvalid(spec); !why.empty()) {
    return Submitted(SubmitRefused{std::move(why)});
  }
  for (const Stage& stage : spec.stages) {
    if (!os::Exists(stage.workdir)) {
      return Submitted(SubmitRefused{"the working folder " + stage.workdir + " of run " +
                                     stage.run.value + " does not exist"});
    }
  }
  launch::Plan plan{spec, {o_.grace, o_.beat, o_.stop_poll, o_.log_cap}};
  os::Command command;
  if (o_.wrapper.empty()) {
    ATTUNE_TRY(o_.wrapper, FindWrapper());
  }
  command.argv = {o_.wrapper, "submit", o_.run_root};
  command.env =
      o_.node_environment ? *o_.node_environment : os::NodeEnvironment(os::OwnEnvironment());
  command.workdir = "/";
  command.input = launch::EncodePlan(plan);
  command.timeout = o_.submit_timeout;
  command.max_output = launch::kMaxRecordBytes;
  const auto answer = o_.runner->Run(command);
  if (!answer) {
    if (answer.error().code == ErrorCode::kTimeout) {
      return Submitted(SubmitUnknown{answer.error().message});
    }
    return Fail("starting the wrapper", answer.error());
  }
  const std::string why = EscapeForDisplay(Trim(answer->err), 1000);
  switch (answer->exit_code) {
    case 0: {
      const auto start = launch::DecodeStart(answer->out);
      if (!start || start->token != spec.token.value) {
        return Submitted(SubmitUnknown{"the wrapper's answer is no start record"});
      }
      return Submitted(Bound{HandleOf(*start)});
    }
    case 10:
      return Submitted(SubmitRefused{why});
    case 11:
      return Fail(ErrorCode::kFull, why, "make room, then resume");
    case 12:
      return Fail(ErrorCode::kDenied, why);
    default:
      return Submitted(SubmitUnknown{"the wrapper ended with code " +
                                     std::to_string(answer->exit_code) + ": " + why});
  }
}

Result<std::optional<LaunchHandle>> LocalLauncher::Find(const Token& token) {
  const std::string folder = FolderOf(token);
  if (auto start = ReadStart(token)) {
    return std::optional<LaunchHandle>(HandleOf(*start));
  }
  if (!os::Exists(folder)) {
    return std::optional<LaunchHandle>();
  }
  ATTUNE_RETURN_IF_ERROR([&]() -> Status {  // a link in its place is an error, not "not there"
    const auto made = os::MakeFolderOnce(folder);
    return made ? Status() : Status(Fail(made.error()));
  }());
  // Held from the submit until the claim: with the lock in hand a missing start record is certain.
  ATTUNE_TRY(const auto lock, os::FileLock::Try(folder + "/lock", kLockWait));
  if (!lock) {
    return Fail(ErrorCode::kUnavailable, "a submit of " + token.value + " is still going on");
  }
  const auto start = ReadStart(token);
  return start ? std::optional<LaunchHandle>(HandleOf(*start)) : std::nullopt;
}

FolderView* LocalLauncher::ViewOf(const Token& token) {
  Watched& w = watched_[token];
  if (!w.view) {
    const auto bytes = os::ReadFileBounded(FolderOf(token) + "/plan", launch::kMaxPlanBytes);
    auto plan = bytes ? launch::DecodePlan(*bytes) : Result<launch::Plan>(Fail(bytes.error()));
    if (!plan || plan->spec.token != token) {
      return nullptr;
    }
    w.view = std::make_unique<FolderView>(FolderOf(token), std::move(*plan), 0);
  }
  return w.view.get();
}

// Ends every process that carries the token; how many there were.
int LocalLauncher::EndCarriers(const Token& token) const {
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
State LocalLauncher::Bereaved(Watched& w) {
  FolderView& view = *w.view;
  const std::string path = view.attempt_folder() + "/lost";
  if (!w.lost) {
    if (const auto bytes = launch::ReadRecordFile(path)) {
      w.lost = launch::DecodeLost(*bytes);
    }
  }
  if (!w.lost) {
    const bool same_boot = view.start()->process.boot_id == os::BootId();
    if (EndCarriers(view.plan().spec.token) > 0) {
      w.survivors = true;
      return State::kEnding;
    }
    const Millis age = o_.clock->Monotonic() - view.start()->mono;
    launch::LostRecord lost;
    lost.survivors = w.survivors;
    lost.held = w.survivors ? age : view.LastSign() + view.plan().times.beat;
    if (same_boot) {
      lost.held = std::min(lost.held, age);
    }
    lost.held = std::max(Millis{0}, lost.held);
    w.lost = lost;
    // Should this fail, the next process works it out again.
    (void)os::WriteFileAtomic(path, launch::Encode(lost));
  }
  view.MarkOver();
  view.Refresh();
  return view.LogsComplete() ? State::kEnded : State::kEnding;
}

// The wrapper lives but does not do its work (stopped, or stuck): past its own deadlines.
bool LocalLauncher::Overdue(const FolderView& view) const {
  const Millis now = o_.clock->Monotonic();
  if (now > view.start()->mono + view.plan().spec.limit + o_.release_margin) {
    return true;
  }
  const auto stop = os::StatFile(view.attempt_folder() + "/stop");
  return stop && o_.clock->Now() - Instant{stop->modified_wall_ms} >
                     view.plan().times.grace + Millis{5'000};
}

State LocalLauncher::StateOf(Watched& w) {
  FolderView& view = *w.view;
  if (!view.start()) {
    return State::kUnknown;
  }
  if (view.exit()) {
    return view.LogsComplete() ? State::kEnded : State::kEnding;
  }
  if (os::IsAlive(view.start()->process)) {
    if (Overdue(view)) {
      (void)os::SendSignal(view.start()->process, SIGKILL);
      return State::kEnding;
    }
    return view.stop_asked() ? State::kEnding : State::kRunning;
  }
  // It may have written its exit record and ended since the folder was read.
  view.Refresh();
  if (view.exit()) {
    return view.LogsComplete() ? State::kEnded : State::kEnding;
  }
  return Bereaved(w);
}

void LocalLauncher::Conclude(const Watched& w, Observation& o) const {
  const FolderView& view = *w.view;
  if (!view.exit()) {
    o.charged = ChargeFor(view.plan().spec.slots, w.lost->held);
    o.source = ChargeSource::kLastBeat;
    o.end_hint = RunEnd::kLost;
    o.detail = w.lost->survivors
                   ? "its wrapper was killed; the processes it left were ended by attune"
                   : "its wrapper was killed and left no exit record";
    return;
  }
  const launch::ExitRecord& exit = *view.exit();
  o.charged = ChargeFor(view.plan().spec.slots, exit.held);
  o.source = ChargeSource::kWrapper;
  o.detail = exit.detail;
  if (exit.survivors > 0) {
    o.detail = std::to_string(exit.survivors) + " processes could not be killed";
  }
  const bool any_started = std::any_of(o.stages.begin(), o.stages.end(),
                                       [](const StageObservation& s) { return s.started; });
  if (exit.ending == launch::Ending::kTerminated) {
    o.end_hint = RunEnd::kCancelledOutside;
    o.detail = "somebody else sent its wrapper a signal";
  } else if (exit.ending == launch::Ending::kBroken && !any_started) {
    o.end_hint = RunEnd::kNeverStarted;
  }
}

bool LocalLauncher::Look(const LaunchHandle& handle, Observation& o) {
  o.handle = handle;
  FolderView* view = ViewOf(handle.token);
  Watched& w = watched_[handle.token];
  bool news = false;
  if (view == nullptr) {
    o.state = State::kUnknown;
    o.detail = "no run folder " + FolderOf(handle.token);
  } else {
    news = view->Refresh();
    o.state = StateOf(w);
    const bool same_boot = view->start() && view->start()->process.boot_id == os::BootId();
    o.stages = view->TakeStages(o_.clock->Monotonic(), same_boot);
    o.nodes = view->start() ? view->start()->host : std::string();
    news = news || std::any_of(o.stages.begin(), o.stages.end(),
                               [](const StageObservation& s) { return !s.log.empty(); });
    if (o.state == State::kEnded) {
      Conclude(w, o);
    }
  }
  news = news || w.told != o.state;
  w.told = o.state;
  return news;
}

Result<std::vector<Observation>> LocalLauncher::Observe(std::span<const LaunchHandle> handles,
                                                        Instant until, int /*steps*/) {
  // The wait is counted on the monotonic clock: a wall clock set back must not lengthen it.
  // One more millisecond than asked: both clocks are cut to whole ones, and `until` must be over.
  const Millis wait =
      until == Instant::Never() ? Millis::max() / 2 : until - o_.clock->Now() + Millis{1};
  const Millis begun = o_.clock->Monotonic();
  for (;;) {
    std::vector<Observation> out(handles.size());
    bool news = false;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      news = Look(handles[i], out[i]) || news;
    }
    const Millis left = wait - (o_.clock->Monotonic() - begun);
    if (news || left <= Millis{0}) {
      return out;
    }
    // Not the clock's own SleepUntil: that one waits for a wall time.
    const std::int64_t nap_ms = std::min(left, o_.poll).count();
    const timespec nap{nap_ms / 1000, (nap_ms % 1000) * 1'000'000};
    if (nanosleep(&nap, nullptr) != 0) {
      return out;  // a signal: whoever handles it may want to stop
    }
  }
}

Status LocalLauncher::Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) {
  FolderView* view = ViewOf(handle.token);
  if (view == nullptr) {
    return Fail(ErrorCode::kNotFound, "no run folder " + FolderOf(handle.token));
  }
  const std::vector<Stage>& stages = view->plan().spec.stages;
  std::string folder = view->attempt_folder();
  if (run) {
    if (std::none_of(stages.begin(), stages.end(), [&](const Stage& s) { return s.run == *run; })) {
      return Fail(ErrorCode::kNotFound, "no run " + run->value + " in " + handle.token.value);
    }
    folder += "/" + run->value;
    if (const auto made = os::MakeFolderOnce(folder); !made) {
      return Fail(made.error());
    }
  }
  if (!os::Exists(folder + "/stop")) {
    ATTUNE_RETURN_IF_ERROR(
        os::WriteFileAtomic(folder + "/stop", launch::EncodeStop("attune", o_.clock->Now().ms)));
  }
  // Only to be heard sooner: the file alone is enough. CONT, should somebody have stopped it.
  if (const auto start = ReadStart(handle.token)) {
    for (const int signal : {SIGCONT, SIGUSR1}) {
      ATTUNE_RETURN_IF_ERROR([&]() -> Status {
        const auto sent = os::SendSignal(start->process, signal);
        return sent ? Status() : Status(Fail(sent.error()));
      }());
    }
  }
  return {};
}

Result<std::string> LocalLauncher::Fetch(const LaunchHandle& handle, const std::string& path,
                                         std::int64_t offset, std::int64_t size) {
  const std::string folder = FolderOf(handle.token);
  if (handle.folder != folder || offset < 0 || size < 0) {
    return Fail(ErrorCode::kInvalidInput, handle.folder + " is no run folder of this launcher");
  }
  const std::string relative =
      path.starts_with(folder + "/") ? path.substr(folder.size() + 1) : path;
  ATTUNE_TRY(const os::Fd fd, os::OpenBelow(folder, relative));
  return os::ReadFd(fd.get(), offset, std::min(size, kMaxFetch));
}

}  // namespace

std::unique_ptr<Launcher> MakeLocalLauncher(LocalOptions options) {
  return std::make_unique<LocalLauncher>(std::move(options));
}

}  // namespace attune
