#include "attune/launch/slurm.h"

#include <algorithm>

#include "ask_host.h"
#include "attune/base/check.h"
#include "attune/base/text.h"
#include "slurm_launch.h"
#include "slurm_place.h"
#include "slurm_script.h"

namespace attune {
namespace {

using launch::SlurmClient;
using launch::SlurmJob;
using launch::SlurmLaunch;
using State = Observation::State;

constexpr Millis kMinute{60'000};

class SlurmLauncher final : public Launcher {
 public:
  explicit SlurmLauncher(SlurmOptions options)
      : o_(std::move(options)),
        place_(launch::MakeSlurmPlace(o_)),
        client_(place_->programs(), o_.environment, o_.command_limit) {
    ATTUNE_CHECK(o_.clock != nullptr, "a Slurm launcher needs a clock");
    wall_at_start_ = o_.clock->Now();
    mono_at_start_ = o_.clock->Monotonic();
  }

  Result<Submitted> Submit(const LaunchSpec& spec) override;
  Result<std::optional<LaunchHandle>> Find(const Token& token) override;
  Result<std::vector<Observation>> Observe(std::span<const LaunchHandle> handles, Instant until,
                                           int steps) override;
  Status Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) override;
  Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                            std::int64_t offset, std::int64_t size) override;
  Result<std::string> BringHere(const LaunchHandle& handle, const std::string& path,
                                std::int64_t max_bytes) override {
    return place_->BringHere(handle, path, max_bytes);
  }
  Millis ReleaseMargin() const override { return SlurmReleaseMargin(o_.kill_wait, o_.over_time); }
  Millis RoundLimit(Millis limit) const override {
    return Millis{(limit.count() + kMinute.count() - 1) / kMinute.count() * kMinute.count()};
  }

 private:
  // Steady: a wall clock that is set while jobs run must not move what they cost.
  std::int64_t NowSeconds() const {
    const Millis since = o_.clock->Monotonic() - mono_at_start_;
    return (wall_at_start_ + since).ms / 1000;
  }
  Result<launch::BatchFiles> FilesOf(const LaunchSpec& spec);
  Submitted Believe(const LaunchSpec& spec, const std::string& said_id, std::int64_t before);
  std::optional<LaunchHandle> Adopt(const Token& token, const std::vector<SlurmJob>* jobs);
  SlurmLaunch* LaunchOf(const Token& token);
  Status Bring(std::span<const LaunchHandle> handles, bool now);
  void Ask(std::span<const LaunchHandle> handles);
  bool AskIsDue(std::span<const LaunchHandle> handles);

