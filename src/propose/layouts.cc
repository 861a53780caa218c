#include "layouts.h"

#include <algorithm>

namespace attune::rules {
namespace {

constexpr std::size_t kMostSplits = 4;

int Counted(const TrainingJob& job, bool accounts) {
  const Layout& l = job.layout;
  return static_cast<int>(job.shape.layers) +
         (accounts ? (l.account_embedding ? 1 : 0) + (l.account_loss ? 1 : 0) : 0);
}

bool SplitHolds(const TrainingJob& job) {
  const Layout& l = job.layout;
  const int layers = static_cast<int>(job.shape.layers);
  if (!job.shape.hybrid_pattern.empty()) {
    return l.vp == 1 && !l.first_layers && !l.last_layers && layers % l.pp == 0;
  }
  if (!l.first_layers && !l.last_layers) return Counted(job, true) % (l.pp * l.vp) == 0;
  if (l.pp == 1) return false;
  const int first = l.first_layers.value_or(0), last = l.last_layers.value_or(0);
  const int stages = l.pp - (l.first_layers ? 1 : 0) - (l.last_layers ? 1 : 0);
  const int middle = layers - first - last;
  if ((l.first_layers && first < 1) || (l.last_layers && last < 1) || middle < 0) return false;
  if (first % l.vp != 0 || last % l.vp != 0) return false;
  if (stages == 0) return middle == 0;
  return middle > 0 && middle % stages == 0 && middle / stages % l.vp == 0;
}

bool SwitchesHold(const TrainingJob& job) {
  const Layout& l = job.layout;
  const Switches& w = job.switches;
  if (w.ep_overlap && (l.ep == 1 || (l.pp > 1 && l.vp == 1) || w.recompute == "full" ||
                       w.shared_expert_overlap || w.dispatcher == "allgather")) {
    return false;
  }
  if (w.delay_wgrad && !w.ep_overlap) return false;
  if (w.dispatcher == "flex" && l.ep * l.tp == 1) return false;
  if (w.shared_expert_overlap && w.dispatcher == "allgather") return false;
  if (w.recompute == "full" && !w.cuda_graph.empty() && w.cuda_graph != "full_iteration") {
    return false;
  }
  if (w.overlap_param_gather && (!w.distributed_optimizer || !w.overlap_grad_reduce)) return false;
  // Expert gradients go to the wrong group at EP 1 with another ETP than TP (a known defect).
  if (job.shape.experts > 0 && l.ep == 1 && l.etp != l.tp) return false;
  return true;
}

}  // namespace

std::vector<int> Divisors(std::int64_t n, int at_most) {
  std::vector<int> out;
  for (int i = 1; i <= at_most && i <= n; ++i) {
    if (n % i == 0) out.push_back(i);
  }
  return out;
}

std::vector<std::pair<int, int>> SplitsOf(const TrainingJob& job, int pp, int vp) {
  std::vector<std::pair<int, int>> out;
  const int layers = static_cast<int>(job.shape.layers);
  if (pp == 1) return {{0, 0}};
  if (Counted(job, true) % (pp * vp) == 0) out.emplace_back(0, 0);
  if (!job.shape.hybrid_pattern.empty()) return out;
  const int middle_stages = pp - 2;
  const int even = (layers + pp - 1) / pp;
  for (int middle = std::max(vp, even / vp * vp); middle <= even + 2 * vp; middle += vp) {
    const int rest = layers - middle_stages * middle;
    if (rest < 2 * vp || rest % vp != 0) continue;
    const int ends = rest / vp;      // chunks that the two end stages share
    for (const int more : {0, 1}) {  // level, then one chunk less on the last stage
      const int last = (ends - more) / 2 * vp, first = rest - last;
      if (last < 1 || first < 1 || std::max(first, last) > middle + vp) continue;
      if (std::find(out.begin(), out.end(), std::pair(first, last)) != out.end()) continue;
      out.emplace_back(first, last);
    }
    if (middle_stages == 0) break;
  }
  if (out.size() > kMostSplits) out.resize(kMostSplits);
  return out;
}

bool Divides(const TrainingJob& job, const Sizes& s) {
  const Layout& l = job.layout;
  const ModelShape& shape = job.shape;
  const int tp = s.tp.value_or(l.tp), pp = s.pp.value_or(l.pp), cp = s.cp.value_or(l.cp);
  const int ep = s.ep.value_or(l.ep), etp = s.etp.value_or(l.etp), vp = s.vp.value_or(l.vp);
  const std::int64_t mbs = s.mbs.value_or(job.batch.mbs);
  const int dense = tp * pp * cp;
  if (dense > job.world || job.world % dense != 0) return false;
  if (shape.experts > 0) {
    if (etp * ep * pp > job.world || job.world % (etp * ep * pp) != 0) return false;
    if (shape.experts % ep != 0 || shape.expert_ffn % etp != 0) return false;
  }
  if (shape.heads % tp != 0 || tp > job.gpus_per_node) return false;
  if (shape.kv_groups > 0 && shape.kv_groups % tp != 0 && tp % shape.kv_groups != 0) return false;
  if (cp > 1 && job.batch.seq_len % (2 * cp) != 0) return false;
  const std::int64_t rows = mbs * (job.world / dense);
  if (rows < 1 || job.batch.gbs % rows != 0) return false;
  const std::int64_t microbatches = job.batch.gbs / rows;
  return vp == 1 || (pp > 1 && microbatches >= pp && microbatches % pp == 0);
}

std::optional<TrainingJob> WithSizes(const TrainingJob& from, const Sizes& s,
                                     bool p2p_overlap_allowed) {
  if (!Divides(from, s)) return std::nullopt;
  std::optional<TrainingJob> out(from);
  TrainingJob& job = *out;
  Layout& l = job.layout;
  Batch& b = job.batch;
  l.tp = s.tp.value_or(l.tp);
  l.pp = s.pp.value_or(l.pp);
  l.ep = s.ep.value_or(l.ep);
  l.etp = s.etp.value_or(l.etp);
  l.cp = s.cp.value_or(l.cp);
  l.vp = s.vp.value_or(l.vp);
  b.mbs = s.mbs.value_or(b.mbs);
  if (s.pp || s.vp || s.first) l.pipeline_layout.clear();
  if (s.first) {
    l.first_layers = *s.first > 0 ? s.first : std::nullopt;
    l.last_layers = s.last.value_or(0) > 0 ? s.last : std::nullopt;
    if (l.first_layers) l.account_embedding = l.account_loss = false;
  }
  l.dp = job.world / (l.tp * l.pp * l.cp);
  if (job.shape.experts > 0) {
    l.expert_dp = job.world / (l.etp * l.ep * l.pp);
  } else {
    l.ep = 1;
    l.expert_dp = l.dp * l.cp;
  }
  b.microbatches = b.gbs / (b.mbs * l.dp);
  if (!SplitHolds(job)) return std::nullopt;
  l.sequence_parallel = l.tp > 1 && (l.sequence_parallel || s.tp.has_value());
  if (l.tp == 1) job.switches.tp_comm_overlap = false;
  job.switches.overlap_p2p = l.vp > 1 && p2p_overlap_allowed;
  const int share = static_cast<int>(job.shape.layers) / l.pp;
  if (job.switches.recompute == "full" && job.switches.recompute_layers > std::max(1, share)) {
    return std::nullopt;
  }
  if (!SwitchesHold(job)) return std::nullopt;
  return out;
}

}  // namespace attune::rules
