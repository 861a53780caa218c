#include "unit/launch/contract.h"

#include <filesystem>

#include "attune/launch/local.h"
#include "fakes/fake_launcher.h"
#include "fakes/virtual_clock.h"
#include "unit/launch/local_under_test.h"

namespace attune {
namespace {

class LocalUnderTest final : public LauncherUnderTest {
 public:
  LocalUnderTest() { Restart(); }
  Launcher& launcher() override { return *launcher_; }
  void Restart() override {
    launcher_ = MakeLocalLauncher(QuickOptions(folder_.path() + "/runs", &clock_, &runner_));
  }
  Clock& clock() override { return clock_; }
  std::string train() override { return BuiltProgram("attune_fake_train"); }
  std::string workdir() override { return folder_.path(); }
  int Starts(const Token& token) override {
    int n = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_.path() + "/runs/" + token.value)) {
      n += entry.path().filename() == "start" &&
                   entry.path().parent_path().filename().string().starts_with("a")
               ? 1
               : 0;
    }
    return n;
  }

 private:
  TemporaryFolder folder_;
  SystemClock clock_;
  os::PosixProcessRunner runner_;
  std::unique_ptr<Launcher> launcher_;
};

class FakeUnderTest final : public LauncherUnderTest {
 public:
  FakeUnderTest() { Restart(); }
  Launcher& launcher() override { return *launcher_; }
  void Restart() override { launcher_ = std::make_unique<fakes::FakeLauncher>(&world_); }
  Clock& clock() override { return clock_; }
  std::string train() override { return "train"; }
  std::string workdir() override { return "/"; }
  int Starts(const Token& token) override { return world_.Starts(token); }

 private:
  fakes::VirtualClock clock_;
  fakes::FakeWorld world_{&clock_};
  std::unique_ptr<Launcher> launcher_;
};

template <class T>
std::unique_ptr<LauncherUnderTest> Make() {
  return std::make_unique<T>();
}

INSTANTIATE_TEST_SUITE_P(Local, LauncherContract, testing::Values(&Make<LocalUnderTest>));
INSTANTIATE_TEST_SUITE_P(Fake, LauncherContract, testing::Values(&Make<FakeUnderTest>));

}  // namespace
}  // namespace attune
