// The Slurm launcher behind a login node, where no Slurm is installed: programs of Slurm's names
// stand in, and a runner takes ssh's place. tests/real/slurm does it with the daemons.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "attune/base/text.h"
#include "attune/launch/slurm.h"
#include "attune/os/files.h"
#include "fakes/one_run.h"
#include "run_folder.h"
#include "unit/launch/local_under_test.h"
#include "unit/launch/loop_ssh.h"

namespace attune {
namespace {

using Line = LoopSsh::Line;
using State = Observation::State;

class SlurmLogin : public testing::Test {
 protected:
  SlurmLogin() {
    // A cluster that starts every job at once and forgets it at once.
    Program("sbatch",
            "echo once >>\"$HOME/sbatch.calls\"\n"
            "for script; do :; done\n"
            "SLURM_JOB_ID=7 setsid /bin/sh \"$script\" >/dev/null 2>&1 </dev/null &\n"
            "echo 7\n");
    Program("squeue", "env >\"$HOME/squeue.env\"\n");
    Program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1\n");
    Program("scancel", "");
    ssh_.path = There("bin") + ":/usr/bin:/bin";
    Restart();
  }
  ~SlurmLogin() override {
    launcher_.reset();
    for (const pid_t pid : os::ProcessesCarrying("ATTUNE_TOKEN", token_.value)) {
      kill(pid, SIGKILL);
    }
  }
  void Restart() {
    SlurmOptions o;
    o.run_root = There("runs");
    o.login = "front";
    o.mirror_root = folder_.path() + "/mirror";
    o.ssh = {"ssh"};
    o.control_folder = folder_.path();
    o.wrapper = BuiltProgram("attune-wrapper");
    o.clock = &clock_;
    o.runner = &ssh_;
    o.environment = os::Environment{{"SLURM_CONF", "/of/this/machine"}};
    o.poll = Millis{50};
    o.lost_after = o.file_lag = Millis{300};
    o.find_for = Millis{30'000};
    o.patience = Millis{0};
    o.grace = Millis{150};
    o.beat = Millis{50};
    o.stop_poll = Millis{10};
    launcher_.reset();
    launcher_ = MakeSlurmLauncher(std::move(o));
  }
  std::string There(const std::string& name) const { return folder_.path() + "/there/" + name; }
  void Program(const std::string& name, const std::string& body) {
    ASSERT_TRUE(os::MakeFolder(There("bin")).has_value());
    ASSERT_TRUE(os::WriteFileAtomic(There("bin/" + name), "#!/bin/sh\n" + body).has_value());
    ASSERT_EQ(chmod(There("bin/" + name).c_str(), 0700), 0);
  }
  LaunchSpec Shell(const std::string& text) const {
    return fakes::OneRun(token_, {"/bin/sh", "-c", text}, folder_.path());
  }
  // As a campaign does with a submit of unknown fate.
  std::optional<LaunchHandle> Located(const Token& token) {
    for (int i = 0; i < 1'000; ++i) {
      const auto found = launcher_->Find(token);
      if (found) {
        return *found;
      }
      EXPECT_EQ(found.error().code, ErrorCode::kUnavailable) << found.error().message;
      clock_.SleepUntil(clock_.Now() + Millis{20});
    }
    return std::nullopt;
  }
  Observation WatchToTheEnd(const LaunchHandle& h, std::string& log) {
    for (int i = 0; i < 2'000; ++i) {
      auto seen = launcher_->Observe({&h, 1}, clock_.Now() + Millis{100}, 1);
      if (!seen) {
        ADD_FAILURE() << seen.error().message;
        break;
      }
      for (const StageObservation& stage : seen->front().stages) {
        for (const LogChunk& chunk : stage.log) {
          log += chunk.bytes;
        }
      }
      if (seen->front().state == State::kEnded) {
        return std::move(seen->front());
      }
    }
    return {};
  }
  int Submits() const {
    const auto calls = os::ReadFileBounded(There("home/sbatch.calls"), 1 << 20);
    return calls ? static_cast<int>(SplitLines(*calls).size()) : 0;
  }

  // What a shell needs of a machine, and no Slurm.
  std::string Tools() const {
    EXPECT_TRUE(os::MakeFolder(There("tools")).has_value());
    for (const char* name : {"sha256sum", "mkdir", "cat", "find", "rm", "chmod", "mv"}) {
      std::filesystem::create_symlink(std::string("/usr/bin/") + name, There("tools/") + name);
    }
    return There("tools");
  }

  const Token token_{"attune-login-" + std::to_string(getpid()) + "-l001"};
  TemporaryFolder folder_;
  SystemClock clock_;
  LoopSsh ssh_{Home()};
  std::unique_ptr<Launcher> launcher_;

 private:
  std::string Home() const {
    EXPECT_TRUE(os::MakeFolder(There("home")).has_value());
    return There("home");
  }
};

TEST_F(SlurmLogin, WhatAJobWritesThereIsReadHere) {
  const LaunchSpec spec = Shell("echo begun; sleep 0.3; echo done");
  ASSERT_TRUE(launcher_->Submit(spec).has_value());
  const auto handle = Located(spec.token);
  ASSERT_TRUE(handle.has_value());
  EXPECT_EQ(handle->folder, folder_.path() + "/mirror/" + spec.token.value);
  std::string log;
  const Observation last = WatchToTheEnd(*handle, log);
  EXPECT_EQ(last.state, State::kEnded);
  EXPECT_EQ(log, "begun\ndone\n");
  EXPECT_EQ(last.end_hint, std::nullopt) << last.detail;
  EXPECT_EQ(last.source, ChargeSource::kWrapper);
  EXPECT_GT(last.charged.value, 2 * 300);
  EXPECT_EQ(launcher_->Fetch(*handle, "a0/r001/out", 6, 4), "done");
}

TEST_F(SlurmLogin, ALineThatBreaksDuringASubmitSubmitsOnce) {
  ASSERT_TRUE(launcher_->Find(Token("attune-nobody")).has_value());  // the wrapper is there now
  ssh_.next = {Line::kGood, Line::kAnswerLost};                      // placed; sbatch
  const LaunchSpec spec = Shell("echo done");
  const auto submitted = launcher_->Submit(spec);
  ASSERT_TRUE(submitted.has_value());
  EXPECT_TRUE(std::holds_alternative<SubmitUnknown>(*submitted));
  const auto handle = Located(spec.token);
  ASSERT_TRUE(handle.has_value());
  std::string log;
  EXPECT_EQ(WatchToTheEnd(*handle, log).state, State::kEnded);
  EXPECT_EQ(log, "done\n");
  EXPECT_EQ(Submits(), 1);
}

TEST_F(SlurmLogin, AnotherProcessWithoutTheMirrorFindsItByItsToken) {
  const LaunchSpec spec = Shell("echo begun; sleep 0.3; echo done");
  ASSERT_TRUE(launcher_->Submit(spec).has_value());
  ASSERT_TRUE(Located(spec.token).has_value());
  std::filesystem::remove_all(folder_.path() + "/mirror");
  Restart();
  const auto handle = Located(spec.token);
  ASSERT_TRUE(handle.has_value());
  std::filesystem::remove_all(folder_.path() + "/mirror");
  Restart();  // and one that was told where it is, and need not look
  std::string log;
  EXPECT_EQ(WatchToTheEnd(*handle, log).state, State::kEnded);
  EXPECT_EQ(log, "begun\ndone\n");
}

TEST_F(SlurmLogin, ALoginNodeThatDoesNotAnswerLosesNothing) {
  const LaunchSpec spec = Shell("echo begun; sleep 0.3; echo done");
  ASSERT_TRUE(launcher_->Submit(spec).has_value());
  const auto handle = Located(spec.token);
  ASSERT_TRUE(handle.has_value());
  ssh_.down = {"front"};
  for (int i = 0; i < 20; ++i) {  // far longer than the job, than lost_after and file_lag
    const auto seen = launcher_->Observe({&*handle, 1}, clock_.Now() + Millis{50}, 1);
    ASSERT_TRUE(seen.has_value());
    EXPECT_NE(seen->front().state, State::kEnded);
  }
  EXPECT_EQ(launcher_->Cancel(*handle, std::nullopt).error().code, ErrorCode::kUnavailable);
  ssh_.down.clear();
  std::string log;
  const Observation last = WatchToTheEnd(*handle, log);
  EXPECT_EQ(last.end_hint, std::nullopt) << last.detail;
  EXPECT_NE(log.find("done\n"), std::string::npos);
}

TEST_F(SlurmLogin, AStopReachesTheJobThroughItsFolder) {
  const LaunchSpec spec = Shell("echo begun; sleep 60");
  ASSERT_TRUE(launcher_->Submit(spec).has_value());
  const auto handle = Located(spec.token);
  ASSERT_TRUE(handle.has_value());
  ASSERT_TRUE(launcher_->Cancel(*handle, RunId("r001")).has_value());
  EXPECT_EQ(launcher_->Cancel(*handle, RunId("r009")).error().code, ErrorCode::kNotFound);
  std::string log;
  const Observation last = WatchToTheEnd(*handle, log);
  ASSERT_EQ(last.stages.size(), 1U);
  EXPECT_TRUE(last.stages[0].stopped_on_request);
}

TEST_F(SlurmLogin, ANodeThatIsDownOrWithoutSlurmIsAnErrorAndNothingRuns) {
  const LaunchSpec spec = Shell("true");
  ssh_.down = {"front"};
  EXPECT_EQ(launcher_->Submit(spec).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(os::Exists(There("runs")));
  ssh_.down.clear();
  std::filesystem::remove_all(There("bin"));
  ssh_.path = Tools();
  const auto submitted = launcher_->Submit(spec);
  ASSERT_FALSE(submitted.has_value());
  EXPECT_EQ(submitted.error().code, ErrorCode::kNotFound);
  EXPECT_NE(submitted.error().message.find("front: sbatch is not in the PATH"), std::string::npos)
      << submitted.error().message;
}

TEST_F(SlurmLogin, SlurmsProgramsGetTheEnvironmentOfTheLoginNode) {
  ASSERT_TRUE(launcher_->Submit(Shell("true")).has_value());
  const auto env = os::ReadFileBounded(There("home/squeue.env"), 1 << 20);
  ASSERT_TRUE(env.has_value());
  EXPECT_EQ(env->find("/of/this/machine"), std::string::npos);
  EXPECT_NE(env->find("SLURM_TIME_FORMAT=%s\n"), std::string::npos);
}

}  // namespace
}  // namespace attune
