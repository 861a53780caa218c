// What the hosts say of the launches that are going on.
#include <algorithm>

#include "attune/os/files.h"
#include "exchange.h"
#include "ssh_launcher.h"

namespace attune::launch {
namespace {

constexpr Millis kLongestPause{30'000};
constexpr std::int64_t kMostLog = 4 << 20, kLeastLog = 64 << 10;  // bytes in one answer
// A look pauses for a part of the launch's age, so that a long run is looked at less often.
constexpr int kAgePart = 20;

}  // namespace

Result<Plan> SshLauncher::PlanOf(const Token& token, std::size_t node, const std::string& host) {
  const Token share = ShareToken(token, node);
  const std::string path = MirrorOf(share) + "/plan";
  if (const auto bytes = os::ReadFileBounded(path, kMaxPlanBytes)) {
    if (auto plan = DecodePlan(*bytes)) {
      return plan;
    }
  }
  ATTUNE_TRY(const std::string answer,
             Ask(host, Encode(FetchRequest{o_.run_root, share, "plan", 0, kMaxPlanBytes}),
                 o_.call_limit, true));
  ATTUNE_TRY(const std::string bytes, DecodePiece(answer));
  ATTUNE_TRY(Plan plan, DecodePlan(bytes));
  if (plan.spec.token != share) {
    return Fail(ErrorCode::kCorrupt, host + ": the plan of " + share.value + " is another's");
  }
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(MirrorOf(share)));
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(path, bytes));
  return plan;
}

Result<RemoteJob*> SshLauncher::JobOf(const Token& token) {
  if (const auto it = jobs_.find(token); it != jobs_.end()) {
    return &it->second;
  }
  const std::vector<std::string> hosts = KnownHosts(token);
  if (hosts.empty()) {
    return Fail(ErrorCode::kNotFound, "nothing is known here of " + token.value,
                "attune resume looks for it on its hosts");
  }
  RemoteJob job;
  for (std::size_t node = 0; node < hosts.size(); ++node) {
    ATTUNE_TRY(Plan plan, PlanOf(token, node, hosts[node]));
    Share share;
    share.host = hosts[node];
    share.launch = std::make_unique<RemoteLaunch>(hosts[node], MirrorOf(ShareToken(token, node)),
                                                  std::move(plan), 0, true);
    job.shares.push_back(std::move(share));
  }
  return &(jobs_[token] = std::move(job));
}

Millis SshLauncher::Gap(const Share& share) const {
  const Millis age = o_.clock->Monotonic() - share.first_look;
  return std::clamp(age / kAgePart, o_.poll, std::max(o_.poll, o_.most_poll));
}

// One question to a host about all its shares that are due. True when there is news.
Result<bool> SshLauncher::LookAt(const std::string& host, const std::vector<Share*>& shares,
                                 Millis wait) {
  LookRequest request;
  request.root = o_.run_root;
  request.wait = wait;
  request.margin = o_.release_margin;
  for (const Share* share : shares) {
    request.launches.push_back(share->launch->Question());
    request.most = std::min(request.most, share->most);
  }
  const auto bytes = Ask(host, Encode(request), wait + o_.call_limit / 2, true);
  auto answer = bytes ? DecodeLookAnswer(*bytes) : Result<LookAnswer>(Fail(bytes.error()));
  const auto is_asked = [](const LookAnswer::Launch& launch, const Share* share) {
    return launch.token == share->launch->plan().spec.token;
  };
  if (answer && !std::equal(answer->launches.begin(), answer->launches.end(), shares.begin(),
                            shares.end(), is_asked)) {
    answer = Fail(ErrorCode::kCorrupt, host + " answered for other launches");
  }
  if (!answer) {
    if (!ssh_.interrupted()) {
      ATTUNE_RETURN_IF_ERROR(NoteSilence(shares, answer.error()));
    }
    return false;
  }
  bool news = false;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    Share& share = *shares[i];
    const Millis now = o_.clock->Monotonic();
    share.first_look = share.first_look < Millis{0} ? now : share.first_look;
    auto fresh = share.launch->Take(*answer, answer->launches[i], *o_.clock);
    if (!fresh && fresh.error().code == ErrorCode::kCorrupt) {
      ATTUNE_RETURN_IF_ERROR(NoteSilence({&share}, fresh.error()));
      continue;
    }
    if (!fresh) {
      return Fail(host, fresh.error());  // this machine's own disk
    }
    share.failures = 0;
    share.most = std::min(2 * share.most, kMostLog);
    share.why.clear();
    if (share.launch->absent() && share.launch->view().start()) {
      share.unreachable = true;  // it did run: somebody removed its folder
      share.why = "its run folder is gone there";
    }
    share.missing = share.launch->absent() && !share.unreachable;
    // Without news it has waited for some already, or was not allowed to; with more to come there
    // is nothing to wait for.
    const bool pause = !answer->launches[i].more && (*fresh || wait == Millis{0});
    share.due = now + (pause ? Gap(share) : Millis{0});
    news = news || *fresh || share.Over();
  }
  return news;
}

