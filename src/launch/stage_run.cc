#include "stage_run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>

#include "attune/os/files.h"
#include "hand_over.h"
#include "slurm_rank.h"
#include "stage_child.h"

namespace attune::launch {
namespace {

// After KILL only the kernel can keep a process (a stuck device). Together with the grace this
// stays inside the release margin of 15 s.
constexpr Millis kAfterKill{4'000};
// Processes that outlive a stage which ended by itself had their time: a shorter grace.
constexpr Millis kStrayGrace{2'000};
constexpr Millis kScanEvery{100};
// Of the output's end, in which srun says who failed first.
constexpr std::int64_t kSrunWords = 256 << 10;

// A port that was free a moment ago, for ranks that meet on this node.
int FreePort() {
  os::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 29'500;  // PyTorch's own default
  }
  return ntohs(address.sin_port);
}

bool MakePipe(os::Fd& read_end, os::Fd& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return false;
  }
  read_end = os::Fd(ends[0]);
  write_end = os::Fd(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  // Room for a moment in which the disk makes us wait; the default of 64 KiB fills at once.
  fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
  return true;
}

}  // namespace

StageRun::StageRun(const Plan& plan, const Stage& stage, std::string folder, int attempt,
                   WrapperControl& control, SaveRecord save, Beat beat)
    : plan_(plan),
      stage_(stage),
      folder_(std::move(folder)),
      attempt_(attempt),
      control_(control),
      save_(std::move(save)),
      beat_(std::move(beat)),
      grace_(plan.times.grace) {}

StageRun::~StageRun() = default;

ExitRecord StageRun::Run() {
  started_ = WrapperControl::Now();
  if (Begin()) {
    Loop();
  }
  Finish();
  return exit_;
}

bool StageRun::Begin() {
  const auto broken = [&](const std::string& why) {
    exit_.ending = Ending::kBroken;
    exit_.detail = why;
    return false;
  };
  if (const auto made = os::MakeFolderOnce(folder_); !made) {
    return broken(made.error().message);
  }
  const auto handed = HandOverTo(stage_, folder_);
  if (!handed) {
    return broken(handed.error().message);
  }
  const int count = std::max(1, stage_.ranks);
  std::vector<WaitingChild> children;
  const bool alone = stage_.nodes == 1;
  const std::string addr = alone ? "127.0.0.1" : stage_.master_addr;
  const std::string port = std::to_string(alone ? FreePort() : stage_.master_port);
  std::string exec_error;
  for (int number = 0; number < count && exec_error.empty(); ++number) {
    Rank rank;
    rank.number = number;
    auto sink = LogSink::Open(folder_, number, plan_.times.log_cap);
    if (!sink) {
      return broken(sink.error().message);
    }
    rank.sink = std::make_unique<LogSink>(std::move(*sink));
    os::Fd write_output, write_errors;
    if (!MakePipe(rank.output, write_output) || !MakePipe(rank.errors, write_errors)) {
      return broken("no pipe for the output");
    }
    os::Environment env =
        JobEnvironment(os::OwnEnvironment(), stage_.env, plan_.spec.token.value, folder_);
    // For ranks that something below the wrapper starts: `attune-wrapper rank` (slurm_rank.h).
    env["ATTUNE_PORT"] = port;
    env.insert(handed->env.begin(), handed->env.end());
    if (stage_.ranks > 0) {
      env["RANK"] = std::to_string(stage_.node_rank * count + number);
      env["LOCAL_RANK"] = std::to_string(number);
      env["WORLD_SIZE"] = std::to_string(stage_.nodes * count);
      env["LOCAL_WORLD_SIZE"] = std::to_string(count);
      env["MASTER_ADDR"] = addr;
      env["MASTER_PORT"] = port;
    }
    auto child = WaitingChild::Fork(handed->argv, env, stage_.workdir, write_output.get(),
                                    write_errors.get());
    if (!child) {
      exec_error = child.error().message;
      rank.reaped = true;
    } else {
      rank.pid = child->pid();
      children.push_back(std::move(*child));
    }
    ranks_.push_back(std::move(rank));
  }
  if (exec_error.empty()) {
    StartRecord start;
    start.token = plan_.spec.token.value;
    start.attempt = attempt_;
    start.run = stage_.run.value;
    start.process = os::Identify(ranks_[0].pid).value_or(os::ProcessId{});
    start.host = NodeName();
    start.wall_ms = WrapperControl::WallNow();
    start.mono = started_ = WrapperControl::Now();
    if (const Status saved = save_(folder_ + "/start", Encode(start)); !saved) {
      children.clear();  // closes `go`: the waiting processes end without starting anything
      Reap();
      return broken(saved.error().message);
    }
    for (std::size_t i = 0; i < children.size() && exec_error.empty(); ++i) {
      exec_error = children[i].Go();
    }
  }
  if (!exec_error.empty()) {
    // Into the log too: that is where people and the failure classes look.
    ranks_[0].sink->Write("attune: " + exec_error + "\n", Stream::kErr, Since());
    exit_.detail = exec_error;
    asked_ = Ending::kExecFailed;
    children.clear();
    term_at_ = WrapperControl::Now();
    SignalTree(SIGTERM);
  }
  return true;
}

bool StageRun::AllReaped() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.reaped; });
}

