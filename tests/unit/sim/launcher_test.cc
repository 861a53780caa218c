// The simulated launcher against the claims of tests/unit/launch/contract.h that can be made of it,
// and those that only a virtual clock allows.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "attune/logs/log_parser.h"
#include "attune/sim/cluster.h"
#include "unit/sim/sim_recipes.h"

namespace attune::sim {
namespace {

class SimLauncherTest : public testing::Test {
 protected:
  void Open(const std::string& world = "default:1", Recipe recipe = DenseRecipe()) {
    setup_ = SetupFor(std::move(recipe), world);
    Restart({});
  }
  void Restart(std::span<const PastLaunch> past) {
    Result<std::unique_ptr<Launcher>> made = MakeSimLauncher(setup_, clock_, past);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    launcher_ = std::move(*made);
  }
  // A world of the test's own, on top of nothing.
  std::string WorldFile(const std::string& text) {
    const std::string path = testing::TempDir() + "/world-" +
                             testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".yaml";
    std::ofstream(path) << "schema: attune/world/1\nname: test\n" << text;
    return path;
  }
  LaunchHandle Submit(const LaunchSpec& spec) {
    const Result<Submitted> done = launcher_->Submit(spec);
    EXPECT_TRUE(done.has_value());
    return std::get<Bound>(*done).handle;
  }
  LaunchSpec Spec(const std::string& token, std::vector<std::vector<std::string>> stages) {
    return SpecFor(setup_.recipe, token, stages);
  }
  struct Watch {
    std::vector<std::string> logs;
    Observation last;
    bool ended() const { return last.state == Observation::State::kEnded; }
    const StageObservation& stage(std::size_t i = 0) const { return last.stages.at(i); }
  };
  Watch WatchUntil(const LaunchHandle& h,
                   const std::function<bool(const Watch&)>& enough = nullptr) {
    Watch w;
    const Instant give_up = clock_.Now() + std::chrono::hours(20);
    do {
      const auto seen = launcher_->Observe({&h, 1}, give_up, 1);
      EXPECT_TRUE(seen.has_value());
      w.last = seen->front();
      w.logs.resize(w.last.stages.size());
      for (std::size_t i = 0; i < w.logs.size(); ++i) {
        for (const LogChunk& c : w.last.stages[i].log) w.logs[i] += c.bytes;
      }
    } while (!w.ended() && !(enough && enough(w)) && clock_.Now() < give_up);
    return w;
  }
  static int Count(const std::string& text, const std::string& part) {
    int n = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  }
  static std::function<bool(const Watch&)> Printed(std::string text) {
    return [text](const Watch& w) { return w.logs[0].find(text) != std::string::npos; };
  }

