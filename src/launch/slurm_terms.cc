// What a recipe and a cluster's configuration make of a Slurm launcher.
#include <algorithm>

#include "attune/launch/slurm.h"
#include "slurm_client.h"
#include "slurm_place.h"

namespace attune {
namespace {

constexpr Millis kMinute{60'000};
constexpr Millis kTermsLimit{10'000};

}  // namespace

SlurmOptions SlurmOptionsOf(const Recipe& recipe) {
  SlurmOptions o;
  const Workload& w = recipe.workload;
  o.gpus_per_node = std::max(1, w.gpus_per_node);
  o.nodes = std::max(1, w.gpus / o.gpus_per_node);
  o.counts_gpus = w.gpu != "cpu";
  o.sbatch = recipe.launcher.sbatch;
  o.container = recipe.launcher.container;
  o.login = recipe.launcher.login;
  o.poll = std::max(recipe.launcher.poll, Millis{100});
  // Certainty takes a number of questions: with the usual 5 s a minute, and two.
  o.lost_after = std::min(o.poll * 12, Millis{600'000});
  o.find_for = std::min(o.poll * 24, Millis{600'000});
  o.file_lag = std::min(o.poll * 6, Millis{120'000});
  return o;
}

SlurmTerms AskSlurmTerms(const SlurmOptions& options) {
  SlurmTerms terms;
  const auto place = launch::MakeSlurmPlace(options);
  launch::SlurmClient client(place->programs(), options.environment, kTermsLimit);
  const auto config = client.Config();
  if (!config) {
    return terms;
  }
  terms.answered = true;
  if (const auto s = launch::ConfigSeconds(*config, "KillWait")) {
    terms.kill_wait = Millis{*s * 1000};
  }
  if (const auto s = launch::ConfigSeconds(*config, "OverTimeLimit")) {
    terms.over_time = Millis{*s * 1000};
  }
  terms.version = launch::ConfigText(*config, "SLURM_VERSION").value_or("");
  terms.cluster = launch::ConfigText(*config, "ClusterName").value_or("");
  return terms;
}

Millis SlurmReleaseMargin(Millis kill_wait, Millis over_time) {
  return 2 * kMinute + over_time + kill_wait;
}

}  // namespace attune
