#include "sim_scan.h"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>

#include "attune/base/text.h"
#include "attune/gates/candidate_traits.h"
#include "attune/gates/config_check.h"
#include "attune/gates/rules.h"
#include "attune/gates/ship_check.h"

namespace attune::cli {
namespace {

constexpr std::size_t kStarts = 200;

// What refuses a candidate. Of a baseline these are cautions (it is the user's own working recipe),
// and here candidates are checked in its place.
bool Refuses(const Finding& finding) {
  if (finding.severity == Severity::kRefuse || finding.rule.starts_with("legality.")) return true;
  for (const DefectRow& row : BuiltInRules().defects) {
    if (finding.rule == "defect." + std::string(row.id)) return row.refuse;
  }
  return false;
}

std::string Show(std::int64_t n) { return std::to_string(n); }

void SetOrUnset(Arguments& args, const std::string& flag, bool on) {
  if (on) {
    args.Set(flag, {});
  } else {
    args.Unset(flag);
  }
}

// One configuration under construction: the baseline with other degrees and switches.
class Shaper {
 public:
  Shaper(const Recipe& recipe, const TrainingJob& base) : base_(recipe.base), job_(base) {}

  struct Layout {
    int tp, pp, ep, etp, cp, vp, mbs;
    bool even;  // drop the baseline's split of the stages
  };
  Effective Place(const Layout& l) const {
    Effective e = base_;
    Arguments& a = e.args;
    a.Set("--tensor-model-parallel-size", {Show(l.tp)});
    a.Set("--pipeline-model-parallel-size", {Show(l.pp)});
    if (job_.shape.experts > 0) {
      a.Set("--expert-model-parallel-size", {Show(l.ep)});
      a.Set("--expert-tensor-parallel-size", {Show(l.etp)});
    }
    if (l.cp > 1 || a.Has("--context-parallel-size")) {
      a.Set("--context-parallel-size", {Show(l.cp)});
    }
    a.Set("--micro-batch-size", {Show(l.mbs)});
    SetOrUnset(a, "--sequence-parallel", l.tp > 1);
    if (l.tp == 1) a.Unset("--tp-comm-overlap");
    a.Unset("--num-layers-per-virtual-pipeline-stage");
    a.Unset("--num-virtual-stages-per-pipeline-rank");
    if (l.vp > 1) a.Set("--num-virtual-stages-per-pipeline-rank", {Show(l.vp)});
    if (l.even || l.pp == 1) {
      a.Unset("--decoder-first-pipeline-num-layers");
      a.Unset("--decoder-last-pipeline-num-layers");
      a.Unset("--pipeline-model-parallel-layout");
      a.Unset("--account-for-embedding-in-pipeline-split");
      a.Unset("--account-for-loss-in-pipeline-split");
    }
    return e;
  }