  VirtualClock clock_{kSimStart};
  ClusterSetup setup_;
  std::unique_ptr<Launcher> launcher_;
};

TEST_F(SimLauncherTest, ACompletedJobIsChargedFromStartToExit) {
  Open();
  const Watch w = WatchUntil(Submit(Spec("t-1", {{"--exit-interval", "5"}})));
  ASSERT_TRUE(w.ended());
  EXPECT_EQ(w.stage().exit_code, 0);
  EXPECT_EQ(Count(w.logs[0], "] iteration "), 5);
  EXPECT_EQ(w.last.charged, ChargeFor(8, w.stage().held));
  EXPECT_GT(w.stage().held, std::chrono::seconds(60));
  EXPECT_NE(w.logs[0].find("end of arguments"), std::string::npos);
  EXPECT_NE(w.logs[0].find("memory (MB)"), std::string::npos);
}

TEST_F(SimLauncherTest, LinesCarryTheArrivalTimesThatTheyPrint) {
  Open();
  const LaunchHandle h = Submit(Spec("t-1", {{"--exit-interval", "12"}}));
  const auto parser = MakeLogParser(setup_.recipe.log).value();
  Watch w;
  do {
    const auto seen = launcher_->Observe({&h, 1}, clock_.Now() + std::chrono::hours(5), 3);
    w.last = seen->front();
    for (const LogChunk& c : w.last.stages[0].log) parser->Feed(c.bytes, c.arrival_ms);
  } while (!w.ended());
  parser->Finish();
  const LogNews news = parser->Take();
  ASSERT_EQ(news.steps.size(), 12U);
  for (std::size_t i = 1; i < news.steps.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(news.steps[i].arrival_ms - news.steps[i - 1].arrival_ms),
                news.steps[i].printed_ms, 2.0);
  }
  EXPECT_TRUE(parser->Notes().empty());
}

TEST_F(SimLauncherTest, WaitingForStepsMovesTheClockThatFarAndNoFurther) {
  Open();
  const LaunchHandle h = Submit(Spec("t-1", {{"--exit-interval", "40"}}));
  WatchUntil(h, Printed("iteration        1/"));
  const Instant before = clock_.Now();
  const auto seen = launcher_->Observe({&h, 1}, Instant::Never(), 10);
  ASSERT_TRUE(seen.has_value());
  std::string log;
  for (const LogChunk& c : seen->front().stages[0].log) log += c.bytes;
  EXPECT_EQ(Count(log, "] iteration "), 10);
  EXPECT_GT(clock_.Now(), before);
  EXPECT_EQ(seen->front().state, Observation::State::kRunning);
}

TEST_F(SimLauncherTest, StagesRunInTurnAndAStoppedOneLetsTheNextRun) {
  Open();
  const LaunchHandle h =
      Submit(Spec("t-1", {{"--exit-interval", "400"}, {"--exit-interval", "3"}}));
  WatchUntil(h, Printed("iteration        2/"));
  ASSERT_TRUE(launcher_->Cancel(h, RunId("r1")).has_value());
  const Watch w = WatchUntil(h);
  ASSERT_TRUE(w.ended());
  EXPECT_TRUE(w.stage(0).stopped_on_request);
  EXPECT_EQ(w.stage(0).signal, 15);
  EXPECT_EQ(w.stage(1).exit_code, 0);
  EXPECT_EQ(w.stage(1).started_wall_ms, w.stage(0).started_wall_ms + w.stage(0).held.count());
}

TEST_F(SimLauncherTest, CancellingALaunchEndsItAndStartsNothingMore) {
  Open();
  const LaunchHandle h =
      Submit(Spec("t-1", {{"--exit-interval", "400"}, {"--exit-interval", "3"}}));
  WatchUntil(h, Printed("iteration        2/"));
  ASSERT_TRUE(launcher_->Cancel(h, std::nullopt).has_value());
  const Watch w = WatchUntil(h);
  EXPECT_TRUE(w.stage(0).stopped_on_request);
  EXPECT_FALSE(w.stage(1).started);
  EXPECT_FALSE(w.stage(1).ended);
}

TEST_F(SimLauncherTest, TheLimitEndsALaunchAndIsNotPassedInTheCharge) {
  Open(WorldFile("defects:\n  - {id: stuck, effect: hang, step: 2}\n"));
  LaunchSpec spec = Spec("t-1", {{"--exit-interval", "400"}});
  spec.limit = std::chrono::hours(1);
  const Watch w = WatchUntil(Submit(spec));
  ASSERT_TRUE(w.ended());
  EXPECT_TRUE(w.stage().limit_hit);
  EXPECT_EQ(Count(w.logs[0], "] iteration "), 2);
  EXPECT_LE(w.last.charged, ChargeFor(8, spec.limit + launcher_->ReleaseMargin()));
  EXPECT_GE(w.last.charged, ChargeFor(8, spec.limit));
}

TEST_F(SimLauncherTest, ASecondSubmitOfATokenStartsNothing) {
  Open();
  const LaunchSpec spec = Spec("t-1", {{"--exit-interval", "5"}});
  const LaunchHandle first = Submit(spec);
  const Watch w = WatchUntil(first);
  const LaunchHandle second = Submit(spec);
  EXPECT_EQ(second.id, first.id);
  EXPECT_EQ(WatchUntil(second).last.charged, w.last.charged);
}

TEST_F(SimLauncherTest, FindSaysForCertainThatATokenIsNotThere) {
  Open();
  const auto found = launcher_->Find(Token("t-nobody"));
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->has_value());
}

