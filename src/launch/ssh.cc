#include "attune/launch/ssh.h"

#include <algorithm>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "bring.h"
#include "exchange.h"
#include "ranks.h"
#include "record.h"
#include "ssh_launcher.h"

namespace attune::launch {
namespace {

constexpr std::int64_t kMaxFetch = 16 << 20;

SshTransportOptions TransportOptions(const SshOptions& o) {
  SshTransportOptions t;
  t.ssh = o.ssh;
  t.wrapper = o.wrapper;
  t.control_folder = o.control_folder;
  t.connect = o.connect;
  return t;
}

std::string EncodeHosts(const std::vector<std::string>& hosts) {
  Record r("hosts");
  for (const std::string& host : hosts) {
    r.Add("host", host);
  }
  return r.Encode();
}

}  // namespace

Token ShareToken(const Token& token, std::size_t node) {
  return node == 0 ? token : Token(token.value + ".n" + std::to_string(node));
}

SshLauncher::SshLauncher(SshOptions options)
    : o_(std::move(options)),
      runner_(o_.runner == nullptr ? own_runner_ : *o_.runner),
      ssh_(TransportOptions(o_), runner_) {
  ATTUNE_CHECK(o_.clock != nullptr, "an ssh launcher needs a clock");
}

Result<std::string> SshLauncher::Ask(const std::string& host, const std::string& request,
                                     Millis limit, bool interruptible) {
  return AskHost(ssh_, host, request, limit, interruptible);
}

// ----- submit

std::vector<std::string> SshLauncher::KnownHosts(const Token& token) const {
  std::vector<std::string> hosts;
  if (const auto bytes = ReadRecordFile(MirrorOf(token) + "/hosts")) {
    if (const auto record = DecodeRecord(*bytes, "hosts")) {
      for (const auto& [key, value] : record->fields()) {
        hosts.push_back(value);
      }
    }
  }
  return hosts;
}

Result<std::vector<std::string>> SshLauncher::PickHosts(const LaunchSpec& spec,
                                                        std::size_t nodes) const {
  std::vector<std::string> left;
  for (const std::string& host : o_.hosts) {
    if (std::find(spec.exclude.begin(), spec.exclude.end(), host) == spec.exclude.end()) {
      left.push_back(host);
    }
  }
  if (left.size() < nodes) {
    return Fail(ErrorCode::kInvalidInput, "the job takes " + std::to_string(nodes) +
                                              " hosts, and " + std::to_string(left.size()) +
                                              " of launcher.hosts " +
                                              (left.size() == 1 ? "is" : "are") + " left");
  }
  // Whose turn it is follows from the token, so that a second submit takes the same hosts.
  const auto first =
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(PortFor(spec.token, 0)) % left.size());
  std::rotate(left.begin(), left.begin() + first, left.end());
  left.resize(nodes);
  return left;
}

