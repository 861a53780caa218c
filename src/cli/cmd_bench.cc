// bench: tuners over recipes and worlds of the simulated cluster, compared with the truth.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "bench_campaigns.h"
#include "commands.h"
#include "simulate.h"

namespace attune::cli {
namespace {

class Bench final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positionals("RECIPE", paths_, "megatron-lm recipes, whatever their launchers", 1);
    options.Texts("--world", worlds_, "FILE|FAMILY:SEED[-LAST]", "default: default:0");
    options.Texts("--tuner", tuners_, "NAME", "rules or random; default: rules");
    options.Int("--seeds", seeds_, 1, "campaigns of each; default: 1");
    options.Flag("--no-scan", no_scan_, "do not look for the best configuration of each world");
    options.Flag("--each", each_, "a line for each campaign too");
    options.Flag("--markdown", markdown_, "the table as Markdown");
  }

  Result<int> Run(Wire& wire) override {
    BenchPlan plan;
    for (const std::string& path : paths_) {
      ATTUNE_TRY(LoadedRecipe loaded, wire.ReadRecipe(path, {}));
      Rehearse(loaded);
      plan.recipes.push_back(std::move(loaded));
    }
    if (worlds_.empty()) worlds_ = {std::string(kDefaultWorld)};
    ATTUNE_TRY(plan.worlds, ExpandWorlds(worlds_));
    plan.tuners = tuners_.empty() ? std::vector<std::string>{"rules"} : tuners_;
    plan.seeds = static_cast<int>(seeds_.value_or(1));
    plan.scan = !no_scan_;
    const auto told = [&](const BenchCampaign& c) {
      if (!each_) return;
      wire.terminal().Out(fmt::format(
          "{} {} {} {}: {} {:+.1f}% of {:+.1f}% ({:.3f}), {:.0f} + {:.0f} GPU-h, {} launches, {} "
          "failed{}: {}\n",
          c.recipe, c.world, c.tuner, c.seed,
          c.shipped   ? "shipped"
          : c.aborted ? "aborted"
                      : "no gain",
          100 * c.true_gain, 100 * c.best_gain, c.reached, c.search, c.final, c.launches, c.failed,
          c.wrong ? ", WRONG" : "", EscapeForDisplay(c.changes, 300)));
    };
    ATTUNE_TRY(const std::vector<BenchCampaign> campaigns, RunBench(plan, wire.clock(), told));
    wire.terminal().Out(BenchTable(campaigns, markdown_));
    return 0;
  }

 private:
  std::vector<std::string> paths_, worlds_, tuners_;
  std::optional<std::int64_t> seeds_;
  bool no_scan_ = false, each_ = false, markdown_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeBench() { return std::make_unique<Bench>(); }

}  // namespace attune::cli
