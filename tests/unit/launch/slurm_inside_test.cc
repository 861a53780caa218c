// Launches as steps of the allocation that attune runs in, with real wrappers and jobs and a Slurm
// that is played: whom it asks after a failed run, and what becomes of a node that is silent.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "attune/base/text.h"
#include "attune/launch/slurm.h"
#include "attune/os/process.h"
#include "fakes/one_run.h"
#include "unit/launch/local_under_test.h"

namespace attune {
namespace {

using State = Observation::State;

// srun of an allocation whose nodes answer or don't; the wrapper is started for real.
class PlayedSrun final : public os::ProcessRunner {
 public:
  using os::ProcessRunner::Run;
  std::set<std::string> silent;  // nodes
  bool interrupted = false;      // a signal cuts the next call short
  int away = 0;                  // slurmctld, while srun is called this often
  std::vector<std::vector<std::string>> asked;

  Result<os::CommandResult> Run(const os::Command& command) override {
    if (command.argv[0] == "squeue") {
      os::CommandResult r;
      r.exit_code = away > 0 ? 1 : 0;
      return r;
    }
    if (command.argv[0] != "srun") return real_.Run(command);
    asked.push_back(command.argv);
    if (away > 0) {
      --away;
      os::CommandResult r;
      r.exit_code = 1;
      r.err = "srun: error: Unable to contact slurm controller\n";
      return r;
    }
    if (std::exchange(interrupted, false)) return Fail(ErrorCode::kUnavailable, "a signal came");
    for (const std::string& word : command.argv) {
      constexpr std::string_view kNodes = "--nodelist=";
      if (!word.starts_with(kNodes)) continue;
      for (const std::string_view node : Split(std::string_view(word).substr(kNodes.size()), ',')) {
        if (silent.contains(std::string(node))) {
          return Fail(ErrorCode::kTimeout, "srun did not end in time");
        }
      }
    }
    return os::CommandResult{};
  }

 private:
  os::PosixProcessRunner real_;
};

class InsideLauncherTest : public testing::Test {
 protected:
  InsideLauncherTest() {
    setenv("SLURM_JOB_ID", "77", 1);  // of which the wrapper's start record speaks
    SlurmOptions options;
    options.run_root = folder_.path() + "/runs";
    options.wrapper = BuiltProgram("attune-wrapper");
    options.clock = &clock_;
    options.runner = &srun_;
    options.poll = Millis{5};
    options.grace = Millis{150};
    options.beat = Millis{50};
    options.stop_poll = Millis{10};
    options.nodes = 2;
    Allocation allocation;
    allocation.job_id = "77";
    allocation.name = "77-1764577000";
    allocation.nodes = {"n1", "n2", "n3"};
    allocation.here = "n1";
    launcher_ = MakeAllocationLauncher(std::move(options), std::move(allocation));
  }
  ~InsideLauncherTest() override {
    unsetenv("SLURM_JOB_ID");
    for (const std::string& token : tokens_) {
      for (const pid_t pid : os::ProcessesCarrying("ATTUNE_TOKEN", token)) kill(pid, SIGKILL);
    }
  }