Result<std::vector<Plan>> SshLauncher::Plans(const LaunchSpec& spec,
                                             const std::vector<std::string>& hosts) {
  const int nodes = static_cast<int>(hosts.size());
  const std::string master = nodes > 1 ? ssh_.AddressOf(hosts[0]) : std::string();
  std::vector<Plan> plans;
  for (int node = 0; node < nodes; ++node) {
    Plan plan{spec, {o_.grace, o_.beat, o_.stop_poll, o_.log_cap}};
    plan.spec.token = ShareToken(spec.token, static_cast<std::size_t>(node));
    plan.spec.exclude.clear();
    plan.spec.slots = spec.slots / nodes + (node < spec.slots % nodes ? 1 : 0);
    plan.spec.stages.clear();
    for (std::size_t i = 0; i < spec.stages.size(); ++i) {
      if (spec.stages[i].nodes <= node) {
        continue;
      }
      ATTUNE_TRY(Stage stage, OnNode(spec.stages[i], node, master, PortFor(spec.token, i)));
      plan.spec.stages.push_back(std::move(stage));
    }
    if (std::string why = WhyInvalid(plan.spec); !why.empty()) {
      return Fail(ErrorCode::kInvalidInput, std::move(why));
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

Result<SubmitAnswer> SshLauncher::SubmitShare(const std::string& host, const Plan& plan) {
  const auto answer =
      ssh_.CallWrapper(host, {"submit", o_.run_root}, EncodePlan(plan), o_.call_limit, true);
  if (answer) {
    ATTUNE_TRY(SubmitAnswer said, ReadSubmitAnswer(*answer, plan.spec.token));
    return said;
  }
  SubmitAnswer unknown;
  switch (answer.error().code) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      unknown.otherwise = SubmitUnknown{answer.error().message};
      return unknown;
    case ErrorCode::kInvalidInput:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kNewerFormat:
    case ErrorCode::kDenied:
    case ErrorCode::kFull:
    case ErrorCode::kInternal:
      break;
  }
  return Fail(answer.error());
}

Result<Submitted> SshLauncher::Submit(const LaunchSpec& spec) {
  if (std::string why = WhyInvalid(spec); !why.empty()) {
    return Submitted(SubmitRefused{std::move(why)});
  }
  int nodes = 1;
  for (const Stage& stage : spec.stages) {
    nodes = std::max(nodes, stage.nodes);
  }
  std::vector<std::string> hosts = KnownHosts(spec.token);
  if (hosts.empty()) {
    auto picked = PickHosts(spec, static_cast<std::size_t>(nodes));
    if (!picked) {
      return Submitted(SubmitRefused{std::move(picked.error().message)});
    }
    hosts = std::move(*picked);
  }
  auto plans = Plans(spec, hosts);
  if (!plans) {
    return Submitted(SubmitRefused{std::move(plans.error().message)});
  }
  // Here before anything runs there: whoever comes next knows where to look.
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(MirrorOf(spec.token)));
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(MirrorOf(spec.token) + "/hosts", EncodeHosts(hosts)));
  for (const Plan& plan : *plans) {
    ATTUNE_RETURN_IF_ERROR(os::MakeFolder(MirrorOf(plan.spec.token)));
    ATTUNE_RETURN_IF_ERROR(
        os::WriteFileAtomic(MirrorOf(plan.spec.token) + "/plan", EncodePlan(plan)));
  }
  // All of them are reached before any starts something.
  for (const std::string& host : hosts) {
    ATTUNE_TRY(const bool reached, Patiently<bool>(HowPatient(), ssh_, [&]() -> Result<bool> {
                 const Status ready = ssh_.EnsureWrapper(host);
                 return ready ? Result<bool>(true) : Result<bool>(Fail(ready.error()));
               }));
    (void)reached;
  }
  std::optional<LaunchHandle> handle;
  for (std::size_t node = 0; node < hosts.size(); ++node) {
    auto said = SubmitShare(hosts[node], (*plans)[node]);
    if (said && said->start) {
      if (!handle) {
        handle = HandleOf(spec.token, hosts[node], *said->start);
      }
      continue;
    }
    if (node == 0) {
      return said ? Result<Submitted>(std::move(said->otherwise)) : Fail(said.error());
    }
    const std::string why = hosts[node] + ": " +
                            (!said ? said.error().message
                             : std::holds_alternative<SubmitRefused>(said->otherwise)
                                 ? std::get<SubmitRefused>(said->otherwise).why
                                 : std::get<SubmitUnknown>(said->otherwise).why);
    if (said && std::holds_alternative<SubmitUnknown>(said->otherwise)) {
      return Submitted(SubmitUnknown{why});
    }
    for (std::size_t before = 0; before < node; ++before) {
      if (!CancelShare(hosts[before], (*plans)[before].spec.token, std::nullopt)) {
        return Submitted(SubmitUnknown{why});
      }
    }
    break;
  }
  return Submitted(Bound{std::move(*handle)});
}

// ----- find and cancel

Result<std::optional<StartRecord>> SshLauncher::FindShare(const std::string& host,
                                                          const Token& token) {
  using Found = std::optional<StartRecord>;
  return Patiently<Found>(HowPatient(), ssh_, [&]() -> Result<Found> {
    ATTUNE_TRY(const std::string answer,
               Ask(host, Encode(FindRequest{o_.run_root, token}), o_.call_limit, true));
    ATTUNE_TRY(const std::string bytes, DecodeFound(answer));
    if (bytes.empty()) {
      return Found();
    }
    auto start = DecodeStart(bytes);
    if (!start || start->token != token.value) {
      return Fail(ErrorCode::kCorrupt, host + ": the start record of " + token.value + " is torn");
    }
    return Found(std::move(start));
  });
}

// Without a mirror it was submitted from elsewhere, to any of the hosts.
Result<std::vector<std::string>> SshLauncher::HostsThatHave(const Token& token) {
  std::vector<std::string> found;
  for (std::size_t node = 0; node < o_.hosts.size(); ++node) {
    for (const std::string& host : o_.hosts) {
      ATTUNE_TRY(const auto start, FindShare(host, ShareToken(token, node)));
      if (start) {
        found.push_back(host);
        break;
      }
    }
    if (found.size() <= node) {
      break;
    }
  }
  if (!found.empty()) {
    ATTUNE_RETURN_IF_ERROR(os::MakeFolder(MirrorOf(token)));
    ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(MirrorOf(token) + "/hosts", EncodeHosts(found)));
  }
  return found;
}

