// The ssh launcher keeps every promise of a launcher over a real sshd.
#include "attune/os/files.h"
#include "real/ssh/sshd.h"
#include "unit/launch/contract.h"

namespace attune {
namespace {

class RealSshUnderTest final : public LauncherUnderTest {
 public:
  RealSshUnderTest() { Restart(); }
  Launcher& launcher() override { return *launcher_; }
  void Restart() override {
    launcher_.reset();
    launcher_ = MakeSshLauncher(RealSsh(Sshd::Shared(), folder_.path(), &clock_, &runner_));
  }
  Clock& clock() override { return clock_; }
  std::string train() override { return BuiltProgram("attune_fake_train"); }
  std::string workdir() override { return folder_.path(); }
  int Starts(const Token& token) override {
    return os::Exists(folder_.path() + "/on-hosts/" + token.value + "/a0/start") ? 1 : 0;
  }

 private:
  TemporaryFolder folder_;
  SystemClock clock_;
  os::PosixProcessRunner runner_;
  std::unique_ptr<Launcher> launcher_;
};

std::vector<LauncherFactory> Factories() {
  if (!WhyNoSshd().empty()) {
    return {};  // SshFaults skips and says why
  }
  return {
      []() -> std::unique_ptr<LauncherUnderTest> { return std::make_unique<RealSshUnderTest>(); }};
}

INSTANTIATE_TEST_SUITE_P(RealSsh, LauncherContract, testing::ValuesIn(Factories()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LauncherContract);

}  // namespace
}  // namespace attune