  LaunchSpec Runs(const std::string& script) {
    tokens_.push_back("attune-i" + std::to_string(getpid()) + "-l" +
                      std::to_string(tokens_.size()));
    return fakes::OneRun(Token(tokens_.back()), {"/bin/sh", "-c", script}, folder_.path());
  }
  LaunchHandle Start(const LaunchSpec& spec) {
    const auto submitted = launcher_->Submit(spec);
    if (!submitted || !std::holds_alternative<Bound>(*submitted)) {
      ADD_FAILURE() << (submitted ? std::string("not bound") : submitted.error().message);
      return {};
    }
    return std::get<Bound>(*submitted).handle;
  }
  Observation Look(const LaunchHandle& handle) {
    const LaunchHandle handles[] = {handle};
    auto seen = launcher_->Observe(handles, clock_.Now() + Millis{1'000}, 1'000'000);
    if (!seen) {
      ADD_FAILURE() << seen.error().message;
      return {};
    }
    return seen->front();
  }
  Observation End(const LaunchHandle& handle) {
    for (;;) {
      Observation o = Look(handle);
      if (o.state == State::kEnded || HasFailure()) return o;
      EXPECT_FALSE(!o.stages.empty() && o.stages.front().ended && o.end_hint != hint_)
          << "an end was told before the nodes were asked";
    }
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  PlayedSrun srun_;
  std::vector<std::string> tokens_;
  std::unique_ptr<Launcher> launcher_;
  std::optional<RunEnd> hint_;  // that every telling of a failed run's end has
};

TEST_F(InsideLauncherTest, AHandleNamesTheAllocation) {
  EXPECT_EQ(launcher_->HeldAllocation(), "77-1764577000");
  const LaunchSpec spec = Runs("exit 0");
  EXPECT_EQ(Start(spec).allocation, "77-1764577000");
  const auto found = launcher_->Find(spec.token);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->allocation, "77-1764577000");
}

TEST_F(InsideLauncherTest, AfterARunThatEndedWellNobodyIsAsked) {
  const Observation o = End(Start(Runs("exit 0")));
  EXPECT_FALSE(o.end_hint);
  EXPECT_TRUE(srun_.asked.empty());
}

TEST_F(InsideLauncherTest, AfterAFailedOneTheOtherNodesRunAStep) {
  const Observation o = End(Start(Runs("exit 3")));
  EXPECT_EQ(o.stages.front().exit_code, 3);
  EXPECT_FALSE(o.end_hint) << "they answer: it was the run's own doing";
  EXPECT_TRUE(o.failed_nodes.empty());
  ASSERT_EQ(srun_.asked.size(), 1u);
  EXPECT_EQ(srun_.asked.front(),
            (std::vector<std::string>{"srun", "--jobid=77", "--overlap", "--nodes=2", "--ntasks=2",
                                      "--ntasks-per-node=1", "--nodelist=n2,n3", "true"}));
}

TEST_F(InsideLauncherTest, ANodeThatDoesNotAnswerFailedTheRunAndIsLeftOut) {
  srun_.silent = {"n2"};
  hint_ = RunEnd::kNodeFailed;
  const Observation o = End(Start(Runs("exit 3")));
  EXPECT_EQ(o.end_hint, RunEnd::kNodeFailed);
  EXPECT_EQ(o.failed_nodes, std::vector<std::string>{"n2"});
  EXPECT_NE(o.detail.find("n2 did not answer"), std::string::npos) << o.detail;
  // It fails one run and no other.
  srun_.asked.clear();
  LaunchSpec own = Runs("exit 3");
  own.exclude = {"n2"};
  hint_.reset();
  EXPECT_FALSE(End(Start(own)).end_hint);
  ASSERT_EQ(srun_.asked.size(), 1u);
  EXPECT_EQ(srun_.asked.front().at(6), "--nodelist=n3");
  // Two nodes are left for two; a step is kept off the third.
  LaunchSpec next = Runs("exit 0");
  next.exclude = {"n2", "elsewhere"};
  next.stages.front().nodes = 2;
  next.stages.front().kind = RanksKind::kSrun;
  next.stages.front().ranks = 1;
  const LaunchHandle handle = Start(next);
  const auto plan = launcher_->Fetch(handle, "plan", 0, 100'000);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_NE(plan->find("--exclude=n2"), std::string::npos) << *plan;
  EXPECT_EQ(plan->find("elsewhere"), std::string::npos);
  // One is left for two: another allocation can start what this one can't.
  LaunchSpec last = next;
  last.token = Token(next.token.value + "x");
  last.exclude = {"n2", "n3"};
  const auto refused = launcher_->Submit(last);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("without n2,n3"), std::string::npos)
      << refused.error().message;
  last.exclude = {"n1"};  // where attune itself is
  EXPECT_FALSE(launcher_->Submit(last));
}

TEST_F(InsideLauncherTest, WhoIsToldToLeaveWhileItAsksSaysNothingOfTheNodes) {
  srun_.interrupted = true;
  const LaunchHandle handle = Start(Runs("exit 3"));
  Observation o;
  do {
    o = Look(handle);
    EXPECT_TRUE(srun_.asked.empty() || srun_.asked.size() > 1 || !o.stages.front().ended);
    EXPECT_TRUE(o.failed_nodes.empty());
  } while (o.state != State::kEnded && !HasFailure());
  EXPECT_GE(srun_.asked.size(), 2u) << "the next look asked again";
  EXPECT_FALSE(o.end_hint);
}

TEST_F(InsideLauncherTest, WhileSlurmctldIsAwayNothingIsConcluded) {
  srun_.away = 3;
  const LaunchHandle handle = Start(Runs("exit 3"));
  Observation o;
  do {
    o = Look(handle);
    EXPECT_TRUE(srun_.away == 0 || o.stages.empty() || !o.stages.front().ended);
  } while (o.state != State::kEnded && !HasFailure());
  EXPECT_FALSE(o.end_hint);
  EXPECT_TRUE(o.failed_nodes.empty());
  // All at once each time; one by one only when it is back, since without it none can answer.
  EXPECT_EQ(srun_.asked.size(), 5u);
}

TEST_F(InsideLauncherTest, WhatStoodIdleBeforeALaunchIsAPartOfItsCharge) {
  const Observation first = End(Start(Runs("exit 0")));
  EXPECT_EQ(first.idle, GpuMillis{}) << "before the first one nobody counts";
  const Observation second = End(Start(Runs("exit 0")));
  EXPECT_GT(second.idle, GpuMillis{});
  EXPECT_GT(second.charged, second.idle);
}

}  // namespace
}  // namespace attune
