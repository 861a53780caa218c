// Whole campaigns on the simulated cluster: cut at commits and taken up, repeated, and blind to
// what no run has shown.
#include <gtest/gtest.h>

#include <filesystem>

#include "attune/recipe_io/recipe_io.h"
#include "attune/sim/fault.h"
#include "session.h"
#include "sim_campaign.h"
#include "simulate.h"
#include "unit/sim/sim_recipes.h"
#include "unit/store/made.h"

namespace attune::cli {
namespace {

LoadedRecipe Loaded() {
  LoadedRecipe loaded;
  loaded.recipe = sim::DenseRecipe();
  loaded.recipe.base.args.Set("--finetune", {});
  loaded.recipe.measure.calibration_runs = 2;
  loaded.path = "/sim/recipe.yaml";
  Rehearse(loaded);
  return loaded;
}

// Follows what it sees: the next change depends on the last run's score.
class Follower final : public Proposer {
 public:
  std::string Name() const override { return "follower"; }
  Result<ProposerReply> Propose(const CampaignState& s, const Vet& vet) override {
    if (s.proposals.size() >= 6) return ProposerReply(StopWish{"six", {}});
    const auto last = static_cast<std::uint64_t>(s.leader.mean * 1000);
    for (std::uint64_t n = last % 7;; ++n) {
      Proposal p;
      constexpr const char* kMbs[] = {"1", "2", "4"};
      constexpr const char* kPp[] = {"1", "2", "4"};
      if (n % 2 == 0) {
        p.change = {"microbatch", {{Edit::Op::kSet, "--micro-batch-size", {kMbs[n / 2 % 3]}}}, {}};
      } else {
        p.change = {"pipeline_layout",
                    {{Edit::Op::kSet, "--pipeline-model-parallel-size", {kPp[n / 2 % 3]}}},
                    {}};
      }
      p.label = "n" + std::to_string(n);
      if (vet(p.change).admitted) return ProposerReply(std::move(p));
      if (n > last % 7 + 12) return ProposerReply(StopWish{"nothing is left", {}});
    }
  }
};

std::string Exported(Store& store) {
  std::string text;
  EXPECT_TRUE(store
                  .Export([&](const std::string& line) {
                    text += line + "\n";
                    return Status();
                  })
                  .has_value());
  return text;
}

std::string Campaign(const sim::WorldRef& world, std::uint64_t seed) {
  const LoadedRecipe loaded = Loaded();
  const auto store = Store::OpenInMemory().value();
  SimCampaign campaign;
  campaign.recipe = &loaded;
  campaign.world = world;
  campaign.policy.seed = seed;
  campaign.budget = FromGpuHours(1000);
  SystemClock clock;
  Follower proposer;
  const auto state = RunSimCampaign(campaign, proposer, *store, clock);
  EXPECT_TRUE(state.has_value()) << (state ? "" : state.error().message);
  EXPECT_TRUE(state && state->Ended());
  return Exported(*store);
}

TEST(SimCampaign, IsAFunctionOfWorldAndSeed) {
  const sim::WorldRef world = sim::OpenWorld("default:2").value();
  const std::string first = Campaign(world, 5);
  EXPECT_GT(first.size(), 10'000U);
  EXPECT_EQ(first, Campaign(world, 5));
  EXPECT_NE(first, Campaign(world, 6));
}

// Everything from a proposal's kind on, which no run so far has shown, may differ; nothing before.
TEST(SimCampaign, AConstantThatNoRunShowsChangesNothing) {
  const sim::WorldRef world = sim::OpenWorld("default:2").value();
  sim::Fault never;
  never.id = "never-met";
  never.when = {"mbs=8", "pp=16"};
  never.step0_loss = 3;
  const sim::WorldRef other = sim::WithFault(*world, never).value();
  const auto without_hash = [](std::string text, const std::string& hash) {
    for (auto at = text.find(hash); at != std::string::npos; at = text.find(hash)) {
      text.replace(at, hash.size(), "HASH");
    }
    const auto print = text.find("\"stack_fingerprint\":\"");
    text.erase(print, 90);
    return text;
  };
  EXPECT_NE(sim::HashOf(*world), sim::HashOf(*other));
  EXPECT_EQ(without_hash(Campaign(world, 5), sim::HashOf(*world)),
            without_hash(Campaign(other, 5), sim::HashOf(*other)));
}

class StopsAtOnce final : public Proposer {
 public:
  std::string Name() const override { return "stops"; }
  Result<ProposerReply> Propose(const CampaignState&, const Vet&) override {
    return ProposerReply(StopWish{"at once", {}});
  }
};

// The baseline's runs, and no more.
CampaignState Calibrated(const LoadedRecipe& loaded, const std::string& world, std::uint64_t seed) {
  const auto store = Store::OpenInMemory().value();
  SimCampaign campaign;
  campaign.recipe = &loaded;
  campaign.world = sim::OpenWorld(world).value();
  campaign.policy.seed = seed;
  campaign.budget = FromGpuHours(1e6);
  SystemClock clock;
  StopsAtOnce proposer;
  auto state = RunSimCampaign(campaign, proposer, *store, clock);
  EXPECT_TRUE(state.has_value()) << (state ? "" : state.error().message);
  return state ? std::move(*state) : CampaignState();
}

int NotValid(const CampaignState& s) {
  int n = 0;
  for (const auto& [id, run] : s.runs) {
    if (run.judged && run.judged->standing != Standing::kReference) ++n;
  }
  return n;
}

TEST(SimCampaign, EveryExamplesBaselineIsValidInItsDefaultWorld) {
  int recipes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ATTUNE_SOURCE_DIR "/examples")) {
    const std::string path = entry.path().string() + "/recipe.yaml";
    if (!std::filesystem::exists(path)) continue;
    Result<LoadedRecipe> loaded = LoadRecipe(path);
    if (!loaded || loaded->recipe.framework != Framework::kMegatronLm) continue;
    ++recipes;
    Rehearse(*loaded);
    for (const std::uint64_t seed : {0, 1}) {
      const CampaignState s = Calibrated(*loaded, std::string(kDefaultWorld), seed);
      EXPECT_TRUE(s.calibration.has_value()) << path;
      EXPECT_EQ(NotValid(s), 0) << path << " seed " << seed;
    }
  }
  EXPECT_GE(recipes, 10);
}

// The gate lets steps drift by 2%: noise alone must hardly ever pass that.
TEST(SimCampaign, NoiseAloneInvalidatesHardlyAnyRun) {
  const LoadedRecipe loaded = Loaded();
  int runs = 0, bad = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const CampaignState s = Calibrated(loaded, "default:2", seed);
    runs += static_cast<int>(s.runs.size());
    bad += NotValid(s);
  }
  EXPECT_GE(runs, 120);
  EXPECT_LE(100 * bad, runs);  // at most one in a hundred
}

