#include "serve.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "attune/base/clock.h"
#include "attune/os/files.h"
#include "attune/os/process.h"
#include "exchange.h"
#include "host_side.h"
#include "run_folder.h"
#include "slurm_client.h"

namespace attune::launch {
namespace {

constexpr Millis kLongestWait{30'000}, kLongestCall{120'000};
constexpr std::int64_t kMostLogBytes = 64 << 20;
constexpr std::int64_t kMostFetched = 64 << 20;
constexpr Millis kSoon{500}, kShortNap{20}, kLongNap{100};

std::string FolderOf(const std::string& root, const Token& token) {
  return root + "/" + token.value;
}

// The token becomes a path: only names that a plan may have.
Status CheckPlace(const std::string& root, const Token& token) {
  if (!root.starts_with('/') || !IsPlainName(token.value)) {
    return Fail(ErrorCode::kInvalidInput, "no run folder can have this name");
  }
  return {};
}

// One launch of a look, with what is kept between two rounds of it.
class Watched {
 public:
  Watched(const LookRequest& request, const LookRequest::Launch& launch)
      : request_(request), launch_(launch), folder_(FolderOf(request.root, launch.token)) {}

  // True when there is something the asker has not.
  bool Look(std::int64_t& room, LookAnswer::Launch& out) {
    out = {};
    out.token = launch_.token;
    // In this order: what the state says is in the records, what an exit record promises in the
    // logs.
    out.state = StateOf();
    const bool records = ReadRecords(out);
    const bool logs = ReadLogs(room, out);
    return records || logs || launch_.told != out.state;
  }

 private:
  bool ReadRecords(LookAnswer::Launch& out) {
    bool news = false;
    for (const WantedFile& file : launch_.files) {
      if (file.from >= 0) {
        continue;
      }
      const auto fd = os::OpenBelow(folder_, file.path);
      if (!fd) {
        continue;
      }
      if (auto bytes = os::ReadFd(fd->get(), 0, kMaxRecordBytes)) {
        // An idle job's beat need not wake anybody.
        news = news || !file.path.ends_with("/beat");
        out.pieces.push_back({file.path, -1, std::move(*bytes)});
      }
    }
    return news;
  }

  bool ReadLogs(std::int64_t& room, LookAnswer::Launch& out) {
    bool news = false;
    for (const WantedFile& file : launch_.files) {
      if (file.from < 0) {
        continue;
      }
      const auto fd = os::OpenBelow(folder_, file.path);
      if (!fd) {
        continue;
      }
      auto bytes = os::ReadFd(fd->get(), file.from, room + 1);
      if (!bytes || bytes->empty()) {
        continue;
      }
      if (static_cast<std::int64_t>(bytes->size()) > room) {
        bytes->resize(static_cast<std::size_t>(room));
        out.more = true;
      }
      room -= static_cast<std::int64_t>(bytes->size());
      news = true;
      if (!bytes->empty()) {
        out.pieces.push_back({file.path, file.from, std::move(*bytes)});
      }
    }
    return news;
  }

  FolderState StateOf() {
    const std::string attempt = AttemptFolder(folder_, launch_.attempt);
    if (!start_) {
      const auto bytes = ReadRecordFile(attempt + "/start");
      start_ = bytes ? DecodeStart(*bytes) : std::nullopt;
      if (!start_ || start_->token != launch_.token.value) {
        start_.reset();
        return FolderState::kAbsent;
      }
    }
    if (!plan_) {
      auto plan = ReadPlan(request_.root, launch_.token);
      if (!plan) {
        return FolderState::kRunning;  // its records speak for it
      }
      plan_ = std::move(*plan);
    }
    if (const auto exit = ReadRecordFile(attempt + "/exit"); exit && DecodeExit(*exit)) {
      return FolderState::kOver;
    }
    const bool stop_asked = os::Exists(attempt + "/stop");
    if (!launch_.look_after) {
      return stop_asked ? FolderState::kEnding : FolderState::kRunning;
    }
    switch (
        LookAfter({attempt, &*plan_, &*start_, stop_asked}, request_.margin, clock_, leftovers_)) {
      case Fate::kRunning:
        return FolderState::kRunning;
      case Fate::kEnding:
        return FolderState::kEnding;
      case Fate::kOver:
      case Fate::kLost:
        break;
    }
    return FolderState::kOver;
  }

