// What is special about jobs on this machine: real processes that misbehave, and a real file
// system.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "run_folder.h"
#include "unit/launch/local_under_test.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using State = Observation::State;

// Runs the real command behind a prefix, or answers for it.
class BentRunner final : public os::ProcessRunner {
 public:
  std::vector<std::string> prefix;
  bool lose_the_answer = false;
  Result<os::CommandResult> Run(const os::Command& command) override {
    os::Command bent = command;
    bent.argv.insert(bent.argv.begin(), prefix.begin(), prefix.end());
    auto result = real_.Run(bent);
    if (lose_the_answer) {
      return Fail(ErrorCode::kTimeout, "no answer in time");
    }
    return result;
  }

 private:
  os::PosixProcessRunner real_;
};

class LocalLauncher : public testing::Test {
 protected:
  LocalLauncher() : options_(QuickOptions(folder_.path() + "/runs", &clock_, &runner_)) {
    Restart();
  }
  ~LocalLauncher() override {
    for (const std::string& token : tokens_) {  // a failed test must leave no process either
      for (const pid_t pid : os::ProcessesCarrying("ATTUNE_TOKEN", token)) {
        kill(pid, SIGKILL);
      }
    }
  }
  void Restart() { launcher_ = MakeLocalLauncher(options_); }

