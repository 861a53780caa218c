#include "simulate.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "agent_desk.h"
#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/gates/candidate_traits.h"
#include "attune/gates/readback_check.h"
#include "attune/gates/rules.h"
#include "version.h"

namespace attune::cli {
namespace {

// How the framework prints the arguments that a lever or this recipe sets.
std::vector<sim::BlockFlag> BlockFlagsOf(const Recipe& recipe) {
  const Rules& rules = BuiltInRules();
  const std::map<std::string, BlockDestination> destinations = BlockDestinationsOf(rules);
  std::vector<sim::BlockFlag> out;
  for (const FlagRow& row : rules.flags) {
    if (!row.lever && !recipe.base.args.Has(row.flag)) continue;
    sim::BlockFlag flag;
    flag.flag = std::string(row.flag);
    flag.key = BlockKey(row.flag);
    const bool bare = row.kind == ValueKind::kBool;
    flag.absent = bare ? "False" : (row.otherwise == "-" ? "None" : std::string(row.otherwise));
    if (const auto d = destinations.find(flag.flag); d != destinations.end()) {
      flag.key = d->second.key;
      flag.present = d->second.when_present;
    }
    if (bare && flag.present == "False") flag.absent = "True";
    out.push_back(std::move(flag));
  }
  return out;
}

std::string StackOf(const sim::World& world) {
  return Sha256Hex("simulated\n" + sim::HashOf(world));
}

}  // namespace

std::string WorldName(const std::string& world) {
  std::error_code failed;
  if (!std::filesystem::exists(world, failed)) return world;  // FAMILY:SEED
  return std::filesystem::absolute(world, failed).lexically_normal().string();
}

sim::ClusterSetup SetupOf(const Recipe& recipe, sim::WorldRef world, std::uint64_t seed) {
  sim::ClusterSetup setup;
  setup.world = std::move(world);
  setup.seed = seed;
  setup.recipe = recipe;
  setup.block_flags = BlockFlagsOf(recipe);
  return setup;
}

void Rehearse(LoadedRecipe& loaded) {
  loaded.recipe.launcher.kind = "sim";
  loaded.canonical_json = RecipeToJson(loaded.recipe);
  loaded.hash = RecipeHash(loaded.recipe);
}

Result<std::string> SimulatedStack(const std::string& world) {
  ATTUNE_TRY(const sim::WorldRef opened, sim::OpenWorld(world));
  return StackOf(*opened);
}

Result<CampaignId> OpenSimulated(Store& store, const LoadedRecipe& loaded, const OpenFlags& flags) {
  ATTUNE_TRY(const sim::WorldRef world, sim::OpenWorld(flags.world));
  return OpenSimulated(store, loaded, flags, world);
}

Result<CampaignId> OpenSimulated(Store& store, const LoadedRecipe& loaded, const OpenFlags& flags,
                                 const sim::WorldRef& world) {
  const Recipe& recipe = loaded.recipe;
  // What can't be simulated is said before anything is stored.
  ATTUNE_TRY(const auto cluster, sim::MakeCluster(SetupOf(recipe, world, flags.policy.seed)));
  (void)cluster;
  Opened opened;
  opened.recipe_json = loaded.canonical_json;
  opened.recipe_path = std::filesystem::absolute(loaded.path).lexically_normal().string();
  opened.recipe_hash = loaded.hash;
  opened.stack_fingerprint = StackOf(*world);
  opened.attune_version = kVersion;
  opened.run_root = std::string(flags.traces ? kTracedSimRoot : kSimRoot);
  opened.policy = flags.policy;
  ATTUNE_TRY(const SkillInUse skill, SkillOf(opened));
  opened.skill_version = skill.Get().version;
  if (flags.budget) {
    opened.budget = flags.budget;
  } else if (recipe.budget.gpu_hours && !flags.automatic) {
    opened.budget = FromGpuHours(*recipe.budget.gpu_hours);
  }
  opened.run_limit = flags.run_limit;
  opened.world = flags.world.empty() ? sim::NameOf(*world) : WorldName(flags.world);
  opened.world_hash = sim::HashOf(*world);
  // The checkpoint lies on the real cluster: the simulated one has it.
  const auto step = recipe.base.args.Value("--ckpt-step");
  const bool loads = recipe.base.args.Has("--load") && !recipe.base.args.Has("--finetune");
  if (loads) {
    opened.checkpoint = recipe.base.args.Value("--load").value_or("");
    opened.start_iteration = step ? ParseInt(*step).value_or(0) : 0;
  } else if (recipe.base.args.Has("--finetune") ||
             recipe.base.args.Has("--pretrained-checkpoint")) {
    opened.checkpoint = "pretrained";
  }
  // One id a recipe, world, seed, and turn in this store, wherever recipe and world lie: the noise
  // is drawn from it. A day later than the one before it, so that the newest is the newest.
  ATTUNE_TRY(const std::vector<CampaignRow> before, store.Campaigns());
  const Instant start = sim::kSimStart + std::chrono::hours(24 * before.size());
  const std::string day = Rfc3339(start).substr(0, 10);
  Recipe anywhere = recipe;
  anywhere.folder.clear();
  const std::string of_recipe = RecipeHash(anywhere);
  for (int turn = 0;; ++turn) {
    const std::string hash =
        Sha256Hex(fmt::format("{}\n{}\n{}\n{}\n{}", of_recipe, sim::NameOf(*world),
                              flags.policy.proposer, flags.policy.seed, turn));
    opened.id = CampaignId{fmt::format("c-{}{}{}-{}", day.substr(0, 4), day.substr(5, 2),
                                       day.substr(8, 2), hash.substr(0, 8))};
    if (store.FindCampaign(opened.id.value)) continue;
    if (flags.source) {
      ATTUNE_RETURN_IF_ERROR(KeepSource(store.folder(), opened.id, *flags.source));
    }
    ATTUNE_TRY(const Event event, store.Create(opened, start));
    (void)event;
    return opened.id;
  }
}

Result<std::unique_ptr<Simulation>> TakeUpSimulation(Store& store, const CampaignState& state) {
  const Opened& opened = *state.opened;
  if (opened.world.empty()) return std::unique_ptr<Simulation>();
  ATTUNE_TRY(const sim::WorldRef world, sim::OpenWorld(opened.world));
  if (sim::HashOf(*world) != opened.world_hash) {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("the world {} is not what it was when the campaign began", opened.world),
        "restore it, or start a new campaign with attune run");
  }
  const bool traced = opened.run_root == kTracedSimRoot;
  ATTUNE_TRY(const std::vector<Event> events, store.Load(state.id));
  std::map<LaunchId, sim::PastLaunch> past;
  for (const Event& event : events) {
    if (const auto* bound = std::get_if<LaunchBound>(&event.fact)) {
      const LaunchRecord& launch = state.launches.at(bound->id);
      past[bound->id] = {SpecOf(state, launch.intent, {}, {}), event.at, {}};
    } else if (const auto* sent = std::get_if<StopSent>(&event.fact)) {
      const RunRecord& run = state.runs.at(sent->id);
      const bool whole = run.stop && run.stop->why == StopWhy::kUser;
      past[run.launch].stops.push_back(
          {whole ? std::nullopt : std::optional<RunId>(sent->id), event.at});
    }
  }
  std::vector<sim::PastLaunch> open;
  for (auto& [id, launch] : past) {
    const LaunchRecord& record = state.launches.at(id);
    // Of an ended launch only the traces are still wanted, until its runs have their diagnoses.
    const bool read = std::all_of(
        record.intent.runs.begin(), record.intent.runs.end(),
        [&](const RunPlan& plan) { return state.runs.at(plan.id).diagnosis.has_value(); });
    if (record.state != LaunchState::kEnded || (traced && !read)) open.push_back(std::move(launch));
  }
  sim::ClusterSetup setup = SetupOf(state.recipe, world, opened.policy.seed);
  if (traced) setup.trace_root = store.folder() + "/runs";
  return std::make_unique<Simulation>(std::move(setup), state.last_at, std::move(open));
}

}  // namespace attune::cli