  const LookRequest& request_;
  const LookRequest::Launch& launch_;
  const std::string folder_;
  SystemClock clock_;
  std::optional<StartRecord> start_;
  std::optional<Plan> plan_;
  Leftovers leftovers_;
};

Result<std::string> Look(const LookRequest& request) {
  for (const LookRequest::Launch& launch : request.launches) {
    ATTUNE_RETURN_IF_ERROR(CheckPlace(request.root, launch.token));
  }
  SystemClock clock;
  const Millis begun = clock.Monotonic();
  const Millis wait = std::min(request.wait, kLongestWait);
  const pid_t parent = getppid();
  std::vector<Watched> watched;
  for (const LookRequest::Launch& launch : request.launches) {
    watched.emplace_back(request, launch);
  }
  LookAnswer answer;
  answer.launches.resize(watched.size());
  for (;;) {
    std::int64_t room = std::min(request.most, kMostLogBytes);
    bool news = false;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      news = watched[i].Look(room, answer.launches[i]) || news;
    }
    const Millis age = clock.Monotonic() - begun;
    // With another parent nobody is there to be answered: the line was dropped.
    if (news || age >= wait || getppid() != parent) {
      break;
    }
    const Millis nap_ms = std::min(wait - age, age < kSoon ? kShortNap : kLongNap);
    const timespec nap{0, nap_ms.count() * 1'000'000};
    nanosleep(&nap, nullptr);
  }
  answer.host = os::HostName();
  answer.boot_id = os::BootId();
  answer.wall_ms = clock.Now().ms;
  answer.mono = clock.Monotonic();
  return Encode(answer);
}

Result<std::string> Find(const FindRequest& request) {
  ATTUNE_RETURN_IF_ERROR(CheckPlace(request.root, request.token));
  ATTUNE_TRY(const auto start, FindClaim(request.root, request.token));
  return EncodeFound(start ? Encode(*start) : std::string());
}

Result<std::string> Cancel(const CancelRequest& request) {
  ATTUNE_RETURN_IF_ERROR(CheckPlace(request.root, request.token));
  ATTUNE_TRY(const Plan plan, ReadPlan(request.root, request.token));
  SystemClock clock;
  const std::string folder = FolderOf(request.root, request.token);
  ATTUNE_RETURN_IF_ERROR(
      AskToStop(AttemptFolder(folder, request.attempt), plan, request.run, clock));
  return EncodeDone();
}

Result<std::string> Fetch(const FetchRequest& request) {
  ATTUNE_RETURN_IF_ERROR(CheckPlace(request.root, request.token));
  ATTUNE_TRY(const os::Fd fd, os::OpenBelow(FolderOf(request.root, request.token), request.path));
  ATTUNE_TRY(const std::string bytes,
             os::ReadFd(fd.get(), request.offset, std::min(request.size, kMostFetched)));
  return EncodePiece(bytes);
}

Result<std::string> Place(const PlaceRequest& request) {
  ATTUNE_RETURN_IF_ERROR(CheckPlace(request.root, request.token));
  ATTUNE_TRY(const Plan plan, DecodePlan(request.plan));
  if (plan.spec.token != request.token) {
    return Fail(ErrorCode::kInvalidInput, "the plan is for another token");
  }
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return Fail(ErrorCode::kInternal, "where this wrapper lies can't be read");
  }
  ATTUNE_TRY(const std::string bytes, os::ReadFileBounded(self, kMaxWrapperBytes));
  ATTUNE_RETURN_IF_ERROR(PlaceWrapper(request.root, bytes));
  SystemClock clock;
  ATTUNE_TRY(const bool fresh,
             PlaceBatch(request.root, {request.token, request.plan, request.script}, clock));
  return EncodePlaced(fresh);
}

