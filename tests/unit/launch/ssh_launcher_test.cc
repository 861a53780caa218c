// The ssh launcher over lines that break, hosts that are gone, and several hosts a job. A runner
// takes ssh's place; tests/real/ssh does it over a real sshd.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "attune/base/text.h"
#include "attune/launch/run_log.h"
#include "attune/launch/ssh.h"
#include "attune/os/files.h"
#include "attune/os/process.h"
#include "fakes/one_run.h"
#include "run_folder.h"
#include "unit/launch/loop_ssh.h"
#include "unit/launch/ssh_under_test.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using Line = LoopSsh::Line;
using State = Observation::State;

// Of a machine whose clock is an hour off.
class HourAhead final : public Clock {
 public:
  Instant Now() override { return real_.Now() + Millis{3'600'000}; }
  Millis Monotonic() override { return real_.Monotonic() + Millis{77'000}; }
  void SleepUntil(Instant t) override { real_.SleepUntil(t - Millis{3'600'000}); }

 private:
  SystemClock real_;
};

class SshLauncher : public testing::Test {
 protected:
  SshLauncher() : options_(QuickSsh(folder_.path(), &clock_, &ssh_)) { Restart(); }
  ~SshLauncher() override {
    launcher_.reset();
    for (const std::string& token : tokens_) {  // a failed test must leave no process either
      for (const std::string& share : {token, token + ".n1", token + ".n2"}) {
        for (const pid_t pid : os::ProcessesCarrying("ATTUNE_TOKEN", share)) {
          kill(pid, SIGKILL);
        }
      }
    }
  }
  void Restart() {
    launcher_.reset();
    launcher_ = MakeSshLauncher(options_);
    // The wrapper is there from here on: what a test breaks is the call that it means.
    EXPECT_TRUE(launcher_->Find(Token("attune-nobody")).has_value());
  }
  static const std::string& Home() {
    static const TemporaryFolder home;
    return home.path();
  }

  LaunchSpec SpecOf(std::vector<std::string> argv) {
    tokens_.push_back("attune-s" + std::to_string(getpid()) + "-l" +
                      std::to_string(tokens_.size()));
    return fakes::OneRun(Token(tokens_.back()), std::move(argv), folder_.path());
  }
  LaunchSpec Shell(const std::string& text) { return SpecOf({"/bin/sh", "-c", text}); }
  LaunchSpec OverHosts(const std::string& text, int nodes, int ranks) {
    LaunchSpec spec = Shell(text);
    spec.stages[0].kind = RanksKind::kEnv;
    spec.stages[0].ranks = ranks;
    spec.stages[0].nodes = nodes;
    return spec;
  }
  LaunchHandle Submit(const LaunchSpec& spec) {
    auto submitted = launcher_->Submit(spec);
    if (!submitted || !std::holds_alternative<Bound>(*submitted)) {
      ADD_FAILURE() << (submitted ? std::string("not bound") : submitted.error().message);
      return {};
    }
    return std::get<Bound>(*submitted).handle;
  }
  struct Watch {
    std::map<int, std::string> logs;  // a rank, of the first stage
    Observation last;
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
      for (const StageObservation& s : w.last.stages) {
        for (const LogChunk& chunk : s.log) {
          w.logs[chunk.rank] += chunk.bytes;
        }
      }
      if (w.last.state == State::kEnded ||
          (!text.empty() && w.logs[0].find(text) != std::string::npos)) {
        break;
      }
    }
    return w;
  }
  Observation LookOnce(const LaunchHandle& h) {
    auto seen = launcher_->Observe({&h, 1}, clock_.Now(), 1);
    EXPECT_TRUE(seen.has_value());
    return seen ? std::move(seen->front()) : Observation{};
  }
  std::string OnHost(const LaunchSpec& spec, const std::string& share = "") const {
    return folder_.path() + "/on-hosts/" + spec.token.value + share;
  }
  static bool Runs(const std::string& token) {
    return !os::ProcessesCarrying("ATTUNE_TOKEN", token).empty();
  }
  static void ExpectNothingRuns(const std::string& token) {
    for (int i = 0; i < 400 && Runs(token); ++i) {
      usleep(5'000);
    }
    EXPECT_FALSE(Runs(token));
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  LoopSsh ssh_{Home()};
  SshOptions options_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<std::string> tokens_;
};

TEST_F(SshLauncher, TheMirrorTooKnowsWhatCameThroughStderr) {
  const LaunchSpec spec = Shell("echo one; echo 'went wrong' >&2; exit 3");
  const Watch w = WatchUntil(Submit(spec));
  ASSERT_EQ(w.last.stages[0].exit_code, 3);
  const auto ranges = StderrRanges(w.last.stages[0].folder, 0);
  ASSERT_TRUE(ranges.has_value());
  ASSERT_EQ(ranges->size(), 1U);
  EXPECT_EQ(
      w.logs.at(0).substr(static_cast<std::size_t>(ranges->front().from),
                          static_cast<std::size_t>(ranges->front().end - ranges->front().from)),
      "went wrong\n");
}

// ----- submit

TEST_F(SshLauncher, ALineThatBreaksDuringASubmitStartsOneJob) {
  ssh_.next = {Line::kAnswerLost};
  const LaunchSpec spec = Shell("echo once");
  const LaunchHandle h = Submit(spec);  // the second try is told of the first one's start
  const Watch w = WatchUntil(h);
  EXPECT_EQ(w.logs.at(0), "once\n");
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
}

TEST_F(SshLauncher, ASubmitWithoutAnAnswerIsUnknownAndFoundByItsToken) {
  ssh_.next = {Line::kAnswerLost, Line::kRefused};
  const LaunchSpec spec = Shell("echo once");
  const auto submitted = launcher_->Submit(spec);
  ASSERT_TRUE(submitted.has_value());
  EXPECT_TRUE(std::holds_alternative<SubmitUnknown>(*submitted));
  Restart();
  const auto found = launcher_->Find(spec.token);
  ASSERT_TRUE(found.has_value() && found->has_value());
  EXPECT_EQ(WatchUntil(**found).logs.at(0), "once\n");
}

TEST_F(SshLauncher, ASubmitThatDidNotArriveIsCertainlyNotThereAndCanBeRepeated) {
  ssh_.next = {Line::kSilent, Line::kRefused};
  const LaunchSpec spec = Shell("echo once");
  EXPECT_TRUE(std::holds_alternative<SubmitUnknown>(*launcher_->Submit(spec)));
  const auto found = launcher_->Find(spec.token);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->has_value());
  EXPECT_EQ(WatchUntil(Submit(spec)).logs.at(0), "once\n");
}

TEST_F(SshLauncher, AHostThatIsDownBeforeAnySubmitIsAnErrorAndNothingRuns) {
  launcher_ = MakeSshLauncher(options_);  // nothing is known of the host yet
  ssh_.down = {"gpu01"};
  const LaunchSpec spec = Shell("echo once");
  const auto submitted = launcher_->Submit(spec);
  ASSERT_FALSE(submitted.has_value());
  EXPECT_EQ(submitted.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(submitted.error().message.find("gpu01: ssh: connect to host"), std::string::npos)
      << submitted.error().message;
  EXPECT_FALSE(os::Exists(OnHost(spec)));
}

TEST_F(SshLauncher, AHostThatRefusesOurKeyIsDeniedAndNotAskedTwice) {
  launcher_ = MakeSshLauncher(options_);
  ssh_.next = {Line::kDenied};
  const int before = ssh_.calls["gpu01"];
  const auto submitted = launcher_->Submit(Shell("echo once"));
  ASSERT_FALSE(submitted.has_value());
  EXPECT_EQ(submitted.error().code, ErrorCode::kDenied);
  EXPECT_EQ(ssh_.calls["gpu01"], before);
}

TEST_F(SshLauncher, AHostThatNobodyKnowsIsASlipOnlyUntilItHasAnswered) {
  options_.patience = Millis{60'000};
  launcher_ = MakeSshLauncher(options_);
  ssh_.next = {Line::kNoSuchName};
  const int before = ssh_.calls["gpu01"];
  const auto submitted = launcher_->Submit(Shell("echo once"));
  ASSERT_FALSE(submitted.has_value());
  EXPECT_EQ(submitted.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ssh_.calls["gpu01"], before);
  // Known before: its network is away for a while.
  EXPECT_TRUE(launcher_->Find(Token("attune-nobody")).has_value());
  ssh_.next = {Line::kNoSuchName, Line::kNoSuchName};
  EXPECT_TRUE(launcher_->Find(Token("attune-nobody")).has_value());
}

TEST_F(SshLauncher, APatientSubmitWaitsForAHostToComeBack) {
  options_.patience = Millis{60'000};
  launcher_ = MakeSshLauncher(options_);
  ssh_.next = {Line::kRefused, Line::kRefused};  // both tries of the first call
  EXPECT_EQ(WatchUntil(Submit(Shell("echo once"))).logs.at(0), "once\n");
}

TEST_F(SshLauncher, AWorkingFolderThatIsNotOnTheHostIsRefused) {
  LaunchSpec spec = Shell("echo once");
  spec.stages[0].workdir = folder_.path() + "/nowhere";
  const auto submitted = launcher_->Submit(spec);
  ASSERT_TRUE(submitted.has_value() && std::holds_alternative<SubmitRefused>(*submitted));
  EXPECT_NE(std::get<SubmitRefused>(*submitted).why.find("/nowhere of run r001 does not exist on"),
            std::string::npos);
}

TEST_F(SshLauncher, ARunRootThatCantBeWrittenIsAnErrorAndNothingRuns) {
  options_.run_root = "/proc/attune";
  Restart();
  EXPECT_FALSE(std::holds_alternative<Bound>(
      launcher_->Submit(Shell("echo once")).value_or(Submitted(SubmitRefused{}))));
}

TEST_F(SshLauncher, ArgumentsArriveByteForByteAndNoShellSeesThem) {
  const std::vector<std::string> args = fakes::HostileArguments();
  LaunchSpec spec = SpecOf({"/bin/sh", "-c", R"(printf '%s\0' "$@")", "job"});
  spec.stages[0].argv.insert(spec.stages[0].argv.end(), args.begin(), args.end());
  spec.stages[0].env = {{"WITH", "it's $(odd)\n"}};
  std::string expected;
  for (const std::string& arg : args) {
    expected += arg + '\0';
  }
  const Watch w = WatchUntil(Submit(spec));
  EXPECT_EQ(w.logs.at(0), expected);
  EXPECT_FALSE(os::Exists(folder_.path() + "/pwned"));
  for (const std::string& command : ssh_.remote_commands) {
    EXPECT_EQ(command.find("--flag-"), std::string::npos);
    EXPECT_EQ(command.find("odd"), std::string::npos);
    EXPECT_EQ(command.find('\n'), std::string::npos);
  }
}

TEST_F(SshLauncher, AWrapperThatWasDamagedOrRemovedThereIsCopiedAgain) {
  const std::string cache = Home() + "/.cache/attune";
  for (const bool remove : {false, true}) {
    for (const auto& entry : fs::directory_iterator(cache)) {
      if (remove) {
        fs::remove(entry.path());
      } else {
        fs::resize_file(entry.path(), 100);
        launcher_ = MakeSshLauncher(options_);  // content is compared once a process
      }
    }
    EXPECT_EQ(WatchUntil(Submit(Shell("echo once"))).logs.at(0), "once\n");
  }
}

// ----- a line that breaks while a job runs

TEST_F(SshLauncher, ALostLineIsNoLostJob) {
  const LaunchSpec spec = Shell("echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done");
  const LaunchHandle h = Submit(spec);
  Watch w = WatchUntil(h, "begun");
  ssh_.down = {"gpu01"};
  Observation silent;
  silent.state = State::kRunning;
  for (int i = 0; i < 100 && silent.state != State::kUnknown; ++i) {
    silent = LookOnce(h);
  }
  EXPECT_EQ(silent.state, State::kUnknown);
  EXPECT_EQ(silent.scheduler_word, "no news from gpu01");
  EXPECT_NE(silent.detail.find("Connection refused"), std::string::npos) << silent.detail;
  EXPECT_TRUE(silent.stages[0].started);
  EXPECT_TRUE(os::WriteFileAtomic(folder_.path() + "/go", "").has_value());
  ssh_.down.clear();
  w = WatchUntil(h);
  EXPECT_EQ(w.logs.at(0), "done\n");
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
  EXPECT_FALSE(w.last.end_hint.has_value());
}

TEST_F(SshLauncher, AnAnswerCutInTheMiddleIsNoNews) {
  const LaunchHandle h = Submit(Shell("echo begun; sleep 0.2; echo done"));
  ssh_.next = {Line::kAnswerCut};
  const Watch w = WatchUntil(h);
  EXPECT_EQ(w.logs.at(0), "begun\ndone\n");
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
}

TEST_F(SshLauncher, AHostThatNeverAnswersAgainIsGivenUpAfterTheLimitAtTheFullHold) {
  options_.give_up = Millis{0};
  options_.release_margin = Millis{100};
  Restart();
  LaunchSpec spec = Shell("echo begun; sleep 60");
  spec.limit = Millis{300};
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "begun");
  ssh_.down = {"gpu01"};
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kNodeFailed);
  EXPECT_EQ(w.last.source, ChargeSource::kFullHold);
  EXPECT_EQ(w.last.charged, ChargeFor(2, Millis{400}));
  EXPECT_EQ(w.last.nodes, "gpu01");
  EXPECT_EQ(w.last.failed_nodes, std::vector<std::string>{"gpu01"});
}

TEST_F(SshLauncher, ALaunchThatIsOverIsReadFromItsMirrorWithoutItsHost) {
  const LaunchHandle h = Submit(Shell("echo done"));
  const Watch before = WatchUntil(h);
  Restart();
  ssh_.down = {"gpu01"};
  const Watch again = WatchUntil(h);
  EXPECT_EQ(again.last.state, State::kEnded);
  EXPECT_EQ(again.logs.at(0), "done\n");
  EXPECT_EQ(again.last.charged, before.last.charged);
}

TEST_F(SshLauncher, ACancelThatCantBeToldIsAnError) {
  const LaunchSpec spec = Shell("echo begun; sleep 60");
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "begun");
  ssh_.down = {"gpu01"};
  const Status said = launcher_->Cancel(h, std::nullopt);
  ASSERT_FALSE(said.has_value());
  EXPECT_EQ(said.error().code, ErrorCode::kUnavailable);
  ssh_.down.clear();
  ASSERT_TRUE(launcher_->Cancel(h, std::nullopt).has_value());
  EXPECT_TRUE(WatchUntil(h).last.stages[0].stopped_on_request);
}

// ----- what happens on the host

TEST_F(SshLauncher, AKilledWrapperIsLostAndLeavesNoProcess) {
  const LaunchSpec spec = Shell("setsid sleep 60 & echo begun; sleep 60");
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "begun");
  const auto pid = ParseInt(h.id.substr(h.id.find(':') + 1));
  kill(static_cast<pid_t>(pid.value_or(0)), SIGKILL);
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kLost);
  EXPECT_EQ(w.last.source, ChargeSource::kLastBeat);
  ExpectNothingRuns(spec.token.value);
  Restart();
  EXPECT_EQ(WatchUntil(h).last.charged, w.last.charged);
}

