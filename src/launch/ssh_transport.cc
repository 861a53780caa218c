#include "ssh_transport.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/launch/local.h"
#include "attune/model/recipe.h"
#include "attune/os/files.h"
#include "host_side.h"

namespace attune::launch {
namespace {

constexpr int kNoConnection = 255;  // of ssh itself; no command of ours ends with it
constexpr int kMissing = 127, kNotExecutable = 126, kOtherContent = 90, kCopyDamaged = 91;
constexpr Millis kCopyLimit{120'000}, kCheckCopyLimit{30'000};
constexpr std::int64_t kMaxAnswer = 96 << 20;
// Of the longest name that fits into a socket address, with ssh's own suffix while it binds.
constexpr std::size_t kLongestFolder = 34;

// Fixed texts, executed by the host's /bin/sh; what varies comes as "$1", "$2". On one line and
// without '!', because the login shell that hands them on may be a csh.
constexpr std::string_view kRun =
    R"sh(n=$1; shift; exec "${XDG_CACHE_HOME:-$HOME/.cache}/attune/attune-wrapper-$n" "$@")sh";
constexpr std::string_view kCheck =
    R"sh(f="${XDG_CACHE_HOME:-$HOME/.cache}/attune/attune-wrapper-$1"; )sh"
    R"sh([ -x "$f" ] && [ "$(sha256sum <"$f")" = "$2  -" ] && exit 0; exit 90)sh";
constexpr std::string_view kCopy =
    R"sh(umask 077; d="${XDG_CACHE_HOME:-$HOME/.cache}/attune"; mkdir -p "$d" || exit 1; )sh"
    R"sh(find "$d" -name "attune-wrapper-*" -mtime +30 -exec rm -f {} + 2>/dev/null; )sh"
    R"sh(t="$d/.copy.$$"; cat >"$t" || exit 1; )sh"
    R"sh(if [ "$(sha256sum <"$t")" = "$2  -" ]; then )sh"
    R"sh(chmod 700 "$t" && mv -f "$t" "$d/attune-wrapper-$1"; else rm -f "$t"; exit 91; fi)sh";

std::string Script(std::string_view text, const std::vector<std::string>& words) {
  std::string out = "/bin/sh -c " + ShellQuote(text) + " attune";
  for (const std::string& word : words) {
    out += " " + ShellQuote(word);
  }
  return out;
}

bool Refused(std::string_view said) {
  for (const std::string_view words :
       {"Permission denied", "Host key verification failed",
        "REMOTE HOST IDENTIFICATION HAS CHANGED", "Too many authentication failures",
        "no matching host key"}) {
    if (said.find(words) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

// No name of a host, as far as the resolver can say: a slip in the recipe, or a network that is not
// there yet.
bool UnknownName(std::string_view said) {
  return said.find("Could not resolve hostname") != std::string_view::npos &&
         said.find("Temporary failure") == std::string_view::npos;
}

// ssh's own last word; the lines before it are banners and warnings.
std::string LastLine(std::string_view said) {
  const auto lines = SplitLines(Trim(said));
  return lines.empty() ? std::string("no reason given") : EscapeForDisplay(Trim(lines.back()), 300);
}

bool IsOurs(const std::string& folder) {
  struct stat st {};
  return lstat(folder.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
         (st.st_mode & 077) == 0;
}

// Where the sockets of the masters lie: nobody else may look in, and the path must be short.
std::string MakeControlFolder() {
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  std::string folder = std::string(runtime == nullptr ? "" : runtime) + "/attune";
  if (runtime == nullptr || *runtime != '/' || folder.size() > kLongestFolder) {
    folder = "/tmp/attune-" + std::to_string(geteuid());
  }
  (void)mkdir(folder.c_str(), 0700);
  if (IsOurs(folder)) {
    return folder;
  }
  std::string own = "/tmp/attune-XXXXXX";
  return mkdtemp(own.data()) == nullptr ? std::string() : own;
}

}  // namespace

std::string FindSsh() {
  const char* named = getenv("ATTUNE_SSH");
  return named != nullptr && *named != '\0' ? named : "ssh";
}

SshTransport::SshTransport(SshTransportOptions options, os::ProcessRunner& runner)
    : o_(std::move(options)), runner_(runner), env_(os::OwnEnvironment()) {
  if (o_.ssh.empty()) {
    o_.ssh = {FindSsh()};
  }
  // ssh may hand variables on; nothing of attune's own belongs to them. C: its messages are read.
  std::erase_if(env_, [](const auto& entry) { return entry.first.starts_with("ATTUNE_"); });
  env_["LC_ALL"] = "C.UTF-8";
}

SshTransport::~SshTransport() {
  for (auto& [host, master] : masters_) {
    if (master.used && !AskMaster(host, master, "exit")) {
      Abandon(master);
    }
  }
}

// Says one word to the master. Nothing when it does not answer, or is not there.
std::optional<std::string> SshTransport::AskMaster(const std::string& host, const Master& master,
                                                   const std::string& word) {
  os::Command command;
  command.argv = BaseWords(ControlPath(master));
  command.argv.insert(command.argv.end(), {"-O", word, "--", host});
  command.env = env_;
  command.timeout = o_.check;
  command.grace = Millis{100};
  const auto said = runner_.Run(command);
  if (!said || said->exit_code != 0) {
    return std::nullopt;
  }
  return said->out + said->err;
}

std::string SshTransport::ControlPath(const Master& master) {
  if (control_folder_.empty()) {
    control_folder_ = o_.control_folder.empty() ? MakeControlFolder() : o_.control_folder;
  }
  if (control_folder_.empty()) {
    return "none";
  }
  return control_folder_ + "/%C." + std::to_string(getpid()) + "." +
         std::to_string(master.generation);
}

std::vector<std::string> SshTransport::BaseWords(const std::string& control_path) const {
  std::vector<std::string> words = o_.ssh;
  const auto option = [&](const std::string& text) {
    words.push_back("-o");
    words.push_back(text);
  };
  option("BatchMode=yes");
  option("ConnectTimeout=" + std::to_string(std::max<std::int64_t>(1, o_.connect.count() / 1000)));
  option("ServerAliveInterval=5");
  option("ServerAliveCountMax=3");
  // What a user sets for a terminal of his own would break or change a command of ours.
  option("RequestTTY=no");
  option("RemoteCommand=none");
  option("ClearAllForwardings=yes");
  option("ForwardX11=no");
  option("LogLevel=ERROR");
  option("ControlPath=" + control_path);
  if (control_path == "none") {
    option("ControlMaster=no");
  } else {
    option("ControlMaster=auto");
    option("ControlPersist=60");
  }
  return words;
}

Result<os::CommandResult> SshTransport::Once(const std::string& host,
                                             const std::string& control_path,
                                             const std::string& remote, const std::string& input,
                                             Millis limit, bool interruptible) {
  os::Command command;
  command.argv = BaseWords(control_path);
  command.argv.insert(command.argv.end(), {"--", host, remote});
  command.env = env_;
  command.input = input;
  command.timeout = limit;
  command.grace = Millis{500};
  command.max_output = kMaxAnswer;
  command.interruptible = interruptible;
  auto result = runner_.Run(command);
  interrupted_ = !result && result.error().code == ErrorCode::kUnavailable;
  if (!result) {
    return Fail(host, result.error());
  }
  if (result->exit_code != kNoConnection && !result->signal) {
    return result;
  }
  const std::string why = host + ": " + LastLine(result->err);
  if (Refused(result->err)) {
    return Fail(ErrorCode::kDenied, why,
                "ssh " + host + " must work without a question being asked");
  }
  if (UnknownName(result->err) && !masters_[host].used) {
    return Fail(ErrorCode::kNotFound, why, "launcher.hosts names hosts of your ssh configuration");
  }
  return Fail(ErrorCode::kUnavailable, why, "try: ssh " + host + " true");
}

// Learns who the master is, so that a stuck one can be ended later.
void SshTransport::Meet(const std::string& host, Master& master) {
  master.used = true;
  if (master.process && os::IsAlive(*master.process)) {
    return;
  }
  master.process.reset();
  const auto said = AskMaster(host, master, "check");
  // "Master running (pid=1234)"
  const auto at = said ? said->find("(pid=") : std::string::npos;
  const auto end = said ? said->find(')', at == std::string::npos ? 0 : at) : std::string::npos;
  if (at == std::string::npos || end == std::string::npos) {
    return;
  }
  if (const auto pid = ParseInt(std::string_view(*said).substr(at + 5, end - at - 5))) {
    master.process = os::Identify(static_cast<pid_t>(*pid));
  }
}

void SshTransport::Abandon(Master& master) {
  if (master.process) {
    (void)os::SendSignal(*master.process, SIGKILL);
  }
  master.process.reset();
  ++master.generation;
}

Result<os::CommandResult> SshTransport::CallShell(const std::string& host,
                                                  const std::string& remote,
                                                  const std::string& input, Millis limit,
                                                  bool interruptible, bool once) {
  if (!IsHostName(host)) {
    return Fail(ErrorCode::kInvalidInput,
                "'" + EscapeForDisplay(host, 80) + "' is no name of a host",
                "launcher.hosts names hosts of your ssh configuration");
  }
  Master& master = masters_[host];
  const std::string path = ControlPath(master);
  auto first = Once(host, path, remote, input, limit, interruptible);
  if (first) {
    Meet(host, master);
    return first;
  }
  const ErrorCode code = first.error().code;
  if (path == "none" || interrupted_ ||
      (code != ErrorCode::kTimeout && code != ErrorCode::kUnavailable)) {
    return first;
  }
  // A master that is dead or stuck fails or hangs every call through it; whether it was to blame is
  // not worth knowing: a connection of its own settles it.
  if (!AskMaster(host, master, "check")) {
    Abandon(master);
  }
  if (once) {
    return first;
  }
  return Once(host, "none", remote, input, limit, interruptible);
}

Result<os::CommandResult> SshTransport::Call(const std::string& host,
                                             const std::vector<std::string>& argv,
                                             const std::string& input, Millis limit,
                                             bool interruptible) {
  return CallShell(host, Script(R"(exec "$@")", argv), input, limit, interruptible);
}

Status SshTransport::EnsureWrapper(const std::string& host) {
  if (ready_.contains(host)) {
    return {};
  }
  if (wrapper_bytes_.empty()) {
    if (o_.wrapper.empty()) {
      ATTUNE_TRY(o_.wrapper, FindWrapper());
    }
    ATTUNE_TRY(wrapper_bytes_, os::ReadFileBounded(o_.wrapper, kMaxWrapperBytes));
    wrapper_hash_ = Sha256Hex(wrapper_bytes_);
  }
  const std::vector<std::string> words = {wrapper_hash_.substr(0, 16), wrapper_hash_};
  ATTUNE_TRY(const os::CommandResult check,
             CallShell(host, Script(kCheck, words), {}, kCheckCopyLimit, true));
  if (check.exit_code == kOtherContent) {
    ATTUNE_TRY(const os::CommandResult copy,
               CallShell(host, Script(kCopy, words), wrapper_bytes_, kCopyLimit, false));
    if (copy.exit_code == kCopyDamaged) {
      return Fail(ErrorCode::kUnavailable, host + ": attune-wrapper did not arrive whole");
    }
    if (copy.exit_code != 0) {
      return Fail(ErrorCode::kDenied,
                  host + ": attune-wrapper could not be copied: " + LastLine(copy.err),
                  "make room, or let ~/.cache/attune be written there");
    }
  } else if (check.exit_code != 0) {
    return Fail(ErrorCode::kInvalidInput, host + ": its shell did not run a simple command (code " +
                                              std::to_string(check.exit_code) +
                                              "): " + LastLine(check.err));
  }
  ready_.insert(host);
  return {};
}

Result<os::CommandResult> SshTransport::CallWrapper(const std::string& host,
                                                    const std::vector<std::string>& words,
                                                    const std::string& input, Millis limit,
                                                    bool interruptible, bool once) {
  for (int tries = 0;; ++tries) {
    ATTUNE_RETURN_IF_ERROR(EnsureWrapper(host));
    std::vector<std::string> all = {wrapper_hash_.substr(0, 16)};
    all.insert(all.end(), words.begin(), words.end());
    ATTUNE_TRY(os::CommandResult result,
               CallShell(host, Script(kRun, all), input, limit, interruptible, once));
    if (result.exit_code == kMissing && tries == 0) {
      ready_.erase(host);  // somebody emptied the cache
      continue;
    }
    if (result.exit_code == kNotExecutable || result.exit_code == kMissing) {
      return Fail(ErrorCode::kInvalidInput,
                  host + ": attune-wrapper can't be executed there: " + LastLine(result.err),
                  "it is copied to ~/.cache/attune; is that folder mounted noexec, or is the host "
                  "another kind of machine?");
    }
    return result;
  }
}

std::string SshTransport::AddressOf(const std::string& host) {
  os::Command command;
  command.argv = o_.ssh;
  command.argv.insert(command.argv.end(), {"-G", "--", host});
  command.env = env_;
  command.timeout = o_.check;
  const auto said = runner_.Run(command);
  if (said && said->exit_code == 0) {
    for (const std::string_view line : SplitLines(said->out)) {
      if (line.starts_with("hostname ")) {
        return std::string(Trim(line.substr(9)));
      }
    }
  }
  return host;
}

}  // namespace attune::launch
