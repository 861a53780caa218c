// sim: questions to the simulated cluster for people who compare tuners. Its answers are truths
// that no campaign is told.
#include <fmt/core.h>

#include "attune/base/text.h"
#include "attune/model/lever.h"
#include "commands.h"
#include "json_out.h"
#include "sim_faults.h"
#include "sim_gap.h"
#include "sim_scan.h"
#include "simulate.h"

namespace attune::cli {
namespace {

class Sim final : public Command {
 public:
  void Declare(Options& options) override {
    Options scan = options.Sub("scan", "RECIPE [--world WORLD]",
                               "the best configuration in a world, for comparison only", chosen_);
    Options gap = options.Sub("gap", "RECIPE [--world WORLD]",
                              "how far the uncorrected estimate is off in a world", chosen_);
    Options faults = options.Sub("faults", "RECIPE [--world WORLD]",
                                 "replay faults with a known answer through the gates", chosen_);
    options.Sub("worlds", "", "the families that worlds are drawn from", chosen_);
    for (Options* sub : {&scan, &gap, &faults}) {
      sub->Positional("RECIPE", path_, "a megatron-lm recipe, whatever its launcher");
      sub->Text("--world", world_, "FILE|FAMILY:SEED", "default: default:0");
      sub->Texts("--set", set_, "KEY=VALUE", "a value of the recipe");
    }
    faults.Int("--seed", seed_, 0, "of the campaigns");
  }

  Result<int> Run(Wire& wire) override {
    if (chosen_ == "worlds") {
      JsonOut json("attune.sim-worlds/1");
      json.Text("families", sim::FamilyNames());
      Say(wire, json, "families: " + sim::FamilyNames() + "\n");
      return 0;
    }
    ATTUNE_TRY(LoadedRecipe loaded, wire.ReadRecipe(path_, set_));
    Rehearse(loaded);
    ATTUNE_TRY(const sim::WorldRef world,
               sim::OpenWorld(world_.empty() ? std::string(kDefaultWorld) : world_));
    if (chosen_ == "gap") return Gapped(wire, loaded, world);
    return chosen_ == "scan" ? Scanned(wire, loaded, world) : Faults(wire, loaded, world);
  }

 private:
  static void Say(Wire& wire, JsonOut& json, const std::string& text) {
    wire.terminal().Out(wire.flags().json ? json.Take() + "\n" : text);
  }

