// What goes wrong between two machines, over a real sshd: lines, masters, servers, folders.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "fakes/one_run.h"
#include "real/ssh/sshd.h"

namespace attune {
namespace {

using State = Observation::State;

class SshFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoSshd(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    Use(Sshd::Shared());
  }
  ~SshFaults() override {
    launcher_.reset();
    for (const std::string& token : tokens_) {  // a failed test must leave no process either
      for (const pid_t pid : os::ProcessesCarrying("ATTUNE_TOKEN", token)) {
        kill(pid, SIGKILL);
      }
    }
  }
  void Use(Sshd& sshd) {
    sshd_ = &sshd;
    options_ = RealSsh(sshd, folder_.path(), &clock_, &runner_);
    Restart();
  }
  void Restart() {
    launcher_.reset();
    launcher_ = MakeSshLauncher(options_);
  }
  LaunchSpec Shell(const std::string& text) {
    tokens_.push_back("attune-r" + std::to_string(getpid()) + "-l" +
                      std::to_string(tokens_.size()));
    return fakes::OneRun(Token(tokens_.back()), {"/bin/sh", "-c", text}, folder_.path());
  }
  // Prints "begun", then ends when the file `go` is made.
  LaunchSpec Waiting() {
    return Shell("echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done");
  }
  void Go() { EXPECT_TRUE(os::WriteFileAtomic(folder_.path() + "/go", "").has_value()); }
  LaunchHandle Submit(const LaunchSpec& spec) {
    auto submitted = launcher_->Submit(spec);
    if (!submitted || !std::holds_alternative<Bound>(*submitted)) {
      ADD_FAILURE() << (submitted ? std::string("not bound") : submitted.error().message);
      return {};
    }
    return std::get<Bound>(*submitted).handle;
  }
  struct Watch {
    std::string log;
    Observation last;
    int silences = 0;  // observations without news of the host
  };
  Watch WatchUntil(const LaunchHandle& h, const std::string& text = {}) {
    Watch w;
    for (int i = 0; i < 10'000 && !h.token.empty(); ++i) {
      auto seen = launcher_->Observe({&h, 1}, clock_.Now() + Millis{10'000}, 1);
      if (!seen) {
        ADD_FAILURE() << seen.error().message;
        break;
      }
      w.last = std::move(seen->front());
      w.silences += w.last.scheduler_word.empty() ? 0 : 1;
      for (const StageObservation& s : w.last.stages) {
        for (const LogChunk& chunk : s.log) {
          w.log += chunk.bytes;
        }
      }
      if (w.last.state == State::kEnded ||
          (!text.empty() && w.log.find(text) != std::string::npos)) {
        break;
      }
    }
    return w;
  }
  void ExpectDone(const LaunchHandle& h) {
    const Watch w = WatchUntil(h);
    ASSERT_EQ(w.last.state, State::kEnded);
    EXPECT_TRUE(w.log.ends_with("done\n")) << w.log;
    EXPECT_EQ(w.last.stages[0].exit_code, 0);
    EXPECT_FALSE(w.last.end_hint.has_value());
  }
  static void ExpectNothingRuns(const LaunchSpec& spec) {
    const auto carriers = [&] { return os::ProcessesCarrying("ATTUNE_TOKEN", spec.token.value); };
    for (int i = 0; i < 1'000 && !carriers().empty(); ++i) {
      usleep(5'000);
    }
    EXPECT_TRUE(carriers().empty());
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  os::PosixProcessRunner runner_;
  Sshd* sshd_ = nullptr;
  SshOptions options_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<std::string> tokens_;
};

// ----- the control master

TEST_F(SshFaults, OneMasterCarriesAllCallsAndEndsWithTheLauncher) {
  const LaunchHandle h = Submit(Waiting());
  WatchUntil(h, "begun");
  EXPECT_EQ(sshd_->Masters().size(), 1U);
  Go();
  ExpectDone(h);
  launcher_.reset();
  for (int i = 0; i < 400 && !sshd_->Masters().empty(); ++i) {
    usleep(5'000);
  }
  EXPECT_TRUE(sshd_->Masters().empty());
}

TEST_F(SshFaults, AMasterThatWasKilledIsReplaced) {
  const LaunchHandle h = Submit(Waiting());
  WatchUntil(h, "begun");
  for (const pid_t pid : sshd_->Masters()) {
    kill(pid, SIGKILL);
  }
  Go();
  ExpectDone(h);
}

TEST_F(SshFaults, AMasterThatIsStuckIsLeftWithinTheLimitAndEnded) {
  options_.call_limit = Millis{3'000};
  Restart();
  const LaunchHandle h = Submit(Waiting());
  WatchUntil(h, "begun");
  const std::vector<pid_t> stuck = sshd_->Masters();
  ASSERT_EQ(stuck.size(), 1U);
  kill(stuck[0], SIGSTOP);
  Go();
  const Millis begun = clock_.Monotonic();
  ExpectDone(h);
  // The call's own limit, the master's, and what a busy machine takes: not ServerAlive's 15 s.
  EXPECT_LT(clock_.Monotonic() - begun, Millis{12'000});
  launcher_.reset();
  for (const pid_t pid : sshd_->Masters()) {
    EXPECT_NE(pid, stuck[0]);
  }
}

// ----- the line and the server

TEST_F(SshFaults, AJobLivesThroughADroppedLine) {
  const LaunchHandle h = Submit(Waiting());
  WatchUntil(h, "begun");
  sshd_->Drop();
  Go();
  ExpectDone(h);
}

TEST_F(SshFaults, AServerThatIsDownForAWhileCostsOnlyTime) {
  Sshd own;
  Use(own);
  const LaunchHandle h = Submit(Waiting());
  WatchUntil(h, "begun");
  own.Stop();
  Observation seen;
  seen.state = State::kRunning;
  for (int i = 0; i < 100 && seen.state != State::kUnknown; ++i) {
    seen = launcher_->Observe({&h, 1}, clock_.Now(), 1)->front();
  }
  EXPECT_EQ(seen.scheduler_word, "no news from node");
  EXPECT_TRUE(seen.stages[0].started);
  Go();
  own.Start();
  ExpectDone(h);
}

TEST_F(SshFaults, AServerThatHangsDoesNotHangTheWatcher) {
  Sshd own;
  Use(own);
  options_.call_limit = Millis{2'000};
  options_.connect = Millis{1'000};
  Restart();
  const LaunchHandle h = Submit(Waiting());
  WatchUntil(h, "begun");
  own.Pause();
  const Millis begun = clock_.Monotonic();
  Observation seen;
  seen.state = State::kRunning;
  for (int i = 0; i < 20 && seen.state != State::kUnknown; ++i) {
    seen = launcher_->Observe({&h, 1}, clock_.Now() + Millis{100}, 1)->front();
  }
  EXPECT_EQ(seen.state, State::kUnknown);
  EXPECT_LT(clock_.Monotonic() - begun, Millis{15'000});
  own.Resume();
  Go();
  ExpectDone(h);
}

TEST_F(SshFaults, AnUnreachableHostIsAnErrorBeforeASubmitAndUnknownDuringOne) {
  Sshd own;
  Use(own);
  own.Stop();
  const LaunchSpec spec = Shell("echo done");
  const auto before = launcher_->Submit(spec);
  ASSERT_FALSE(before.has_value());
  EXPECT_EQ(before.error().code, ErrorCode::kUnavailable);
  own.Start();
  ASSERT_FALSE(launcher_->Find(spec.token)->has_value());  // and the wrapper is there now
  own.Stop();
  const auto during = launcher_->Submit(spec);
  ASSERT_TRUE(during.has_value());
  EXPECT_TRUE(std::holds_alternative<SubmitUnknown>(*during));
  EXPECT_EQ(launcher_->Find(spec.token).error().code, ErrorCode::kUnavailable);
  own.Start();
  EXPECT_FALSE(launcher_->Find(spec.token)->has_value());
  ExpectDone(Submit(spec));
}

TEST_F(SshFaults, AKeyThatIsNotLetInIsDenied) {
  Sshd own;
  Use(own);
  std::filesystem::remove(own.folder() + "/client.pub");
  const auto said = launcher_->Submit(Shell("true"));
  ASSERT_FALSE(said.has_value());
  EXPECT_EQ(said.error().code, ErrorCode::kDenied);
  EXPECT_NE(said.error().message.find("Permission denied"), std::string::npos);
}

TEST_F(SshFaults, AChangedHostKeyIsDenied) {
  Sshd own;
  Use(own);
  own.Stop();
  std::filesystem::remove(own.folder() + "/host");
  std::filesystem::remove(own.folder() + "/host.pub");
  const std::string known = os::ReadFileBounded(own.folder() + "/known_hosts", 4096).value_or("");
  own.Start();
  ASSERT_TRUE(os::WriteFileAtomic(own.folder() + "/known_hosts", known).has_value());
  const auto said = launcher_->Submit(Shell("true"));
  ASSERT_FALSE(said.has_value());
  EXPECT_EQ(said.error().code, ErrorCode::kDenied) << said.error().message;
}

TEST_F(SshFaults, AServerThatAllowsOneSessionALineIsEnough) {
  Sshd own("MaxSessions 1");
  Use(own);
  const LaunchHandle h = Submit(Waiting());
  Go();
  ExpectDone(h);
}

// ----- the host

TEST_F(SshFaults, AKilledWrapperIsLostAndNothingOfItsJobLivesOn) {
  const LaunchSpec spec = Shell("(setsid sleep 600 &); echo begun; sleep 600");
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "begun");
  kill(static_cast<pid_t>(ParseInt(h.id.substr(h.id.find(':') + 1)).value_or(0)), SIGKILL);
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kLost);
  ExpectNothingRuns(spec);
}

TEST_F(SshFaults, AChildThatWouldOutliveItsJobIsEnded) {
  const LaunchSpec spec = Shell("(setsid sleep 600 &); echo done");
  ExpectDone(Submit(spec));
  ExpectNothingRuns(spec);
}

TEST_F(SshFaults, AReadOnlyRunRootIsDeniedAndNothingRuns) {
  const std::string root = folder_.path() + "/ro";
  std::filesystem::create_directory(root);
  if (mount("tmpfs", root.c_str(), "tmpfs", MS_RDONLY, "size=64k") != 0) {
    GTEST_SKIP() << "no read-only file system can be mounted here";
  }
  options_.run_root = root + "/runs";
  Restart();
  const auto said = launcher_->Submit(Shell("true"));
  umount(root.c_str());
  ASSERT_FALSE(said.has_value());
  EXPECT_EQ(said.error().code, ErrorCode::kDenied) << said.error().message;
}

TEST_F(SshFaults, ArgumentsArriveByteForByteThroughALoginShell) {
  const std::vector<std::string> args = fakes::HostileArguments();
  LaunchSpec spec = Shell(R"(printf '%s\0' "$@")");
  spec.stages[0].argv.push_back("job");
  spec.stages[0].argv.insert(spec.stages[0].argv.end(), args.begin(), args.end());
  std::string expected;
  for (const std::string& arg : args) {
    expected += arg + '\0';
  }
  EXPECT_EQ(WatchUntil(Submit(spec)).log, expected);
  EXPECT_FALSE(os::Exists(folder_.path() + "/pwned"));
}

TEST_F(SshFaults, HugeOutputArrivesWhole) {
  const LaunchHandle h = Submit(Shell("head -c 9000000 /dev/zero | tr '\\0' x; echo; echo done"));
  const Watch w = WatchUntil(h);
  EXPECT_EQ(w.log.size(), 9'000'000U + 6U);
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
}

TEST_F(SshFaults, RanksOnTwoHostsKnowTheirPlaces) {
  options_.hosts = {"node1", "node2"};
  Restart();
  LaunchSpec spec = Shell("echo $RANK of $WORLD_SIZE at $MASTER_ADDR");
  spec.stages[0].kind = RanksKind::kEnv;
  spec.stages[0].ranks = 1;
  spec.stages[0].nodes = 2;
  std::map<int, std::string> logs;
  const LaunchHandle h = Submit(spec);
  Observation last;
  while (last.state != State::kEnded) {
    auto seen = launcher_->Observe({&h, 1}, clock_.Now() + Millis{10'000}, 1);
    ASSERT_TRUE(seen.has_value());
    last = std::move(seen->front());
    for (const LogChunk& chunk : last.stages[0].log) {
      logs[chunk.rank] += chunk.bytes;
    }
  }
  EXPECT_EQ(logs[0], "0 of 2 at 127.0.0.1\n");
  EXPECT_EQ(logs[1], "1 of 2 at 127.0.0.1\n");
}

TEST_F(SshFaults, AProbeFindsAProgramAndCountsOtherLaunches) {
  const LaunchSpec spec = Waiting();
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "begun");
  const auto report = ProbeHost(options_, "node", folder_.path(), "sh");
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_TRUE(report->program.ends_with("/sh"));
  EXPECT_TRUE(report->root_writable && report->workdir_there);
  EXPECT_GE(report->jobs, 1);
  Go();
  ExpectDone(h);
}

}  // namespace
}  // namespace attune