  LaunchSpec SpecOf(std::vector<std::string> argv) {
    LaunchSpec spec;
    // Unique on the machine: processes are looked for by token.
    spec.token =
        Token("attune-t" + std::to_string(getpid()) + "-l" + std::to_string(tokens_.size()));
    tokens_.push_back(spec.token.value);
    spec.slots = 2;
    spec.limit = Millis{60'000};
    Stage stage;
    stage.run = RunId("r001");
    stage.argv = std::move(argv);
    stage.workdir = folder_.path();
    spec.stages = {stage};
    return spec;
  }
  LaunchSpec Train(const std::vector<std::string>& args) {
    std::vector<std::string> argv = {BuiltProgram("attune_fake_train"), "--fake-step-ms", "2",
                                     "--fake-startup-ms", "2"};
    argv.insert(argv.end(), args.begin(), args.end());
    return SpecOf(std::move(argv));
  }
  LaunchHandle Submit(const LaunchSpec& spec) {
    auto submitted = launcher_->Submit(spec);
    if (!submitted || !std::holds_alternative<Bound>(*submitted)) {
      ADD_FAILURE() << (submitted ? std::string("not bound") : submitted.error().message);
      return {};
    }
    return std::get<Bound>(*submitted).handle;
  }
  std::string RefusedWhy(const LaunchSpec& spec) {
    auto submitted = launcher_->Submit(spec);
    if (!submitted || !std::holds_alternative<SubmitRefused>(*submitted)) {
      ADD_FAILURE() << "not refused";
      return {};
    }
    return std::get<SubmitRefused>(*submitted).why;
  }

  struct Watch {
    std::map<int, std::string> logs;  // a rank, of the first stage
    Observation last;
  };
  Watch WatchUntil(const LaunchHandle& h, const std::string& text = {}) {
    Watch w;
    for (int i = 0; i < 10'000; ++i) {
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
  Watch RunToEnd(const LaunchSpec& spec) {
    Watch w = WatchUntil(Submit(spec));
    EXPECT_EQ(w.last.state, State::kEnded);
    return w;
  }
  std::string Folder(const LaunchSpec& spec) const {
    return folder_.path() + "/runs/" + spec.token.value;
  }
  launch::ExitRecord ExitOf(const LaunchSpec& spec, const std::string& stage = "r001") const {
    const auto bytes = launch::ReadRecordFile(Folder(spec) + "/a0/" + stage + "/exit");
    const auto exit = bytes ? launch::DecodeExit(*bytes) : std::nullopt;
    EXPECT_TRUE(exit.has_value());
    return exit.value_or(launch::ExitRecord{});
  }
  static pid_t PidOf(const LaunchHandle& h) {
    return static_cast<pid_t>(ParseInt(h.id).value_or(0));
  }
  static std::vector<pid_t> Carriers(const LaunchSpec& spec) {
    return os::ProcessesCarrying("ATTUNE_TOKEN", spec.token.value);
  }
  static void ExpectNoProcessLeft(const LaunchSpec& spec) {
    // The wrapper itself still has to exit after its exit record.
    for (int i = 0; i < 400 && !Carriers(spec).empty(); ++i) {
      usleep(5'000);
    }
    EXPECT_TRUE(Carriers(spec).empty());
  }
  static std::vector<std::string> SplitNul(const std::string& bytes) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto end = bytes.find('\0', at);
      out.push_back(bytes.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  BentRunner runner_;
  LocalOptions options_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<std::string> tokens_;
};

// ----- what reaches the job

TEST_F(LocalLauncher, ArgumentsArriveByteForByte) {
  const std::string echo = folder_.path() + "/args";
  const std::vector<std::string> nasty = {"--exit-interval",
                                          "1",
                                          "--fake-echo-args",
                                          echo,
                                          "--name",
                                          "two words",
                                          "'single'",
                                          "\"two\"",
                                          "$(touch /tmp/x)",
                                          "`id`",
                                          "a\nb",
                                          "",
                                          "-rf",
                                          "*",
                                          "\\",
                                          "\xc3\xa9",
                                          "\xff\xfe",
                                          "a=b=c",
                                          "--",
                                          "; exit 1"};
  const LaunchSpec spec = Train(nasty);
  EXPECT_EQ(RunToEnd(spec).last.stages[0].exit_code, 0);
  const auto arrived = SplitNul(*os::ReadFileBounded(echo, 1 << 20));
  const std::vector<std::string> sent(spec.stages[0].argv.begin() + 1, spec.stages[0].argv.end());
  EXPECT_EQ(arrived, sent);
}

TEST_F(LocalLauncher, TheJobSeesTheNodesEnvironmentTheStagesAndNothingOfOurs) {
  setenv("ATTUNE_LLM_API_KEY", "secret", 1);
  setenv("ATTUNE_STATE_DIR", "/x", 1);
  setenv("SLURM_JOB_ID", "17", 1);
  setenv("SOME_PASSWORD", "secret", 1);
  const std::string echo = folder_.path() + "/env";
  LaunchSpec spec = Train({"--exit-interval", "1", "--fake-echo-env", echo});
  spec.stages[0].env = {{"OMP_NUM_THREADS", "2"}, {"WITH_NEWLINE", "a\nb'\"$x"}, {"EMPTY", ""}};
  RunToEnd(spec);
  for (const char* name :
       {"ATTUNE_LLM_API_KEY", "ATTUNE_STATE_DIR", "SLURM_JOB_ID", "SOME_PASSWORD"}) {
    unsetenv(name);
  }
  const auto entries = SplitNul(*os::ReadFileBounded(echo, 1 << 20));
  std::set<std::string> expected = {"OMP_NUM_THREADS=2", "WITH_NEWLINE=a\nb'\"$x",
                                    "EMPTY=", "ATTUNE_TOKEN=" + spec.token.value,
                                    "ATTUNE_RUN_DIR=" + Folder(spec) + "/a0/r001"};
  for (const auto& [name, value] : os::NodeEnvironment(os::OwnEnvironment())) {
    expected.insert(name + "=" + value);
  }
  EXPECT_EQ(std::set<std::string>(entries.begin(), entries.end()), expected);
}

TEST_F(LocalLauncher, TheJobHasItsOwnSessionNoStdinAndNoDescriptorOfTheWrapper) {
  const LaunchSpec spec = SpecOf(
      {"/bin/sh", "-c",
       "ls /proc/self/fd | wc -l; readlink /proc/self/fd/0; pwd; ps -o sid= -p $$; echo $$"});
  const Watch w = RunToEnd(spec);
  const auto lines = SplitLines(w.logs.at(0));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(Trim(lines[0]), "4");
  EXPECT_EQ(lines[1], "/dev/null");
  EXPECT_EQ(lines[2], folder_.path());
  EXPECT_EQ(Trim(lines[3]), lines[4]);
}

TEST_F(LocalLauncher, RanksMeetByEnvironmentAndHaveALogEach) {
  LaunchSpec spec = SpecOf({"/bin/sh", "-c",
                            "echo rank $RANK of $WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                            "at $MASTER_ADDR; test -n \"$MASTER_PORT\""});
  spec.stages[0].ranks = 2;
  const Watch w = RunToEnd(spec);
  EXPECT_EQ(w.logs.at(0), "rank 0 of 2 local 0/2 at 127.0.0.1\n");
  EXPECT_EQ(w.logs.at(1), "rank 1 of 2 local 1/2 at 127.0.0.1\n");
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
}

TEST_F(LocalLauncher, TheFirstRankThatFailsEndsTheOthersAndItsCodeCounts) {
  LaunchSpec spec =
      SpecOf({"/bin/sh", "-c", "test $RANK = 1 && exit 3; trap 'exit 9' TERM; sleep 60 & wait"});
  spec.stages[0].ranks = 3;
  const Watch w = RunToEnd(spec);
  EXPECT_EQ(w.last.stages[0].exit_code, 3);
  EXPECT_EQ(ExitOf(spec).rank, 1);
  EXPECT_LT(w.last.stages[0].held, Millis{50'000});
  ExpectNoProcessLeft(spec);
}

TEST_F(LocalLauncher, AProgramThatCannotStartSaysWhyInItsLog) {
  const std::string text = folder_.path() + "/script";
  std::ofstream(text) << "no interpreter line\n";
  chmod(text.c_str(), 0700);
  for (const std::string& program : {std::string("attune-no-such-program"), text,
                                     folder_.path() + "/none", std::string("/etc/passwd")}) {
    const LaunchSpec spec = SpecOf({program});
    const Watch w = RunToEnd(spec);
    EXPECT_EQ(w.last.stages[0].exit_code, 127) << program;
    EXPECT_NE(w.logs.at(0).find("attune: "), std::string::npos);
    EXPECT_NE(w.logs.at(0).find(program), std::string::npos);
    EXPECT_EQ(ExitOf(spec).ending, launch::Ending::kExecFailed);
  }
}

// ----- jobs that misbehave

TEST_F(LocalLauncher, AHundredMegabytesOfOutputArriveWhole) {
  const LaunchSpec spec = Train({"--fake-print-mb", "100", "--exit-interval", "2"});
  const LaunchHandle h = Submit(spec);
  std::int64_t bytes = 0, most = 0;
  std::string end;
  Observation seen;
  do {
    auto o = launcher_->Observe({&h, 1}, clock_.Now() + Millis{10'000}, 1);
    ASSERT_TRUE(o.has_value());
    seen = std::move(o->front());
    std::int64_t now = 0;
    for (const LogChunk& chunk : seen.stages[0].log) {
      now += static_cast<std::int64_t>(chunk.bytes.size());
      end = (end + chunk.bytes)
                .substr(end.size() + chunk.bytes.size() > 4000
                            ? end.size() + chunk.bytes.size() - 4000
                            : 0);
    }
    bytes += now;
    most = std::max(most, now);
  } while (seen.state != State::kEnded);
  EXPECT_GT(bytes, 100 << 20);
  EXPECT_LE(most, 4 << 20);  // bounded a call, whatever the job prints
  EXPECT_NE(end.find("exiting program at iteration 2"), std::string::npos);
  EXPECT_EQ(seen.stages[0].exit_code, 0);
}

TEST_F(LocalLauncher, PastTheLogCapTheJobRunsOnAndItsLastWordsAreKept) {
  options_.log_cap = 1 << 20;
  Restart();
  const LaunchSpec spec = Train({"--fake-print-mb", "8", "--exit-interval", "3"});
  const Watch w = RunToEnd(spec);
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
  EXPECT_LT(w.logs.at(0).size(), (1U << 20) + (70U << 10));
  EXPECT_NE(w.logs.at(0).find("exiting program at iteration 3"), std::string::npos);
  EXPECT_GT(ExitOf(spec).log_dropped, 6 << 20);
}

TEST_F(LocalLauncher, ADiskThatFillsUpDoesNotEndTheJobOrItsRecords) {
  runner_.prefix = {"prlimit", "--fsize=20000"};
  const LaunchSpec spec = Train({"--fake-print-mb", "1", "--exit-interval", "3"});
  const Watch w = RunToEnd(spec);
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
  EXPECT_LE(w.logs.at(0).size(), 20'000U);
  EXPECT_GT(ExitOf(spec).log_dropped, 900'000);
}

TEST_F(LocalLauncher, ADiskThatIsFullAtSubmitIsAnErrorAndStartsNothing) {
  runner_.prefix = {"prlimit", "--fsize=10"};
  const LaunchSpec spec = Train({"--exit-interval", "1"});
  const auto submitted = launcher_->Submit(spec);
  ASSERT_FALSE(submitted.has_value());
  EXPECT_EQ(submitted.error().code, ErrorCode::kFull);
  EXPECT_FALSE(launcher_->Find(spec.token)->has_value());
  runner_.prefix.clear();
  EXPECT_EQ(RunToEnd(spec).last.stages[0].exit_code, 0);  // there is room again: same token
}

TEST_F(LocalLauncher, AChildThatEscapesItsSessionIsEndedWithItsStage) {
  const LaunchSpec spec = Train({"--fake-child-ms", "60000", "--exit-interval", "2"});
  const Watch w = RunToEnd(spec);
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
  EXPECT_GE(ExitOf(spec).strays, 1);
  EXPECT_EQ(ExitOf(spec).survivors, 0);
  EXPECT_LT(w.last.stages[0].held, Millis{50'000});
  ExpectNoProcessLeft(spec);
}

TEST_F(LocalLauncher, AChildThatWipedItsEnvironmentIsEndedToo) {
  const LaunchSpec spec = SpecOf(
      {"/bin/sh", "-c", "setsid env -i /bin/sh -c 'trap \"\" TERM; sleep 61.5; sleep 61.5' &"});
  const Watch w = RunToEnd(spec);
  EXPECT_GE(ExitOf(spec).strays, 1);
  EXPECT_LT(w.last.stages[0].held, Millis{50'000});
}

TEST_F(LocalLauncher, AHookThatWritesOutsideIsNotOursToStop) {
  const std::string path = folder_.path() + "/checkpoint";
  RunToEnd(Train({"--fake-write", path, "--exit-interval", "1"}));
  EXPECT_TRUE(os::Exists(path));  // the wrapper is no sandbox; the measured form removes such hooks
}

// ----- the wrapper's own death

TEST_F(LocalLauncher, AKilledWrapperIsLostChargedOnceAndLeavesNoProcess) {
  const LaunchSpec spec = Train({"--fake-hang-at", "3", "--fake-child-ms", "60000"});
  const Millis submitted = clock_.Monotonic();
  const LaunchHandle h = Submit(spec);
  const Millis bound = clock_.Monotonic();
  WatchUntil(h, "iteration        2/");
  const Millis killed = clock_.Monotonic();
  kill(PidOf(h), SIGKILL);
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kLost);
  EXPECT_EQ(w.last.source, ChargeSource::kLastBeat);
  EXPECT_FALSE(w.last.stages[0].ended);
  // The escaped child had lived on: charged until it was gone.
  EXPECT_GE(w.last.charged, ChargeFor(2, killed - bound));
  EXPECT_LE(w.last.charged, ChargeFor(2, clock_.Monotonic() - submitted));
  ExpectNoProcessLeft(spec);
  Restart();
  usleep(20'000);
  const Watch again = WatchUntil(h);
  EXPECT_EQ(again.last.charged, w.last.charged);
  EXPECT_EQ(again.last.end_hint, RunEnd::kLost);
  EXPECT_NE(again.logs.at(0).find("iteration        2/"), std::string::npos);
}

TEST_F(LocalLauncher, ALostLaunchIsChargedToItsLastSignPlusOneBeat) {
  const LaunchSpec spec = Train({});
  const std::string attempt = Folder(spec) + "/a0";
  ASSERT_TRUE(os::MakeFolder(attempt + "/r001").has_value());
  const launch::Plan plan{spec, {Millis{100}, Millis{10'000}, Millis{10}, 1 << 20}};
  ASSERT_TRUE(os::WriteFileAtomic(Folder(spec) + "/plan", launch::EncodePlan(plan)).has_value());
  launch::StartRecord start;
  start.token = spec.token.value;
  start.process = {1, 1, "another-boot"};  // the machine was restarted
  start.mono = Millis{1'000'000};
  start.wall_ms = clock_.Now().ms;
  ASSERT_TRUE(os::WriteFileAtomic(attempt + "/start", launch::Encode(start)).has_value());
  ASSERT_TRUE(os::WriteFileAtomic(attempt + "/r001/start", launch::Encode(start)).has_value());
  const launch::BeatRecord beat{0, Millis{1'050'000}, "r001", 0};
  ASSERT_TRUE(os::WriteFileAtomic(attempt + "/beat", launch::Encode(beat)).has_value());
  std::ofstream(attempt + "/r001/out") << "without a stamp\n";
  const auto found = launcher_->Find(spec.token);
  ASSERT_TRUE(found.has_value() && found->has_value());
  const Watch w = WatchUntil(**found);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.charged, ChargeFor(2, Millis{60'000}));
  EXPECT_EQ(w.last.source, ChargeSource::kLastBeat);
  EXPECT_EQ(w.logs.at(0), "without a stamp\n");
}

TEST_F(LocalLauncher, APidThatWasHandedOutAgainIsNeverSignalled) {
  const LaunchSpec spec = Train({});
  const std::string attempt = Folder(spec) + "/a0";
  ASSERT_TRUE(os::MakeFolder(attempt).has_value());
  const launch::Plan plan{spec, {}};
  ASSERT_TRUE(os::WriteFileAtomic(Folder(spec) + "/plan", launch::EncodePlan(plan)).has_value());
  launch::StartRecord start;
  start.token = spec.token.value;
  start.process = *os::Identify(getpid());  // "the wrapper" was an earlier owner of our own pid
  start.process.start_ticks -= 1;
  start.mono = clock_.Monotonic();
  start.wall_ms = clock_.Now().ms;
  ASSERT_TRUE(os::WriteFileAtomic(attempt + "/start", launch::Encode(start)).has_value());
  const LaunchHandle h = **launcher_->Find(spec.token);
  ASSERT_TRUE(launcher_->Cancel(h, std::nullopt).has_value());
  EXPECT_EQ(WatchUntil(h).last.end_hint, RunEnd::kLost);  // and we are still here
}

TEST_F(LocalLauncher, ASignalFromSomebodyElseIsCancelledOutside) {
  const LaunchSpec spec = Train({"--fake-hang-at", "3"});
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "iteration        2/");
  kill(PidOf(h), SIGTERM);
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kCancelledOutside);
  EXPECT_FALSE(w.last.stages[0].stopped_on_request);
  EXPECT_EQ(w.last.source, ChargeSource::kWrapper);
  ExpectNoProcessLeft(spec);
}

TEST_F(LocalLauncher, AStoppedWrapperStillHearsACancel) {
  const LaunchSpec spec = Train({"--fake-hang-at", "3"});
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, "iteration        2/");
  kill(PidOf(h), SIGSTOP);
  ASSERT_TRUE(launcher_->Cancel(h, std::nullopt).has_value());
  const Watch w = WatchUntil(h);
  EXPECT_TRUE(w.last.stages[0].stopped_on_request);
  EXPECT_EQ(w.last.source, ChargeSource::kWrapper);
}

TEST_F(LocalLauncher, AWrapperThatSleptThroughItsLimitIsEndedFromOutside) {
  options_.release_margin = Millis{200};
  Restart();
  LaunchSpec spec = Train({"--fake-hang-at", "2"});
  spec.limit = Millis{200};
  const LaunchHandle h = Submit(spec);
  kill(PidOf(h), SIGSTOP);
  const Watch w = WatchUntil(h);
  ASSERT_EQ(w.last.state, State::kEnded);
  EXPECT_EQ(w.last.end_hint, RunEnd::kLost);
  ExpectNoProcessLeft(spec);
}

// ----- submits of every fate

TEST_F(LocalLauncher, ASubmitWhoseAnswerIsLostIsFoundByItsToken) {
  runner_.lose_the_answer = true;
  const LaunchSpec spec = Train({"--exit-interval", "3"});
  const auto submitted = launcher_->Submit(spec);
  ASSERT_TRUE(submitted.has_value());
  EXPECT_TRUE(std::holds_alternative<SubmitUnknown>(*submitted));
  Restart();
  const auto found = launcher_->Find(spec.token);
  ASSERT_TRUE(found.has_value() && found->has_value());
  EXPECT_EQ(WatchUntil(**found).last.stages[0].exit_code, 0);
}

TEST_F(LocalLauncher, APlanWithoutAClaimIsCertainlyNotThereAndCanBeSubmittedAgain) {
  const LaunchSpec spec = Train({"--exit-interval", "3"});
  ASSERT_TRUE(os::MakeFolder(Folder(spec)).has_value());
  const launch::Plan plan{spec,
                          {options_.grace, options_.beat, options_.stop_poll, options_.log_cap}};
  ASSERT_TRUE(os::WriteFileAtomic(Folder(spec) + "/plan", launch::EncodePlan(plan)).has_value());
  EXPECT_FALSE(launcher_->Find(spec.token)->has_value());
  EXPECT_EQ(RunToEnd(spec).last.stages[0].exit_code, 0);
}

TEST_F(LocalLauncher, ManySubmittersOfOneTokenStartOneJob) {
  const LaunchSpec spec = Train({"--exit-interval", "3"});
  constexpr int kSubmitters = 6;
  std::vector<pid_t> pids;
  for (int i = 0; i < kSubmitters; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      auto submitted = launcher_->Submit(spec);
      _exit(submitted && std::holds_alternative<Bound>(*submitted) ? 0 : 1);
    }
    pids.push_back(pid);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const Watch w = WatchUntil(**launcher_->Find(spec.token));
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
  int attempts = 0;
  for (const auto& entry : fs::directory_iterator(Folder(spec))) {
    attempts += entry.is_directory() ? 1 : 0;
  }
  EXPECT_EQ(attempts, 1);
  EXPECT_NE(w.logs.at(0).find("iteration        3/"), std::string::npos);
  EXPECT_EQ(w.logs.at(0).find("iteration        1/"), w.logs.at(0).rfind("iteration        1/"));
}

TEST_F(LocalLauncher, ATwinOfTheWrapperStartsNothing) {
  const LaunchSpec spec = Train({"--fake-hang-at", "2"});
  const LaunchHandle h = Submit(spec);
  os::PosixProcessRunner runner;
  const std::vector<std::string> argv = {BuiltProgram("attune-wrapper"), "run", Folder(spec)};
  const auto twin = runner.Run(argv, Millis{30'000});
  ASSERT_TRUE(twin.has_value());
  EXPECT_EQ(twin->exit_code, 3);
  ASSERT_TRUE(launcher_->Cancel(h, std::nullopt).has_value());
  EXPECT_TRUE(WatchUntil(h).last.stages[0].stopped_on_request);
}

TEST_F(LocalLauncher, ATokenThatHoldsAnotherPlanIsRefused) {
  const LaunchSpec spec = Train({"--exit-interval", "1"});
  RunToEnd(spec);
  LaunchSpec other = spec;
  other.stages[0].argv.push_back("--other");
  EXPECT_NE(RefusedWhy(other).find("another plan"), std::string::npos);
}

TEST_F(LocalLauncher, ALinkInPlaceOfTheRunFolderIsRefusedAndNothingIsWrittenThere) {
  const LaunchSpec spec = Train({"--exit-interval", "1"});
  const std::string victim = folder_.path() + "/victim";
  fs::create_directory(victim);
  fs::create_directory(folder_.path() + "/runs");
  fs::create_directory_symlink(victim, Folder(spec));
  EXPECT_NE(RefusedWhy(spec).find("symbolic link"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(victim));
  EXPECT_FALSE(launcher_->Find(spec.token).has_value());
}

TEST_F(LocalLauncher, APlaceWhereNothingCanBeWrittenIsAnErrorNamingIt) {
  options_.run_root = "/sys/attune-runs";  // denied to root as well
  Restart();
  const auto submitted = launcher_->Submit(Train({}));
  ASSERT_FALSE(submitted.has_value());
  EXPECT_EQ(submitted.error().code, ErrorCode::kDenied);
  EXPECT_NE(submitted.error().message.find("/sys/attune-runs"), std::string::npos);
}

TEST_F(LocalLauncher, WhatCannotBeCarriedOutIsRefusedBeforeAnythingStarts) {
  LaunchSpec spec = Train({});
  spec.stages[0].workdir = folder_.path() + "/none";
  EXPECT_NE(RefusedWhy(spec).find("working folder"), std::string::npos);
  spec = Train({});
  spec.limit = Millis{0};
  EXPECT_NE(RefusedWhy(spec), "");
  EXPECT_FALSE(os::Exists(folder_.path() + "/runs"));
}

TEST_F(LocalLauncher, WithoutItsWrapperASubmitIsAnErrorWithHelp) {
  options_.wrapper = folder_.path() + "/attune-wrapper";
  Restart();
  const auto submitted = launcher_->Submit(Train({}));
  ASSERT_FALSE(submitted.has_value());
  EXPECT_EQ(submitted.error().code, ErrorCode::kNotFound);
}

// ----- files

TEST_F(LocalLauncher, FetchReadsBelowTheRunFolderAndNowhereElse) {
  const LaunchSpec spec =
      SpecOf({"/bin/sh", "-c",
              "cd \"$ATTUNE_RUN_DIR\" && printf 0123456789 > trace.json && mkfifo pipe && ln -s "
              "/etc/passwd link && ln -s /etc etc"});
  const LaunchHandle h = Submit(spec);
  const Watch w = WatchUntil(h);
  const auto fetch = [&](const std::string& path, std::int64_t offset = 0,
                         std::int64_t size = 100) {
    return launcher_->Fetch(h, path, offset, size);
  };
  EXPECT_EQ(*fetch("a0/r001/trace.json"), "0123456789");
  EXPECT_EQ(*fetch(w.last.stages[0].folder + "/trace.json", 3, 4), "3456");
  EXPECT_EQ(*fetch("a0/r001/trace.json", 50), "");
  EXPECT_EQ(fetch("a0/r001/none").error().code, ErrorCode::kNotFound);
  for (const char* bad : {"a0/r001/link", "a0/r001/etc/passwd", "a0/r001/pipe", "../x",
                          "/etc/passwd", "a0/r001", ""}) {
    EXPECT_FALSE(fetch(bad).has_value()) << bad;
  }
  EXPECT_FALSE(fetch("a0/r001/trace.json", -1).has_value());
  LaunchHandle foreign = h;
  foreign.folder = "/etc";
  EXPECT_FALSE(launcher_->Fetch(foreign, "passwd", 0, 10).has_value());
}

TEST_F(LocalLauncher, NoFileOfALaunchIsOpenToOthers) {
  const LaunchSpec spec = Train({"--exit-interval", "1"});
  RunToEnd(spec);
  for (const auto& entry : fs::recursive_directory_iterator(Folder(spec))) {
    struct stat st {};
    ASSERT_EQ(lstat(entry.path().c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 077, 0U) << entry.path();
  }
}

}  // namespace
}  // namespace attune
