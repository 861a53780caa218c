// The launcher contract on a real Slurm, one cluster for all of it: where attune runs on the
// cluster, and where it reaches a login node over a real sshd.
#include "unit/launch/contract.h"

#include <stdlib.h>

#include <filesystem>

#include "attune/base/text.h"
#include "attune/launch/slurm.h"
#include "real/ssh/sshd.h"
#include "unit/launch/local_under_test.h"

namespace attune {
namespace {

constexpr int kSkip = 77;

class RealCluster final : public testing::Environment {
 public:
  void SetUp() override {
    const auto r = Call({"start", folder_.path()});
    if (!r || r->exit_code != 0) {
      why_not_ = r ? std::string(Trim(r->err)) : r.error().message;
      if (!r || r->exit_code != kSkip) {
        ADD_FAILURE() << "no cluster: " << why_not_;
      }
    }
  }
  void TearDown() override { (void)Call({"stop", folder_.path()}); }
  const std::string& why_not() const { return why_not_; }
  std::string conf() const { return folder_.path() + "/slurm.conf"; }

 private:
  static Result<os::CommandResult> Call(std::vector<std::string> words) {
    os::PosixProcessRunner runner;
    words.insert(words.begin(), {"/usr/bin/python3",
                                 std::string(ATTUNE_SOURCE_DIR) + "/tests/real/slurm/cluster.py"});
    return runner.Run(words, Millis{120'000});
  }
  TemporaryFolder folder_;
  std::string why_not_;
};
auto* const g_cluster =
    static_cast<RealCluster*>(testing::AddGlobalTestEnvironment(new RealCluster));

class SlurmUnderTest : public LauncherUnderTest {
 public:
  SlurmUnderTest() { SlurmUnderTest::Restart(); }
  Launcher& launcher() override { return *launcher_; }
  void Restart() override {
    launcher_.reset();
    launcher_ = MakeSlurmLauncher(Options());
  }
  std::string WhyNot() override { return g_cluster->why_not(); }
  Clock& clock() override { return clock_; }
  std::string train() override { return BuiltProgram("attune_fake_train"); }
  std::string workdir() override { return folder_.path(); }
  int Starts(const Token& token) override {
    return static_cast<int>(
        std::filesystem::exists(folder_.path() + "/runs/" + token.value + "/a0/start"));
  }

 protected:
  SlurmOptions Options() {
    SlurmOptions o;
    o.run_root = folder_.path() + "/runs";
    o.wrapper = BuiltProgram("attune-wrapper");
    o.clock = &clock_;
    o.runner = &runner_;
    o.environment = os::OwnEnvironment();
    (*o.environment)["SLURM_CONF"] = g_cluster->conf();
    o.gpus_per_node = 2;
    o.sbatch = {{"exclusive", "false"}};
    o.poll = Millis{200};
    o.kill_wait = Millis{3'000};
    o.grace = Millis{150};
    o.beat = Millis{50};
    o.stop_poll = Millis{10};
    return o;
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  os::PosixProcessRunner runner_;
  std::unique_ptr<Launcher> launcher_;
};

// Nothing of the cluster is in the environment here: its configuration is the login node's.
class LoginUnderTest final : public SlurmUnderTest {
 public:
  LoginUnderTest() { LoginUnderTest::Restart(); }
  void Restart() override {
    launcher_.reset();
    if (!WhyNoSshd().empty()) {
      return;
    }
    SlurmOptions o = Options();
    o.environment.reset();
    o.login = "node";
    o.mirror_root = folder_.path() + "/mirror";
    o.ssh = {Login().ssh()};
    o.control_folder = Login().folder() + "/cm";
    std::filesystem::create_directories(o.control_folder);
    std::filesystem::permissions(o.control_folder, std::filesystem::perms::owner_all);
    launcher_ = MakeSlurmLauncher(std::move(o));
  }
  std::string WhyNot() override {
    return WhyNoSshd().empty() ? SlurmUnderTest::WhyNot() : WhyNoSshd();
  }

 private:
  static Sshd& Login() {
    static Sshd sshd("", "SLURM_CONF=" + g_cluster->conf());
    return sshd;
  }
};

std::unique_ptr<LauncherUnderTest> MakeSlurmUnderTest() {
  return std::make_unique<SlurmUnderTest>();
}

std::unique_ptr<LauncherUnderTest> MakeLoginUnderTest() {
  return std::make_unique<LoginUnderTest>();
}

INSTANTIATE_TEST_SUITE_P(Slurm, LauncherContract, testing::Values(&MakeSlurmUnderTest));
INSTANTIATE_TEST_SUITE_P(SlurmThroughLogin, LauncherContract, testing::Values(&MakeLoginUnderTest));

}  // namespace
}  // namespace attune
