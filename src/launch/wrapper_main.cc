// attune-wrapper: the job's side of a launch. One program without dependencies, so that it runs on
// a compute node as it is.
//
//   attune-wrapper submit ROOT            plan on stdin; starts it detached, prints its start
//   record attune-wrapper run FOLDER [ATTEMPT]   runs the plan in FOLDER, in the foreground
//   attune-wrapper rank PROGRAM [ARGUMENT ...]   below srun: becomes one rank of a stage
//   attune-wrapper serve                  one request on stdin (exchange.h), its answer on stdout
//
// Exit codes: 0; 3 another owns this attempt; 4 not there (serve); 10 refused, 11 disk full, 12
// permission: nothing was started; 75 the fate is not known yet: look for the token, or ask again.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attempt.h"
#include "attune/base/text.h"
#include "attune/os/files.h"
#include "run_folder.h"
#include "serve.h"
#include "slurm_rank.h"

namespace attune::launch {
namespace {

constexpr int kOk = 0, kOther = 3, kNotThere = 4, kRefused = 10, kFull = 11, kDenied = 12,
              kUnknown = 75;
constexpr Millis kLockWait{10'000};

int Report(int code, const std::string& why) {
  dprintf(2, "attune-wrapper: %s\n", why.c_str());
  return code;
}

int Report(const Error& error) {
  switch (error.code) {
    case ErrorCode::kFull:
      return Report(kFull, error.message);
    case ErrorCode::kDenied:
      return Report(kDenied, error.message);
    case ErrorCode::kInvalidInput:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kNewerFormat:
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
    case ErrorCode::kInternal:
      break;
  }
  return Report(kRefused, error.message);
}

Result<std::string> ReadStdin() {
  std::string bytes;
  char buffer[65'536];
  for (;;) {
    const ssize_t n = read(0, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return os::FailErrno("reading the plan", errno);
    }
    if (n == 0) {
      return bytes;
    }
    bytes.append(buffer, static_cast<std::size_t>(n));
    if (static_cast<std::int64_t>(bytes.size()) > kMaxPlanBytes) {
      return Fail(ErrorCode::kInvalidInput, "the plan is too long");
    }
  }
}

int Print(std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t n = write(1, rest.data(), rest.size());
    if (n <= 0 && errno != EINTR) {
      return Report(kUnknown, "the answer could not be printed");
    }
    rest.remove_prefix(n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  return kOk;
}

int AnswerOne() {
  const auto request = ReadStdin();
  const auto answer = request ? Serve(*request) : request;
  if (answer) {
    return Print(*answer);
  }
  switch (answer.error().code) {
    case ErrorCode::kNotFound:
      return Report(kNotThere, answer.error().message);
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      return Report(kUnknown, answer.error().message);
    case ErrorCode::kFull:
    case ErrorCode::kDenied:
    case ErrorCode::kInvalidInput:
    case ErrorCode::kCorrupt:
    case ErrorCode::kNewerFormat:
    case ErrorCode::kInternal:
      break;
  }
  return Report(answer.error());
}

int PrintStart(const std::string& folder) {
  const auto bytes = ReadRecordFile(AttemptFolder(folder, 0) + "/start");
  if (!bytes || !DecodeStart(*bytes)) {
    return Report(kUnknown, "the start record in " + folder + " can't be read");
  }
  return Print(*bytes);
}

// The folder, a lock on it, and the plan in it. A folder of the same token with the same plan is
// an earlier submit of this launch.
Status PlacePlan(const std::string& root, const std::string& folder, const std::string& plan,
                 os::Fd& lock) {
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(root));
  if (const auto made = os::MakeFolderOnce(folder); !made) {
    return Fail(made.error());
  }
  struct stat st {};
  if (stat(folder.c_str(), &st) != 0 || st.st_uid != geteuid()) {
    return Fail(ErrorCode::kDenied, folder + " belongs to another user");
  }
  ATTUNE_TRY(auto held, os::FileLock::Try(folder + "/lock", kLockWait));
  if (!held) {
    return Fail(ErrorCode::kUnavailable, "another submit of this launch is going on");
  }
  lock = held->Release();
  if (!os::Exists(folder + "/plan")) {
    return os::WriteFileAtomic(folder + "/plan", plan);
  }
  ATTUNE_TRY(const std::string before, os::ReadFileBounded(folder + "/plan", kMaxPlanBytes));
  if (before != plan) {
    return Fail(ErrorCode::kInvalidInput, folder + " holds another plan under the same token");
  }
  return {};
}

// Becomes the runner: own session, no terminal, output into the wrapper's log.
[[noreturn]] void Detach(const std::string& folder, const std::string& token, os::Fd lock,
                         os::Fd ready) {
  setsid();
  const std::string log = AttemptFolder(folder, 0) + "/wrapper.log";
  os::Fd null(open("/dev/null", O_RDONLY));
  os::Fd out(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600));
  if (!out.valid()) {
    out = os::Fd(open("/dev/null", O_WRONLY));
  }
  dup2(null.get(), 0);
  dup2(out.get(), 1);
  dup2(out.get(), 2);
  null.Close();
  out.Close();
  if (chdir("/") != 0) {
    _exit(kRefused);
  }
  // Executed anew so that `ps` names the launch, and so that the process carries its token.
  fcntl(lock.get(), F_SETFD, 0);
  fcntl(ready.get(), F_SETFD, 0);
  std::string self = "attune-wrapper", word = "run", where = folder, attempt = "0",
              lock_text = std::to_string(lock.get()), ready_text = std::to_string(ready.get()),
              mark = "ATTUNE_TOKEN=" + token;
  char* argv[] = {self.data(),      word.data(),       where.data(), attempt.data(),
                  lock_text.data(), ready_text.data(), nullptr};
  std::vector<char*> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("ATTUNE_")) {
      env.push_back(*entry);
    }
  }
  env.push_back(mark.data());
  env.push_back(nullptr);
  execve("/proc/self/exe", argv, env.data());
  dprintf(2, "attune-wrapper: starting itself: %s\n", strerror(errno));
  _exit(kRefused);
}

std::string WhyNoFolder(const Plan& plan) {
  for (const Stage& stage : plan.spec.stages) {
    struct stat st {};
    if (stat(stage.workdir.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
      return "the working folder " + stage.workdir + " of run " + stage.run.value +
             " does not exist on " + os::HostName();
    }
  }
  return {};
}

int Submit(const std::string& root) {
  const auto bytes = ReadStdin();
  if (!bytes) {
    return Report(bytes.error());
  }
  const auto plan = DecodePlan(*bytes);
  if (!plan) {
    return Report(plan.error());
  }
  const std::string folder = root + "/" + plan->spec.token.value;
  if (const std::string why = WhyNoFolder(*plan);
      !why.empty() && !os::Exists(AttemptFolder(folder, 0) + "/start")) {
    return Report(kRefused, why);
  }
  os::Fd lock;
  if (const Status placed = PlacePlan(root, folder, *bytes, lock); !placed) {
    return placed.error().code == ErrorCode::kUnavailable ? Report(kUnknown, placed.error().message)
                                                          : Report(placed.error());
  }
  if (os::Exists(AttemptFolder(folder, 0) + "/start")) {
    return PrintStart(folder);
  }
  if (const auto made = os::MakeFolderOnce(AttemptFolder(folder, 0)); !made) {
    return Report(made.error());
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Report(os::FailErrno("making a pipe", errno).value());
  }
  os::Fd ready(ends[0]), ready_write(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) {
    return Report(os::FailErrno("forking", errno).value());
  }
  if (pid == 0) {
    ready.Close();
    Detach(folder, plan->spec.token.value, std::move(lock), std::move(ready_write));
  }
  ready_write.Close();
  lock.Close();
  char word = 0;
  ssize_t n = 0;
  while ((n = read(ready.get(), &word, 1)) < 0 && errno == EINTR) {
  }
  if (n != 1) {
    // The runner ended before its claim, so nothing was started; its log says why.
    const auto log = os::ReadTail(AttemptFolder(folder, 0) + "/wrapper.log", 2000);
    const std::string why(Trim(log ? *log : std::string()));
    const int code = why.find("No space left") != std::string::npos ? kFull : kRefused;
    return Report(code, "the wrapper could not start" + (why.empty() ? why : ": " + why));
  }
  return PrintStart(folder);
}

int Run(const std::string& folder, int attempt, os::Fd lock, os::Fd ready) {
  if (folder.empty() || folder[0] != '/' || folder.back() == '/') {
    return Report(kRefused, "the run folder must be absolute");
  }
  const auto end = RunAttempt(folder, attempt, std::move(lock), std::move(ready));
  if (!end) {
    return Report(end.error());
  }
  return *end == AttemptEnd::kOwnedByOther ? Report(kOther, "this attempt belongs to another")
                                           : kOk;
}

os::Fd Inherited(const std::string& text) {
  const auto number = ParseInt(text);
  if (!number || *number < 3 || *number > 1'000'000 ||
      fcntl(static_cast<int>(*number), F_SETFD, FD_CLOEXEC) != 0) {
    return os::Fd();
  }
  return os::Fd(static_cast<int>(*number));
}

int Main(std::span<char*> args) {
  if (args.size() >= 3 && std::string_view(args[1]) == "rank") {
    return Report(BecomeRank({args.begin() + 2, args.end()}));
  }
  umask(077);
  // A full disk, or a reader that is gone, is an error to handle and no reason to die.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> words(args.begin() + 1, args.end());
  if (words.size() == 2 && words[0] == "submit") {
    return Submit(words[1]);
  }
  if (words.size() == 1 && words[0] == "serve") {
    return AnswerOne();
  }
  if (words.size() >= 2 && words.size() <= 5 && words[0] == "run") {
    const auto attempt = words.size() > 2 ? ParseInt(words[2]) : 0;
    if (attempt && *attempt >= 0 && *attempt < 10'000) {
      return Run(words[1], static_cast<int>(*attempt),
                 words.size() > 3 ? Inherited(words[3]) : os::Fd(),
                 words.size() > 4 ? Inherited(words[4]) : os::Fd());
    }
  }
  return Report(2,
                "usage: attune-wrapper submit ROOT | run FOLDER [ATTEMPT] | "
                "rank PROGRAM [ARGUMENT ...] | serve");
}

}  // namespace
}  // namespace attune::launch

int main(int argc, char** argv) {
  return attune::launch::Main(std::span<char*>(argv, static_cast<std::size_t>(argc)));
}