std::int64_t StageRun::LogBytes() const {
  std::int64_t sum = 0;
  for (const Rank& rank : ranks_) {
    sum += rank.sink->bytes() + rank.sink->dropped();
  }
  return sum;
}

void StageRun::Loop() {
  while (!over_) {
    Wait();
    PumpAll();
    control_.Look();
    if (control_.launch_ending()) {
      AskToEnd(*control_.launch_ending());
    } else if (control_.StopAsked(folder_)) {
      AskToEnd(Ending::kStopped);
    }
    if (const Millis now = WrapperControl::Now(); now - last_beat_ >= plan_.times.beat) {
      last_beat_ = now;
      beat_(stage_.run.value, LogBytes());
    }
    Reap();
    EnforceEnd();
  }
}

void StageRun::Wait() {
  std::vector<pollfd> fds;
  fds.push_back({control_.signal_fd(), POLLIN, 0});
  bool holding = false;
  for (const Rank& rank : ranks_) {
    for (const os::Fd* pipe : {&rank.output, &rank.errors}) {
      if (pipe->valid()) {
        fds.push_back({pipe->get(), POLLIN, 0});
      }
    }
    holding = holding || rank.sink->holding();
  }
  // While it is being ended the next look is soon; else as often as `stop` is looked for.
  const Millis wait =
      term_at_ || AllReaped()
          ? std::min(control_.poll(), Millis{20})
          : (holding ? std::min(control_.poll(), LogSink::kHoldTime) : control_.poll());
  poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
}

bool StageRun::Pump(Rank& rank, os::Fd& pipe) {
  char buffer[65'536];
  const ssize_t n = read(pipe.get(), buffer, sizeof buffer);
  if (n > 0) {
    const Stream stream = &pipe == &rank.errors ? Stream::kErr : Stream::kOut;
    rank.sink->Write({buffer, static_cast<std::size_t>(n)}, stream, Since());
    return true;
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    pipe.Close();
  }
  return n < 0 && errno == EINTR;
}

void StageRun::PumpAll() {
  for (Rank& rank : ranks_) {
    // What failed is told on stderr, after what was done: so stdout first.
    for (os::Fd* pipe : {&rank.output, &rank.errors}) {
      // Bounded: a job that prints without end must not keep us from its limit.
      for (int i = 0; i < 64 && pipe->valid() && Pump(rank, *pipe); ++i) {
      }
    }
    rank.sink->Tick(Since());
  }
}

void StageRun::NoteRankEnd(Rank& rank, int status) {
  rank.reaped = true;
  if (WIFSIGNALED(status)) {
    rank.signal = WTERMSIG(status);
  } else {
    rank.code = WEXITSTATUS(status);
  }
  const bool failed = rank.signal || rank.code != 0;
  const bool another_failed = std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& r) {
    return &r != &rank && r.reaped && (r.signal || r.code.value_or(0) != 0);
  });
  if (!another_failed && (failed || rank.number == 0)) {
    exit_.rank = rank.number;
    exit_.code = rank.code;
    exit_.signal = rank.signal;
  }
  if (failed && !AllReaped() && !term_at_) {
    // The others would wait for it until the time limit.
    term_at_ = WrapperControl::Now();
    SignalTree(SIGTERM);
  }
}