struct Cut {
  int n = 0;
  bool after = false;
};

// One process of `attune run`: until it is done, or its store is cut at the Nth commit.
Result<int> Process(const std::string& folder, const Cut& cut) {
  StoreOptions options;
  const auto hit = [&](int n) {
    return n == cut.n ? Status(Fail(ErrorCode::kInternal, "cut here")) : Status();
  };
  if (cut.n > 0 && cut.after) options.hooks.after_commit = hit;
  if (cut.n > 0 && !cut.after) options.hooks.before_commit = hit;
  ATTUNE_TRY(const std::unique_ptr<Store> store, Store::Open(folder, options));
  SystemClock clock;
  ATTUNE_TRY(const std::vector<CampaignRow> rows, store->Campaigns());
  CampaignId id;
  if (rows.empty()) {
    OpenFlags flags;
    flags.world = "default:2";
    flags.policy.seed = 5;
    flags.policy.proposer = "random";
    flags.budget = FromGpuHours(1000);
    ATTUNE_TRY(id, OpenCampaign(*store, Loaded(), flags, clock));
  } else {
    if (rows.front().Ended()) return 0;
    id = rows.front().id;
  }
  SessionFlags session;
  session.progress.quiet = true;
  ATTUNE_TRY(const SessionEnd end, RunSession(*store, id, session, clock));
  return end.code;
}

TEST(SimCampaign, CutAtACommitItEndsAsTheUnbrokenOne) {
  const made::TempFolder folder;
  ASSERT_TRUE(Process(folder / "whole", {}).has_value());
  const std::string whole = Exported(*Store::Open(folder / "whole").value());
  int cuts = 0;
  for (int n = 2; n < 60; n += 3) {
    const std::string state = folder / ("cut" + std::to_string(n));
    const Result<int> first = Process(state, {n, n % 2 == 0});
    if (first) break;  // it ended before its Nth commit
    ASSERT_EQ(first.error().message.find("cut here") == std::string::npos, false)
        << first.error().message;
    ++cuts;
    const Result<int> second = Process(state, {});
    ASSERT_TRUE(second.has_value()) << second.error().message;
    EXPECT_EQ(Exported(*Store::Open(state).value()), whole) << "cut at commit " << n;
  }
  EXPECT_GT(cuts, 5);
}

}  // namespace
}  // namespace attune::cli
