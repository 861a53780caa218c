// What reaches a job on this machine, and jobs that misbehave.
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "attune/launch/run_log.h"
#include "unit/launch/local_fixture.h"

namespace attune {
namespace {

using State = Observation::State;

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
  auto entries = SplitNul(*os::ReadFileBounded(echo, 1 << 20));
  // A port that is free at the start: another one each time.
  EXPECT_EQ(std::erase_if(entries, [](const auto& e) { return e.starts_with("ATTUNE_PORT="); }),
            1U);
  std::set<std::string> expected = {"OMP_NUM_THREADS=2", "WITH_NEWLINE=a\nb'\"$x",
                                    "EMPTY=", "ATTUNE_TOKEN=" + spec.token.value,
                                    "ATTUNE_RUN_DIR=" + Folder(spec) + "/a0/r001"};
  for (const auto& [name, value] : os::NodeEnvironment(os::OwnEnvironment())) {
    expected.insert(name + "=" + value);
  }
  EXPECT_EQ(std::set<std::string>(entries.begin(), entries.end()), expected);
}

TEST_F(LocalLauncher, ALaunchScriptIsHandedArgumentsAndEnvironmentInFiles) {
  LaunchSpec spec = Train({});
  Stage& stage = spec.stages[0];
  stage.kind = RanksKind::kNone;
  stage.ranks = 0;
  stage.script =
      "#!/bin/sh\n"
      "echo \"$# arguments, in $PWD, A is $A\"\n"
      "cat \"$ATTUNE_ARGS_FILE\" && echo -- && cat \"$ATTUNE_ENV_FILE\"\n"
      "cmp \"$0\" \"$ATTUNE_RUN_DIR/script\" && exit 3\n";
  stage.argv = {"--a", "", " two words ", "$(id)", "'\"`\\", "\xc3\xa4", "-n"};
  stage.env = {{"A", "b c"}, {"EMPTY", ""}};
  const Watch w = RunToEnd(spec);
  EXPECT_EQ(w.last.stages[0].exit_code, 3);
  EXPECT_EQ(w.logs.at(0), "0 arguments, in " + folder_.path() +
                              ", A is b c\n--a\n\n two words \n$(id)\n'\"`\\\n\xc3\xa4\n-n\n--\n"
                              "A=b c\nEMPTY=\n");
  EXPECT_EQ(*os::ReadFileBounded(Folder(spec) + "/a0/r001/script", 1 << 20), stage.script);
}

TEST_F(LocalLauncher, ALaunchScriptThatNothingCanExecuteEndsWithTheReason) {
  LaunchSpec spec = Train({});
  spec.stages[0].kind = RanksKind::kNone;
  spec.stages[0].ranks = 0;
  spec.stages[0].script = "#!/no/such/shell\n";
  const Watch w = RunToEnd(spec);
  EXPECT_EQ(w.last.stages[0].exit_code, 127);
  EXPECT_NE(w.logs.at(0).find("No such file"), std::string::npos) << w.logs.at(0);
}

TEST_F(LocalLauncher, TheJobHasItsOwnSessionNoStdinAndNoDescriptorOfTheWrapper) {
  const LaunchSpec spec = SpecOf({"/bin/sh", "-c",
                                  "ls /proc/self/fd | wc -l; readlink /proc/self/fd/0; pwd; cut "
                                  "-d' ' -f6 /proc/$$/stat; echo $$"});
  const Watch w = RunToEnd(spec);
  const auto lines = SplitLines(w.logs.at(0));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(Trim(lines[0]), "4");
  EXPECT_EQ(lines[1], "/dev/null");
  EXPECT_EQ(lines[2], folder_.path());
  EXPECT_EQ(Trim(lines[3]), lines[4]);
}

std::string StderrOf(const std::string& folder, int rank = 0) {
  const std::string name = rank == 0 ? "/out" : "/out." + std::to_string(rank);
  const std::string out = *os::ReadFileBounded(folder + name, 1 << 20);
  std::string text;
  const auto ranges = StderrRanges(folder, rank);
  EXPECT_TRUE(ranges.has_value());
  for (const LogRange& r : ranges.value_or(std::vector<LogRange>())) {
    text += out.substr(static_cast<std::size_t>(r.from), static_cast<std::size_t>(r.end - r.from));
  }
  return text;
}

TEST_F(LocalLauncher, OneLogHoldsBothStreamsAndKnowsThemApart) {
  LaunchSpec spec =
      SpecOf({"/bin/sh", "-c", "printf 'step'; echo \"warning $RANK\" >&2; echo ' 1'; echo done"});
  spec.stages[0].kind = RanksKind::kEnv;
  spec.stages[0].ranks = 2;
  const Watch w = RunToEnd(spec);
  const std::string folder = Folder(spec) + "/a0/r001";
  for (const int rank : {0, 1}) {
    const std::string warning = "warning " + std::to_string(rank) + "\n";
    EXPECT_EQ(StderrOf(folder, rank), warning);
    std::string rest = w.logs.at(rank);
    EXPECT_EQ(rest.size(), std::string("step 1\ndone\n").size() + warning.size());
    const std::size_t at = rest.find(warning);
    ASSERT_NE(at, std::string::npos) << rest;
    rest.erase(at, warning.size());
    EXPECT_EQ(rest, "step 1\ndone\n");
  }
}

TEST_F(LocalLauncher, WhatASilentJobSaysThroughStderrIsNothing) {
  const LaunchSpec spec = SpecOf({"/bin/sh", "-c", "echo one; echo two"});
  RunToEnd(spec);
  EXPECT_EQ(StderrOf(Folder(spec) + "/a0/r001"), "");
}

TEST_F(LocalLauncher, RanksMeetByEnvironmentAndHaveALogEach) {
  LaunchSpec spec = SpecOf({"/bin/sh", "-c",
                            "echo rank $RANK of $WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                            "at $MASTER_ADDR; test -n \"$MASTER_PORT\""});
  spec.stages[0].kind = RanksKind::kEnv;
  spec.stages[0].ranks = 2;
  const Watch w = RunToEnd(spec);
  EXPECT_EQ(w.logs.at(0), "rank 0 of 2 local 0/2 at 127.0.0.1\n");
  EXPECT_EQ(w.logs.at(1), "rank 1 of 2 local 1/2 at 127.0.0.1\n");
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
}

TEST_F(LocalLauncher, TheFirstRankThatFailsEndsTheOthersAndItsCodeCounts) {
  LaunchSpec spec =
      SpecOf({"/bin/sh", "-c", "test $RANK = 1 && exit 3; trap 'exit 9' TERM; sleep 60 & wait"});
  spec.stages[0].kind = RanksKind::kEnv;
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
}  // namespace
}  // namespace attune
