// Simulated campaigns a minute of CPU time: 20 launches each (five of them the calibration), traces
// off, the store in memory; beside it the same campaigns through the durable store of `attune run`.
//   attune_sim_bench [recipe.yaml] [seconds]
#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>

#include "attune/base/clock.h"
#include "attune/base/text.h"
#include "sim_campaign.h"
#include "simulate.h"

namespace attune::cli {
namespace {

constexpr int kLaunches = 20;

void Must(bool ok, const std::string& why) {
  if (ok) return;
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}

// Fifteen changes: layouts first, which win, lose and run out of memory, then bucket sizes, of
// which there are always more.
class Fifteen final : public Proposer {
 public:
  std::string Name() const override { return "fifteen"; }
  Result<ProposerReply> Propose(const CampaignState& state, const Vet& vet) override {
    if (static_cast<int>(state.launches.size()) >= kLaunches) {
      return ProposerReply(StopWish{"twenty launches", {}});
    }
    struct Layout {
      const char *lever, *flag, *value;
    };
    constexpr Layout kLayouts[] = {{"pipeline_layout", "--pipeline-model-parallel-size", "16"},
                                   {"pipeline_layout", "--pipeline-model-parallel-size", "4"},
                                   {"tensor_parallel", "--tensor-model-parallel-size", "4"},
                                   {"tensor_parallel", "--tensor-model-parallel-size", "1"},
                                   {"experts", "--expert-model-parallel-size", "8"},
                                   {"experts", "--expert-model-parallel-size", "32"},
                                   {"microbatch", "--micro-batch-size", "2"},
                                   {"microbatch", "--micro-batch-size", "4"}};
    for (;;) {
      const std::size_t n = next_++;
      Proposal p;
      if (n < std::size(kLayouts)) {
        const Layout& l = kLayouts[n];
        p.change = {l.lever, {{Edit::Op::kSet, l.flag, {l.value}}}, {}};
      } else {
        const std::string bytes = std::to_string(10'000'000 * n);
        p.change = {"dp_buckets", {{Edit::Op::kSet, "--ddp-bucket-size", {bytes}}}, {}};
      }
      p.label = fmt::format("n{}", n);
      if (vet(p.change).admitted) return ProposerReply(std::move(p));
      Must(n < 100, "the gates refuse what this benchmark proposes");
    }
  }

 private:
  std::size_t next_ = 0;
};

// Of this process: a rate on one core, whatever else the machine does.
double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Rate {
  int campaigns = 0;
  std::int64_t launches = 0;
  double seconds = 0;
};

Rate Measure(const LoadedRecipe& recipe, bool durable, double seconds) {
  SystemClock clock;
  Rate rate;
  const std::string folder = durable ? "/tmp/attune-sim-bench" : "";
  std::unique_ptr<Store> store;
  const sim::WorldRef world = sim::OpenWorld("default:1").value();
  const double start = CpuSeconds();
  while (rate.seconds < seconds) {
    if (!store || (!durable && rate.campaigns % 20 == 0)) {
      if (durable) std::filesystem::remove_all(folder);
      auto opened = durable ? Store::Open(folder) : Store::OpenInMemory();
      Must(opened.has_value(), opened ? "" : opened.error().message);
      store = std::move(*opened);
    }
    SimCampaign campaign;
    campaign.recipe = &recipe;
    campaign.world = world;
    campaign.policy.proposer = "scripted";
    campaign.policy.seed = static_cast<std::uint64_t>(rate.campaigns);
    campaign.budget = FromGpuHours(1e6);
    Fifteen proposer;
    const auto state = RunSimCampaign(campaign, proposer, *store, clock);
    Must(state.has_value(), state ? "" : state.error().message);
    rate.launches += static_cast<std::int64_t>(state->launches.size());
    ++rate.campaigns;
    rate.seconds = CpuSeconds() - start;
  }
  if (durable) std::filesystem::remove_all(folder);
  return rate;
}

void Print(const char* what, const Rate& rate) {
  const double per_minute = 60 * rate.campaigns / rate.seconds;
  const double launches = static_cast<double>(rate.launches) / rate.campaigns;
  fmt::print(
      "{:<24} {:8.0f} campaigns a minute, {:.1f} launches each: {:8.0f} of 20 launches a "
      "minute\n",
      what, per_minute, launches, per_minute * launches / kLaunches);
}

int Run(const std::string& path, double seconds) {
  auto loaded = LoadRecipe(path);
  Must(loaded.has_value(), loaded ? "" : loaded.error().message);
  Rehearse(*loaded);
  Print("store in memory", Measure(*loaded, false, seconds));
  Print("durable store", Measure(*loaded, true, seconds));
  return 0;
}

}  // namespace
}  // namespace attune::cli

int main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1] : std::string(ATTUNE_SOURCE_DIR) + "/tests/bench/sim_bench.yaml";
  return attune::cli::Run(path, argc > 2 ? std::atof(argv[2]) : 10);
}
