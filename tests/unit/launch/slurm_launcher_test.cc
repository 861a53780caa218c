// The Slurm launcher against a queue in memory, on a virtual clock: what it believes, what it asks
// and what it cancels. tests/real/slurm does the same with the real daemons.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "attune/base/text.h"
#include "attune/launch/slurm.h"
#include "attune/os/files.h"
#include "fakes/virtual_clock.h"
#include "run_folder.h"
#include "slurm_text.h"
#include "unit/launch/local_under_test.h"

namespace attune {
namespace {

using launch::SlurmJob;
using State = Observation::State;

class FakeSlurm final : public os::ProcessRunner {
 public:
  explicit FakeSlurm(Clock& clock) : clock_(clock) {}
  using os::ProcessRunner::Run;

  enum class Sbatch { kWell, kRunsButFails, kFails, kRefuses, kSaysAnothersId, kHangs };
  Sbatch sbatch = Sbatch::kWell;
  bool down = false;  // slurmctld does not answer
  std::vector<SlurmJob> jobs;
  std::vector<std::vector<std::string>> calls;
  std::optional<os::Environment> env;

  int Count(const std::string& program) const {
    return static_cast<int>(
        std::count_if(calls.begin(), calls.end(), [&](const auto& c) { return c[0] == program; }));
  }
  SlurmJob& Add(const std::string& name, const std::string& state) {
    SlurmJob job;
    job.id = std::to_string(next_id_++);
    job.name = name;
    job.state = state;
    job.submitted = clock_.Now().ms / 1000;
    if (state != "PENDING") {
      job.started = job.submitted;
      job.nodes = "n1";
    }
    jobs.push_back(job);
    return jobs.back();
  }

  Result<os::CommandResult> Run(const os::Command& command) override {
    calls.push_back(command.argv);
    env = command.env;
    const std::string& program = command.argv[0];
    os::CommandResult r;
    if (program == "sbatch") {
      return Submit(command.argv);
    }
    if (down) {
      return Fail(ErrorCode::kTimeout, program + " did not end in time");
    }
    if (program == "squeue") {
      r.out = Queue(Flag(command.argv, "--name="));
    } else if (program == "scancel") {
      for (SlurmJob& job : jobs) {
        if (job.name == Flag(command.argv, "--name=") &&
            std::count(command.argv.begin(), command.argv.end(), job.id) > 0) {
          job.state = "CANCELLED";
          job.ended = clock_.Now().ms / 1000;
        }
      }
    } else if (program == "sacct") {
      r.exit_code = 1;
      r.err = "Slurm accounting storage is disabled\n";
    }
    return r;
  }

 private:
  static std::string Flag(const std::vector<std::string>& argv, const std::string& flag) {
    for (const std::string& word : argv) {
      if (word.starts_with(flag)) {
        return word.substr(flag.size());
      }
    }
    return {};
  }
  Result<os::CommandResult> Submit(const std::vector<std::string>& argv) {
    os::CommandResult r;
    const std::string name = Flag(argv, "--job-name=");
    switch (sbatch) {
      case Sbatch::kWell:
        r.out = Add(name, "PENDING").id + "\n";
        break;
      case Sbatch::kRunsButFails:
        Add(name, "RUNNING");
        r.exit_code = 1;
        r.err = "sbatch: error: Batch job submission failed: Socket timed out\n";
        break;
      case Sbatch::kFails:
        r.exit_code = 1;
        r.err = "sbatch: error: Batch job submission failed: Socket timed out\n";
        break;
      case Sbatch::kRefuses:
        r.exit_code = 1;
        r.err = "sbatch: error: Batch job submission failed: Invalid partition name specified\n";
        break;
      case Sbatch::kSaysAnothersId:
        Add(name, "RUNNING");
        r.out = Add("somebody-elses", "RUNNING").id + "\n";
        break;
      case Sbatch::kHangs:
        return Fail(ErrorCode::kTimeout, "sbatch did not end in time");
    }
    return r;
  }
  std::string Queue(const std::string& names) const {
    std::string out;
    for (const SlurmJob& job : jobs) {
      const auto wanted = Split(names, ',');
      if (std::find(wanted.begin(), wanted.end(), job.name) == wanted.end()) {
        continue;
      }
      const auto cell = [&](std::string text, std::size_t width) {
        text.resize(width, ' ');
        out += text;
      };
      const auto time = [&](std::int64_t t) { cell(t == 0 ? "N/A" : std::to_string(t), 24); };
      cell(job.id, 24);
      cell(job.state, 24);
      cell(job.name, 140);
      time(job.submitted);
      time(job.started);
      time(job.ended);
      cell(std::to_string(job.restarts), 12);
      cell(std::to_string(job.code.value_or(0) * 256 + job.signal.value_or(0)), 16);
      cell("cpu=1", 400);
      cell(job.nodes.empty() ? "n/a" : "n1", 256);
      cell(job.nodes, 4096);
      cell(job.reason.empty() ? "None" : job.reason, 256);
      out += "\n";
    }
    return out;
  }