  static Result<int> Scanned(Wire& wire, const LoadedRecipe& loaded, const sim::WorldRef& world) {
    const Recipe& recipe = loaded.recipe;
    ATTUNE_TRY(const auto cluster, sim::MakeCluster(SetupOf(recipe, world, 0)));
    ATTUNE_TRY(const Scan scan, ScanSpace(recipe, *cluster));
    const double gain = scan.baseline.tokens_per_gpu > 0
                            ? scan.oracle.tokens_per_gpu / scan.baseline.tokens_per_gpu - 1
                            : 0;
    JsonOut json("attune.sim-scan/1");
    json.Text("world", sim::NameOf(*world));
    json.Int("configurations", scan.looked_at);
    json.Int("resolve", scan.resolve);
    json.Int("train", scan.train);
    json.Number("baseline", scan.baseline.tokens_per_gpu);
    json.Number("best", scan.oracle.tokens_per_gpu);
    json.Number("gain", gain);
    json.Number("best_without_headroom", scan.best_of_all);
    json.Text("changes", DescribeDifference(recipe.base, scan.best));
    Say(wire, json,
        fmt::format("world      {}\nspace      {} configurations, {} resolve, {} of them train; of "
                    "the {} best "
                    "{} are legal; {} more in the ascent\nbaseline   {:.1f} tok/s/GPU{}\nbest      "
                    " {:.1f} tok/s/GPU ({:+.1f}%), {:.0f} "
                    "of {:.0f} GiB; without head-room {:.1f}\nchanges    {}\n",
                    sim::NameOf(*world), scan.looked_at, scan.resolve, scan.train, scan.checked,
                    scan.legal, scan.ascents, scan.baseline.tokens_per_gpu,
                    scan.baseline.fails ? "  (it fails: " + scan.baseline.why + ")" : "",
                    scan.oracle.tokens_per_gpu, 100 * gain, scan.oracle.needed_bytes / (1 << 30),
                    scan.oracle.limit_bytes / (1 << 30), scan.best_of_all,
                    EscapeForDisplay(DescribeDifference(recipe.base, scan.best), 2'000)));
    return 0;
  }

  static Result<int> Gapped(Wire& wire, const LoadedRecipe& loaded, const sim::WorldRef& world) {
    ATTUNE_TRY(const auto cluster, sim::MakeCluster(SetupOf(loaded.recipe, world, 0)));
    ATTUNE_TRY(const Gap gap, MeasureGap(loaded.recipe, *cluster));
    const auto line = [](const char* what, double value, double bar) {
      return fmt::format("  {:<58} {:5.1f}%  (bar {:.0f}%) {}\n", what, 100 * value, 100 * bar,
                         value >= bar ? "reached" : "not reached");
    };
    JsonOut json("attune.sim-gap/1");
    json.Text("world", sim::NameOf(*world));
    json.Int("legal", gap.legal);
    json.Number("median", gap.median);
    json.Number("p90", gap.p90);
    json.Number("wrong_sign", gap.wrong_sign);
    json.Number("wrong_fit", gap.wrong_fit);
    json.Bool("counts", gap.Counts());
    Say(wire, json,
        fmt::format("{} in world {}: {} legal configurations, {} train, {} near the memory limit, "
                    "{} pairs differ\n",
                    loaded.recipe.name, sim::NameOf(*world), gap.legal, gap.compared,
                    gap.near_limit, gap.pairs) +
            line("step time off, median", gap.median, Gap::kMedian) +
            line("step time off, 90th percentile", gap.p90, Gap::kP90) +
            line("wrong sign, pairs that differ by over 5%", gap.wrong_sign, Gap::kSign) +
            line("wrong fit or out of memory, 0.85 to 1.15 of memory", gap.wrong_fit, Gap::kFit) +
            (gap.Counts()
                 ? "results in this world count\n"
                 : "results in this world do not count: the estimate knows it too well\n"));
    return 0;
  }

  Result<int> Faults(Wire& wire, const LoadedRecipe& loaded, const sim::WorldRef& world) {
    ATTUNE_TRY(
        const std::vector<FaultRow> rows,
        ReplayFaults(loaded, world, static_cast<std::uint64_t>(seed_.value_or(0)), wire.clock()));
    std::string text =
        fmt::format("simulated: {} in world {}\n{:<48} {:>12}  {:<14} {}\n", loaded.recipe.name,
                    sim::NameOf(*world), "fault", "step-0 shift", "caught", "by");
    int wrong = 0;
    std::vector<std::string> objects;
    for (const FaultRow& row : rows) {
      text += fmt::format("{:<48} {:>+11.2f}%  {:<14} {}\n", row.fault, 100 * row.step0_shift,
                          row.caught, EscapeForDisplay(row.rule, 60));
      JsonOut one("");
      one.Text("fault", row.fault);
      one.Number("step0_shift", row.step0_shift);
      one.Text("caught", row.caught);
      one.Text("rule", row.rule);
      one.Bool("legitimate", row.legitimate);
      objects.push_back(one.Take());
      wrong += row.right || row.caught == "not here" ? 0 : 1;
    }
    text += fmt::format("{} of {} decided rightly\n", static_cast<int>(rows.size()) - wrong,
                        rows.size());
    JsonOut json("attune.sim-faults/1");
    json.Text("world", sim::NameOf(*world));
    json.Int("wrong", wrong);
    json.Objects("rows", objects);
    Say(wire, json, text);
    return wrong == 0 ? 0 : 1;
  }

  std::string chosen_, path_, world_;
  std::vector<std::string> set_;
  std::optional<std::int64_t> seed_;
};

}  // namespace

std::unique_ptr<Command> MakeSim() { return std::make_unique<Sim>(); }

}  // namespace attune::cli