// The heart of resume: the same job, byte for byte, from what the record says of it.
TEST_F(SimLauncherTest, AFreshLauncherHasTheSameJobAtTheSameMoment) {
  Open();
  const LaunchSpec spec = Spec("t-1", {{"--exit-interval", "400"}, {"--exit-interval", "6"}});
  const Instant submitted = clock_.Now();
  const LaunchHandle h = Submit(spec);
  const Watch before = WatchUntil(h, Printed("iteration        3/"));
  const Instant stopped = clock_.Now();
  ASSERT_TRUE(launcher_->Cancel(h, RunId("r1")).has_value());
  const Watch unbroken = WatchUntil(h);
  const Instant end = clock_.Now();

  clock_ = VirtualClock(stopped);
  const PastLaunch past[] = {{spec, submitted, {{RunId("r1"), stopped}}}};
  Restart(past);
  const auto found = launcher_->Find(spec.token);
  ASSERT_TRUE(found.has_value() && found->has_value());
  EXPECT_EQ((*found)->id, h.id);
  const Watch again = WatchUntil(h);
  EXPECT_EQ(clock_.Now(), end);
  EXPECT_EQ(again.last.charged, unbroken.last.charged);
  EXPECT_TRUE(again.logs[0].starts_with(before.logs[0].substr(0, 40))) << again.logs[0];
  EXPECT_EQ(again.logs[1], unbroken.logs[1]);
  EXPECT_EQ(again.last.nodes, unbroken.last.nodes);
}

TEST_F(SimLauncherTest, JobsDifferByTokenSeedAndWorld) {
  const auto log = [&](const std::string& world, std::uint64_t seed, const std::string& token) {
    setup_ = SetupFor(DenseRecipe(), world, seed);
    clock_ = VirtualClock(kSimStart);
    Restart({});
    return WatchUntil(Submit(Spec(token, {{"--exit-interval", "4"}}))).logs[0];
  };
  const std::string first = log("default:1", 1, "t-1");
  EXPECT_EQ(first, log("default:1", 1, "t-1"));
  EXPECT_NE(first, log("default:1", 1, "t-2"));
  EXPECT_NE(first, log("default:1", 2, "t-1"));
  EXPECT_NE(first, log("default:2", 1, "t-1"));
}

TEST_F(SimLauncherTest, APreemptedLaunchSaysSoAndIsChargedToThatMoment) {
  Open(WorldFile("hazards: {preemption_per_hour: 30}\n"));
  const Watch w = WatchUntil(Submit(Spec("t-1", {{"--exit-interval", "4000"}})));
  ASSERT_TRUE(w.ended());
  EXPECT_EQ(w.last.end_hint, RunEnd::kPreempted);
  EXPECT_NE(w.logs[0].find("DUE TO PREEMPTION"), std::string::npos);
  EXPECT_EQ(w.last.charged, ChargeFor(8, w.stage().held));
}

TEST_F(SimLauncherTest, ANodeThatFailsIsNotUsedAgainWhenExcluded) {
  Open(WorldFile("hazards: {node_failure_per_hour: 30}\n"));
  const Watch w = WatchUntil(Submit(Spec("t-1", {{"--exit-interval", "4000"}})));
  EXPECT_EQ(w.last.end_hint, RunEnd::kNodeFailed);
  LaunchSpec spec = Spec("t-1", {{"--exit-interval", "4"}});
  spec.exclude = {w.stage().node};
  Restart({});
  EXPECT_NE(WatchUntil(Submit(spec)).stage().node, w.stage().node);
}

TEST_F(SimLauncherTest, RunningOutOfMemoryCostsTheStartUpAndAFirstStep) {
  Open("default:1", ExpertRecipe());
  const Watch fine = WatchUntil(Submit(Spec("t-1", {{"--exit-interval", "18"}})));
  const Watch oom = WatchUntil(Submit(
      Spec("t-2", {{"--exit-interval", "18", "--micro-batch-size", "8",
                    "--tensor-model-parallel-size", "1", "--pipeline-model-parallel-size", "1"}})));
  EXPECT_NE(oom.logs[0].find("CUDA out of memory"), std::string::npos);
  EXPECT_EQ(oom.stage().exit_code, 1);
  EXPECT_LT(oom.last.charged, fine.last.charged);
}