Status SshLauncher::NoteSilence(const std::vector<Share*>& shares, const Error& error) {
  const Millis now = o_.clock->Monotonic();
  for (Share* share : shares) {
    share->failures = std::min(share->failures + 1, 10);
    share->why = error.message;
    share->most = std::max(share->most / 2, kLeastLog);  // the line may be too slow for more
    share->due = now + std::min(o_.pause * (1 << share->failures), kLongestPause);
    const Plan& plan = share->launch->plan();
    // Ours: the plan was written here just before the submit.
    const auto submitted = os::StatFile(MirrorOf(plan.spec.token) + "/plan");
    const Millis age =
        submitted ? o_.clock->Now() - Instant{submitted->modified_wall_ms} : Millis{0};
    share->unreachable =
        share->failures > 2 && age > plan.spec.limit + o_.release_margin + o_.give_up;
  }
  return {};
}

std::vector<Share*> SshLauncher::Due(std::span<const LaunchHandle> handles, Millis now) {
  std::vector<Share*> due;
  for (const LaunchHandle& handle : handles) {
    if (const auto it = jobs_.find(handle.token); it != jobs_.end()) {
      for (Share& share : it->second.shares) {
        if (!share.Over() && share.due <= now) {
          due.push_back(&share);
        }
      }
    }
  }
  return due;
}

void SshLauncher::StopOthers(RemoteJob& job) {
  for (StopWish& wish : WhatToStop(job)) {
    const Share& share = job.shares[wish.share];
    const std::string request =
        Encode(CancelRequest{o_.run_root, share.launch->plan().spec.token, 0, wish.run});
    // Should it fail, the next look wishes it again.
    if (Ask(share.host, request, o_.call_limit, true)) {
      job.asked.insert(std::move(wish));
    }
  }
}

Result<std::vector<Observation>> SshLauncher::Observe(std::span<const LaunchHandle> handles,
                                                      Instant until, int /*steps*/) {
  // The wait is counted on the monotonic clock: a wall clock set back must not lengthen it.
  const Millis wait =
      until == Instant::Never() ? Millis::max() / 2 : until - o_.clock->Now() + Millis{1};
  const Millis begun = o_.clock->Monotonic();
  bool interrupted = false;
  for (;;) {
    std::vector<Observation> out(handles.size());
    for (const LaunchHandle& handle : handles) {
      if (const auto job = JobOf(handle.token); !job && job.error().code != ErrorCode::kNotFound &&
                                                job.error().code != ErrorCode::kUnavailable &&
                                                job.error().code != ErrorCode::kTimeout) {
        return Fail(job.error());
      }
    }
    const Millis now = o_.clock->Monotonic();
    std::map<std::string, std::vector<Share*>> by_host;
    for (Share* share : Due(handles, now)) {
      by_host[share->host].push_back(share);
    }
    // What a mirror holds and was not handed out yet is news without asking anybody.
    bool news = false;
    for (const LaunchHandle& handle : handles) {
      if (const auto it = jobs_.find(handle.token); it != jobs_.end()) {
        for (Share& share : it->second.shares) {
          news = share.launch->Refresh() || news;
        }
      }
    }
    for (const auto& [host, shares] : by_host) {
      // Only the last one asked may wait for news: the others have been asked by then.
      const bool last = host == by_host.rbegin()->first;
      const Millis room = std::max(Millis{0}, std::min(o_.wait, wait - (now - begun)));
      ATTUNE_TRY(const bool fresh, LookAt(host, shares, last && !news ? room : Millis{0}));
      news = news || fresh;
      interrupted = interrupted || ssh_.interrupted();
    }
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const auto it = jobs_.find(handles[i].token);
      if (it == jobs_.end()) {
        out[i].handle = handles[i];
        out[i].detail = "nothing is known here of " + handles[i].token.value;
        continue;
      }
      RemoteJob& job = it->second;
      out[i] = Combine(job, handles[i], o_.release_margin, *o_.clock);
      StopOthers(job);
      news = news || job.told != out[i].state ||
             std::any_of(out[i].stages.begin(), out[i].stages.end(),
                         [](const StageObservation& s) { return !s.log.empty(); });
      job.told = out[i].state;
    }
    const Millis left = wait - (o_.clock->Monotonic() - begun);
    if (news || interrupted || left <= Millis{0}) {
      return out;
    }
    Millis pause = left;
    for (const LaunchHandle& handle : handles) {
      if (const auto it = jobs_.find(handle.token); it != jobs_.end()) {
        for (const Share& share : it->second.shares) {
          if (!share.Over()) {
            pause = std::min(pause, share.due - o_.clock->Monotonic());
          }
        }
      } else {
        pause = std::min(pause, o_.pause);
      }
    }
    if (pause > Millis{0} && !Nap(pause)) {
      return out;  // a signal: whoever handles it may want to stop
    }
  }
}

}  // namespace attune::launch