void StageRun::Reap() {
  control_.ChildrenReaped();
  int status = 0;
  rusage usage{};
  pid_t pid = 0;
  // Everything below us is ours to reap: as subreaper we inherit what the job left behind.
  errno = 0;
  while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
    const auto millis = [](const timeval& t) {
      return Millis{std::int64_t{t.tv_sec} * 1000 + t.tv_usec / 1000};
    };
    exit_.user += millis(usage.ru_utime);
    exit_.system += millis(usage.ru_stime);
    exit_.max_rss_bytes = std::max(exit_.max_rss_bytes, std::int64_t{usage.ru_maxrss} * 1024);
    for (Rank& rank : ranks_) {
      if (rank.pid == pid && !rank.reaped) {
        NoteRankEnd(rank, status);
      }
    }
    errno = 0;
  }
  childless_ = pid < 0 && errno == ECHILD;
}

void StageRun::AskToEnd(Ending ending) {
  if (asked_) {
    return;
  }
  asked_ = ending;
  grace_ = plan_.times.grace;
  term_at_ = WrapperControl::Now();
  SignalTree(SIGTERM);
}

std::vector<pid_t> StageRun::Tree() const {
  const std::vector<pid_t> below = os::Descendants(getpid());
  std::set<pid_t> all(below.begin(), below.end());
  for (const pid_t pid : os::ProcessesCarrying("ATTUNE_TOKEN", plan_.spec.token.value)) {
    all.insert(pid);
  }
  std::vector<pid_t> alive;
  for (const pid_t pid : all) {
    const auto state = os::ReadProcessState(pid);
    if (state && state->state != 'Z' && state->state != 'X') {
      alive.push_back(pid);
    }
  }
  return alive;
}

void StageRun::SignalTree(int signal) {
  for (const pid_t pid : Tree()) {
    const auto id = os::Identify(pid);
    if (id && os::SendSignal(*id, signal).value_or(false) && AllReaped()) {
      strays_.insert(pid);
    }
  }
}

// TERM, the grace, KILL and KILL again for what was born meanwhile, until nothing is left.
void StageRun::EnforceEnd() {
  const Millis now = WrapperControl::Now();
  if (AllReaped()) {
    // A look through /proc misses what is born while it looks. That we have no child is exact: as
    // subreaper we are an ancestor of all, and between us and any of them there is a child.
    if (childless_ && Tree().empty()) {
      over_ = true;
      return;
    }
    if (!term_at_) {
      grace_ = std::min(plan_.times.grace, kStrayGrace);
      term_at_ = now;
      SignalTree(SIGTERM);
    }
  }
  if (!term_at_) {
    return;
  }
  if (!kill_at_ && now - *term_at_ >= grace_) {
    kill_at_ = now;
  }
  if (kill_at_ && now - last_kill_ >= kScanEvery) {
    last_kill_ = now;
    SignalTree(SIGKILL);
  }
  if (kill_at_ && now - *kill_at_ >= kAfterKill) {
    exit_.survivors = static_cast<int>(Tree().size());
    over_ = true;
  }
}

void StageRun::Finish() {
  for (Rank& rank : ranks_) {
    for (os::Fd* pipe : {&rank.output, &rank.errors}) {
      while (pipe->valid() && Pump(rank, *pipe)) {
      }
      pipe->Close();
    }
    rank.sink->Finish(Since());
    exit_.log_bytes += rank.sink->bytes();
    exit_.log_dropped += rank.sink->dropped();
  }
  if (exit_.ending != Ending::kBroken) {
    exit_.ending = asked_.value_or(Ending::kExited);
  }
  if (exit_.ending == Ending::kExecFailed) {
    exit_.code = 127;
    exit_.signal.reset();
  }
  const bool failed = exit_.signal || exit_.code.value_or(0) != 0;
  const bool by_srun = !stage_.argv.empty() && stage_.argv[0] == "srun";
  if (by_srun && failed && exit_.ending == Ending::kExited) {
    const auto said = os::ReadTail(folder_ + "/out", kSrunWords);
    if (const auto first = said ? FirstFailedRank(*said) : std::nullopt) {
      exit_.rank = first->rank;
      exit_.code = first->code;
      exit_.signal = first->signal;
    }
  }
  exit_.strays = static_cast<int>(strays_.size());
  exit_.mono = WrapperControl::Now();
  exit_.wall_ms = WrapperControl::WallNow();
  exit_.held = exit_.mono - started_;
}

}  // namespace attune::launch
