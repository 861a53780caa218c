#include "bench_campaigns.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "attune/base/text.h"
#include "attune/propose/proposer.h"
#include "sim_campaign.h"
#include "sim_scan.h"
#include "simulate.h"

namespace attune::cli {
namespace {

constexpr std::int64_t kMostWorlds = 1000;

Result<std::unique_ptr<Proposer>> TunerOf(const std::string& name) {
  if (name == "rules") return MakeRulesProposer();
  if (name == "random") return MakeRandomProposer();
  return Fail(ErrorCode::kInvalidInput, fmt::format("no tuner '{}' for a comparison", name),
              "rules or random");
}

std::string FamilyOf(const std::string& world) { return world.substr(0, world.find(':')); }

// The best of a recipe in a world is asked once, however many campaigns compare with it.
class Bests {
 public:
  struct Best {
    double ships = 0, of_all = 0;  // tokens/s/GPU
  };
  Result<Best> Of(const Recipe& recipe, const std::string& world, const sim::Cluster& cluster) {
    const auto [at, fresh] = best_.try_emplace({recipe.name, world});
    if (fresh) {
      ATTUNE_TRY(const Scan scan, ScanSpace(recipe, cluster));
      at->second = {scan.oracle.tokens_per_gpu, scan.best_of_all};
    }
    return at->second;
  }

 private:
  std::map<std::pair<std::string, std::string>, Best> best_;
};

Result<BenchCampaign> RunOne(const BenchPlan& plan, const LoadedRecipe& loaded,
                             const std::string& world_spec, const std::string& tuner,
                             std::uint64_t seed, Clock& clock, Bests& bests) {
  BenchCampaign out;
  out.recipe = loaded.recipe.name;
  out.world = world_spec;
  out.tuner = tuner;
  out.seed = seed;
  ATTUNE_TRY(const sim::WorldRef world, sim::OpenWorld(world_spec));
  ATTUNE_TRY(const auto cluster, sim::MakeCluster(SetupOf(loaded.recipe, world, seed)));
  ATTUNE_TRY(const std::unique_ptr<Proposer> proposer, TunerOf(tuner));
  ATTUNE_TRY(const std::unique_ptr<Store> store, Store::OpenInMemory());
  SimCampaign campaign;
  campaign.recipe = &loaded;
  campaign.world = world;
  campaign.policy.proposer = campaign.policy.name = tuner;
  campaign.policy.seed = seed;
  const BudgetSpec& budget = loaded.recipe.budget;
  if (budget.gpu_hours) campaign.budget = FromGpuHours(*budget.gpu_hours);
  ATTUNE_TRY(const CampaignState s, RunSimCampaign(campaign, *proposer, *store, clock));

  out.shipped = s.phase == Phase::kShipped;
  out.aborted = s.phase == Phase::kAborted;
  if (s.shipped) out.claimed_gain = s.shipped->gain;
  const Effective& ships = out.shipped ? s.leader.user : s.recipe.base;
  const sim::Oracle truth = cluster->Ask(ships), base = cluster->Ask(s.recipe.base);
  out.wrong = out.shipped && (truth.fails || truth.learns_otherwise);
  if (base.tokens_per_gpu > 0) out.true_gain = truth.tokens_per_gpu / base.tokens_per_gpu - 1;
  if (plan.scan) {
    ATTUNE_TRY(const Bests::Best best, bests.Of(loaded.recipe, world_spec, *cluster));
    if (best.ships > 0) out.reached = truth.tokens_per_gpu / best.ships;
    if (best.of_all > 0) out.reached_of_all = truth.tokens_per_gpu / best.of_all;
    if (base.tokens_per_gpu > 0) out.best_gain = best.ships / base.tokens_per_gpu - 1;
  }
  out.calibration = s.ledger.calibration.Hours();
  out.search = s.ledger.search.Hours();
  out.final = (s.ledger.final + s.ledger.idle).Hours();
  out.overrun = s.ledger.overrun.Hours();
  const Counts counts = CountsOf(s);
  out.launches = counts.launched;
  out.failed = counts.failed;
  out.changes = DescribeDifference(s.recipe.base, ships);
  return out;
}

struct Group {
  std::string recipe, family, tuner;
  std::vector<const BenchCampaign*> of;
};

std::vector<Group> Groups(const std::vector<BenchCampaign>& campaigns) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const BenchCampaign*>> by;
  for (const BenchCampaign& c : campaigns) {
    by[{c.recipe, FamilyOf(c.world), c.tuner}].push_back(&c);
  }
  std::vector<Group> out;
  for (const auto& [key, list] : by) {
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), list});
  }
  return out;
}

