// What every launcher promises, as tests. A launcher joins by a factory:
//
//   INSTANTIATE_TEST_SUITE_P(Slurm, LauncherContract, testing::Values(&MakeSlurmUnderTest));
//
// Jobs are fake trainings of some 50 ms; times are compared only with each other, never with a
// stopwatch.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attune/launch/launcher.h"

namespace attune {

class LauncherUnderTest {
 public:
  virtual ~LauncherUnderTest() = default;
  virtual Launcher& launcher() = 0;
  virtual void Restart() = 0;  // attune died: a new launcher over the same world
  virtual Clock& clock() = 0;
  virtual std::string train() = 0;    // the program to run
  virtual std::string workdir() = 0;  // an existing folder
  virtual Millis short_limit() { return Millis{400}; }
  virtual int Starts(const Token& token) = 0;  // start records of the token
  virtual std::string WhyNot() { return {}; }  // why it can't be tried on this machine
};
using LauncherFactory = std::unique_ptr<LauncherUnderTest> (*)();

class LauncherContract : public testing::TestWithParam<LauncherFactory> {
 protected:
  LauncherContract() : under_test_(GetParam()()) {}
  void SetUp() override {
    if (const std::string why = under_test_->WhyNot(); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }

  Stage StageOf(const std::string& run, std::vector<std::string> args) {
    Stage stage;
    stage.run = RunId(run);
    stage.argv = {under_test_->train(),
                  "--fake-step-ms",
                  "2",
                  "--fake-startup-ms",
                  "5",
                  "--fake-run-noise",
                  "0"};
    stage.argv.insert(stage.argv.end(), args.begin(), args.end());
    stage.workdir = under_test_->workdir();
    return stage;
  }
  LaunchSpec SpecOf(std::vector<Stage> stages) {
    LaunchSpec spec;
    // Of one cluster for all tests: a name is used once.
    static int launches = 0;
    spec.token = Token("attune-contract-l" + std::to_string(++launches));
    spec.slots = 2;
    spec.limit = Millis{60'000};
    spec.stages = std::move(stages);
    return spec;
  }
  LaunchHandle Submit(const LaunchSpec& spec) {
    auto submitted = launcher().Submit(spec);
    EXPECT_TRUE(submitted.has_value()) << submitted.error().message;
    if (!submitted || !std::holds_alternative<Bound>(*submitted)) {
      ADD_FAILURE() << "not bound";
      return {};
    }
    return std::get<Bound>(*submitted).handle;
  }

  struct Watch {
    std::vector<std::string> logs;  // a stage
    Observation last;
    bool ended() const { return last.state == Observation::State::kEnded; }
    const StageObservation& stage(std::size_t i = 0) const { return last.stages.at(i); }
  };
  // Until `enough` says so or the launch is over; gives up after a minute of the launcher's time.
  Watch WatchUntil(const LaunchHandle& handle,
                   const std::function<bool(const Watch&)>& enough = nullptr) {
    Watch w;
    const Instant give_up = clock().Now() + Millis{60'000};
    do {
      auto seen = launcher().Observe({&handle, 1}, give_up, 1);
      EXPECT_TRUE(seen.has_value() && seen->size() == 1);
      if (!seen || seen->size() != 1) {
        return w;
      }
      w.last = std::move(seen->front());
      w.logs.resize(w.last.stages.size());
      for (std::size_t i = 0; i < w.logs.size(); ++i) {
        for (const LogChunk& chunk : w.last.stages[i].log) {
          w.logs[i] += chunk.bytes;
        }
      }
    } while (!w.ended() && !(enough && enough(w)) && clock().Now() < give_up);
    return w;
  }
  static std::function<bool(const Watch&)> Printed(const std::string& text) {
    return [text](const Watch& w) { return w.logs[0].find(text) != std::string::npos; };
  }
  static int Count(const std::string& text, const std::string& part) {
    int n = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++n;
    }
    return n;
  }

  Launcher& launcher() { return under_test_->launcher(); }
  Clock& clock() { return under_test_->clock(); }

  std::unique_ptr<LauncherUnderTest> under_test_;
};

TEST_P(LauncherContract, ACompletedJobIsChargedFromStartToExit) {
  const Watch w = WatchUntil(Submit(SpecOf({StageOf("r001", {"--exit-interval", "5"})})));
  ASSERT_TRUE(w.ended());
  EXPECT_TRUE(w.stage().started);
  EXPECT_TRUE(w.stage().ended);
  EXPECT_EQ(w.stage().exit_code, 0);
  EXPECT_FALSE(w.stage().signal.has_value());
  EXPECT_FALSE(w.stage().stopped_on_request);
  EXPECT_FALSE(w.last.end_hint.has_value());
  EXPECT_EQ(Count(w.logs[0], "] iteration "), 5);
  EXPECT_EQ(w.last.source, ChargeSource::kWrapper);
  EXPECT_GE(w.last.charged, ChargeFor(2, w.stage().held));
  EXPECT_GT(w.stage().held, Millis{10});  // 5 steps of 2 ms and the start-up
  EXPECT_FALSE(w.last.nodes.empty());
  EXPECT_FALSE(w.stage().folder.empty());
}

TEST_P(LauncherContract, LinesCarryRisingArrivalTimes) {
  const LaunchHandle h = Submit(SpecOf({StageOf("r001", {"--exit-interval", "5"})}));
  std::int64_t last = 0;
  Observation seen;
  do {
    auto o = launcher().Observe({&h, 1}, clock().Now() + Millis{60'000}, 1);
    ASSERT_TRUE(o.has_value());
    seen = o->front();
    for (const LogChunk& chunk : seen.stages[0].log) {
      EXPECT_GE(chunk.arrival_ms, last);
      last = chunk.arrival_ms;
    }
  } while (seen.state != Observation::State::kEnded);
  EXPECT_GE(last, 15);  // 5 ms start-up, 2 + 3 x 2 ms of first steps at least
  EXPECT_LE(last, seen.stages[0].held.count());
}

TEST_P(LauncherContract, AJobThatDiesSaysWithWhatCode) {
  const Watch w = WatchUntil(
      Submit(SpecOf({StageOf("r001", {"--fake-die-at", "3", "--fake-exit-code", "7"})})));
  ASSERT_TRUE(w.ended());
  EXPECT_EQ(w.stage().exit_code, 7);
  EXPECT_EQ(Count(w.logs[0], "] iteration "), 2);
}

TEST_P(LauncherContract, AJobKilledByASignalSaysWhich) {
  const Watch w =
      WatchUntil(Submit(SpecOf({StageOf("r001", {"--fake-die-at", "3", "--fake-signal", "11"})})));
  ASSERT_TRUE(w.ended());
  EXPECT_EQ(w.stage().signal, 11);
  EXPECT_FALSE(w.stage().exit_code.has_value());
}

TEST_P(LauncherContract, AJobThatPrintsNothingEndsAllTheSame) {
  const Watch w =
      WatchUntil(Submit(SpecOf({StageOf("r001", {"--fake-silent", "--exit-interval", "3"})})));
  ASSERT_TRUE(w.ended());
  EXPECT_EQ(w.logs[0], "");
  EXPECT_EQ(w.stage().exit_code, 0);
}

TEST_P(LauncherContract, StagesRunInTurnAndAFailedOneDoesNotEndTheLaunch) {
  const Watch w = WatchUntil(Submit(SpecOf(
      {StageOf("r001", {"--fake-die-at", "2"}), StageOf("r002", {"--exit-interval", "3"})})));
  ASSERT_TRUE(w.ended());
  EXPECT_EQ(w.stage(0).exit_code, 1);
  EXPECT_EQ(w.stage(1).exit_code, 0);
  EXPECT_EQ(Count(w.logs[1], "] iteration "), 3);
  EXPECT_GE(w.stage(1).started_wall_ms, w.stage(0).started_wall_ms + w.stage(0).held.count() - 2);
  EXPECT_GE(w.last.charged, ChargeFor(2, w.stage(0).held + w.stage(1).held));
}

TEST_P(LauncherContract, StoppingAStageLetsTheNextRun) {
  const LaunchHandle h = Submit(SpecOf(
      {StageOf("r001", {"--fake-hang-at", "3"}), StageOf("r002", {"--exit-interval", "3"})}));
  WatchUntil(h, Printed("iteration        2/"));
  ASSERT_TRUE(launcher().Cancel(h, RunId("r001")).has_value());
  under_test_->Restart();
  const Watch w = WatchUntil(h);
  ASSERT_TRUE(w.ended());
  EXPECT_TRUE(w.stage(0).stopped_on_request);
  EXPECT_EQ(w.stage(0).signal, 15);
  EXPECT_FALSE(w.stage(1).stopped_on_request);
  EXPECT_EQ(w.stage(1).exit_code, 0);
}

TEST_P(LauncherContract, CancellingALaunchEndsItAndStartsNothingMore) {
  const LaunchHandle h = Submit(SpecOf(
      {StageOf("r001", {"--fake-hang-at", "3"}), StageOf("r002", {"--exit-interval", "3"})}));
  WatchUntil(h, Printed("iteration        2/"));
  ASSERT_TRUE(launcher().Cancel(h, std::nullopt).has_value());
  ASSERT_TRUE(launcher().Cancel(h, std::nullopt).has_value());  // twice is as good as once
  const Watch w = WatchUntil(h);
  ASSERT_TRUE(w.ended());
  EXPECT_TRUE(w.stage(0).stopped_on_request);
  EXPECT_FALSE(w.stage(1).started);
  EXPECT_FALSE(w.stage(1).ended);
  EXPECT_FALSE(w.last.end_hint.has_value());
}

TEST_P(LauncherContract, AStageStoppedBeforeItsTurnEndsWithoutStarting) {
  const LaunchHandle h = Submit(
      SpecOf({StageOf("r001", {"--fake-hang-at", "3"}), StageOf("r002", {"--exit-interval", "3"}),
              StageOf("r003", {"--exit-interval", "3"})}));
  WatchUntil(h, Printed("iteration        2/"));
  ASSERT_TRUE(launcher().Cancel(h, RunId("r002")).has_value());
  ASSERT_TRUE(launcher().Cancel(h, RunId("r001")).has_value());
  const Watch w = WatchUntil(h);
  ASSERT_TRUE(w.ended());
  EXPECT_FALSE(w.stage(1).started);
  EXPECT_TRUE(w.stage(1).ended);
  EXPECT_TRUE(w.stage(1).stopped_on_request);
  EXPECT_EQ(w.stage(2).exit_code, 0);
}

TEST_P(LauncherContract, AJobThatIgnoresTermIsKilledAndPaysForTheGrace) {
  const LaunchHandle h =
      Submit(SpecOf({StageOf("r001", {"--fake-hang-at", "2", "--fake-ignore-term"})}));
  WatchUntil(h, Printed("iteration        1/"));
  ASSERT_TRUE(launcher().Cancel(h, std::nullopt).has_value());
  const Watch w = WatchUntil(h);
  ASSERT_TRUE(w.ended());
  EXPECT_EQ(w.stage().signal, 9);
  EXPECT_GE(w.last.charged, ChargeFor(2, w.stage().held));
}

TEST_P(LauncherContract, TheLimitEndsALaunchThatNobodyWatches) {
  LaunchSpec spec = SpecOf({StageOf("r001", {"--fake-hang-at", "2"}), StageOf("r002", {})});
  spec.limit = under_test_->short_limit();
  const Watch w = WatchUntil(Submit(spec));
  ASSERT_TRUE(w.ended());
  EXPECT_TRUE(w.stage(0).limit_hit);
  EXPECT_FALSE(w.stage(0).stopped_on_request);
  EXPECT_FALSE(w.stage(1).started);
  EXPECT_FALSE(w.stage(1).ended);
  EXPECT_GE(w.last.charged, ChargeFor(2, spec.limit));
  EXPECT_LE(w.last.charged, ChargeFor(2, spec.limit + launcher().ReleaseMargin()));
}

TEST_P(LauncherContract, ASecondSubmitOfATokenStartsNothing) {
  const LaunchSpec spec = SpecOf({StageOf("r001", {"--exit-interval", "5"})});
  const LaunchHandle first = Submit(spec);
  under_test_->Restart();
  const LaunchHandle second = Submit(spec);
  EXPECT_EQ(second.id, first.id);
  EXPECT_EQ(second.folder, first.folder);
  ASSERT_TRUE(WatchUntil(second).ended());
  EXPECT_EQ(Submit(spec).id, first.id);  // also when it is over
  EXPECT_EQ(under_test_->Starts(spec.token), 1);
}

TEST_P(LauncherContract, AFreshLauncherAdoptsALaunchFromByteZero) {
  const LaunchSpec spec = SpecOf({StageOf("r001", {"--exit-interval", "20"})});
  const LaunchHandle h = Submit(spec);
  WatchUntil(h, Printed("iteration        2/"));
  under_test_->Restart();
  const auto found = launcher().Find(spec.token);
  ASSERT_TRUE(found.has_value());
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->id, h.id);
  const Watch w = WatchUntil(**found);
  ASSERT_TRUE(w.ended());
  EXPECT_EQ(Count(w.logs[0], "] iteration "), 20);
  under_test_->Restart();
  const Watch again = WatchUntil(h);  // and once more when all is over
  EXPECT_EQ(again.logs[0], w.logs[0]);
  EXPECT_EQ(again.last.charged, w.last.charged);
}

TEST_P(LauncherContract, FindSaysForCertainThatATokenIsNotThere) {
  const auto found = launcher().Find(Token("attune-nobody-l001-00000000"));
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->has_value());
}

TEST_P(LauncherContract, ObserveAnswersForEachHandleInOrderAndReturnsAtUntil) {
  const LaunchHandle a = Submit(SpecOf({StageOf("r001", {"--exit-interval", "2"})}));
  const LaunchHandle b = Submit(SpecOf({StageOf("r002", {"--fake-hang-at", "2"})}));
  WatchUntil(a);
  WatchUntil(b, Printed("iteration        1/"));
  const std::vector<LaunchHandle> both = {b, a};
  // What b still had to say is news, and news is told early: the wait to its end comes after it.
  const Instant give_up = clock().Now() + Millis{60'000};
  for (bool waited = false; !waited;) {
    ASSERT_LT(clock().Now(), give_up) << "each wait was cut short by news of two jobs that are still";
    const Instant until = clock().Now() + Millis{30};
    const auto seen = launcher().Observe(both, until, 1);
    waited = clock().Now() >= until;
    ASSERT_TRUE(seen.has_value());
    ASSERT_EQ(seen->size(), 2U);
    EXPECT_EQ((*seen)[0].handle.token, b.token);
    EXPECT_EQ((*seen)[1].handle.token, a.token);
    EXPECT_EQ((*seen)[1].state, Observation::State::kEnded);
    EXPECT_EQ((*seen)[0].state, Observation::State::kRunning);
    EXPECT_TRUE(waited || !(*seen)[0].stages[0].log.empty()) << "returned early without news";
  }
  ASSERT_TRUE(launcher().Cancel(b, std::nullopt).has_value());
  EXPECT_TRUE(WatchUntil(b).ended());
}

}  // namespace attune
