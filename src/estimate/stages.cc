// How layers spread over pipeline ranks, and what a layer's parameters are.
#include <algorithm>
#include <array>

#include "sizes.h"
#include "terms.h"

namespace attune::estimate {
namespace {

Kind KindOf(char symbol) {
  switch (symbol) {
    case 'M':
      return kMixer;
    case '*':
      return kAttentionOnly;
    case 'E':
      return kMoeOnly;
    default:
      return kDense;
  }
}

// Layers of each kind among the first `n`.
class Prefix {
 public:
  explicit Prefix(const ModelShape& s) : shape_(s) {
    if (s.hybrid_pattern.empty()) return;
    counts_.emplace_back();
    for (const char c : s.hybrid_pattern) {
      if (c == '/') break;
      if (c == '|') continue;
      counts_.push_back(counts_.back());
      ++counts_.back()[KindOf(c)];
    }
  }
  std::array<int, kKinds> Of(int n) const {
    if (!counts_.empty()) {
      return counts_[static_cast<std::size_t>(
          std::min<int>(n, static_cast<int>(counts_.size()) - 1))];
    }
    std::array<int, kKinds> out{};
    n = std::min(n, static_cast<int>(shape_.layers));
    const int dense = shape_.experts > 0 ? static_cast<int>(shape_.dense_layers) : n;
    out[kDense] = std::min(n, dense);
    out[kMoe] = n - out[kDense];
    return out;
  }

 private:
  const ModelShape& shape_;
  std::vector<std::array<int, kKinds>> counts_;
};

// Decoder layers of each rank for one pass over the ranks (virtual stages only reorder them, and
// which layers a rank holds matters little beside how many).
std::vector<int> CountsOf(const TrainingJob& job) {
  const Layout& l = job.layout;
  const int pp = std::max(1, l.pp);
  std::vector<int> counts(static_cast<std::size_t>(pp), 0);
  const int layers = static_cast<int>(job.shape.layers);
  int left = layers, ranks = pp;
  if (l.first_layers && pp > 1) {
    counts.front() = *l.first_layers;
    left -= *l.first_layers;
    --ranks;
  }
  if (l.last_layers && pp > 1) {
    counts.back() = *l.last_layers;
    left -= *l.last_layers;
    --ranks;
  }
  const int counted = left + (l.account_embedding ? 1 : 0) + (l.account_loss ? 1 : 0);
  int given = 0;
  for (int i = 0; i < pp; ++i) {
    if ((i == 0 && l.first_layers && pp > 1) || (i == pp - 1 && l.last_layers && pp > 1)) continue;
    int n = ranks > 0 ? counted / ranks : 0;
    if (given < counted - n * ranks) ++n;
    ++given;
    if (i == 0 && l.account_embedding) --n;
    if (i == pp - 1 && l.account_loss) --n;
    counts[static_cast<std::size_t>(i)] = std::max(0, n);
  }
  return counts;
}

}  // namespace

std::vector<StageTerms> StagesOf(const TrainingJob& job) {
  const Prefix prefix(job.shape);
  const std::vector<int> counts = CountsOf(job);
  std::vector<StageTerms> stages(counts.size());
  const Switches& w = job.switches;
  int next = 0;
  std::array<int, kKinds> before{};
  for (std::size_t i = 0; i < stages.size(); ++i) {
    next += counts[i];
    const std::array<int, kKinds> after = prefix.Of(next);
    for (std::size_t k = 0; k < kKinds; ++k) stages[i].layers[k] = after[k] - before[k];
    before = after;
    if (w.recompute != "full") continue;
    int all = 0;
    for (const int n : stages[i].layers) all += n;
    // uniform: every layer; block: so many of each virtual stage's layers.
    const double covered = w.recompute_method == "block"
                               ? std::min<double>(all, w.recompute_layers * job.layout.vp)
                               : all;
    for (std::size_t k = 0; k < kKinds; ++k) {
      stages[i].repeated[k] = all > 0 ? stages[i].layers[k] * covered / all : 0;
    }
  }
  return stages;
}

LayerParameters ParametersOf(const TrainingJob& job, Kind kind) {
  const ModelShape& s = job.shape;
  const double h = D(s.hidden), tp = job.layout.tp;
  LayerParameters p;
  if (HasAttention(s, kind)) {
    const AttentionSizes a = SizesOf(s);
    if (s.mla) {
      p.dense += (a.q_rank > 0 ? h * a.q_rank + a.q_rank * a.q / tp : h * a.q / tp) +
                 h * (a.kv_rank + a.rope) + a.kv_rank * a.kv / tp + a.out * h / tp;
    } else {
      p.dense += h * (a.q + a.kv + a.out) / tp;
    }
  }
  if (kind == kMixer) {
    const MixerSizes m = MixerOf(s);
    p.dense += h * (m.in + m.inner) / tp;
  }
  if (kind == kDense) p.dense += MlpMatrices(s) * h * D(s.ffn) / tp;
  if (kind == kMoe || kind == kMoeOnly) {
    p.dense += MlpMatrices(s) * h * D(s.shared_ffn) / tp + h * D(s.experts);
    const double wide = s.moe_latent > 0 ? D(s.moe_latent) : h;
    if (s.moe_latent > 0) p.dense += 2 * h * wide;
    p.experts =
        MlpMatrices(s) * wide * D(s.expert_ffn) * D(s.experts) / job.layout.ep / job.layout.etp;
  }
  return p;
}

}  // namespace attune::estimate
