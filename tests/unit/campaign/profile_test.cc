// The profile window of scored runs: where it lies, what it costs, and what its traces tell.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "harness.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using testing::BrokenBooks;
using testing::Campaign;
using testing::FakeRecipe;

// Three steps of two kernels with a long host wait between them: launch-bound.
std::string Trace(int rank) {
  std::string events;
  int id = 0;
  for (int step = 0; step < 3; ++step) {
    const int at = 1'000'000 + step * 1'000;
    events += fmt::format(
        R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}","pid":1,"tid":1,"ts":{},"dur":990}},)",
        step, at);
    for (int k = 0; k < 10; ++k) {
      const int start = at + k * 100;
      ++id;
      events += fmt::format(
          R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":4,"args":{{"correlation":{}}}}},)"
          R"({{"ph":"X","cat":"kernel","name":"sgemm_128x128","pid":0,"tid":7,"ts":{},"dur":40,"args":{{"device":0,"stream":7,"correlation":{}}}}},)",
          start, id, start + 10, id);
    }
  }
  events.pop_back();
  return fmt::format(
      R"({{"schemaVersion":1,"distributedInfo":{{"rank":{},"world_size":2}},"traceEvents":[{}]}})",
      rank, events);
}

std::string TraceFolder(const Stage& stage) {
  const auto flag = std::find(stage.argv.begin(), stage.argv.end(), "--profile-dir");
  return flag == stage.argv.end() ? std::string() : *std::next(flag);
}