  Clock& clock_;
  int next_id_ = 100;
};

class SlurmLauncherTest : public testing::Test {
 protected:
  SlurmLauncherTest() { Restart(); }

  void Restart() {
    SlurmOptions o;
    o.run_root = folder_.path() + "/runs";
    o.wrapper = BuiltProgram("attune-wrapper");
    o.clock = &clock_;
    o.runner = &slurm_;
    o.environment = os::Environment{{"PATH", "/usr/bin:/bin"},
                                    {"SLURM_CONF", "/etc/x.conf"},
                                    {"SLURM_JOB_ID", "1"},
                                    {"SBATCH_PARTITION", "nowhere"},
                                    {"SQUEUE_FORMAT", "%i"}};
    o.kill_wait = Millis{5'000};
    launcher_ = MakeSlurmLauncher(o);
  }
  LaunchSpec Spec() {
    LaunchSpec spec;
    spec.token = Token("attune-t-l001");
    spec.slots = 2;
    spec.limit = Millis{60'000};
    Stage stage;
    stage.run = RunId("r001");
    stage.argv = {"/bin/true"};
    stage.workdir = "/";
    spec.stages = {stage};
    return spec;
  }
  LaunchHandle MustBind() {
    auto submitted = launcher_->Submit(Spec());
    EXPECT_TRUE(submitted.has_value());
    return std::get<Bound>(*submitted).handle;
  }
  // One look at the queue and the folder, after `passed`.
  Observation Look(const LaunchHandle& handle, Millis passed = Millis{6'000}) {
    clock_.Advance(passed);
    // In the past: this clock does not move while Observe naps.
    auto seen = launcher_->Observe({&handle, 1}, clock_.Now() - Millis{10}, 1);
    EXPECT_TRUE(seen.has_value() && seen->size() == 1);
    return seen->front();
  }
  std::string Attempt() { return folder_.path() + "/runs/attune-t-l001/a0"; }
  void WrapperStarts(const std::string& job) {
    EXPECT_TRUE(os::MakeFolderOnce(Attempt()).has_value());
    launch::StartRecord start;
    start.token = "attune-t-l001";
    start.host = "n1";
    start.process = {4242, 1, "boot"};
    start.job_id = job;
    start.wall_ms = clock_.Now().ms;
    EXPECT_TRUE(os::ClaimFile(Attempt() + "/start", launch::Encode(start)).has_value());
  }
  void WrapperExits(launch::Ending ending, Millis held) {
    launch::ExitRecord exit;
    exit.ending = ending;
    exit.held = held;
    EXPECT_TRUE(os::WriteFileAtomic(Attempt() + "/exit", launch::Encode(exit)).has_value());
  }

  TemporaryFolder folder_;
  fakes::VirtualClock clock_;
  FakeSlurm slurm_{clock_};
  std::unique_ptr<Launcher> launcher_;
};

TEST_F(SlurmLauncherTest, SlurmsProgramsSeeNothingOfASurroundingAllocation) {
  MustBind();
  ASSERT_TRUE(slurm_.env.has_value());
  EXPECT_EQ(slurm_.env->count("SLURM_JOB_ID"), 0U);
  EXPECT_EQ(slurm_.env->count("SBATCH_PARTITION"), 0U);
  EXPECT_EQ(slurm_.env->count("SQUEUE_FORMAT"), 0U);
  EXPECT_EQ(slurm_.env->at("SLURM_CONF"), "/etc/x.conf");
  EXPECT_EQ(slurm_.env->at("LC_ALL"), "C.UTF-8");
}

TEST_F(SlurmLauncherTest, AJobWhoseSbatchFailedIsFoundAndNotSubmittedAgain) {
  slurm_.sbatch = FakeSlurm::Sbatch::kRunsButFails;
  const auto submitted = launcher_->Submit(Spec());
  ASSERT_TRUE(submitted.has_value());
  ASSERT_TRUE(std::holds_alternative<SubmitUnknown>(*submitted));
  const auto found = launcher_->Find(Spec().token);
  ASSERT_TRUE(found.has_value() && found->has_value());
  EXPECT_EQ((*found)->id, "100");
  EXPECT_EQ(slurm_.Count("sbatch"), 1);
}

TEST_F(SlurmLauncherTest, ARefusalIsCertain) {
  slurm_.sbatch = FakeSlurm::Sbatch::kRefuses;
  const auto submitted = launcher_->Submit(Spec());
  ASSERT_TRUE(submitted.has_value());
  ASSERT_TRUE(std::holds_alternative<SubmitRefused>(*submitted));
  EXPECT_NE(std::get<SubmitRefused>(*submitted).why.find("Invalid partition"), std::string::npos);
}

TEST_F(SlurmLauncherTest, TheIdThatSbatchPrintsIsBelievedOnlyUnderOurName) {
  slurm_.sbatch = FakeSlurm::Sbatch::kSaysAnothersId;
  const auto submitted = launcher_->Submit(Spec());
  ASSERT_TRUE(submitted.has_value());
  ASSERT_TRUE(std::holds_alternative<Bound>(*submitted));
  EXPECT_EQ(std::get<Bound>(*submitted).handle.id, "100");  // ours, not 101
  EXPECT_EQ(slurm_.Count("scancel"), 0);
}

TEST_F(SlurmLauncherTest, AbsenceIsCertainOnlyAfterTwoMinutesOfAnswers) {
  slurm_.sbatch = FakeSlurm::Sbatch::kHangs;
  ASSERT_TRUE(std::holds_alternative<SubmitUnknown>(*launcher_->Submit(Spec())));
  EXPECT_EQ(launcher_->Find(Spec().token).error().code, ErrorCode::kUnavailable);
  clock_.Advance(Millis{119'000});
  EXPECT_EQ(launcher_->Find(Spec().token).error().code, ErrorCode::kUnavailable);
  slurm_.down = true;  // no answer is no news: the two minutes begin again
  clock_.Advance(Millis{60'000});
  EXPECT_FALSE(launcher_->Find(Spec().token).has_value());
  slurm_.down = false;
  EXPECT_EQ(launcher_->Find(Spec().token).error().code, ErrorCode::kUnavailable);
  clock_.Advance(Millis{121'000});
  const auto found = launcher_->Find(Spec().token);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->has_value());
}

TEST_F(SlurmLauncherTest, OfSeveralJobsTheClaimsIsKeptAndTheRestEnd) {
  const LaunchHandle handle = MustBind();  // 100, waits
  SlurmJob& late = slurm_.Add("attune-t-l001", "RUNNING");
  EXPECT_EQ(late.id, "101");
  WrapperStarts("101");
  EXPECT_EQ(Look(handle).state, State::kRunning);
  EXPECT_EQ(slurm_.jobs[0].state, "CANCELLED");
  EXPECT_EQ(slurm_.jobs[1].state, "RUNNING");
  Restart();
  const auto found = launcher_->Find(handle.token);
  ASSERT_TRUE(found.has_value() && found->has_value());
  EXPECT_EQ((*found)->id, "101");
}

TEST_F(SlurmLauncherTest, AStrangerUnderTheSameIdIsNeitherReadNorCancelled) {
  const LaunchHandle handle = MustBind();
  EXPECT_EQ(Look(handle).state, State::kQueued);
  slurm_.jobs[0].name = "somebody-elses";  // slurmctld lost ours and handed its id out again
  slurm_.jobs[0].state = "RUNNING";
  Observation o = Look(handle);
  EXPECT_EQ(o.state, State::kUnknown);
  o = Look(handle, Millis{61'000});
  EXPECT_EQ(o.state, State::kEnded);
  EXPECT_EQ(o.end_hint, RunEnd::kLost);
  EXPECT_EQ(o.charged, GpuMillis{0});
  ASSERT_TRUE(launcher_->Cancel(handle, std::nullopt).has_value());
  Look(handle);
  EXPECT_EQ(slurm_.jobs[0].state, "RUNNING");
}

TEST_F(SlurmLauncherTest, ALostJobThatHadStartedKeepsItsHoldUntilItsLimit) {
  const LaunchHandle handle = MustBind();
  slurm_.jobs[0].state = "RUNNING";
  slurm_.jobs[0].started = clock_.Now().ms / 1000;
  slurm_.jobs[0].nodes = "n1";
  WrapperStarts("100");
  EXPECT_EQ(Look(handle).state, State::kRunning);
  slurm_.jobs.clear();
  Look(handle);
  EXPECT_NE(Look(handle, Millis{90'000}).state, State::kEnded);
  const Observation o = Look(handle, Millis{120'000});
  ASSERT_EQ(o.state, State::kEnded);
  EXPECT_EQ(o.end_hint, RunEnd::kLost);
  EXPECT_EQ(o.source, ChargeSource::kLastBeat);
  EXPECT_GT(o.charged, GpuMillis{0});
}

TEST_F(SlurmLauncherTest, AHopelessJobIsCancelledWithItsReason) {
  const LaunchHandle handle = MustBind();
  slurm_.jobs[0].reason = "PartitionNodeLimit";
  EXPECT_EQ(Look(handle).state, State::kQueued);
  Look(handle);
  const Observation o = Look(handle);
  EXPECT_EQ(slurm_.jobs[0].state, "CANCELLED");
  ASSERT_EQ(o.state, State::kEnded);
  EXPECT_EQ(o.end_hint, RunEnd::kNeverStarted);
  EXPECT_NE(o.detail.find("PartitionNodeLimit"), std::string::npos);
  EXPECT_EQ(o.charged, GpuMillis{0});
}

TEST_F(SlurmLauncherTest, AJobThatWasPutBackIsCancelledAndItsFirstAttemptCharged) {
  const LaunchHandle handle = MustBind();
  const std::int64_t begun = clock_.Now().ms / 1000;
  slurm_.jobs[0].state = "RUNNING";
  slurm_.jobs[0].started = begun;
  slurm_.jobs[0].nodes = "n1";
  WrapperStarts("100");
  EXPECT_EQ(Look(handle).state, State::kRunning);
  slurm_.jobs[0].state = "PENDING";
  slurm_.jobs[0].restarts = 1;
  slurm_.jobs[0].submitted = begun + 8;
  slurm_.jobs[0].started = begun + 128;
  slurm_.jobs[0].nodes.clear();
  EXPECT_EQ(Look(handle).state, State::kEnding);
  EXPECT_EQ(slurm_.jobs[0].state, "CANCELLED");
  const Observation o = Look(handle);
  ASSERT_EQ(o.state, State::kEnded);
  EXPECT_EQ(o.end_hint, RunEnd::kPreempted);
  EXPECT_GE(o.charged, ChargeFor(2, Millis{8'000}));
  EXPECT_LE(o.charged, ChargeFor(2, Millis{13'000}));
}

TEST_F(SlurmLauncherTest, AJobThatBeganAfterTheQueueAnsweredIsNoRequeue) {
  const LaunchHandle handle = MustBind();
  WrapperStarts("100");  // the queue still says PENDING
  EXPECT_EQ(Look(handle).state, State::kRunning);
  EXPECT_EQ(slurm_.Count("scancel"), 0);
}

TEST_F(SlurmLauncherTest, AStageThatFailedEndsOnlyWhenSlurmHasSaidWhy) {
  const LaunchHandle handle = MustBind();
  slurm_.jobs[0].state = "RUNNING";
  slurm_.jobs[0].started = clock_.Now().ms / 1000;
  slurm_.jobs[0].nodes = "n1";
  WrapperStarts("100");
  const std::string stage = Attempt() + "/r001";
  ASSERT_TRUE(os::MakeFolderOnce(stage).has_value());
  launch::StartRecord start;
  start.token = "attune-t-l001";
  start.run = "r001";
  launch::ExitRecord exit;
  exit.ending = launch::Ending::kTerminated;
  exit.signal = 15;
  ASSERT_TRUE(os::WriteFileAtomic(stage + "/start", launch::Encode(start)).has_value());
  ASSERT_TRUE(os::WriteFileAtomic(stage + "/out", "").has_value());
  ASSERT_TRUE(os::WriteFileAtomic(stage + "/stamps", "").has_value());
  ASSERT_TRUE(os::WriteFileAtomic(stage + "/exit", launch::Encode(exit)).has_value());
  WrapperExits(launch::Ending::kTerminated, Millis{3'000});
  Observation o = Look(handle);
  EXPECT_NE(o.state, State::kEnded);
  EXPECT_FALSE(o.stages.at(0).ended);
  EXPECT_FALSE(o.stages.at(0).signal.has_value());
  slurm_.jobs[0].state = "PREEMPTED";
  slurm_.jobs[0].ended = slurm_.jobs[0].started + 3;
  o = Look(handle);
  ASSERT_EQ(o.state, State::kEnded);
  EXPECT_TRUE(o.stages.at(0).ended);
  EXPECT_EQ(o.stages.at(0).signal, 15);
  EXPECT_EQ(o.end_hint, RunEnd::kPreempted);
}

TEST_F(SlurmLauncherTest, ATwinThatTheQueueForgotKeepsNobodyWaiting) {
  const LaunchHandle handle = MustBind();
  slurm_.Add("attune-t-l001", "RUNNING");
  WrapperStarts("100");
  Look(handle);
  slurm_.jobs.pop_back();
  slurm_.jobs[0].state = "COMPLETED";
  slurm_.jobs[0].started = clock_.Now().ms / 1000;
  slurm_.jobs[0].ended = slurm_.jobs[0].started + 4;
  slurm_.jobs[0].nodes = "n1";
  WrapperExits(launch::Ending::kExited, Millis{3'500});
  EXPECT_EQ(Look(handle).state, State::kEnded);
}

TEST_F(SlurmLauncherTest, ACancelOfAJobThatWaitsIsRetriedUntilTheControllerTakesIt) {
  const LaunchHandle handle = MustBind();
  slurm_.down = true;
  ASSERT_TRUE(launcher_->Cancel(handle, std::nullopt).has_value());
  EXPECT_NE(Look(handle).state, State::kEnded);
  Restart();  // attune went away meanwhile
  EXPECT_NE(Look(handle).state, State::kEnded);
  slurm_.down = false;
  Look(handle, Millis{90'000});
  Observation o = Look(handle);
  EXPECT_EQ(slurm_.jobs[0].state, "CANCELLED");
  ASSERT_EQ(o.state, State::kEnded);
  EXPECT_EQ(o.end_hint, RunEnd::kStopped);
}

TEST_F(SlurmLauncherTest, AnExitRecordThatComesLateIsWaitedFor) {
  const LaunchHandle handle = MustBind();
  WrapperStarts("100");
  slurm_.jobs[0] = slurm_.jobs[0];
  slurm_.jobs[0].state = "COMPLETED";
  slurm_.jobs[0].started = clock_.Now().ms / 1000;
  slurm_.jobs[0].ended = slurm_.jobs[0].started + 4;
  slurm_.jobs[0].nodes = "n1";
  EXPECT_EQ(Look(handle).state, State::kEnding);
  WrapperExits(launch::Ending::kExited, Millis{3'500});
  const Observation o = Look(handle, Millis{20'000});
  ASSERT_EQ(o.state, State::kEnded);
  EXPECT_FALSE(o.end_hint.has_value());
  EXPECT_EQ(o.source, ChargeSource::kWrapper);
  EXPECT_EQ(o.charged, ChargeFor(2, Millis{4'000}));
}

TEST_F(SlurmLauncherTest, WithoutAnExitRecordACompletedJobCrashed) {
  const LaunchHandle handle = MustBind();
  WrapperStarts("100");
  slurm_.jobs[0].state = "COMPLETED";
  slurm_.jobs[0].started = clock_.Now().ms / 1000;
  slurm_.jobs[0].ended = slurm_.jobs[0].started + 4;
  slurm_.jobs[0].nodes = "n1";
  EXPECT_EQ(Look(handle).state, State::kEnding);
  const Observation o = Look(handle, Millis{31'000});
  ASSERT_EQ(o.state, State::kEnded);
  EXPECT_EQ(o.end_hint, RunEnd::kCrashed);
}

TEST_F(SlurmLauncherTest, WhatWasSettledIsToldTheSameByEveryLaterLauncher) {
  const LaunchHandle handle = MustBind();
  WrapperStarts("100");
  slurm_.jobs[0].state = "NODE_FAIL";
  slurm_.jobs[0].started = clock_.Now().ms / 1000;
  slurm_.jobs[0].ended = slurm_.jobs[0].started + 20;
  slurm_.jobs[0].nodes = "n1";
  Look(handle);
  const Observation first = Look(handle, Millis{31'000});
  ASSERT_EQ(first.state, State::kEnded);
  EXPECT_EQ(first.end_hint, RunEnd::kNodeFailed);
  slurm_.jobs.clear();
  slurm_.down = true;
  Restart();
  const Observation again = Look(handle);
  ASSERT_EQ(again.state, State::kEnded);
  EXPECT_EQ(again.charged, first.charged);
  EXPECT_EQ(again.end_hint, first.end_hint);
  EXPECT_EQ(again.detail, first.detail);
}

TEST_F(SlurmLauncherTest, AsksOnceForAllAndLessOftenAsNothingChanges) {
  const LaunchHandle handle = MustBind();
  const int before = slurm_.Count("squeue");
  for (int i = 0; i < 60; ++i) {
    Look(handle, Millis{1'000});
  }
  const int in_the_first_minute = slurm_.Count("squeue") - before;
  EXPECT_GE(in_the_first_minute, 10);
  EXPECT_LE(in_the_first_minute, 13);
  for (int i = 0; i < 1'200; ++i) {
    Look(handle, Millis{1'000});
  }
  const int at_minute_21 = slurm_.Count("squeue");
  for (int i = 0; i < 600; ++i) {
    Look(handle, Millis{1'000});
  }
  EXPECT_LE(slurm_.Count("squeue") - at_minute_21, 11);  // once a minute
}

TEST_F(SlurmLauncherTest, AControllerThatDoesNotAnswerIsAskedLessAndNothingIsConcluded) {
  const LaunchHandle handle = MustBind();
  slurm_.jobs[0].state = "RUNNING";
  slurm_.jobs[0].started = clock_.Now().ms / 1000;
  slurm_.jobs[0].nodes = "n1";
  WrapperStarts("100");
  EXPECT_EQ(Look(handle).state, State::kRunning);
  slurm_.down = true;
  const int before = slurm_.Count("squeue");
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(Look(handle, Millis{1'000}).state, State::kRunning);
  }
  EXPECT_LE(slurm_.Count("squeue") - before, 14);
  slurm_.down = false;
}

}  // namespace
}  // namespace attune