  SlurmOptions o_;
  std::unique_ptr<launch::SlurmPlace> place_;
  SlurmClient client_;
  Instant wall_at_start_;
  Millis mono_at_start_{0};
  std::map<Token, std::unique_ptr<SlurmLaunch>> launches_;
  std::map<Token, Millis> missing_since_;  // Find: when it was first not there
  std::optional<Millis> asked_at_, changed_at_;
  int failures_ = 0;
};

Result<launch::BatchFiles> SlurmLauncher::FilesOf(const LaunchSpec& spec) {
  const std::string folder = place_->OnNodes(spec.token);
  ATTUNE_TRY(const std::string wrapper, place_->Wrapper());
  launch::Plan plan{spec, {o_.grace, o_.beat, o_.stop_poll, o_.log_cap}};
  for (Stage& stage : plan.spec.stages) {
    stage = launch::OnNodes(o_, stage, wrapper, folder);
  }
  ATTUNE_TRY(std::string script, launch::BatchScript(o_.script_template, wrapper, folder));
  return launch::BatchFiles{spec.token, launch::EncodePlan(plan), std::move(script)};
}

Result<Submitted> SlurmLauncher::Submit(const LaunchSpec& spec) {
  if (std::string why = launch::WhyInvalid(spec); !why.empty()) {
    return Submitted(SubmitRefused{std::move(why)});
  }
  ATTUNE_RETURN_IF_ERROR(place_->Ready());
  const auto files = FilesOf(spec);
  const auto fresh = files ? place_->Place(*files) : Result<bool>(Fail(files.error()));
  if (!fresh && fresh.error().code == ErrorCode::kInvalidInput) {
    return Submitted(SubmitRefused{fresh.error().message});
  }
  if (!fresh && fresh.error().code == ErrorCode::kUnavailable) {
    return Submitted(SubmitUnknown{fresh.error().message});
  }
  if (!fresh) {
    return Fail("preparing the launch", fresh.error());
  }
  if (!*fresh) {  // it may be there already, under the same token
    const auto jobs = client_.Queue({spec.token.value});
    if (!jobs) {
      return Submitted(SubmitUnknown{jobs.error().message});
    }
    if (auto handle = Adopt(spec.token, &*jobs)) {
      return Submitted(Bound{std::move(*handle)});
    }
  }
  const std::string folder = place_->OnNodes(spec.token);
  const std::int64_t before = NowSeconds();
  const auto answer = client_.Submit(launch::SbatchArgv(o_, spec, folder, folder + "/batch.sh"));
  missing_since_.erase(spec.token);
  if (!answer) {
    if (answer.error().code == ErrorCode::kNotFound) {
      return o_.login.empty()
                 ? Fail(ErrorCode::kNotFound, "sbatch is not there: " + answer.error().message,
                        "run attune where Slurm's programs are, or name launcher.login")
                 : Fail(answer.error());
    }
    return Submitted(SubmitUnknown{answer.error().message});
  }
  const std::string err = EscapeForDisplay(Trim(answer->err), 600);
  if (launch::IsRefusal(answer->exit_code, answer->err)) {
    return Submitted(SubmitRefused{"sbatch refused it: " + err});
  }
  const auto id = launch::ParseSubmitted(answer->out);
  if (answer->exit_code != 0 || !id) {
    return Submitted(
        SubmitUnknown{"sbatch ended with code " + std::to_string(answer->exit_code) + ": " + err});
  }
  return Believe(spec, *id, before);
}

// sbatch said an id. It is ours only if the queue shows it under our name.
Submitted SlurmLauncher::Believe(const LaunchSpec& spec, const std::string& said_id,
                                 std::int64_t before) {
  const auto jobs = client_.Queue({spec.token.value});
  if (!jobs) {
    return SubmitUnknown{"sbatch printed " + said_id + "; " + jobs.error().message};
  }
  auto handle = Adopt(spec.token, &*jobs);
  if (!handle) {
    return SubmitUnknown{"sbatch printed " + said_id + ", but no job has the name " +
                         spec.token.value};
  }
  if (SlurmLaunch* launch = LaunchOf(spec.token); launch != nullptr && !jobs->empty()) {
    const std::int64_t submitted = jobs->front().submitted, after = NowSeconds();
    if (submitted > 0 && (submitted < before - 2 || submitted > after + 2)) {
      launch->SetSkew(submitted - before);
    }
  }
  return Bound{std::move(*handle)};
}

// One job: it. Several: the one that claimed the folder, else the oldest; the rest end.
std::optional<LaunchHandle> SlurmLauncher::Adopt(const Token& token,
                                                 const std::vector<SlurmJob>* jobs) {
  SlurmLaunch* launch = LaunchOf(token);
  if (launch == nullptr) {
    return std::nullopt;
  }
  if (jobs != nullptr) {
    std::vector<SlurmJob> own;
    std::copy_if(jobs->begin(), jobs->end(), std::back_inserter(own),
                 [&](const SlurmJob& job) { return job.name == token.value; });
    launch->Hear(own, NowSeconds());
  }
  launch->Refresh();
  const std::string id = launch->OwnId();
  if (id.empty()) {
    return std::nullopt;
  }
  launch->EndTwins(client_);
  return LaunchHandle{token, id, place_->Here(token)};
}

Result<std::optional<LaunchHandle>> SlurmLauncher::Find(const Token& token) {
  ATTUNE_TRY(const bool placed, place_->WasPlaced(token));
  if (!placed) {
    return std::optional<LaunchHandle>();  // sbatch was never called for it
  }
  if (const SlurmLaunch* launch = LaunchOf(token)) {
    ATTUNE_RETURN_IF_ERROR(place_->Bring({&launch->plan()}, true));
  }
  const auto jobs = client_.Queue({token.value});
  // The run folder knows without the scheduler.
  if (auto handle = Adopt(token, jobs ? &*jobs : nullptr)) {
    missing_since_.erase(token);
    return std::optional<LaunchHandle>(std::move(handle));
  }
  if (!jobs) {
    missing_since_.erase(token);
    return Fail("looking for " + token.value, jobs.error());
  }
  const std::vector<SlurmJob> accounted = client_.Accounting({token.value}, NowSeconds());
  if (!accounted.empty()) {
    LaunchOf(token)->Learn(accounted);
    if (auto handle = Adopt(token, nullptr)) {
      return std::optional<LaunchHandle>(std::move(handle));
    }
  }
  const Millis now = o_.clock->Monotonic();
  const Millis since = missing_since_.try_emplace(token, now).first->second;
  if (now - since < o_.find_for) {
    return Fail(ErrorCode::kUnavailable,
                token.value + " is not in the queue; a submit of it may still be under way");
  }
  return std::optional<LaunchHandle>();
}

SlurmLaunch* SlurmLauncher::LaunchOf(const Token& token) {
  std::unique_ptr<SlurmLaunch>& launch = launches_[token];
  if (!launch) {
    auto opened = SlurmLaunch::Open(o_, token, place_->Here(token));
    if (!opened) {
      return nullptr;
    }
    launch = std::move(*opened);
  }
  return launch.get();
}

bool SlurmLauncher::AskIsDue(std::span<const LaunchHandle> handles) {
  bool wanted = false, soon = false;
  for (const LaunchHandle& handle : handles) {
    const SlurmLaunch* launch = LaunchOf(handle.token);
    wanted = wanted || (launch != nullptr && !launch->IsSettled());
    soon = soon || (launch != nullptr && launch->WantsAnswer());
  }
  if (!wanted) {
    return false;
  }
  if (!asked_at_) {
    return true;
  }
  const Millis now = o_.clock->Monotonic();
  // A minute of the base interval, then a twelfth of the time since anything changed.
  Millis wait = std::clamp((now - changed_at_.value_or(now)) / 12, o_.poll,
                           std::max(o_.poll, o_.longest_poll));
  if (soon) {
    wait = o_.poll;
  }
  if (failures_ >
      0) {  // a controller in trouble is asked less often; jitter by the process's clock
    wait = std::min(o_.poll * (1 << std::min(failures_, 4)), std::max(o_.poll, o_.longest_poll));
    wait += Millis{asked_at_->count() % std::max<std::int64_t>(1, o_.poll.count() / 4)};
  }
  return now - *asked_at_ >= wait;
}

Status SlurmLauncher::Bring(std::span<const LaunchHandle> handles, bool now) {
  std::vector<const launch::Plan*> plans;
  for (const LaunchHandle& handle : handles) {
    const SlurmLaunch* launch = LaunchOf(handle.token);
    if (launch != nullptr && !launch->IsRead()) {
      plans.push_back(&launch->plan());
    }
  }
  return place_->Bring(plans, now);
}

// One question for all. Only with fresh folders beside it is an answer worth anything.
void SlurmLauncher::Ask(std::span<const LaunchHandle> handles) {
  std::vector<std::string> names;
  for (const LaunchHandle& handle : handles) {
    const SlurmLaunch* launch = LaunchOf(handle.token);
    if (launch != nullptr && !launch->IsSettled()) {
      names.push_back(handle.token.value);
    }
  }
  const Status brought = Bring(handles, true);
  const auto jobs =
      brought ? client_.Queue(names) : Result<std::vector<SlurmJob>>(Fail(brought.error()));
  asked_at_ = o_.clock->Monotonic();
  if (!changed_at_) {
    changed_at_ = asked_at_;
  }
  failures_ = jobs ? 0 : failures_ + 1;
  for (const LaunchHandle& handle : handles) {
    SlurmLaunch* launch = LaunchOf(handle.token);
    if (launch == nullptr || launch->IsSettled()) {
      continue;
    }
    if (!jobs) {
      launch->NoAnswer(jobs.error().message);
      continue;
    }
    std::vector<SlurmJob> own;
    std::copy_if(jobs->begin(), jobs->end(), std::back_inserter(own),
                 [&](const SlurmJob& job) { return job.name == handle.token.value; });
    if (launch->Hear(own, NowSeconds())) {
      changed_at_ = asked_at_;
    }
    launch->EndTwins(client_);
    launch->Enforce(client_);
  }
}

Result<std::vector<Observation>> SlurmLauncher::Observe(std::span<const LaunchHandle> handles,
                                                        Instant until, int /*steps*/) {
  const Millis wait =
      until == Instant::Never() ? Millis::max() / 2 : until - o_.clock->Now() + Millis{1};
  const Millis begun = o_.clock->Monotonic();
  const Millis nap = std::clamp(o_.poll / 5, Millis{20}, Millis{1'000});
  for (const LaunchHandle& handle : handles) {
    if (LaunchOf(handle.token) == nullptr) {
      (void)place_->WasPlaced(handle.token);  // its plan may lie elsewhere only; asked again later
    }
  }
  for (;;) {
    if (AskIsDue(handles)) {
      Ask(handles);
    } else if (const Status brought = Bring(handles, false); !brought) {
      for (const LaunchHandle& handle : handles) {
        if (SlurmLaunch* launch = LaunchOf(handle.token);
            launch != nullptr && !launch->IsSettled()) {
          launch->NoAnswer(brought.error().message);
        }
      }
    }
    std::vector<Observation> out(handles.size());
    bool news = false;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      out[i].handle = handles[i];
      if (SlurmLaunch* launch = LaunchOf(handles[i].token)) {
        news = launch->Look(client_, out[i]) || news;
      } else {
        out[i].detail = "no run folder " + place_->Here(handles[i].token);
      }
    }
    const Millis left = wait - (o_.clock->Monotonic() - begun);
    if (news || left <= Millis{0}) {
      return out;
    }
    // Not the clock's own SleepUntil: that one waits for a wall time.
    if (!launch::Nap(std::min(left, nap))) {
      return out;  // a signal: whoever handles it may want to stop
    }
  }
}

Status SlurmLauncher::Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) {
  const SlurmLaunch* launch = LaunchOf(handle.token);
  if (launch == nullptr) {
    return Fail(ErrorCode::kNotFound, "no run folder " + place_->Here(handle.token));
  }
  ATTUNE_RETURN_IF_ERROR(place_->AskToStop(launch->plan(), run));
  asked_at_.reset();  // the scheduler is asked, and told, at the next look
  return {};
}

Result<std::string> SlurmLauncher::Fetch(const LaunchHandle& handle, const std::string& path,
                                         std::int64_t offset, std::int64_t size) {
  return place_->Fetch(handle, path, offset, size);
}

}  // namespace

std::unique_ptr<Launcher> MakeSlurmLauncher(SlurmOptions options) {
  return std::make_unique<SlurmLauncher>(std::move(options));
}

}  // namespace attune
