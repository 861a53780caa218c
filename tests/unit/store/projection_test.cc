// Projections against the two other ways to know: a rebuild from the events, and the fold of the
// model (Apply).
#include "attune/model/campaign.h"
#include "attune/store/store.h"
#include "event_json.h"
#include "gtest/gtest.h"
#include "made.h"

namespace attune {
namespace {

using made::CampaignFacts;
using made::HandClock;
using made::OpenedOf;
using made::RunSql;
using made::TempFolder;

struct ProjectionTest : testing::Test {
  TempFolder folder;
  HandClock clock;
  std::unique_ptr<Store> store = Store::Open(folder / "state").value();

  // Writes a whole campaign; after each commit calls `look`.
  void Write(const std::string& id, int searches, std::uint64_t seed,
             const std::function<void(const CampaignState&)>& look = {}) {
    const auto opened = store->Create(OpenedOf(id), clock.Now());
    ASSERT_TRUE(opened);
    CampaignState state = Apply({}, *opened);
    const auto writer = store->Acquire(CampaignId(id), clock).value();
    for (const std::vector<Fact>& facts : CampaignFacts(id, searches, seed)) {
      clock.Pass(Millis{1'000});
      const auto events = writer->Append(facts, clock.Now());
      ASSERT_TRUE(events) << events.error().message << " " << FactWord(facts[0]);
      for (const Event& event : *events) state = Apply(std::move(state), event);
      if (look) look(state);
    }
    ASSERT_TRUE(writer->Release(clock.Now()));
  }
  CampaignState Fold(const std::string& id) {
    CampaignState state;
    const auto events = store->Load(CampaignId(id)).value();
    for (const Event& event : events) {
      state = Apply(std::move(state), event);
    }
    return state;
  }
};

TEST_F(ProjectionTest, EqualARebuildFromTheEventsAtEveryCommit) {
  Write("c-1", 4, 1, [&](const CampaignState&) {
    const auto lines = store->Check().value();
    for (const CheckLine& line : lines) {
      EXPECT_TRUE(line.ok) << line.what << ": " << line.found;
    }
  });
}

TEST_F(ProjectionTest, TheSummarySaysWhatTheFoldSaysAtEveryCommit) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const std::string id = "c-" + std::to_string(seed);
    Write(id, 12, seed, [&](const CampaignState& state) {
      const CampaignSummary s = store->Summary(CampaignId(id)).value();
      const Counts counts = CountsOf(state);
      EXPECT_EQ(s.counts.launched, counts.launched);
      EXPECT_EQ(s.counts.win, counts.win);
      EXPECT_EQ(s.counts.tie, counts.tie);
      EXPECT_EQ(s.counts.loss, counts.loss);
      EXPECT_EQ(s.counts.failed, counts.failed);
      EXPECT_EQ(s.counts.stopped_early, counts.stopped_early);
      EXPECT_EQ(s.counts.rejected, counts.rejected);
      EXPECT_EQ(s.counts.refused, counts.refused);
      EXPECT_EQ(s.counts.turned_back, counts.turned_back);
      EXPECT_EQ(s.counts.duplicate, counts.duplicate);
      EXPECT_EQ(s.ledger.Charged(), state.ledger.Charged());
      EXPECT_EQ(s.ledger.held, state.ledger.held);
      EXPECT_EQ(s.ledger.failed, state.ledger.failed);
      EXPECT_EQ(s.ledger.overrun, state.ledger.overrun);
      EXPECT_EQ(s.ledger.final, state.ledger.final);
      EXPECT_EQ(s.budget, state.budget);
      EXPECT_EQ(s.campaign.phase, state.phase);
      EXPECT_EQ(s.campaign.stop, state.stop);
      EXPECT_EQ(s.leader.run, state.leader.run);
      EXPECT_EQ(s.open_runs.empty(), state.OpenLaunches().empty());
      EXPECT_EQ(s.runs, static_cast<std::int64_t>(state.runs.size()));
      if (!state.leader.run.empty()) {
        EXPECT_DOUBLE_EQ(*s.leader.gain, state.leader.gain);
      }
    });
  }
}

TEST_F(ProjectionTest, RunsCarryTheirChangeMoneyAndMeasurement) {
  Write("c-1", 12, 3);
  const CampaignId id("c-1");
  const std::vector<RunRow> runs = store->Runs(id, {}).value();
  const CampaignState state = Fold("c-1");
  ASSERT_EQ(runs.size(), state.runs.size());
  bool some_win = false, some_failed = false;
  for (const RunRow& row : runs) {
    const RunRecord& run = state.runs.at(row.id);
    EXPECT_EQ(row.label, run.plan.label);
    EXPECT_EQ(row.steps, static_cast<std::int64_t>(run.steps.size()));
    EXPECT_EQ(row.purpose, run.purpose);
    const LaunchRecord& launch = state.launches.at(row.launch);
    EXPECT_EQ(row.launch_state, launch.state);
    EXPECT_EQ(row.charged, launch.end ? launch.end->charged : GpuMillis{});
    EXPECT_EQ(row.end.has_value(), run.end.has_value());
    if (run.judged) {
      EXPECT_EQ(row.standing, run.judged->standing);
    }
    if (run.judged && run.judged->measurement) {
      EXPECT_EQ(row.score, run.judged->measurement->tokens_per_s_per_slot);
      EXPECT_EQ(row.max_reserved, 2'000);
    }
    if (row.standing == Standing::kWin) {
      some_win = true;
      EXPECT_EQ(row.lever, "micro_batch");
      EXPECT_NE(row.change.find("micro-batch-size "), std::string::npos) << row.change;
      EXPECT_NE(row.change.find("->"), std::string::npos) << row.change;
    }
    if (row.end && IsFailed(*row.end)) {
      some_failed = true;
      EXPECT_EQ(row.failure_class, "oom_gpu");
      EXPECT_EQ(row.stop_why, "fatal_line");
    }
  }
  EXPECT_TRUE(some_win && some_failed) << "the seed shows both";
  const auto failed = store->Runs(id, {.failed_only = true}).value();
  for (const RunRow& row : failed) {
    EXPECT_TRUE(IsFailed(*row.end));
  }
  EXPECT_EQ(store->Runs(id, {.newest = 2})->back().id, runs.back().id);
  EXPECT_EQ(store->Runs(id, {.newest = 2})->size(), 2U);
}

TEST_F(ProjectionTest, ARunIsFoundByIdPrefixOrLabel) {
  Write("c-1", 3, 5);
  const CampaignId id("c-1");
  EXPECT_EQ(store->FindRun(id, "r001")->id.value, "r001");
  EXPECT_EQ(store->FindRun(id, "winner")->label, "winner");
  EXPECT_EQ(store->FindRun(id, "r00").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(store->FindRun(id, "baseline").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(store->FindRun(id, "nothing").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->FindProposal(id, "p001")->id.value, "p001");
  EXPECT_EQ(store->FindProposal(id, "q").error().code, ErrorCode::kNotFound);
}

TEST_F(ProjectionTest, ASpoiledProjectionIsNamedByCheckAndRepairedByARebuild) {
  Write("c-1", 6, 2);
  Write("c-2", 3, 4);
  ASSERT_EQ(RunSql(store->path(), "UPDATE run SET standing = 'win' WHERE id = 'r001'"), "");
  ASSERT_EQ(RunSql(store->path(), "UPDATE campaign SET search_gpu_ms = 1 WHERE id = 'c-2'"), "");
  const auto bad = [&] {
    std::vector<std::string> lines;
    const auto checked = store->Check().value();
    for (const CheckLine& line : checked) {
      if (!line.ok) lines.push_back(line.what + ": " + line.found);
    }
    return lines;
  };
  ASSERT_EQ(bad().size(), 2U);
  EXPECT_NE(bad()[0].find("campaign c-2: projection differs from its events: campaign row 1"),
            std::string::npos)
      << bad()[0];
  EXPECT_NE(bad()[1].find("campaign c-1: projection differs from its events: run row 1"),
            std::string::npos)
      << bad()[1];
  ASSERT_TRUE(store->AddWish(CampaignId("c-1"), "drain", "x", clock.Now()));
  const Status rebuilt = store->RebuildProjections(CampaignId("c-1"));
  ASSERT_TRUE(rebuilt) << rebuilt.error().message;
  ASSERT_TRUE(store->RebuildProjections(CampaignId("c-2")));
  EXPECT_TRUE(bad().empty()) << bad()[0];
  EXPECT_EQ(store->Wishes(CampaignId("c-1"))->size(), 1U);
}

TEST_F(ProjectionTest, AFailedFinalStageFallsBackToTheLeaderBefore) {
  ASSERT_TRUE(store->Create(OpenedOf("c-1"), clock.Now()));
  const CampaignId id("c-1");
  const auto writer = store->Acquire(id, clock).value();
  for (const char* n : {"1", "2"}) {
    LaunchIntended intended;
    intended.id = LaunchId(std::string("l") + n);
    intended.token = Token(std::string("t") + n);
    intended.runs.resize(1);
    intended.runs[0].id = RunId(std::string("r") + n);
    Judged judged;
    judged.id = intended.runs[0].id;
    judged.leads = true;
    ASSERT_TRUE(writer->Append({intended, judged}, clock.Now()));
  }
  const auto failed = [](const char* leader) {
    FinalResult result;
    result.leader = RunId(leader);
    return result;
  };
  EXPECT_EQ(store->Summary(id)->leader.run.value, "r2");
  ASSERT_TRUE(writer->Append(failed("r2"), clock.Now()));
  EXPECT_EQ(store->Summary(id)->leader.run.value, "r1");
  ASSERT_TRUE(writer->Append(failed("r1"), clock.Now()));
  EXPECT_EQ(store->Summary(id)->leader.run.value, "");
  EXPECT_EQ(store->Summary(id)->leader.label, "baseline");
}

}  // namespace
}  // namespace attune
