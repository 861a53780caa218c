// Worlds that are bound to a recipe's own configuration.
#include "keep_baseline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "attune/base/text.h"
#include "attune/sim/cluster.h"
#include "read_world.h"
#include "setup.h"
#include "unit/sim/sim_recipes.h"
#include "world_fields.h"

namespace attune::sim {
namespace {

TrainingJob JobOf(const Recipe& r) {
  return std::get<TrainingJob>(ResolveMegatron(r.base.args, r.base.env, r.workload));
}

WorldRef Changed(const World& world, const std::function<void(World&)>& change) {
  World w = world;
  change(w);
  w.hash = Sha256Hex(CanonicalText(w));
  return std::make_shared<const World>(std::move(w));
}

TEST(KeepBaseline, LeavesOutTheDefectsThatItMeetsAndNoOthers) {
  const Recipe recipe = ExpertRecipe();  // TP 2, PP 2, EP 8
  const auto with = [&](bool keeps) {
    ClusterSetup setup = SetupFor(recipe, "default:1");
    setup.world = Changed(*setup.world, [&](World& w) {
      w.keeps_baseline = keeps;
      w.defects.clear();
      w.defects.push_back({"met", {*ParseCondition("tp=2")}, Effect::kHang});
      w.defects.push_back({"not met", {*ParseCondition("tp=4")}, Effect::kHang});
    });
    return PrepareSite(setup).value().defects.size();
  };
  EXPECT_EQ(with(false), 2U);
  EXPECT_EQ(with(true), 1U);
}

TEST(KeepBaseline, MakesRoomUntilItTrains) {
  const Recipe recipe = ExpertRecipe();
  for (const double gib : {0.0, 30.0, 200.0}) {
    ClusterSetup setup = SetupFor(recipe, "default:1");
    setup.world = Changed(*setup.world, [&](World& w) {
      w.memory.push_back({"met", {*ParseCondition("tp=2")}, gib * kGibi});
      w.memory.push_back({"elsewhere", {*ParseCondition("tp=8")}, gib * kGibi});
    });
    const Site site = PrepareSite(setup).value();
    Truth truth;
    TruthOf(site, JobOf(recipe), truth);
    EXPECT_TRUE(truth.Trains()) << gib;
    const bool elsewhere = std::any_of(site.memory.begin(), site.memory.end(),
                                       [](const ExtraMemory* m) { return m->id == "elsewhere"; });
    EXPECT_TRUE(elsewhere);
  }
}

TEST(KeepBaseline, HasADeviceAsLargeAsItNeedsAtLast) {
  ClusterSetup setup = SetupFor(DenseRecipe(), "default:1");
  setup.world = Changed(*setup.world, [](World& w) { w.hbm_bytes = 20e9; });
  const Site site = PrepareSite(setup).value();
  Truth truth;
  TruthOf(site, JobOf(setup.recipe), truth);
  EXPECT_TRUE(truth.Trains());
  EXPECT_GT(site.more_memory, 1);
}

TEST(DefaultWorld, IsThePhysicsAtTheBaselineAndNotElsewhere) {
  const ClusterSetup setup = SetupFor(ExpertRecipe(), "default:0");
  const Site site = PrepareSite(setup).value();
  const auto miss = [&](const TrainingJob& job) {
    Truth truth;
    TruthOf(site, job, truth);
    return truth.step / truth.model.step - 1;
  };
  TrainingJob job = JobOf(setup.recipe);
  EXPECT_NEAR(miss(job), 0, 1e-9);
  double most = 0;
  for (const char* pp : {"1", "4"}) {
    for (const char* ep : {"2", "4", "8"}) {
      Recipe other = setup.recipe;
      other.base.args.Set("--pipeline-model-parallel-size", {pp});
      other.base.args.Set("--expert-model-parallel-size", {ep});
      most = std::max(most, std::abs(miss(JobOf(other))));
    }
  }
  EXPECT_GT(most, 0.05);
}

}  // namespace
}  // namespace attune::sim
