#include "real/ssh/sshd.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "attune/base/text.h"

namespace attune {

std::string WhyNoSshd() {
  const auto there = os::FindProgram("sshd", "/usr/sbin:/usr/bin:/sbin:/usr/local/sbin");
  return there ? std::string() : "openssh-server is not installed (tests/packages.sh, group ssh)";
}

Sshd::Sshd(std::string lines, std::string env) : lines_(std::move(lines)), env_(std::move(env)) {
  Start();
}

Sshd::~Sshd() { Stop(); }

Sshd& Sshd::Shared() {
  static Sshd sshd;
  return sshd;
}

void Sshd::Start() { Do("start"); }

std::string Sshd::Do(const std::string& verb) {
  os::Command command;
  command.argv = {ATTUNE_SOURCE_DIR "/tests/real/sshd/sshd.sh", verb, folder()};
  command.env = os::OwnEnvironment();
  (*command.env)["SSHD_LINES"] = lines_;
  (*command.env)["SSHD_ENV"] = env_;
  const auto done = runner_.Run(command);
  EXPECT_TRUE(done.has_value() && done->exit_code == 0)
      << verb << ": " << (done ? done->err : done.error().message);
  return done ? std::string(Trim(done->out)) : std::string();
}

std::vector<pid_t> Sshd::Masters() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = ParseInt(entry.path().filename().string());
    std::ifstream file(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    // A master renames itself: "ssh: /path/of/its/socket [mux]".
    if (pid && line.starts_with("ssh: " + folder() + "/cm/") &&
        line.find("[mux]") != std::string::npos) {
      found.push_back(static_cast<pid_t>(*pid));
    }
  }
  return found;
}

SshOptions RealSsh(const Sshd& sshd, const std::string& folder, Clock* clock,
                   os::ProcessRunner* runner) {
  SshOptions o;
  o.hosts = {"node"};
  o.run_root = folder + "/on-hosts";
  o.mirror_root = folder + "/runs";
  o.wrapper = BuiltProgram("attune-wrapper");
  o.ssh = {sshd.ssh()};
  o.control_folder = sshd.folder() + "/cm";
  std::filesystem::create_directories(o.control_folder);
  std::filesystem::permissions(o.control_folder, std::filesystem::perms::owner_all);
  o.clock = clock;
  o.runner = runner;
  o.poll = Millis{20};
  o.most_poll = Millis{50};
  o.wait = Millis{500};
  o.connect = Millis{3'000};
  o.call_limit = Millis{8'000};
  o.pause = Millis{100};
  o.patience = Millis{0};
  o.grace = Millis{150};
  o.beat = Millis{50};
  o.stop_poll = Millis{10};
  return o;
}

}  // namespace attune