TEST_F(SshLauncher, AHostThatWasRestartedIsLostChargedToItsLastSignPlusOneBeat) {
  const LaunchSpec spec = Shell("true");
  const std::string attempt = OnHost(spec) + "/a0";
  ASSERT_TRUE(os::MakeFolder(attempt + "/r001").has_value());
  const launch::Plan plan{spec, {Millis{100}, Millis{10'000}, Millis{10}, 1 << 20}};
  ASSERT_TRUE(os::WriteFileAtomic(OnHost(spec) + "/plan", launch::EncodePlan(plan)).has_value());
  launch::StartRecord start;
  start.token = spec.token.value;
  start.process = {1, 1, "the-boot-before"};
  start.mono = Millis{1'000'000};
  start.wall_ms = clock_.Now().ms;
  ASSERT_TRUE(os::WriteFileAtomic(attempt + "/start", launch::Encode(start)).has_value());
  ASSERT_TRUE(os::WriteFileAtomic(attempt + "/r001/start", launch::Encode(start)).has_value());
  const launch::BeatRecord beat{0, Millis{1'050'000}, "r001", 0};
  ASSERT_TRUE(os::WriteFileAtomic(attempt + "/beat", launch::Encode(beat)).has_value());
  ASSERT_TRUE(os::WriteFileAtomic(attempt + "/r001/out", "without a stamp\n").has_value());
  const auto found = launcher_->Find(spec.token);  // submitted from elsewhere: there is no mirror
  ASSERT_TRUE(found.has_value() && found->has_value());
  const Watch w = WatchUntil(**found);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kLost);
  EXPECT_EQ(w.last.charged, ChargeFor(2, Millis{60'000}));
  EXPECT_EQ(w.logs.at(0), "without a stamp\n");
}

TEST_F(SshLauncher, ARunFolderThatIsRemovedUnderAJobCostsItsFullHold) {
  const LaunchSpec spec = Shell("echo begun; sleep 60");
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "begun");
  fs::remove_all(OnHost(spec));
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kNodeFailed);
  EXPECT_EQ(w.last.charged, ChargeFor(2, spec.limit + launcher_->ReleaseMargin()));
}

TEST_F(SshLauncher, AClockAnHourOffChangesNoTimeOfARun) {
  HourAhead ahead;
  options_.clock = &ahead;
  Restart();
  const LaunchHandle h = Submit(Shell("echo begun; sleep 0.1; echo done"));
  const Instant submitted = ahead.Now();
  Watch w;
  do {
    auto seen = launcher_->Observe({&h, 1}, ahead.Now() + Millis{10'000}, 1);
    ASSERT_TRUE(seen.has_value());
    w.last = std::move(seen->front());
  } while (w.last.state != State::kEnded);
  const StageObservation& stage = w.last.stages[0];
  EXPECT_EQ(stage.exit_code, 0);
  EXPECT_LT(std::abs(stage.started_wall_ms - submitted.ms), 60'000);
  EXPECT_LT(std::abs(stage.last_beat_wall_ms - submitted.ms), 60'000);
  EXPECT_GE(stage.held, Millis{100});
  EXPECT_LT(stage.held, Millis{60'000});
}

TEST_F(SshLauncher, OutputLongerThanOneAnswerArrivesWhole) {
  const LaunchHandle h =
      Submit(Shell("head -c 9000000 /dev/zero | tr '\\0' x; echo; echo the end"));
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.logs.at(0).size(), 9'000'000U + 9U);
  EXPECT_TRUE(w.logs.at(0).ends_with("x\nthe end\n"));
}

TEST_F(SshLauncher, FilesOfARunAreFetchedInPartsAndNothingElseIs) {
  const LaunchSpec spec = Shell("echo 0123456789 > $ATTUNE_RUN_DIR/trace.json");
  const LaunchHandle h = Submit(spec);
  WatchUntil(h);
  const auto part = launcher_->Fetch(h, "a0/r001/trace.json", 3, 4);
  ASSERT_TRUE(part.has_value()) << part.error().message;
  EXPECT_EQ(*part, "3456");
  EXPECT_EQ(launcher_->Fetch(h, h.folder + "/a0/r001/trace.json", 8, 100).value_or(""), "89\n");
  EXPECT_EQ(launcher_->Fetch(h, "a0/r001/absent", 0, 4).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(launcher_->Fetch(h, "../../../etc/passwd", 0, 4).has_value());
}

// ----- several hosts

TEST_F(SshLauncher, WhatAJobLeftBelowItsFolderIsBroughtHere) {
  LaunchSpec spec = Shell(
      "mkdir -p $D/deep && echo one >$D/a && echo three >$D/deep/b && "
      "head -c 2000 /dev/zero >$D/big && ln -s /etc/passwd $D/link");
  spec.stages[0].env["D"] = OnHost(spec) + "/scratch/r001";
  const LaunchHandle h = Submit(spec);
  WatchUntil(h);
  const auto root = launcher_->BringHere(h, "scratch/r001", 1'000);
  ASSERT_TRUE(root.has_value()) << root.error().message;
  EXPECT_EQ(os::ReadFileBounded(*root + "/scratch/r001/a", 100), "one\n");
  EXPECT_EQ(os::ReadFileBounded(*root + "/scratch/r001/deep/b", 100), "three\n");
  EXPECT_FALSE(os::Exists(*root + "/scratch/r001/big")) << "more than was allowed";
  EXPECT_FALSE(os::Exists(*root + "/scratch/r001/link"));
  const int before = ssh_.calls["gpu01"];
  ASSERT_TRUE(launcher_->BringHere(h, "scratch/r001", 1'000).has_value());
  EXPECT_EQ(ssh_.calls["gpu01"], before + 1) << "what is here is not fetched again";
  EXPECT_EQ(launcher_->BringHere(h, "../r001", 1'000).error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(launcher_->BringHere(h, "scratch/r002", 1'000).has_value());
}

TEST_F(SshLauncher, RanksOfSeveralHostsKnowTheirPlaces) {
  options_.hosts = {"gpu01", "gpu02"};
  Restart();
  LaunchSpec spec = OverHosts(
      "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT", 2,
      2);
  spec.slots = 3;
  const Watch w = WatchUntil(Submit(spec));
  ASSERT_EQ(w.last.state, State::kEnded);
  const std::string first = w.last.nodes.substr(0, 5);
  EXPECT_EQ(w.last.nodes.size(), 11U);
  const std::string where = w.logs.at(0).substr(w.logs.at(0).find(" at "));
  EXPECT_TRUE(where.starts_with(" at " + first + ".example:2") ||
              where.starts_with(" at " + first + ".example:3"))
      << where;
  EXPECT_EQ(w.logs.at(0), "0 of 4, 0 of 2" + where);
  EXPECT_EQ(w.logs.at(1), "1 of 4, 1 of 2" + where);
  EXPECT_EQ(w.logs.at(2), "2 of 4, 0 of 2" + where);
  EXPECT_EQ(w.logs.at(3), "3 of 4, 1 of 2" + where);
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
  EXPECT_FALSE(w.last.end_hint.has_value());
  EXPECT_GE(w.last.charged, ChargeFor(3, Millis{1}));
}

TEST_F(SshLauncher, AHostWhoseRankFailsEndsTheOthersAndSpeaksForTheRun) {
  options_.hosts = {"gpu01", "gpu02", "gpu03"};
  Restart();
  LaunchSpec spec =
      OverHosts("if [ $RANK = 1 ]; then echo bad; exit 5; fi; echo waiting; sleep 60", 3, 1);
  spec.slots = 3;
  const Watch w = WatchUntil(Submit(spec));
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_TRUE(w.last.stages[0].ended);
  EXPECT_EQ(w.last.stages[0].exit_code, 5);
  EXPECT_FALSE(w.last.stages[0].stopped_on_request);
  ExpectNothingRuns(spec.token.value);
  ExpectNothingRuns(spec.token.value + ".n2");
}

TEST_F(SshLauncher, CancellingReachesEveryHost) {
  options_.hosts = {"gpu01", "gpu02"};
  Restart();
  const LaunchSpec spec = OverHosts("echo begun; sleep 60", 2, 1);
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "begun");
  ASSERT_TRUE(launcher_->Cancel(h, std::nullopt).has_value());
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_TRUE(w.last.stages[0].stopped_on_request);
  EXPECT_FALSE(w.last.end_hint.has_value());
  ExpectNothingRuns(spec.token.value + ".n1");
}

TEST_F(SshLauncher, AHostThatRefusesItsShareEndsTheLaunchAsNeverStarted) {
  options_.hosts = {"gpu01", "gpu02"};
  Restart();
  const LaunchSpec spec = OverHosts("echo begun; sleep 60", 2, 1);
  ASSERT_TRUE(os::MakeFolder(OnHost(spec, ".n1")).has_value());
  ASSERT_TRUE(os::WriteFileAtomic(OnHost(spec, ".n1") + "/plan", "another's").has_value());
  const LaunchHandle h = Submit(spec);
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kNeverStarted);
  ExpectNothingRuns(spec.token.value);
}

TEST_F(SshLauncher, AHostThatIsDownKeepsAllOthersFromStarting) {
  options_.hosts = {"gpu01", "gpu02"};
  launcher_ = MakeSshLauncher(options_);
  ssh_.down = {"gpu02"};
  const LaunchSpec spec = OverHosts("sleep 60", 2, 1);
  ASSERT_FALSE(launcher_->Submit(spec).has_value());
  EXPECT_FALSE(os::Exists(OnHost(spec)));
  EXPECT_FALSE(os::Exists(OnHost(spec, ".n1")));
}

TEST_F(SshLauncher, HostsThatFailedBeforeAreLeftOut) {
  options_.hosts = {"gpu01", "gpu02"};
  Restart();
  for (const char* failed : {"gpu01", "gpu02"}) {
    LaunchSpec spec = Shell("true");
    spec.exclude = {failed};
    const Watch w = WatchUntil(Submit(spec));
    EXPECT_NE(w.last.nodes, failed);
  }
  LaunchSpec spec = Shell("true");
  spec.exclude = {"gpu01", "gpu02"};
  EXPECT_TRUE(std::holds_alternative<SubmitRefused>(*launcher_->Submit(spec)));
}

TEST_F(SshLauncher, AnExcludedHostIsStillWhereAnEarlierSubmitWent) {
  options_.hosts = {"gpu01", "gpu02"};
  Restart();
  LaunchSpec spec = Shell("echo once; sleep 0.1");
  const LaunchHandle first = Submit(spec);
  Restart();
  spec.exclude = {first.id.substr(0, 5)};
  EXPECT_EQ(Submit(spec).id, first.id);
  EXPECT_EQ(WatchUntil(first).logs.at(0), "once\n");
}

// ----- doctor

TEST_F(SshLauncher, AProbeSaysWhatAHostIsLike) {
  const auto there = ProbeHost(options_, "gpu01", folder_.path(), "sh");
  ASSERT_TRUE(there.has_value()) << there.error().message;
  EXPECT_TRUE(there->program == "/usr/bin/sh" || there->program == "/bin/sh");
  EXPECT_TRUE(there->workdir_there && there->root_writable);
  EXPECT_GT(there->cores, 0);
  EXPECT_GT(there->free_bytes, 0);
  EXPECT_LT(std::abs(there->clock_ahead.count()), 60'000);
  HourAhead ahead;
  options_.clock = &ahead;
  options_.run_root = "/dev/null/runs";
  const auto off = ProbeHost(options_, "gpu01", "/nowhere", "no-such-program");
  ASSERT_TRUE(off.has_value());
  EXPECT_NEAR(static_cast<double>(off->clock_ahead.count()), -3'600'000.0, 60'000.0);
  EXPECT_FALSE(off->workdir_there || off->root_writable);
  EXPECT_EQ(off->program, "");
}

}  // namespace
}  // namespace attune