TEST_F(SimLauncherTest, ARestartLoadsWhatTheStageBeforeItSaved) {
  Open();
  const Watch w = WatchUntil(
      Submit(Spec("t-1", {{"--exit-interval", "4", "--save", "/s", "--save-interval", "4"},
                          {"--exit-interval", "6", "--load", "/s"}})));
  ASSERT_TRUE(w.ended());
  EXPECT_NE(w.logs[1].find("iteration        5/"), std::string::npos);
  EXPECT_EQ(Count(w.logs[1], "] iteration "), 2);
}

class SimTraceTest : public SimLauncherTest {
 protected:
  void OpenTraced() {
    Open();
    setup_.trace_root = testing::TempDir() + "/sim-traces-" +
                        testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(setup_.trace_root);
    Restart({});
  }
  // Profiled in its sixth step.
  LaunchSpec Profiled(const std::string& exit_interval) {
    return Spec("t-1", {{"--exit-interval", exit_interval, "--profile", "--use-pytorch-profiler",
                         "--profile-step-start", "5", "--profile-step-end", "7", "--profile-ranks",
                         "0", "--tensorboard-dir", "sim-traced/t-1/scratch/r001/tensorboard"}});
  }
  // The only file below what is brought; empty: there is none.
  std::string Brought(const LaunchHandle& h) {
    const auto root = launcher_->BringHere(h, "scratch/r001/tensorboard", 1 << 30);
    EXPECT_TRUE(root.has_value());
    const std::string folder = *root + "/scratch/r001/tensorboard";
    if (!std::filesystem::exists(folder)) return {};
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      EXPECT_TRUE(text.empty());
      std::ifstream in(entry.path());
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    return text;
  }
};

TEST_F(SimTraceTest, TheProfiledStepOfARunIsAKinetoTraceOfThatStep) {
  OpenTraced();
  const LaunchHandle h = Submit(Profiled("12"));
  ASSERT_TRUE(WatchUntil(h).ended());
  const std::string text = Brought(h);
  EXPECT_NE(text.find("ProfilerStep#6"), std::string::npos);
  EXPECT_NE(text.find("\"rank\": 0"), std::string::npos);
  EXPECT_LE(Count(text, "\"ph\""), 20'000);
}

TEST_F(SimTraceTest, ATraceIsTheSameAfterARestartOnceItsLaunchIsOver) {
  OpenTraced();
  const LaunchSpec spec = Profiled("12");
  const Instant submitted = clock_.Now();
  const LaunchHandle h = Submit(spec);
  ASSERT_TRUE(WatchUntil(h).ended());
  const std::string text = Brought(h);
  ASSERT_FALSE(text.empty());
  std::filesystem::remove_all(setup_.trace_root);
  const PastLaunch past{spec, submitted, {}};
  Restart({&past, 1});
  EXPECT_EQ(Brought(h), text);
}

TEST_F(SimTraceTest, AJobThatEndedBeforeItsProfileLeavesNoTrace) {
  OpenTraced();
  const LaunchHandle h = Submit(Profiled("5"));
  ASSERT_TRUE(WatchUntil(h).ended());
  EXPECT_TRUE(Brought(h).empty());
}

TEST_F(SimTraceTest, WithoutAFolderForThemNothingIsWritten) {
  OpenTraced();
  const std::string root = std::exchange(setup_.trace_root, "");
  Restart({});
  const LaunchHandle h = Submit(Profiled("12"));
  ASSERT_TRUE(WatchUntil(h).ended());
  EXPECT_EQ(launcher_->BringHere(h, "scratch/r001/tensorboard", 1 << 30).value(), h.folder);
  EXPECT_FALSE(std::filesystem::exists(root));
}

TEST(SimLauncherRefuses, ARecipeThatThePhysicsDoesNotKnow) {
  VirtualClock clock(kSimStart);
  ClusterSetup setup = SetupFor(DenseRecipe(), "default:1");
  setup.recipe.framework = Framework::kCustom;
  EXPECT_EQ(MakeSimLauncher(setup, clock).error().code, ErrorCode::kInvalidInput);
  setup = SetupFor(DenseRecipe(), "default:1");
  setup.recipe.workload.gpu = "abacus";
  EXPECT_NE(MakeSimLauncher(setup, clock).error().message.find("abacus"), std::string::npos);
}

}  // namespace
}  // namespace attune::sim
