#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "attune/sim/cluster.h"
#include "read_world.h"
#include "unit/sim/sim_recipes.h"
#include "world_fields.h"

namespace attune::sim {
namespace {

Result<World> Read(const std::string& text) {
  const std::string path = testing::TempDir() + "/a-world.yaml";
  std::ofstream(path) << text;
  return ReadWorld(path);
}
constexpr const char* kHead = "schema: attune/world/1\nname: w\n";

std::string ErrorOf(const std::string& text) {
  const Result<World> world = Read(kHead + text);
  if (world) return "none";
  const std::string& message = world.error().message;
  return message.substr(message.rfind('/') + 1);
}

TEST(ReadWorld, TakesEverySection) {
  const Result<World> world = Read(std::string(kHead) + R"(about: all of it
seed: 7
physics: {launch_moe_s: 9e-3, network_efficiency: 0.4}
stack: {framework: Megatron-LM, factor: 1.5}
machine: {nic_gbs: 25, hbm_gib: 70, gpu_initiated: false}
residuals: {seed: 3, time: 0.2, memory: 0.1, reach: 2.5}
interactions:
  - {id: a, when: [pp>=8, vp>=2], term: launch_wait, factor: 1.3}
memory:
  - {id: m, when: [ep>=8], gib: 2, of_activations: 0.1}
defects:
  - {id: d, when: [mbs>=4], effect: oom, step: 6}
  - {id: s, when: [uneven=1], effect: silent, step0_loss: 0.03}
noise: {allocation_sigma: 0.01, slow_steps: 3}
starting: {queue_s: 5, fixed_s: 60}
hazards: {preemption_per_hour: 0.1, watchdog: true}
training: {first_loss: 3.1}
input: {tokens_per_gpu: 900}
)");
  ASSERT_TRUE(world.has_value()) << world.error().message;
  EXPECT_EQ(world->coefficients.launch_moe_s, 9e-3);
  EXPECT_EQ(world->nic_rate, 25e9);
  EXPECT_EQ(world->hbm_bytes, 70.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(world->gpu_initiated, false);
  EXPECT_EQ(world->interactions.at(0).when.size(), 2U);
  EXPECT_EQ(world->interactions.at(0).term, Term::kLaunchWait);
  EXPECT_EQ(world->defects.at(0).effect, Effect::kOom);
  EXPECT_EQ(world->defects.at(1).step0_loss, 0.03);
  EXPECT_TRUE(world->hazards.watchdog);
  EXPECT_EQ(world->input.tokens_per_gpu, 900);
}

TEST(ReadWorld, NamesThePlaceOfWhatIsWrong) {
  EXPECT_EQ(ErrorOf("nois: {}\n"), "a-world.yaml:3:1: unknown key 'nois' in the world");
  EXPECT_EQ(ErrorOf("physics: {launch_mo_s: 1}\n"),
            "a-world.yaml:3:24: 'launch_mo_s' is no constant of the physics");
  EXPECT_EQ(ErrorOf("noise: {step_sigma: 5}\n"),
            "a-world.yaml:3:21: noise.step_sigma must be at most 0.2, not 5");
  EXPECT_EQ(ErrorOf("defects: [{id: d, effect: boom}]\n"),
            "a-world.yaml:3:27: defects[0].effect cannot be boom");
  EXPECT_EQ(ErrorOf("defects: [{id: d, effect: hang, when: [pp>8]}]\n"),
            "a-world.yaml:3:40: 'pp>8' is no condition");
  EXPECT_EQ(ErrorOf("defects: [{id: d, effect: hang, when: [colour=1]}]\n"),
            "a-world.yaml:3:40: 'colour' is no property of a job");
  EXPECT_EQ(ErrorOf("interactions: [{id: i, term: heat, factor: 2}]\n"),
            "a-world.yaml:3:30: 'heat' is no term");
}

TEST(ReadWorld, RefusesANewerSchema) {
  EXPECT_FALSE(Read("schema: attune/world/2\nname: w\n").has_value());
}

TEST(DrawWorld, IsAFunctionOfFamilyAndSeed) {
  const World a = DrawWorld("default", 5).value();
  EXPECT_EQ(a.hash, DrawWorld("default", 5).value().hash);
  EXPECT_NE(a.hash, DrawWorld("default", 6).value().hash);
  EXPECT_NE(a.hash, DrawWorld("cloud", 5).value().hash);
}

TEST(DrawWorld, HasCouplingsMemoryAndDefectsOfItsOwn) {
  for (const char* family : {"default", "cloud", "slow-network", "no-launch", "small-memory",
                             "slow-flex", "dear-recompute", "null"}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const World w = DrawWorld(family, seed).value();
      EXPECT_GE(w.interactions.size(), 2U);
      EXPECT_GE(w.memory.size(), 2U);
      int ends = 0, silent = 0;
      for (const Defect& d : w.defects) {
        ends += d.effect == Effect::kHang || d.effect == Effect::kOom ? 1 : 0;
        silent += d.effect == Effect::kSilent ? 1 : 0;
      }
      EXPECT_GE(ends, 1) << w.name;
      EXPECT_GE(silent, 1) << w.name;
    }
  }
}

TEST(DrawWorld, NoSuchFamilyNamesThoseThereAre) {
  const auto world = OpenWorld("marble:3");
  ASSERT_FALSE(world.has_value());
  EXPECT_NE(world.error().help.find("cloud"), std::string::npos);
}

// In a null world the input pipeline feeds the baseline's own rate: nothing is faster by a band.
TEST(NullWorld, NothingBeatsTheBaseline) {
  Recipe recipe = ExpertRecipe();
  for (const char* seed : {"0", "1", "2", "3", "4"}) {
    const auto cluster = MakeCluster(SetupFor(recipe, std::string("null:") + seed)).value();
    const double baseline = cluster->Ask(recipe.base).tokens_per_gpu;
    ASSERT_GT(baseline, 0);
    for (const char* tp : {"1", "2", "4"}) {
      for (const char* pp : {"1", "2", "4"}) {
        Effective e = recipe.base;
        e.args.Set("--tensor-model-parallel-size", {tp});
        e.args.Set("--pipeline-model-parallel-size", {pp});
        EXPECT_LT(cluster->Ask(e).tokens_per_gpu, 1.02 * baseline) << seed << tp << pp;
      }
    }
  }
}

TEST(WorldHash, MovesWithEveryNumber) {
  const World base = DrawWorld("default", 1).value();
  std::set<std::string> texts = {CanonicalText(base)};
  std::size_t changed = 0;
  const auto note = [&](const World& w) {
    texts.insert(CanonicalText(w));
    ++changed;
  };
  for (const CoefficientRow& row : CoefficientRows()) {
    World w = base;
    double& value = w.coefficients.*row.member;
    value = value == 0 ? 0.001 : value * 1.01;  // some are fitted to their bound
    note(w);
  }
  for (const auto& f : kNoiseFields) {
    World w = base;
    w.noise.*f.member += 0.001;
    note(w);
  }
  for (const auto& f : kTrainingFields) {
    World w = base;
    w.training.*f.member += 0.001;
    note(w);
  }
  EXPECT_EQ(texts.size(), changed + 1);
}

}  // namespace
}  // namespace attune::sim
