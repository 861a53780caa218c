// A real sshd of this test program's own, started by tests/real/sshd/sshd.sh.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attune/launch/ssh.h"
#include "attune/os/process.h"
#include "unit/launch/local_under_test.h"

namespace attune {

// Where openssh-server is missing: why there can be no server. Empty: there can be one.
std::string WhyNoSshd();

class Sshd {
 public:
  // `lines`: further lines of sshd_config; `env`: further NAME=VALUE of its sessions. Fails the
  // test when the server does not come up.
  explicit Sshd(std::string lines = {}, std::string env = {});
  ~Sshd();
  Sshd(const Sshd&) = delete;
  Sshd& operator=(const Sshd&) = delete;

  // The one that most tests share.
  static Sshd& Shared();

  const std::string& folder() const { return folder_.path(); }
  std::string ssh() const { return folder() + "/ssh"; }
  void Start();
  void Stop() { Do("stop"); }
  void Drop() { Do("drop"); }
  void Pause() { Do("pause"); }
  void Resume() { Do("resume"); }

  // The masters of this server's clients.
  std::vector<pid_t> Masters() const;

 private:
  std::string Do(const std::string& verb);

  TemporaryFolder folder_;
  std::string lines_, env_;
  os::PosixProcessRunner runner_;
};

// Over that server, with times that suit jobs of 50 ms. Runs lie below `folder`.
SshOptions RealSsh(const Sshd& sshd, const std::string& folder, Clock* clock,
                   os::ProcessRunner* runner);

}  // namespace attune
