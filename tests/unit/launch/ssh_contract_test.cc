// The ssh launcher keeps every promise of a launcher, over a runner in ssh's place. The same over a
// real sshd is in tests/real/ssh.
#include "attune/os/files.h"
#include "unit/launch/contract.h"
#include "unit/launch/loop_ssh.h"
#include "unit/launch/ssh_under_test.h"

namespace attune {
namespace {

class SshUnderTest final : public LauncherUnderTest {
 public:
  SshUnderTest() { Restart(); }
  Launcher& launcher() override { return *launcher_; }
  void Restart() override {
    launcher_.reset();
    launcher_ = MakeSshLauncher(QuickSsh(folder_.path(), &clock_, &ssh_));
  }
  Clock& clock() override { return clock_; }
  std::string train() override { return BuiltProgram("attune_fake_train"); }
  std::string workdir() override { return folder_.path(); }
  int Starts(const Token& token) override {
    return os::Exists(folder_.path() + "/on-hosts/" + token.value + "/a0/start") ? 1 : 0;
  }

 private:
  static const std::string& Home() {
    static const TemporaryFolder home;  // one for all: the wrapper is copied into it once
    return home.path();
  }
  TemporaryFolder folder_;
  SystemClock clock_;
  LoopSsh ssh_{Home()};
  std::unique_ptr<Launcher> launcher_;
};

std::unique_ptr<LauncherUnderTest> Make() { return std::make_unique<SshUnderTest>(); }

INSTANTIATE_TEST_SUITE_P(Ssh, LauncherContract, testing::Values(&Make));

}  // namespace
}  // namespace attune
