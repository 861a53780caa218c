// Wrappers that die, submits of every fate, and the files of a launch.
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "unit/launch/local_fixture.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using State = Observation::State;

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