Result<std::string> List(const ListRequest& request) {
  ATTUNE_RETURN_IF_ERROR(CheckPlace(request.root, request.token));
  if (!IsPathBelow(request.path)) {
    return Fail(ErrorCode::kInvalidInput, "no folder of a launch can have this name");
  }
  const std::string folder = FolderOf(request.root, request.token);
  std::vector<ListedFile> files;
  std::error_code error;
  std::filesystem::recursive_directory_iterator it(folder + "/" + request.path, error), end;
  for (; !error && it != end && files.size() < kMostListed; it.increment(error)) {
    if (const auto facts = os::StatFile(it->path().string())) {
      files.push_back({it->path().string().substr(folder.size() + 1), facts->size});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const ListedFile& a, const ListedFile& b) { return a.path < b.path; });
  return Encode(files);
}

Result<std::string> Call(const CallRequest& request) {
  os::Command command;
  command.argv = request.argv;
  command.env = ClientEnvironment(os::OwnEnvironment());
  command.workdir = "/";
  command.input = request.input;
  command.timeout = std::min(request.limit, kLongestCall);
  os::PosixProcessRunner runner;
  ATTUNE_TRY(os::CommandResult result, runner.Run(command));
  return Encode(
      CallAnswer{result.exit_code, std::move(result.out), std::move(result.err), result.out_cut});
}

// How many launches run here: processes of one token are one.
int RunningLaunches() { return static_cast<int>(os::ValuesCarried("ATTUNE_TOKEN").size()); }

Result<std::string> Probe(const ProbeRequest& request) {
  ProbeAnswer a;
  SystemClock clock;
  a.host = os::HostName();
  a.boot_id = os::BootId();
  // The folder that is there decides where the rest will be.
  std::string there = request.root;
  while (there.size() > 1 && !os::Exists(there)) {
    there.resize(std::max<std::size_t>(1, there.rfind('/')));
  }
  a.root_writable = os::Exists(there + "/.") && access(there.c_str(), W_OK | X_OK) == 0;
  a.file_system = os::FileSystemKind(there).value_or("unknown");
  a.free_bytes = os::FreeBytes(there).value_or(0);
  a.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  double load[1] = {0};
  a.load = getloadavg(load, 1) == 1 ? load[0] : 0;
  a.jobs = RunningLaunches();
  a.workdir_there = !request.workdir.empty() && os::Exists(request.workdir + "/.");
  const os::Environment env = os::OwnEnvironment();
  const auto path = env.find("PATH");
  const std::string relative = request.workdir + "/" + request.program;
  if (request.program.find('/') == std::string::npos) {
    a.program = os::FindProgram(request.program, path == env.end() ? "/usr/bin:/bin" : path->second)
                    .value_or("");
  } else {
    const std::string& where = request.program.starts_with('/') ? request.program : relative;
    a.program = access(where.c_str(), X_OK) == 0 ? where : "";
  }
  a.wall_ms = clock.Now().ms;
  return Encode(a);
}

template <class Request>
Result<std::string> Answer(Result<Request> (*decode)(std::string_view),
                           Result<std::string> (*answer)(const Request&), std::string_view bytes) {
  ATTUNE_TRY(const Request request, decode(bytes));
  return answer(request);
}

}  // namespace

Result<std::string> Serve(std::string_view request) {
  const auto is = [&](std::string_view kind) {
    return request.starts_with("attune/" + std::string(kind) + "/");
  };
  if (is("look")) {
    return Answer(&DecodeLookRequest, &Look, request);
  }
  if (is("find")) {
    return Answer(&DecodeFindRequest, &Find, request);
  }
  if (is("cancel")) {
    return Answer(&DecodeCancelRequest, &Cancel, request);
  }
  if (is("fetch")) {
    return Answer(&DecodeFetchRequest, &Fetch, request);
  }
  if (is("place")) {
    return Answer(&DecodePlaceRequest, &Place, request);
  }
  if (is("list")) {
    return Answer(&DecodeListRequest, &List, request);
  }
  if (is("call")) {
    return Answer(&DecodeCallRequest, &Call, request);
  }
  if (is("probe")) {
    return Answer(&DecodeProbeRequest, &Probe, request);
  }
  return Fail(ErrorCode::kInvalidInput, "the request is cut, or of a kind this wrapper lacks");
}

}  // namespace attune::launch