 private:
  Effective base_;
  const TrainingJob& job_;
};

using Edit1 = void (*)(Arguments&);
struct Variant {
  const char* name;
  Edit1 apply;
};

void NoRecompute(Arguments& a) {
  for (const char* flag : {"--recompute-granularity", "--recompute-method",
                           "--recompute-num-layers", "--recompute-modules"}) {
    a.Unset(flag);
  }
}
void Selective(Arguments& a, std::vector<std::string> modules) {
  NoRecompute(a);
  a.Set("--recompute-granularity", {"selective"});
  a.Set("--recompute-modules", std::move(modules));
}
constexpr Variant kRecompute[] = {
    {"as it is", [](Arguments&) {}},
    {"none", NoRecompute},
    {"core_attn", [](Arguments& a) { Selective(a, {"core_attn"}); }},
    {"moe_act", [](Arguments& a) { Selective(a, {"moe_act"}); }},
    {"moe",
     [](Arguments& a) {
       Selective(a, {"core_attn", "moe"});
     }},
    {"full",
     [](Arguments& a) {
       NoRecompute(a);
       a.Set("--recompute-granularity", {"full"});
       a.Set("--recompute-method", {"uniform"});
       a.Set("--recompute-num-layers", {"1"});
     }},
};
constexpr Variant kDispatch[] = {
    {"as it is", [](Arguments&) {}},
    {"alltoall",
     [](Arguments& a) {
       a.Set("--moe-token-dispatcher-type", {"alltoall"});
       a.Unset("--moe-enable-deepep");
       a.Unset("--moe-flex-dispatcher-backend");
     }},
    {"flex",
     [](Arguments& a) {
       a.Set("--moe-token-dispatcher-type", {"flex"});
       a.Unset("--moe-enable-deepep");
       a.Set("--moe-flex-dispatcher-backend", {"deepep"});
       a.Unset("--moe-shared-expert-overlap");
     }},
};
constexpr Variant kOverlap[] = {
    {"as it is", [](Arguments&) {}},
    {"on",
     [](Arguments& a) {
       a.Set("--overlap-grad-reduce", {});
       a.Set("--overlap-param-gather", {});
     }},
};
// The other levers, one at a time, in the coordinate ascent.
constexpr Variant kMoves[] = {
    {"", [](Arguments& a) { a.Unset("--optimizer-cpu-offload"); }},
    {"", [](Arguments& a) { a.Set("--tp-comm-overlap", {}); }},
    {"", [](Arguments& a) { a.Unset("--tp-comm-overlap"); }},
    {"", [](Arguments& a) { a.Set("--moe-shared-expert-overlap", {}); }},
    {"", [](Arguments& a) { a.Unset("--moe-shared-expert-overlap"); }},
    {"", [](Arguments& a) { a.Set("--overlap-moe-expert-parallel-comm", {}); }},
    {"", [](Arguments& a) { a.Unset("--overlap-moe-expert-parallel-comm"); }},
    {"", [](Arguments& a) { a.Set("--delay-wgrad-compute", {}); }},
    {"", [](Arguments& a) { a.Set("--account-for-loss-in-pipeline-split", {}); }},
    {"", [](Arguments& a) { a.Set("--account-for-embedding-in-pipeline-split", {}); }},
    {"", [](Arguments& a) { a.Unset("--overlap-grad-reduce"); }},
    {"", [](Arguments& a) { a.Unset("--overlap-param-gather"); }},
    {"", [](Arguments& a) { a.Set("--overlap-p2p-communication-warmup-flush", {}); }},
    {"",
     [](Arguments& a) {
       Selective(a, {"layernorm", "moe_act"});
     }},
    {"",
     [](Arguments& a) {
       Selective(a, {"core_attn", "mlp"});
     }},
    {"",
     [](Arguments& a) {
       NoRecompute(a);
       a.Set("--recompute-granularity", {"full"});
       a.Set("--recompute-method", {"block"});
       a.Set("--recompute-num-layers", {"2"});
     }},
};

// Of the device: what the ship gate lets this recipe's jobs reserve.
double HeadroomOf(const Recipe& recipe) {
  return HeadroomLimit(recipe.gate.memory_headroom, DroplessOrVariable(recipe, recipe.base),
                       Thresholds{});
}

std::vector<int> Degrees(int most) {
  std::vector<int> out;
  for (int n = 1; n <= most; n *= 2) out.push_back(n);
  return out;
}

// Light first and last stages, and uneven splits (Table E1), on top of a legal layout.
std::vector<Effective> Splits(const Effective& e, const TrainingJob& job) {
  std::vector<Effective> out;
  const int pp = job.layout.pp;
  const auto layers = static_cast<int>(job.shape.layers);
  if (pp < 3 || job.layout.vp > 1) return out;
  for (int first = 1; first <= layers / pp + 2; ++first) {
    for (int last = std::max(1, first - 2); last <= first + 2; ++last) {
      if (layers - first - last <= 0 || (layers - first - last) % (pp - 2) != 0) continue;
      Effective split = e;
      split.args.Unset("--account-for-embedding-in-pipeline-split");
      split.args.Unset("--account-for-loss-in-pipeline-split");
      split.args.Set("--decoder-first-pipeline-num-layers", {Show(first)});
      split.args.Set("--decoder-last-pipeline-num-layers", {Show(last)});
      out.push_back(std::move(split));
    }
  }
  return out;
}

// Layout axes of a recipe, in a fixed order.
template <class F>
void ForEachLayout(const TrainingJob& base, const F& f) {
  const int world = base.world;
  const bool moe = base.shape.experts > 0;
  for (const int tp : Degrees(std::min(world, 2 * base.gpus_per_node))) {
    for (const int pp : Degrees(std::min(world, 64))) {
      for (const int cp : Degrees(std::min(world, 8))) {
        if (static_cast<std::int64_t>(tp) * pp * cp > world) continue;
        for (const int ep :
             moe ? Degrees(std::min<int>(world, int(base.shape.experts))) : std::vector<int>{1}) {
          for (const int etp : moe&& tp > 1 ? std::vector<int>{1, tp} : std::vector<int>{1}) {
            for (const int vp : {1, 2, 3, 4, 6, 8, 12}) {
              if (vp > 1 && (pp == 1 || base.shape.layers < static_cast<std::int64_t>(pp) * vp)) {
                continue;
              }
              for (const int mbs : {1, 2, 4, 8}) {
                for (const bool even : {false, true}) f(tp, pp, cp, ep, etp, vp, mbs, even);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

Legality::Legality(const Recipe& recipe) : recipe_(recipe) {
  for (const Finding& f : CheckBaseline(recipe_, BuiltInRules(), {})) {
    if (Refuses(f)) met_.push_back(f.rule);
  }
}

bool Legality::Check(const Effective& config) const {
  Recipe candidate = recipe_;
  candidate.base = config;
  for (const Finding& f : CheckBaseline(candidate, BuiltInRules(), {})) {
    if (Refuses(f) && std::find(met_.begin(), met_.end(), f.rule) == met_.end()) {
      return false;
    }
  }
  return true;
}

std::int64_t VisitLayouts(const Recipe& recipe,
                          const std::function<void(const Effective&, const TrainingJob&)>& visit) {
  const auto resolved = ResolveMegatron(recipe.base.args, recipe.base.env, recipe.workload);
  const auto* base = std::get_if<TrainingJob>(&resolved);
  if (base == nullptr) return 0;
  const Shaper shaper(recipe, *base);
  std::unordered_set<std::size_t> seen;  // a clash of 64-bit hashes would lose one of many
  std::int64_t looked_at = 0;
  ForEachLayout(*base, [&](int tp, int pp, int cp, int ep, int etp, int vp, int mbs, bool even) {
    const Effective placed = shaper.Place({tp, pp, ep, etp, cp, vp, mbs, even});
    // A layout that can't be resolved can't with any switch.
    const auto plain = ResolveMegatron(placed.args, placed.env, recipe.workload);
    if (!std::holds_alternative<TrainingJob>(plain)) {
      ++looked_at;
      return;
    }
    for (const Variant& r : kRecompute) {
      for (const Variant& d : kDispatch) {
        if (base->shape.experts == 0 && &d != &kDispatch[0]) break;
        for (const Variant& o : kOverlap) {
          Effective e = placed;
          r.apply(e.args);
          d.apply(e.args);
          o.apply(e.args);
          ++looked_at;
          if (!seen.insert(std::hash<std::string>()(Join(e.args.Render(), " "))).second) continue;
          const auto shaped = ResolveMegatron(e.args, e.env, recipe.workload);
          if (const auto* job = std::get_if<TrainingJob>(&shaped)) visit(e, *job);
        }
      }
    }
  });
  return looked_at;
}

Result<Scan> ScanSpace(const Recipe& recipe, const sim::Cluster& cluster) {
  const Legality legality(recipe);
  Scan scan;
  scan.baseline = cluster.Ask(recipe.base);
  scan.best = recipe.base;
  scan.oracle = scan.baseline;
  std::vector<std::pair<double, Effective>> best;
  double least = 0;  // of the starts kept so far: what is slower need not be asked about
  const auto good = [](const sim::Oracle& o) { return !o.fails && !o.learns_otherwise; };
  const double headroom = HeadroomOf(recipe);
  const auto ships = [&](const sim::Oracle& o) { return o.reserved_share <= headroom; };
  const auto keep = [&] {
    std::sort(best.begin(), best.end(),
              [](const auto& a, const auto& b) { return a.first > b.first; });
    if (best.size() < kStarts) return;
    best.resize(kStarts);
    least = best.back().first;
  };
  scan.looked_at = VisitLayouts(recipe, [&](const Effective& e, const TrainingJob& job) {
    ++scan.resolve;
    const sim::Oracle o = cluster.AskJob(job);
    if (!good(o)) return;
    ++scan.train;
    if (o.tokens_per_gpu <= least) return;
    ++scan.checked;
    if (!ships(o) && o.tokens_per_gpu <= scan.best_of_all) return;
    if (!legality.Check(e)) return;
    ++scan.legal;
    scan.best_of_all = std::max(scan.best_of_all, o.tokens_per_gpu);
    if (!ships(o)) return;
    best.emplace_back(o.tokens_per_gpu, e);
    if (best.size() > 4 * kStarts) keep();
  });
  keep();

  for (auto& [rate, config] : best) {
    for (bool better = true; better;) {
      better = false;
      std::vector<Effective> neighbours;
      for (const Variant& move : kMoves) {
        move.apply(neighbours.emplace_back(config).args);
      }
      const auto resolved = ResolveMegatron(config.args, config.env, recipe.workload);
      if (const auto* job = std::get_if<TrainingJob>(&resolved)) {
        for (Effective& split : Splits(config, *job)) neighbours.push_back(std::move(split));
      }
      Effective next = config;
      for (Effective& e : neighbours) {
        if (e == config) continue;
        ++scan.ascents;
        const sim::Oracle o = cluster.Ask(e);
        if (!good(o) || !ships(o) || o.tokens_per_gpu <= rate || !legality.Check(e)) continue;
        rate = o.tokens_per_gpu;
        next = std::move(e);
        better = true;
      }
      config = std::move(next);
    }
    if (rate > scan.oracle.tokens_per_gpu) {
      scan.best = config;
      scan.oracle = cluster.Ask(config);
    }
  }
  scan.best_of_all = std::max(scan.best_of_all, scan.oracle.tokens_per_gpu);
  return scan;
}

}  // namespace attune::cli