template <class F>
double MeanOf(const Group& g, F value) {
  double sum = 0;
  for (const BenchCampaign* c : g.of) sum += value(*c);
  return sum / static_cast<double>(g.of.size());
}

}  // namespace

Result<std::vector<std::string>> ExpandWorlds(const std::vector<std::string>& specs) {
  std::vector<std::string> out;
  for (const std::string& spec : specs) {
    const std::size_t colon = spec.rfind(':'), dash = spec.rfind('-');
    if (colon == std::string::npos || dash == std::string::npos || dash < colon) {
      out.push_back(spec);
      continue;
    }
    const std::optional<std::int64_t> from = ParseInt(spec.substr(colon + 1, dash - colon - 1));
    const std::optional<std::int64_t> to = ParseInt(spec.substr(dash + 1));
    if (!from || !to || *from < 0 || *to < *from || *to - *from >= kMostWorlds) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("'{}' is no range of worlds", EscapeForDisplay(spec, 60)),
                  "FAMILY:FIRST-LAST, at most 1000 of them");
    }
    for (std::int64_t i = *from; i <= *to; ++i) {
      out.push_back(fmt::format("{}:{}", spec.substr(0, colon), i));
    }
  }
  return out;
}

Result<std::vector<BenchCampaign>> RunBench(const BenchPlan& plan, Clock& clock,
                                            const std::function<void(const BenchCampaign&)>& done) {
  std::vector<BenchCampaign> out;
  Bests bests;
  for (const LoadedRecipe& recipe : plan.recipes) {
    for (const std::string& world : plan.worlds) {
      for (const std::string& tuner : plan.tuners) {
        for (int i = 0; i < plan.seeds; ++i) {
          ATTUNE_TRY(BenchCampaign c, RunOne(plan, recipe, world, tuner,
                                             static_cast<std::uint64_t>(i), clock, bests));
          done(c);
          out.push_back(std::move(c));
        }
      }
    }
  }
  return out;
}

std::string BenchTable(const std::vector<BenchCampaign>& campaigns, bool markdown) {
  const std::vector<std::string> head = {"recipe",    "worlds", "tuner",   "campaigns",
                                         "true gain", "best",   "reached", "of all",
                                         "search+final GPU-h",
                                         "launches",  "failed", "claimed", "wrong",
                                         "overrun"};
  std::vector<std::vector<std::string>> rows = {head};
  for (const Group& g : Groups(campaigns)) {
    const auto mean = [&](auto f) { return MeanOf(g, f); };
    const double launches = mean([](const BenchCampaign& c) { return double(c.launches); });
    const double failed = mean([](const BenchCampaign& c) { return double(c.failed); });
    const auto sum = [&](auto f) { return mean(f) * static_cast<double>(g.of.size()); };
    const double reached = mean([](const BenchCampaign& c) { return c.reached; });
    // Without a scan nothing is known of what could have been reached.
    const auto scanned = [&](std::string text) { return reached > 0 ? std::move(text) : "-"; };
    rows.push_back(
        {g.recipe, g.family, g.tuner, std::to_string(g.of.size()),
         fmt::format("{:+.1f}%", 100 * mean([](const BenchCampaign& c) { return c.true_gain; })),
         scanned(fmt::format("{:+.1f}%",
                             100 * mean([](const BenchCampaign& c) { return c.best_gain; }))),
         scanned(fmt::format("{:.3f}", reached)),
         scanned(
             fmt::format("{:.3f}", mean([](const BenchCampaign& c) { return c.reached_of_all; }))),
         fmt::format("{:.0f}", mean([](const BenchCampaign& c) { return c.search + c.final; })),
         fmt::format("{:.1f}", launches),
         fmt::format("{:.1f}%", launches > 0 ? 100 * failed / launches : 0),
         fmt::format("{:.0f}", sum([](const BenchCampaign& c) { return c.shipped ? 1.0 : 0.0; })),
         fmt::format("{:.0f}", sum([](const BenchCampaign& c) { return c.wrong ? 1.0 : 0.0; })),
         fmt::format("{:.0f}",
                     sum([](const BenchCampaign& c) { return c.overrun > 0 ? 1.0 : 0.0; }))});
  }
  std::vector<std::size_t> wide(head.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) wide[i] = std::max(wide[i], row[i].size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      text += fmt::format("{}{:<{}}", markdown ? "| " : "", rows[r][i], wide[i]);
      text += markdown ? " " : "  ";
    }
    text += markdown ? "|\n" : "\n";
    if (r == 0 && markdown) {
      for (const std::size_t w : wide) text += "|" + std::string(w + 2, '-');
      text += "|\n";
    }
  }
  return text;
}

}  // namespace attune::cli