class Profile : public ::testing::Test {
 protected:
  Profile() {
    std::string pattern = fs::temp_directory_path() / "attune-profile.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~Profile() override { fs::remove_all(folder_); }

  static Recipe Profiled() {
    Recipe r = FakeRecipe();
    r.profile.set = {{"--profile", "true"},
                     {"--profile-step-start", "{p}"},
                     {"--profile-step-end", "{q}"},
                     {"--profile-dir", "{run}/traces"}};
    return r;
  }

  // A job that writes `text` for each of its two ranks where it was told to.
  void Writes(Campaign& c, const std::string& text0, const std::string& text1) const {
    c.world.run_root = folder_;
    c.opening.run_root = folder_;
    c.world.play = [=](const Stage& stage) {
      const std::string dir = TraceFolder(stage);
      if (!dir.empty()) {
        fs::create_directories(dir);
        std::ofstream(dir + "/rank0.pt.trace.json") << text0;
        std::ofstream(dir + "/rank1.pt.trace.json") << text1;
      }
      return fakes::PlayTraining(stage);
    };
  }

  static bool HasNote(const RunRecord& run, std::string_view words) {
    if (!run.diagnosis) return false;
    for (const std::string& note : run.diagnosis->notes) {
      if (note.find(words) != std::string::npos) return true;
    }
    return false;
  }

  std::string folder_;
};

TEST_F(Profile, LiesBehindTheTimedWindowOfEveryMeasuredRun) {
  Campaign c(Profiled());
  Writes(c, Trace(0), Trace(1));
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  EXPECT_EQ(s.phase, Phase::kShipped);
  EXPECT_EQ(BrokenBooks(c), "");
  int whole = 0;
  for (const auto& [id, run] : s.runs) {
    if (run.plan.form != Form::kMeasured || run.purpose == Purpose::kComponentTest) continue;
    // Two steps, one of warm-up before them, one that shows that the files are written.
    EXPECT_EQ(run.plan.profile_last - run.plan.profile_first, 4) << id.value;
    const auto& args = run.plan.executed.args;
    EXPECT_EQ(args.Value("--profile-step-start"),
              std::to_string(run.plan.profile_first - run.plan.start_iteration + 1));
    EXPECT_EQ(args.Value("--profile-step-end"), std::to_string(run.plan.profile_last - 1));
    for (const Step& step : run.steps) {
      EXPECT_EQ(step.cut,
                step.iteration >= run.plan.profile_first && step.iteration <= run.plan.profile_last)
          << id.value << " " << step.iteration;
    }
    if (!run.judged || run.judged->standing == Standing::kStoppedEarly) continue;
    ++whole;
    EXPECT_GE(run.steps.back().iteration, run.plan.profile_last) << id.value;
    ASSERT_TRUE(run.diagnosis);
    EXPECT_EQ(run.diagnosis->source, "trace") << id.value;
  }
  EXPECT_GE(whole, 6);
}

TEST_F(Profile, NothingOfItShips) {
  Campaign c(Profiled());
  Writes(c, Trace(0), Trace(1));
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  EXPECT_FALSE(s.leader.user.args.Has("--profile"));
  EXPECT_FALSE(s.leader.user.args.Has("--profile-dir"));
}

TEST_F(Profile, TheSameRunsAreMadeWithItAndWithout) {
  Campaign with(Profiled()), without(FakeRecipe());
  Writes(with, Trace(0), Trace(1));
  ASSERT_TRUE(with.Go());
  ASSERT_TRUE(without.Go());
  EXPECT_EQ(with.State().leader.user, without.State().leader.user);
}

TEST_F(Profile, OffMeansNoRowAndNoExtraStep) {
  Recipe off = Profiled();
  off.profile.off = true;
  Campaign a(off), b(FakeRecipe());
  ASSERT_TRUE(a.Go());
  ASSERT_TRUE(b.Go());
  EXPECT_EQ(a.RunTable(), b.RunTable());
  for (const auto& [id, run] : a.State().runs) EXPECT_EQ(run.plan.profile_first, 0);
}

TEST_F(Profile, ItsTracesAreDiagnosedAndThoseOfOtherRanksRemoved) {
  Campaign c(Profiled());
  Writes(c, Trace(0), Trace(1));
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  const RunRecord& run = s.runs.begin()->second;
  ASSERT_TRUE(run.diagnosis);
  ASSERT_EQ(run.diagnosis->times.size(), 1u);
  EXPECT_EQ(run.diagnosis->times[0].rank, 0);
  EXPECT_GT(run.diagnosis->times[0].host_wait, 0);
  EXPECT_EQ(run.diagnosis->bottlenecks.front().cls, "launch_bound");
  // The log's rows stand beside the trace's.
  bool spread = false;
  for (const Bottleneck& b : run.diagnosis->bottlenecks) spread |= b.cls == "step_time_spread";
  EXPECT_TRUE(spread);
  EXPECT_TRUE(HasNote(run, "removed"));
  EXPECT_TRUE(fs::exists(run.diagnosis->traces + "/traces/rank0.pt.trace.json"));
  EXPECT_FALSE(fs::exists(run.diagnosis->traces + "/traces/rank1.pt.trace.json"));
}

TEST_F(Profile, WhatIsLargerThanTheRecipeAllowsIsReadAndRemoved) {
  Recipe r = Profiled();
  r.profile.max_bytes = 1'000;
  Campaign c(r);
  Writes(c, Trace(0), Trace(1));
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  const RunRecord& run = s.runs.begin()->second;
  ASSERT_TRUE(run.diagnosis);
  EXPECT_EQ(run.diagnosis->source, "trace");
  EXPECT_EQ(run.diagnosis->traces, "");
  EXPECT_TRUE(HasNote(run, "was read and removed"));
}

TEST_F(Profile, ABrokenTraceIsANoteAndNeverARun) {
  const std::string whole = Trace(0);
  for (const std::string& text :
       {std::string("{\"traceEvents\": 7"), std::string("no trace at all"), std::string(),
        whole.substr(0, whole.size() / 2)}) {
    Campaign c(Profiled());
    Writes(c, text, text);
    const Result<CampaignEnd> end = c.Go();
    ASSERT_TRUE(end) << end.error().message;
    const CampaignState s = c.State();
    EXPECT_EQ(s.phase, Phase::kShipped);
    const RunRecord& run = s.runs.begin()->second;
    ASSERT_TRUE(run.diagnosis);
    EXPECT_FALSE(run.diagnosis->notes.empty()) << text.substr(0, 40);
    EXPECT_EQ(run.judged->validity, Validity::kValid);
  }
}

TEST_F(Profile, AProfileThatLeavesNoTraceIsSaidSo) {
  Campaign c(Profiled());
  ASSERT_TRUE(c.Go());
  const CampaignState s = c.State();
  EXPECT_EQ(s.phase, Phase::kShipped);
  const RunRecord& run = s.runs.begin()->second;
  EXPECT_EQ(run.diagnosis->source, "log");
  EXPECT_TRUE(HasNote(run, "left no trace"));
}

// The steps were there: the run is measured, and the profiler is not asked again.
TEST_F(Profile, ACrashInTheProfileCostsTheTraceAndNotTheRun) {
  Campaign first(Profiled());
  ASSERT_TRUE(first.Go());
  const std::int64_t broken_at = first.State().runs.begin()->second.plan.profile_first + 1;
  Campaign c(Profiled());
  c.world.play = [&](const Stage& stage) {
    fakes::FakeTraining job = fakes::PlayTraining(stage);
    if (TraceFolder(stage).empty()) return job;
    std::int64_t iteration = c.opening.start_iteration;
    for (std::size_t i = 0; i < job.events.size(); ++i) {
      if (!job.events[i].step || ++iteration < broken_at) continue;
      job.ends_at = job.events[i].at + Millis{1};
      job.events.resize(i + 1);
      job.exit_code = 1;
    }
    return job;
  };
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end) << end.error().message;
  const CampaignState s = c.State();
  const RunRecord& run = s.runs.begin()->second;
  EXPECT_EQ(run.end->detail.end, RunEnd::kCrashed);
  EXPECT_EQ(run.judged->validity, Validity::kValid) << run.judged->reason;
  ASSERT_FALSE(run.judged->findings.empty());
  EXPECT_EQ(run.judged->findings.back().rule, "profile.broke");
  for (const auto& [id, later] : s.runs) {
    if (id == run.plan.id) continue;
    EXPECT_EQ(later.plan.profile_first, 0) << id.value;
  }
  // Candidates run without the rows that the first calibration run printed.
  EXPECT_EQ(s.phase, Phase::kShipped) << s.phase_reason;
  EXPECT_EQ(s.leader.user, first.State().leader.user);
  EXPECT_EQ(BrokenBooks(c), "");
}

// A crash before the window is whole is a failure as ever.
TEST_F(Profile, ACrashBeforeTheProfileIsAFailure) {
  Recipe r = Profiled();
  r.base.args.Set("--fake-die-at", {"50"});
  Campaign c(r);
  const Result<CampaignEnd> end = c.Go();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 7) << end->why;
}

}  // namespace
}  // namespace attune
