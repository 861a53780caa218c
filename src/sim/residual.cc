#include "residual.h"

#include <algorithm>
#include <cmath>

#include "attune/base/random.h"

namespace attune::sim {
namespace {

constexpr double kPi = 3.14159265358979323846;

double Log2(std::int64_t n) { return std::log2(static_cast<double>(std::max<std::int64_t>(n, 1))); }
double Flag(bool on) { return on ? 1 : 0; }

}  // namespace

Place PlaceOf(const TrainingJob& job) {
  const Layout& l = job.layout;
  const Switches& s = job.switches;
  return {Log2(l.tp),
          Log2(l.pp),
          Log2(l.ep),
          Log2(l.etp),
          Log2(l.cp),
          Log2(l.dp),
          Log2(l.vp),
          Log2(job.batch.mbs),
          s.recompute == "full" ? 2.0 : 0.4 * static_cast<double>(s.recompute_modules.size()),
          1.5 * Flag(s.dispatcher == "flex"),
          Flag(s.overlap_grad_reduce) + Flag(s.overlap_param_gather),
          Flag(s.tp_comm_overlap),
          1.5 * Flag(s.ep_overlap),
          Flag(s.shared_expert_overlap),
          1.5 * Flag(!s.cuda_graph.empty()),
          Flag(s.optimizer_offload)};
}

Wave::Wave(std::uint64_t seed, std::uint64_t which, double reach) {
  Random random(Mix(seed, which));
  for (std::size_t k = 0; k < kWaves; ++k) {
    phase_[k] = 2 * kPi * random.Unit();
    for (double& slope : slope_[k]) slope = random.Normal() / reach;
  }
}

double Wave::At(const Place& place) const {
  double sum = 0;
  for (std::size_t k = 0; k < kWaves; ++k) {
    double angle = phase_[k];
    for (std::size_t i = 0; i < place.size(); ++i) angle += place[i] * slope_[k][i];
    sum += std::cos(angle);
  }
  return sum * std::sqrt(2.0 / static_cast<double>(kWaves));  // a cosine has variance 1/2
}

std::uint64_t Mix(std::uint64_t seed, std::uint64_t value) {
  Random random(seed ^ (value * 0x9E3779B97F4A7C15ULL));
  random.Next();
  return random.Next();
}

std::uint64_t MixText(std::uint64_t seed, std::string_view text) {
  std::uint64_t h = 1469598103934665603ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return Mix(seed, h);
}

}  // namespace attune::sim
