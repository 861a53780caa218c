// A cluster behind a login node: Slurm's programs run there, the run folders lie on the cluster's
// file system, and what jobs write is mirrored here. Nothing but attune-wrapper is needed there.
#include <algorithm>
#include <map>

#include "ask_host.h"
#include "attune/base/check.h"
#include "attune/os/files.h"
#include "bring.h"
#include "exchange.h"
#include "mirror.h"
#include "slurm_client.h"
#include "slurm_place.h"

namespace attune::launch {
namespace {

constexpr std::int64_t kMaxFetch = 16 << 20;
// A look pauses for a part of the time since there was news, so that a long run is looked at less.
constexpr int kAgePart = 20;
constexpr Millis kShortestGap{500};
constexpr Millis kLineTime{10'000};  // for a login, beside the program's own limit
constexpr int kMostRounds = 64;      // of one look at logs that hold more than one answer may

// A torn answer is none: it is asked again.
template <class T>
Result<T> Whole(const std::string& login, Result<T> answer) {
  if (!answer) {
    return Fail(ErrorCode::kUnavailable, login + ": " + answer.error().message);
  }
  return answer;
}

// Slurm's programs, called there by attune-wrapper in an environment of that machine.
class LoginPrograms final : public os::ProcessRunner {
 public:
  LoginPrograms(std::string login, SshTransport& ssh) : login_(std::move(login)), ssh_(ssh) {}

  using ProcessRunner::Run;
  Result<os::CommandResult> Run(const os::Command& command) override {
    const std::string& program = command.argv.front();
    // A second sbatch is a second job. Whether the first one arrived is for the queue to say.
    const auto answer =
        AskHost(ssh_, login_, Encode(CallRequest{command.argv, command.input, command.timeout}),
                command.timeout + kLineTime, command.interruptible, program == "sbatch");
    if (!answer && answer.error().code == ErrorCode::kNotFound) {
      return Fail(ErrorCode::kNotFound,
                  login_ + ": " + program + " is not in the PATH of a session without a terminal",
                  "ssh " + login_ + " which " + program + " must find it");
    }
    if (!answer) {
      return Fail(answer.error());
    }
    ATTUNE_TRY(CallAnswer said, Whole(login_, DecodeCallAnswer(*answer)));
    os::CommandResult result;
    result.exit_code = said.exit_code;
    result.out = std::move(said.out);
    result.err = std::move(said.err);
    result.out_cut = said.out_cut;
    return result;
  }

 private:
  const std::string login_;
  SshTransport& ssh_;
};

SshTransportOptions TransportOptions(const SlurmOptions& o) {
  SshTransportOptions t;
  t.ssh = o.ssh;
  t.wrapper = o.wrapper;
  t.control_folder = o.control_folder;
  return t;
}

class PlaceBehindLogin final : public SlurmPlace {
 public:
  explicit PlaceBehindLogin(const SlurmOptions& options)
      : SlurmPlace(options),
        ssh_(TransportOptions(options), options.runner == nullptr ? own_ : *options.runner),
        programs_(options.login, ssh_) {}

  os::ProcessRunner& programs() override { return programs_; }
  std::string Here(const Token& token) const override { return o_.mirror_root + "/" + token.value; }
  Status Ready() override;
  Result<bool> Place(const BatchFiles& files) override;
  Result<bool> WasPlaced(const Token& token) override;
  Status Bring(const std::vector<const Plan*>& launches, bool now) override;
  Status AskToStop(const Plan& plan, const std::optional<RunId>& run) override;
  Result<std::string> Fetch(const LaunchHandle& handle, const std::string& path,
                            std::int64_t offset, std::int64_t size) override;
  Result<std::string> BringHere(const LaunchHandle& handle, const std::string& path,
                                std::int64_t max_bytes) override;

 private:
  Result<std::string> Ask(const std::string& request) {
    auto answer = AskHost(ssh_, o_.login, request, o_.command_limit, true);
    if (!answer && answer.error().code == ErrorCode::kTimeout) {
      answer.error().code = ErrorCode::kUnavailable;
    }
    return answer;
  }
  Result<bool> Look(const std::vector<const Plan*>& launches, bool& news);
  Mirror& MirrorOf(const Plan& plan);
  Status KeepPlan(const Token& token, std::string_view bytes);

  os::PosixProcessRunner own_;
  SshTransport ssh_;
  LoginPrograms programs_;
  std::map<Token, std::unique_ptr<Mirror>> mirrors_;
  Millis due_{0}, news_at_{0};
  Status last_;  // of the last look
};

Status PlaceBehindLogin::Ready() {
  const Patience patience{o_.clock, o_.pause, o_.patience};
  const auto reached = Patiently<bool>(patience, ssh_, [&]() -> Result<bool> {
    const Status ready = ssh_.EnsureWrapper(o_.login);
    return ready ? Result<bool>(true) : Result<bool>(Fail(ready.error()));
  });
  return reached ? Status() : Status(Fail(reached.error()));
}

Status PlaceBehindLogin::KeepPlan(const Token& token, std::string_view bytes) {
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(Here(token)));
  return os::WriteFileAtomic(Here(token) + "/plan", bytes);
}

Result<bool> PlaceBehindLogin::Place(const BatchFiles& files) {
  ATTUNE_RETURN_IF_ERROR(KeepPlan(files.token, files.plan));
  ATTUNE_TRY(const std::string answer,
             Ask(Encode(PlaceRequest{o_.run_root, files.token, files.plan, files.script})));
  return Whole(o_.login, DecodePlaced(answer));
}

Result<bool> PlaceBehindLogin::WasPlaced(const Token& token) {
  const auto fetch = [&](const char* name, std::int64_t size) -> Result<std::string> {
    ATTUNE_TRY(const std::string answer,
               Ask(Encode(FetchRequest{o_.run_root, token, name, 0, size})));
    return Whole(o_.login, DecodePiece(answer));
  };
  const auto mark = fetch(kSubmitMark, 1);
  if (!mark && mark.error().code == ErrorCode::kNotFound) {
    return false;
  }
  if (!mark) {
    return Fail(mark.error());
  }
  if (!os::Exists(Here(token) + "/plan")) {
    ATTUNE_TRY(const std::string plan, fetch("plan", kMaxPlanBytes));
    ATTUNE_RETURN_IF_ERROR(KeepPlan(token, plan));
  }
  return true;
}

Mirror& PlaceBehindLogin::MirrorOf(const Plan& plan) {
  std::unique_ptr<Mirror>& mirror = mirrors_[plan.spec.token];
  if (!mirror) {
    mirror = std::make_unique<Mirror>(Here(plan.spec.token), plan, 0);
  }
  return *mirror;
}

// One round. True: logs there hold more.
Result<bool> PlaceBehindLogin::Look(const std::vector<const Plan*>& launches, bool& news) {
  LookRequest request;
  request.root = o_.run_root;
  for (const Plan* plan : launches) {
    LookRequest::Launch one;
    one.token = plan->spec.token;
    one.look_after = false;  // its processes are on the nodes
    one.files = MirrorOf(*plan).Wanted();
    request.launches.push_back(std::move(one));
  }
  ATTUNE_TRY(const std::string bytes, Ask(Encode(request)));
  ATTUNE_TRY(const LookAnswer answer, Whole(o_.login, DecodeLookAnswer(bytes)));
  if (answer.launches.size() != launches.size()) {
    return Fail(ErrorCode::kUnavailable, o_.login + " answered for other launches");
  }
  bool more = false;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const LookAnswer::Launch& seen = answer.launches[i];
    if (seen.token != launches[i]->spec.token) {
      return Fail(ErrorCode::kUnavailable, o_.login + " answered for other launches");
    }
    ATTUNE_RETURN_IF_ERROR(MirrorOf(*launches[i]).Apply(seen));
    more = more || seen.more;
    news = news || std::any_of(seen.pieces.begin(), seen.pieces.end(),
                               [](const auto& piece) { return !piece.path.ends_with("/beat"); });
  }
  return more;
}

Status PlaceBehindLogin::Bring(const std::vector<const Plan*>& launches, bool now) {
  if (launches.empty() || (!now && o_.clock->Monotonic() < due_)) {
    return last_;
  }
  last_ = {};
  bool news = false, more = true;
  for (int round = 0; more && round < kMostRounds; ++round) {
    const auto looked = Look(launches, news);
    if (!looked) {
      last_ = Fail(looked.error());
      break;
    }
    more = *looked;
  }
  const Millis at = o_.clock->Monotonic();
  news_at_ = news ? at : news_at_;
  due_ = at + std::clamp((at - news_at_) / kAgePart, std::min(kShortestGap, o_.poll), o_.poll);
  return last_;
}

Status PlaceBehindLogin::AskToStop(const Plan& plan, const std::optional<RunId>& run) {
  ATTUNE_TRY(const std::string answer,
             Ask(Encode(CancelRequest{o_.run_root, plan.spec.token, 0, run})));
  return DecodeDone(answer);
}

Result<std::string> PlaceBehindLogin::Fetch(const LaunchHandle& handle, const std::string& path,
                                            std::int64_t offset, std::int64_t size) {
  const std::string here = Here(handle.token);
  if (handle.folder != here || offset < 0 || size < 0) {
    return Fail(ErrorCode::kInvalidInput, handle.folder + " is no run folder of this launcher");
  }
  const std::string below = path.starts_with(here + "/") ? path.substr(here.size() + 1) : path;
  ATTUNE_TRY(const std::string answer,
             Ask(Encode(FetchRequest{o_.run_root, handle.token, below, offset,
                                     std::min(size, kMaxFetch)})));
  return Whole(o_.login, DecodePiece(answer));
}

Result<std::string> PlaceBehindLogin::BringHere(const LaunchHandle& handle, const std::string& path,
                                                std::int64_t max_bytes) {
  const AskThere ask = [this](const std::string& request) { return Ask(request); };
  ATTUNE_RETURN_IF_ERROR(
      BringBelow(ask, o_.run_root, handle.token, path, Here(handle.token), max_bytes));
  return Here(handle.token);
}

}  // namespace

std::unique_ptr<SlurmPlace> MakeLoginPlace(const SlurmOptions& options) {
  ATTUNE_CHECK(!options.mirror_root.empty(), "run folders elsewhere need a place for their mirror");
  return std::make_unique<PlaceBehindLogin>(options);
}

}  // namespace attune::launch
