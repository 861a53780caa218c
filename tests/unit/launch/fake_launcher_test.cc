// The fake launcher is what campaign tests stand on: its promises are tested like product code.
#include "fakes/fake_launcher.h"

#include <gtest/gtest.h>

#include "fakes/virtual_clock.h"

namespace attune::fakes {
namespace {

LaunchSpec SpecOf(std::vector<std::string> args, std::string run = "r001") {
  LaunchSpec spec;
  spec.token = Token("attune-c-l001-00000001");
  spec.slots = 2;
  spec.limit = Millis{600'000};
  Stage stage;
  stage.run = RunId(std::move(run));
  stage.argv = {"train"};
  stage.argv.insert(stage.argv.end(), args.begin(), args.end());
  stage.workdir = "/tmp";
  spec.stages.push_back(stage);
  return spec;
}

LaunchHandle SubmitBound(FakeLauncher& launcher, const LaunchSpec& spec) {
  auto submitted = launcher.Submit(spec);
  EXPECT_TRUE(submitted.has_value());
  EXPECT_TRUE(std::holds_alternative<Bound>(*submitted));
  return std::get<Bound>(*submitted).handle;
}

struct Watched {
  std::string log;
  Observation last;
  int calls = 0;
};
Watched WatchToEnd(FakeLauncher& launcher, VirtualClock& clock, const LaunchHandle& handle,
                   int steps = 1) {
  Watched w;
  do {
    auto seen = launcher.Observe({&handle, 1}, clock.Now() + Millis{3'600'000}, steps);
    w.last = seen->front();
    for (const StageObservation& s : w.last.stages) {
      for (const LogChunk& c : s.log) {
        w.log += c.bytes;
      }
    }
  } while (w.last.state != Observation::State::kEnded && ++w.calls < 10'000);
  return w;
}

int Count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++n;
  }
  return n;
}

TEST(FakeLauncher, RunsAJobInVirtualTimeAndChargesStartToExit) {
  VirtualClock clock;
  FakeWorld world(&clock);
  FakeLauncher launcher(&world);
  const LaunchHandle h = SubmitBound(launcher, SpecOf({"--exit-interval", "10"}));
  const Watched w = WatchToEnd(launcher, clock, h);
  EXPECT_EQ(Count(w.log, "] iteration "), 10);
  EXPECT_EQ(w.last.stages[0].exit_code, 0);
  EXPECT_EQ(w.last.charged, ChargeFor(2, w.last.stages[0].held));
  EXPECT_EQ(w.last.charged, world.TotalCharge());
}

TEST(FakeLauncher, WaitsForTheNumberOfStepsAskedFor) {
  VirtualClock clock;
  FakeWorld world(&clock);
  FakeLauncher launcher(&world);
  const LaunchHandle h = SubmitBound(launcher, SpecOf({"--exit-interval", "100"}));
  const Watched one = WatchToEnd(launcher, clock, h, 1);
  FakeLauncher again(&world);  // a new process: from byte 0
  const Watched all = WatchToEnd(again, clock, h, 50);
  EXPECT_GT(one.calls, 100);
  EXPECT_LT(all.calls, 3);
  EXPECT_EQ(one.log, all.log);
}

TEST(FakeLauncher, JobsGoOnWhileNoLauncherExistsAndASecondSubmitAdopts) {
  VirtualClock clock;
  FakeWorld world(&clock);
  const LaunchSpec spec = SpecOf({"--exit-interval", "10"});
  LaunchHandle first;
  {
    FakeLauncher launcher(&world);
    first = SubmitBound(launcher, spec);
  }
  clock.Advance(Millis{60'000});
  FakeLauncher launcher(&world);
  const auto found = launcher.Find(spec.token);
  ASSERT_TRUE(found.has_value() && found->has_value());
  EXPECT_EQ((*found)->id, first.id);
  EXPECT_EQ(SubmitBound(launcher, spec).id, first.id);
  EXPECT_EQ(world.Submits(spec.token), 2);
  EXPECT_EQ(world.Starts(spec.token), 1);
  EXPECT_LT(WatchToEnd(launcher, clock, first).last.charged, ChargeFor(2, Millis{60'000}));
}

TEST(FakeLauncher, AStoppedJobThatIgnoresTermHoldsItsSlotsThroughTheGrace) {
  VirtualClock clock;
  FakeWorld world(&clock);
  FakeLauncher launcher(&world);
  const LaunchSpec spec = SpecOf({"--fake-hang-at", "3", "--fake-ignore-term"});
  const LaunchHandle h = SubmitBound(launcher, spec);
  clock.Advance(Millis{5'000});
  ASSERT_TRUE(launcher.Cancel(h, spec.stages[0].run).has_value());
  EXPECT_TRUE(world.Live(spec.token));
  const Watched w = WatchToEnd(launcher, clock, h);
  EXPECT_EQ(w.last.charged, ChargeFor(2, Millis{15'000}));
  EXPECT_EQ(w.last.stages[0].signal, 9);
  EXPECT_TRUE(w.last.stages[0].stopped_on_request);
}

TEST(FakeLauncher, TheLimitEndsAHungJobAndTheStagesBehindIt) {
  VirtualClock clock;
  FakeWorld world(&clock);
  FakeLauncher launcher(&world);
  LaunchSpec spec = SpecOf({"--fake-hang-at", "3"});
  spec.stages.push_back(SpecOf({}, "r002").stages[0]);
  spec.limit = Millis{60'000};
  const Watched w = WatchToEnd(launcher, clock, SubmitBound(launcher, spec));
  EXPECT_TRUE(w.last.stages[0].limit_hit);
  EXPECT_FALSE(w.last.stages[1].started);
  EXPECT_EQ(w.last.charged, ChargeFor(2, spec.limit));
}

TEST(FakeLauncher, StoppingOneStageLetsTheNextRun) {
  VirtualClock clock;
  FakeWorld world(&clock);
  FakeLauncher launcher(&world);
  LaunchSpec spec = SpecOf({"--fake-hang-at", "3"});
  spec.stages.push_back(SpecOf({"--exit-interval", "4"}, "r002").stages[0]);
  const LaunchHandle h = SubmitBound(launcher, spec);
  clock.Advance(Millis{2'000});
  ASSERT_TRUE(launcher.Cancel(h, RunId("r001")).has_value());
  const Watched w = WatchToEnd(launcher, clock, h);
  EXPECT_TRUE(w.last.stages[0].stopped_on_request);
  EXPECT_EQ(w.last.stages[1].exit_code, 0);
}

TEST(FakeLauncher, FaultsLookAsTheContractSays) {
  using Kind = FakeFault::Kind;
  const auto end_of = [](FakeFault fault) {
    VirtualClock clock;
    FakeWorld world(&clock);
    world.fault = [&](const LaunchSpec&, int) { return fault; };
    FakeLauncher launcher(&world);
    return WatchToEnd(launcher, clock, SubmitBound(launcher, SpecOf({}))).last;
  };
  EXPECT_EQ(end_of({Kind::kNeverStarts, Millis{1'000}}).charged.value, 0);
  EXPECT_EQ(end_of({Kind::kNeverStarts, Millis{1'000}}).end_hint, RunEnd::kNeverStarted);
  EXPECT_EQ(end_of({Kind::kPreempted, Millis{7'000}}).end_hint, RunEnd::kPreempted);
  EXPECT_EQ(end_of({Kind::kNodeFailed, Millis{7'000}}).charged, ChargeFor(2, Millis{7'000}));
  const Observation lost = end_of({Kind::kLost, Millis{7'000}});
  EXPECT_EQ(lost.end_hint, RunEnd::kLost);
  EXPECT_EQ(lost.source, ChargeSource::kLastBeat);
  EXPECT_EQ(lost.charged, ChargeFor(2, Millis{10'000}));

  VirtualClock clock;
  FakeWorld world(&clock);
  FakeLauncher launcher(&world);
  const LaunchSpec spec = SpecOf({});
  world.fault = [](const LaunchSpec&, int nth) {
    return FakeFault{nth == 1 ? Kind::kUnknownNothing : Kind::kUnknownRuns};
  };
  EXPECT_TRUE(std::holds_alternative<SubmitUnknown>(*launcher.Submit(spec)));
  EXPECT_FALSE(launcher.Find(spec.token)->has_value());
  EXPECT_TRUE(std::holds_alternative<SubmitUnknown>(*launcher.Submit(spec)));
  EXPECT_TRUE(launcher.Find(spec.token)->has_value());
  EXPECT_EQ(world.Starts(spec.token), 1);
}

TEST(FakeTraining, LeversHaveEffectsAndFaultsAreVisible) {
  const auto plan = [](std::vector<std::string> args) {
    return PlanFakeTraining(args, {}, "r001");
  };
  EXPECT_LT(plan({"--exit-interval", "20", "--micro-batch-size", "8"}).ends_at * 3 / 2,
            plan({"--exit-interval", "20"}).ends_at);
  EXPECT_EQ(plan({"--fake-oom-above", "4", "--micro-batch-size", "8"}).exit_code, 1);
  EXPECT_EQ(plan({"--fake-die-at", "3", "--fake-signal", "11"}).signal, 11);
  const FakeTraining nan = plan({"--fake-nan-at", "2", "--exit-interval", "2"});
  EXPECT_EQ(Count(nan.events.back().line, "exiting program"), 1);
  EXPECT_EQ(Count(nan.events[nan.events.size() - 2].line, "lm loss"), 0);
}

}  // namespace
}  // namespace attune::fakes
