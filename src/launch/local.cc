#include "attune/launch/local.h"

#include <time.h>

#include <algorithm>
#include <map>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "folder_view.h"
#include "host_side.h"
#include "ranks.h"
#include "run_folder.h"
#include "submit_answer.h"

namespace attune {
namespace {

using launch::FolderView;
using State = Observation::State;

// Output that makes no decision possible yet waits for more of it, because each observation costs
// the caller a commit: until it is this old, or this much.
constexpr Millis kOutputHeld{1'000};
constexpr std::int64_t kMuchOutput = 1 << 20;

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
    State state = State::kUnknown;
    std::optional<State> told;          // what the caller knows
    std::optional<Millis> fresh_since;  // there is output that the caller does not have
    launch::Leftovers leftovers;
  };

  std::string FolderOf(const Token& token) const { return o_.run_root + "/" + token.value; }
  LaunchHandle HandleOf(const launch::StartRecord& start) const {
    return {Token(start.token), std::to_string(start.process.pid), FolderOf(Token(start.token))};
  }
  FolderView* ViewOf(const Token& token);
  // True when there is something that the caller has to be told now.
  bool Look(const LaunchHandle& handle, int steps);
  Observation Tell(const LaunchHandle& handle);
  State StateOf(Watched& w);

  LocalOptions o_;
  os::PosixProcessRunner own_runner_;
  std::map<Token, Watched> watched_;
};

Result<Submitted> LocalLauncher::Submit(const LaunchSpec& spec) {
  if (std::string why = launch::WhyInvalid(spec); !why.empty()) {
    return Submitted(SubmitRefused{std::move(why)});
  }
  launch::Plan plan{spec, {o_.grace, o_.beat, o_.stop_poll, o_.log_cap}};
  for (Stage& stage : plan.spec.stages) {
    if (stage.kind != RanksKind::kNone && stage.nodes > 1) {
      return Submitted(
          SubmitRefused{"launcher.kind local has one node, and workload.gpus asks for " +
                        std::to_string(stage.nodes)});
    }
    auto placed = launch::OnNode(std::move(stage), 0, "", 0);
    if (!placed) {
      return Submitted(SubmitRefused{std::move(placed.error().message)});
    }
    stage = std::move(*placed);
  }
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
  ATTUNE_TRY(launch::SubmitAnswer said, launch::ReadSubmitAnswer(*answer, spec.token));
  if (!said.start) {
    return std::move(said.otherwise);
  }
  return Submitted(Bound{HandleOf(*said.start)});
}

Result<std::optional<LaunchHandle>> LocalLauncher::Find(const Token& token) {
  ATTUNE_TRY(const auto start, launch::FindClaim(o_.run_root, token));
  return start ? std::optional<LaunchHandle>(HandleOf(*start)) : std::nullopt;
}

FolderView* LocalLauncher::ViewOf(const Token& token) {
  Watched& w = watched_[token];
  if (!w.view) {
    auto plan = launch::ReadPlan(o_.run_root, token);
    if (!plan) {
      return nullptr;
    }
    w.view = std::make_unique<FolderView>(FolderOf(token), std::move(*plan), 0);
  }
  return w.view.get();
}

State LocalLauncher::StateOf(Watched& w) {
  FolderView& view = *w.view;
  if (!view.start()) {
    return State::kUnknown;
  }
  if (!view.exit()) {
    const launch::Attempt attempt{view.attempt_folder(), &view.plan(), &*view.start(),
                                  view.stop_asked()};
    switch (launch::LookAfter(attempt, o_.release_margin, *o_.clock, w.leftovers)) {
      case launch::Fate::kRunning:
        return State::kRunning;
      case launch::Fate::kEnding:
        return State::kEnding;
      case launch::Fate::kOver:
        break;
      case launch::Fate::kLost:
        view.MarkOver();
        break;
    }
    view.Refresh();
  }
  return view.LogsComplete() ? State::kEnded : State::kEnding;
}

bool LocalLauncher::Look(const LaunchHandle& handle, int steps) {
  FolderView* view = ViewOf(handle.token);
  Watched& w = watched_[handle.token];
  State state = State::kUnknown;
  bool news = false;
  if (view != nullptr) {
    view->Refresh();
    news = view->records_changed();
    state = StateOf(w);
    const Millis now = o_.clock->Monotonic();
    if (view->fresh_bytes() == 0) {
      w.fresh_since.reset();
    } else if (!w.fresh_since) {
      w.fresh_since = now;
    }
    news = news || view->fresh_lines() >= steps || view->fresh_bytes() >= kMuchOutput ||
           (w.fresh_since && now - *w.fresh_since >= kOutputHeld);
  }
  w.state = state;
  return news || w.told != state;
}

Observation LocalLauncher::Tell(const LaunchHandle& handle) {
  Observation o;
  o.handle = handle;
  Watched& w = watched_[handle.token];
  o.state = w.state;
  w.told = w.state;
  w.fresh_since.reset();
  if (!w.view) {
    o.detail = "no run folder " + FolderOf(handle.token);
    return o;
  }
  const auto& start = w.view->start();
  const bool same_boot = start && start->process.boot_id == os::BootId();
  o.stages = w.view->TakeStages(o_.clock->Monotonic(), same_boot);
  o.nodes = start ? start->host : std::string();
  if (o.state == State::kEnded) {
    launch::Conclude(*w.view, w.leftovers.lost, o);
  }
  return o;
}

Result<std::vector<Observation>> LocalLauncher::Observe(std::span<const LaunchHandle> handles,
                                                        Instant until, int steps) {
  // The wait is counted on the monotonic clock: a wall clock set back must not lengthen it.
  // One more millisecond than asked: both clocks are cut to whole ones, and `until` must be over.
  const Millis wait =
      until == Instant::Never() ? Millis::max() / 2 : until - o_.clock->Now() + Millis{1};
  const Millis begun = o_.clock->Monotonic();
  for (;;) {
    bool news = false;
    for (const LaunchHandle& handle : handles) {
      news = Look(handle, steps) || news;
    }
    const Millis left = wait - (o_.clock->Monotonic() - begun);
    bool interrupted = false;
    if (!news && left > Millis{0}) {
      // Not the clock's own SleepUntil: that one waits for a wall time.
      const std::int64_t nap_ms = std::min(left, o_.poll).count();
      const timespec nap{nap_ms / 1000, (nap_ms % 1000) * 1'000'000};
      interrupted = nanosleep(&nap, nullptr) != 0;  // whoever handles the signal may want to stop
    }
    if (news || left <= Millis{0} || interrupted) {
      std::vector<Observation> out;
      for (const LaunchHandle& handle : handles) {
        out.push_back(Tell(handle));
      }
      return out;
    }
  }
}

Status LocalLauncher::Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) {
  FolderView* view = ViewOf(handle.token);
  if (view == nullptr) {
    return Fail(ErrorCode::kNotFound, "no run folder " + FolderOf(handle.token));
  }
  return launch::AskToStop(view->attempt_folder(), view->plan(), run, *o_.clock);
}

Result<std::string> LocalLauncher::Fetch(const LaunchHandle& handle, const std::string& path,
                                         std::int64_t offset, std::int64_t size) {
  return launch::FetchBelow(FolderOf(handle.token), handle, path, offset, size);
}

}  // namespace

std::unique_ptr<Launcher> MakeLocalLauncher(LocalOptions options) {
  return std::make_unique<LocalLauncher>(std::move(options));
}

}  // namespace attune
