#include "place.h"

#include <algorithm>
#include <cmath>

namespace attune::estimate {
namespace {

// Doublings of a size, or one switch, that make two jobs unlike by one unit of distance.
constexpr double kDoublings = 1.6, kMajor = 0.9, kMinor = 0.35;

double Doubled(double n) { return std::log2(std::max(1.0, n)) / kDoublings; }
double Major(bool on) { return on ? kMajor : 0; }
double Minor(bool on) { return on ? kMinor : 0; }

}  // namespace

std::vector<double> PlaceOf(const TrainingJob& job) {
  const Layout& l = job.layout;
  const Switches& w = job.switches;
  const double layers = std::max<double>(1, static_cast<double>(job.shape.layers));
  const double share = layers / std::max(1, l.pp);
  return {
      Doubled(l.tp),
      Doubled(l.pp),
      Doubled(l.ep),
      Doubled(l.etp),
      Doubled(l.cp),
      Doubled(l.vp),
      Doubled(static_cast<double>(job.batch.mbs)),
      Major(w.recompute == "full") *
          (w.recompute_method == "block" ? std::min(1.0, w.recompute_layers * l.vp / share) : 1),
      Minor(w.recompute_modules.contains("moe")),
      Minor(w.recompute_modules.contains("mlp")),
      Minor(w.recompute_modules.contains("moe_act")),
      Minor(w.recompute_modules.contains("layernorm")),
      Major(w.dispatcher == "flex"),
      Minor(w.flex_backend == "hybridep"),
      Major(w.dispatcher == "allgather"),
      Major(w.ep_overlap),
      Minor(w.shared_expert_overlap),
      Minor(w.overlap_grad_reduce),
      Minor(w.overlap_param_gather),
      Minor(w.tp_comm_overlap),
      Major(w.optimizer_offload) * w.offload_fraction,
      Major(w.cuda_graph == "full_iteration"),
      Minor(!w.cuda_graph.empty()),
      Minor(w.ce_fusion),
      Minor(w.grouped_gemm),
      Minor(w.permute_fusion),
      Major(!l.fsdp.empty()),
      kMajor * (l.first_layers ? *l.first_layers / share : 1),
      kMajor * (l.last_layers ? *l.last_layers / share : 1),
  };
}

double Likeness(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  // A coordinate that only one of them has counts as zero in the other.
  for (std::size_t i = common; i < a.size(); ++i) sum += a[i] * a[i];
  for (std::size_t i = common; i < b.size(); ++i) sum += b[i] * b[i];
  return std::exp(-0.5 * sum);
}

}  // namespace attune::estimate
