#include "setup.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/sim/fault.h"
#include "keep_baseline.h"
#include "learning.h"
#include "read_world.h"
#include "world_fields.h"

namespace attune::sim {

Result<WorldRef> OpenWorld(const std::string& spec) {
  // A drawn world has a number behind its last colon; anything else is a file.
  const std::size_t colon = spec.rfind(':');
  if (colon != std::string::npos && spec.find('/') == std::string::npos) {
    if (const auto seed = ParseInt(std::string_view(spec).substr(colon + 1)); seed && *seed >= 0) {
      ATTUNE_TRY(World world, DrawWorld(std::string_view(spec).substr(0, colon),
                                        static_cast<std::uint64_t>(*seed)));
      return std::make_shared<const World>(std::move(world));
    }
  }
  Result<World> world = ReadWorld(spec);
  if (!world && world.error().code == ErrorCode::kNotFound) {
    world.error().help = "give a world file, or FAMILY:SEED with one of " + FamilyNames();
  }
  if (!world) return Fail(std::move(world.error()));
  return std::make_shared<const World>(std::move(*world));
}

Result<WorldRef> WithFault(const World& world, const Fault& fault) {
  World changed = world;
  Defect d;
  d.id = fault.id;
  for (const std::string& text : fault.when) {
    ATTUNE_TRY(const Condition c, ParseCondition(text));
    d.when.push_back(c);
  }
  d.step0_loss = fault.step0_loss;
  d.loss_drift = fault.loss_drift;
  d.balance_factor = fault.balance_factor;
  d.grad_factor = fault.grad_factor;
  changed.defects.push_back(std::move(d));
  changed.hash = Sha256Hex(CanonicalText(changed));
  return std::make_shared<const World>(std::move(changed));
}

const std::string& NameOf(const World& world) { return world.name; }
const std::string& HashOf(const World& world) { return world.hash; }

Result<Site> PrepareSite(const ClusterSetup& setup) {
  const Recipe& recipe = setup.recipe;
  if (recipe.framework != Framework::kMegatronLm) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: the simulated cluster runs framework megatron-lm, not {}",
                            recipe.name, Word(recipe.framework)),
                "run it on a real launcher");
  }
  ATTUNE_TRY(Site site, SiteOf(*setup.world, recipe.workload, recipe.stack));
  const auto resolved = ResolveMegatron(recipe.base.args, recipe.base.env, recipe.workload);
  if (const auto* finding = std::get_if<Finding>(&resolved)) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: the recipe can't be resolved: {}", recipe.name, finding->why));
  }
  const TrainingJob& job = std::get<TrainingJob>(resolved);
  if (setup.world->residuals.pinned) PinAt(site, job);
  if (setup.world->keeps_baseline) KeepBaseline(site, job);
  if (setup.world->input.of_baseline > 0) {
    Truth truth;
    TruthOf(site, job, truth);
    site.tokens_per_gpu = TrueRate(truth, job) * setup.world->input.of_baseline;
  }
  return site;
}

std::optional<Arguments> ArgumentsOf(const std::vector<std::string>& command,
                                     const std::vector<std::string>& argv) {
  const auto slot = std::find(command.begin(), command.end(), "{{args}}");
  const auto before = static_cast<std::size_t>(slot - command.begin());
  const std::size_t after = slot == command.end() ? 0 : command.size() - before - 1;
  if (argv.size() < before + after) return std::nullopt;
  const std::vector<std::string> tokens(argv.begin() + static_cast<std::ptrdiff_t>(before),
                                        argv.end() - static_cast<std::ptrdiff_t>(after));
  return ParseArguments(tokens);
}

namespace {

class SiteCluster final : public Cluster {
 public:
  SiteCluster(ClusterSetup setup, Site site) : setup_(std::move(setup)), site_(std::move(site)) {}

  Oracle Ask(const Effective& config) const override {
    const auto resolved = ResolveMegatron(config.args, config.env, setup_.recipe.workload);
    if (const auto* finding = std::get_if<Finding>(&resolved)) {
      Oracle o;
      o.fails = true;
      o.why = finding->why;
      return o;
    }
    return AskJob(std::get<TrainingJob>(resolved));
  }

  Oracle AskJob(const TrainingJob& job) const override {
    Truth truth;
    TruthOf(site_, job, truth);
    Oracle o;
    o.fails = Fails(truth);
    o.tokens_per_gpu = TrueRate(truth, job);
    o.step_seconds = truth.step;
    o.peak_bytes = truth.peak_allocated;
    o.reserved_share =
        truth.peak_reserved / static_cast<double>(site_.machine.gpu.memory_bytes);
    o.needed_bytes = truth.needed;
    o.limit_bytes = truth.limit;
    if (truth.trouble.failure != Failure::kNone) o.why = truth.trouble.why;
    if (truth.oom != OomAt::kNone && o.why.empty()) o.why = "out of memory";
    for (const Defect* d : truth.defects) {
      o.learns_otherwise = o.learns_otherwise || d->effect == Effect::kSilent;
      if (o.why.empty()) o.why = d->id;
    }
    for (const Defect& d : PublishedDefects()) {
      if (!HoldAll(d.when, job)) continue;
      o.learns_otherwise = true;
      if (o.why.empty()) o.why = d.id;
    }
    return o;
  }

  double FirstLoss(const Effective& config) const override {
    const auto resolved = ResolveMegatron(config.args, config.env, setup_.recipe.workload);
    const auto* job = std::get_if<TrainingJob>(&resolved);
    if (job == nullptr) return 0;
    std::vector<const Defect*> met;
    for (const Defect* d : site_.defects) {
      if (HoldAll(d->when, *job)) met.push_back(d);
    }
    for (const Defect& d : PublishedDefects()) {
      if (HoldAll(d.when, *job)) met.push_back(&d);
    }
    Training quiet = setup_.world->training;
    quiet.replica_sigma = 0;
    return Learning(quiet, config.args, *job, met, 0, 0).At(1).loss;
  }

 private:
  ClusterSetup setup_;  // keeps the world
  Site site_;
};

}  // namespace

Result<std::unique_ptr<Cluster>> MakeCluster(const ClusterSetup& setup) {
  ATTUNE_TRY(Site site, PrepareSite(setup));
  return std::make_unique<SiteCluster>(setup, std::move(site));
}

}  // namespace attune::sim