Result<std::optional<LaunchHandle>> SshLauncher::Find(const Token& token) {
  std::vector<std::string> hosts = KnownHosts(token);
  if (hosts.empty()) {
    ATTUNE_TRY(hosts, HostsThatHave(token));
  }
  std::optional<LaunchHandle> handle;
  std::vector<std::size_t> there;
  for (std::size_t node = 0; node < hosts.size(); ++node) {
    ATTUNE_TRY(const auto start, FindShare(hosts[node], ShareToken(token, node)));
    if (start) {
      there.push_back(node);
    }
    if (start && !handle) {
      handle = HandleOf(token, hosts[node], *start);
    }
  }
  if (there.size() < hosts.size()) {
    // It was cut between two hosts. What runs can't become the whole job any more.
    for (const std::size_t node : there) {
      ATTUNE_RETURN_IF_ERROR(CancelShare(hosts[node], ShareToken(token, node), std::nullopt));
    }
  }
  return handle;
}

Status SshLauncher::CancelShare(const std::string& host, const Token& token,
                                const std::optional<RunId>& run) {
  const auto done = Patiently<bool>(HowPatient(), ssh_, [&]() -> Result<bool> {
    ATTUNE_TRY(const std::string answer,
               Ask(host, Encode(CancelRequest{o_.run_root, token, 0, run}), o_.call_limit, true));
    ATTUNE_RETURN_IF_ERROR(DecodeDone(answer));
    return true;
  });
  return done ? Status() : Status(Fail(done.error()));
}

Status SshLauncher::Cancel(const LaunchHandle& handle, const std::optional<RunId>& run) {
  ATTUNE_TRY(RemoteJob* const job, JobOf(handle.token));
  bool known = !run.has_value();
  Status worst;
  for (std::size_t node = 0; node < job->shares.size(); ++node) {
    const Share& share = job->shares[node];
    const std::vector<Stage>& stages = share.launch->plan().spec.stages;
    const bool has = !run || std::any_of(stages.begin(), stages.end(),
                                         [&](const Stage& s) { return s.run == *run; });
    known = known || has;
    if (!has || share.Over()) {
      continue;
    }
    const Status said = CancelShare(share.host, ShareToken(handle.token, node), run);
    if (!said && !share.launch->absent()) {
      worst = said;
    }
  }
  if (!known) {
    return Fail(ErrorCode::kNotFound, "no run " + run->value + " in " + handle.token.value);
  }
  return worst;
}

Result<std::string> SshLauncher::Fetch(const LaunchHandle& handle, const std::string& path,
                                       std::int64_t offset, std::int64_t size) {
  if (handle.folder != MirrorOf(handle.token) || offset < 0 || size < 0) {
    return Fail(ErrorCode::kInvalidInput, handle.folder + " is no run folder of this launcher");
  }
  const std::vector<std::string> hosts = KnownHosts(handle.token);
  for (std::size_t node = hosts.size(); node-- > 0;) {
    const Token share = ShareToken(handle.token, node);
    const std::string prefix = MirrorOf(share) + "/";
    if (node > 0 && !path.starts_with(prefix)) {
      continue;
    }
    const std::string below = path.starts_with(prefix) ? path.substr(prefix.size()) : path;
    ATTUNE_TRY(
        const std::string answer,
        Ask(hosts[node],
            Encode(FetchRequest{o_.run_root, share, below, offset, std::min(size, kMaxFetch)}),
            o_.call_limit, true));
    return DecodePiece(answer);
  }
  return Fail(ErrorCode::kNotFound, "nothing is known here of " + handle.token.value);
}

// Every host writes where the first one's folder would be.
Result<std::string> SshLauncher::BringHere(const LaunchHandle& handle, const std::string& path,
                                           std::int64_t max_bytes) {
  for (const std::string& host : KnownHosts(handle.token)) {
    const AskThere ask = [&](const std::string& request) {
      return Ask(host, request, o_.call_limit, true);
    };
    ATTUNE_RETURN_IF_ERROR(
        BringBelow(ask, o_.run_root, handle.token, path, MirrorOf(handle.token), max_bytes));
  }
  return MirrorOf(handle.token);
}

}  // namespace attune::launch

namespace attune {

std::unique_ptr<Launcher> MakeSshLauncher(SshOptions options) {
  return std::make_unique<launch::SshLauncher>(std::move(options));
}

}  // namespace attune
