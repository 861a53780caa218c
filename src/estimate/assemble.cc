#include "assemble.h"

#include <algorithm>
#include <cmath>

namespace attune::estimate {
namespace {

// The larger of two times, a little more where they are alike: neither hides the other completely.
double Both(double a, double b) {
  const double d = a - b;
  return 0.5 * (a + b + std::sqrt(d * d + 0.04 * a * b));
}

struct PassSeconds {
  double total = 0, compute = 0, tp = 0, ep = 0, cp = 0, host = 0;
};

PassSeconds SecondsOf(const Pass& p, double graph, const Factors& f) {
  PassSeconds s;
  s.compute = p.gemm * f[kGemm] + p.shape * f[kShape] + p.experts * f[kExperts] +
              p.attention * f[kAttention] + p.memory_bound * f[kMemoryBound];
  s.tp = (p.tp + p.tp_hidden * f[kShared]) * f[kTp];
  const double ep = p.all_to_all * f[kAllToAll] + p.flex * f[kFlex];
  s.ep = p.ep_overlap_share < 1 ? ep * std::min(1.0, p.ep_overlap_share * f[kShared]) : ep;
  s.cp = std::max(0.1 * p.cp, p.cp * f[kCp] - p.cp_cover * f[kAttention]);
  if (p.cp <= 0) s.cp = 0;
  const double device = s.compute + s.tp + s.ep + s.cp;
  const double launch = p.launch * f[kLaunch] * (1 - graph * std::min(1.0, f[kGraph]));
  s.total = Both(device, launch);
  s.host = s.total - device;
  return s;
}

struct LayerSeconds {
  PassSeconds forward, backward;
  double repeat = 0;  // time of the repeated part of the forward pass
};

LayerSeconds SecondsOf(const Layer& layer, const Factors& f) {
  LayerSeconds s;
  s.forward = SecondsOf(layer.forward, layer.graph, f);
  s.backward = SecondsOf(layer.backward, layer.graph, f);
  s.repeat = layer.repeat * s.forward.total * f[kRepeat];
  return s;
}

struct Pipeline {
  double slowest = 0, sum = 0, mean = 0;
};

struct Assembled {
  std::array<LayerSeconds, kKinds> kinds;
  Pipeline pipe;
  double step = 0, p2p = 0, dp = 0, update = 0;
};

Assembled Assemble(const StepTerms& t, const Factors& f) {
  Assembled a;
  std::array<bool, kKinds> used{};
  for (const StageTerms& st : t.stages) {
    for (std::size_t k = 0; k < kKinds; ++k) used[k] = used[k] || st.layers[k] > 0;
  }
  for (std::size_t k = 0; k < kKinds; ++k) {
    if (used[k]) a.kinds[k] = SecondsOf(t.kinds[k], f);
  }
  for (const StageTerms& st : t.stages) {
    double time = st.edge * f[kHead];
    for (std::size_t k = 0; k < kKinds; ++k) {
      if (st.layers[k] == 0) continue;
      const LayerSeconds& l = a.kinds[k];
      double each = l.forward.total + l.backward.total + l.repeat;
      if (t.fsdp_layer > 0) each = Both(each, t.fsdp_layer * f[kDp]);
      time += st.layers[k] * each + st.repeated[k] * l.forward.total * f[kRepeat];
    }
    a.pipe.slowest = std::max(a.pipe.slowest, time);
    a.pipe.sum += time;
  }
  const auto stages = static_cast<double>(t.stages.size());
  a.pipe.mean = a.pipe.sum / stages;
  const double fill = (a.pipe.sum - a.pipe.slowest) / t.virtual_stages * f[kBubble];
  a.p2p = stages > 1 ? 2 * t.p2p * f[kPp] * t.p2p_exposed *
                           (t.microbatches * t.virtual_stages + stages - 1)
                     : 0;
  a.dp = t.dp * f[kDp] * std::min(1.0, t.dp_exposed < 1 ? t.dp_exposed * f[kShared] : 1.0);
  a.update = t.optimizer * f[kOptimizer] + t.offload * f[kOffload];
  a.step = t.microbatches * a.pipe.slowest + fill + a.p2p + a.dp + a.update;
  return a;
}

}  // namespace

double StepSeconds(const StepTerms& t, const Factors& f) { return Assemble(t, f).step; }

StepParts PartsOf(const StepTerms& t, const Factors& f) {
  const Assembled a = Assemble(t, f);
  StepParts p;
  const double stages = static_cast<double>(t.stages.size());
  double edges = 0;
  for (const StageTerms& st : t.stages) {
    edges += st.edge * f[kHead];
    for (std::size_t k = 0; k < kKinds; ++k) {
      const LayerSeconds& l = a.kinds[k];
      const double n = st.layers[k];
      const double repeat = n * l.repeat + st.repeated[k] * l.forward.total * f[kRepeat];
      p.compute += n * (l.forward.compute + l.backward.compute);
      p.tp += n * (l.forward.tp + l.backward.tp);
      p.ep += n * (l.forward.ep + l.backward.ep);
      p.cp += n * (l.forward.cp + l.backward.cp);
      p.host += n * (l.forward.host + l.backward.host);
      p.recompute += repeat;
    }
  }
  // A mean rank's share of each; what the slowest rank takes longer is the pipeline's.
  const double times = t.microbatches / stages;
  for (double* part : {&p.compute, &p.tp, &p.ep, &p.cp, &p.host, &p.recompute}) *part *= times;
  p.compute += edges * times;
  p.pp = a.p2p;
  p.dp = a.dp;
  p.optimizer = a.update;
  p.bubble = a.step - p.Sum();
  return p;
}

}  // namespace attune::estimate
