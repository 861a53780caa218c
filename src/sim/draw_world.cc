// Drawn worlds. A family says what kind of cluster it is; the seed draws its constants, the factors
// over jobs, couplings, memory and defects. None of the couplings and defects stands in a rule
// table, a page or the estimate: they are found by launching.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "attune/base/check.h"
#include "attune/base/random.h"
#include "attune/base/text.h"
#include "read_world.h"
#include "residual.h"
#include "world_fields.h"

namespace attune::sim {
namespace {

struct Family {
  std::string_view name, about;
  void (*shape)(World&, Random&);
};

double Between(Random& r, double low, double high) { return low + (high - low) * r.Unit(); }

void Plain(World&, Random&) {}
void Cloud(World& w, Random& r) {
  w.alltoall_efficiency = Between(r, 0.4, 0.6);
  w.gpu_initiated = false;
  w.coefficients.launch_moe_s *= Between(r, 1.2, 1.8);
}
void SlowNetwork(World& w, Random& r) {
  w.network_efficiency = Between(r, 0.25, 0.45);
  w.noise.allocation_sigma = 0.012;
}
void NoLaunch(World& w, Random&) {
  w.coefficients.launch_moe_s *= 0.02;
  w.coefficients.launch_dense_s *= 0.02;
  w.coefficients.launch_mixer_s *= 0.02;
  w.coefficients.launch_module_s *= 0.02;
  w.coefficients.launch_pass_s *= 0.02;
}
void SmallMemory(World& w, Random& r) {
  w.coefficients.usable_memory *= Between(r, 0.78, 0.90);
  w.coefficients.activation_share *= Between(r, 1.1, 1.3);
}
void SlowFlex(World& w, Random& r) {
  Interaction slow{"flex-is-slow", {}, Term::kEpExposed, Between(r, 2.0, 3.0)};
  slow.when.push_back(*ParseCondition("flex=1"));
  w.interactions.push_back(std::move(slow));
  w.coefficients.launch_flex = Between(r, 1.0, 1.2);
}
void DearRecompute(World& w, Random& r) {
  w.interactions.push_back({"recompute-is-dear", {}, Term::kRecompute, Between(r, 1.8, 2.6)});
  Interaction host{"recompute-on-the-host", {}, Term::kLaunchWait, Between(r, 1.3, 1.6)};
  host.when.push_back(*ParseCondition("full_recompute=1"));
  w.interactions.push_back(std::move(host));
}
void Null(World& w, Random& r) { w.input.of_baseline = Between(r, 1.000, 1.008); }

constexpr Family kFamilies[] = {
    {"default", "the recipe's own machine", Plain},
    {"cloud", "a cloud network: weak all-to-all, slow hosts, no GPU-driven NICs", Cloud},
    {"slow-network", "a quarter to a half of the usual network", SlowNetwork},
    {"no-launch", "hosts that cost nothing", NoLaunch},
    {"small-memory", "less usable memory, larger activations", SmallMemory},
    {"slow-flex", "flex dispatchers slower than all-to-all", SlowFlex},
    {"dear-recompute", "recomputation dear on device and host", DearRecompute},
    {"null", "an input pipeline as fast as the baseline: nothing gains", Null},
};

struct Coupling {
  std::string_view id, when;
  Term term;
  double low, high;
};
constexpr Coupling kCouplings[] = {
    {"reduce-under-stages", "vp>=2 grad_overlap=1", Term::kDpExposed, 1.6, 3.0},
    {"experts-beside-context", "cp>=2 ep>=4", Term::kEpExposed, 1.3, 2.0},
    {"wide-rows", "mbs>=2 full_recompute=0", Term::kMemoryForward, 1.2, 1.6},
    {"wide-rows-recomputed", "mbs>=2 full_recompute=1", Term::kRecompute, 0.6, 0.85},
    {"deep-pipe-host", "pp>=8 vp>=2", Term::kLaunchWait, 1.15, 1.5},
    {"thin-stages", "layers_per_stage<=3 tp>=2", Term::kTpExposed, 1.3, 2.2},
    {"flex-and-shared", "flex=1 shared_overlap=1", Term::kLaunchWait, 1.2, 1.5},
    {"sharded-experts", "etp>=2", Term::kExpertForward, 1.15, 1.6},
    {"many-micro-batches", "microbatches>=64 tp>=2", Term::kLaunchWait, 1.1, 1.35},
    {"few-micro-batches", "microbatches<=8", Term::kOptimizer, 1.3, 2.5},
    {"fused-permute-slow", "permute_fusion=1 tp>=2", Term::kMemoryForward, 1.15, 1.4},
    {"gather-under-recompute", "param_overlap=1 full_recompute=1", Term::kDpExposed, 1.5, 2.5},
    {"one-rank-rows", "tp=1 pp>=4", Term::kLaunchWait, 1.05, 1.25},
    {"partial-recompute-host", "recompute_modules>=2", Term::kLaunchWait, 1.15, 1.4},
    {"wide-experts", "ep>=32", Term::kEpExposed, 1.3, 1.8},
};

struct Footprint {
  std::string_view id, when;
  double gib_low, gib_high, of_activations;
};
constexpr Footprint kFootprints[] = {
    {"pipe-buffers", "pp>=8", 1.0, 5.0, 0},
    {"dispatch-workspace", "ep>=8", 1.5, 6.0, 0.05},
    {"reduce-buckets", "grad_overlap=1 tp=1", 1.0, 5.0, 0},
    {"stage-copies", "vp>=2", 0.5, 3.0, 0.10},
    {"context-ring", "cp>=2", 0.5, 2.5, 0.08},
    {"saved-norms", "tp=1 full_recompute=0", 0.5, 3.0, 0.12},
    {"recompute-scratch", "full_recompute=1", 1.0, 4.0, 0.15},
};

struct Trap {
  std::string_view id, when;
  Effect effect;
  int step;
  double step0_loss, loss_drift, balance_factor, grad_factor;
};
constexpr Trap kTraps[] = {
    // end a launch
    {"stalls-in-wide-stages", "vp>=2 mbs>=2 pp>=4", Effect::kHang, 2, 0, 0, 1, 1},
    {"stalls-beside-context", "cp>=2 etp>=2", Effect::kHang, 0, 0, 0, 1, 1},
    {"stalls-under-flex", "flex=1 etp>=2", Effect::kHang, 1, 0, 0, 1, 1},
    {"stalls-when-overlapped", "ep_overlap=1 cp>=2", Effect::kHang, 4, 0, 0, 1, 1},
    {"grows-with-rows", "mbs>=4 full_recompute=0", Effect::kOom, 6, 0, 0, 1, 1},
    {"grows-in-graphs", "graphs=1 vp>=2", Effect::kOom, 5, 0, 0, 1, 1},
    {"grows-with-experts", "ep>=64 recompute_moe=0", Effect::kOom, 4, 0, 0, 1, 1},
};
constexpr Trap kSilences[] = {
    // change what is learned
    {"half-balance", "uneven=1 vp>=4", Effect::kSilent, 0, 0, 0, 0.55, 1.0},
    {"lost-rows", "cp>=4 mbs>=2", Effect::kSilent, 0, 0.031, 0, 1, 1.1},
    {"late-gradients", "delay_wgrad=1 vp>=2", Effect::kSilent, 0, 0, 0.004, 1, 1.6},
    {"wrong-copies", "tp>=8 ep>=16", Effect::kSilent, 0, 0.0004, 0, 0.62, 1.0},
    {"first-stage", "uneven=1 edge_layers>=3", Effect::kSilent, 0, 0.19, 0, 1, 1.3},
    {"sharded-router", "etp>=2 tp>=4", Effect::kSilent, 0, 0.025, 0, 0.9, 1.0},
};

std::vector<Condition> ConditionsOf(std::string_view text) {
  std::vector<Condition> out;
  for (const std::string_view word : Split(text, ' ')) {
    const Result<Condition> c = ParseCondition(word);
    ATTUNE_CHECK(c.has_value(), "a condition of our own table");
    out.push_back(*c);
  }
  return out;
}

// `n` different indices below `size`, in drawn order.
std::vector<std::size_t> Choose(Random& r, std::size_t size, std::size_t n) {
  std::vector<std::size_t> all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = i;
  for (std::size_t i = 0; i < n && i < size; ++i) std::swap(all[i], all[i + r.Below(size - i)]);
  all.resize(std::min(n, size));
  return all;
}

void PerturbCoefficients(Coefficients& out, Random& r) {
  for (const CoefficientRow& c : CoefficientRows()) {
    // Efficiencies stay below 1 and latencies positive; a constant known exactly stays as it is.
    const double sigma = c.member == &Coefficients::usable_memory ? 0.005 : c.fitted ? 0.12 : 0.04;
    double& value = out.*c.member;
    value = std::clamp(value * std::exp(sigma * r.Normal()), std::min(c.low, value),
                       std::max(c.high, value));
  }
}

Defect DefectOf(const Trap& trap) {
  Defect d;
  d.id = std::string(trap.id);
  d.when = ConditionsOf(trap.when);
  d.effect = trap.effect;
  d.step = trap.step;
  d.step0_loss = trap.step0_loss;
  d.loss_drift = trap.loss_drift;
  d.balance_factor = trap.balance_factor;
  d.grad_factor = trap.grad_factor;
  return d;
}

}  // namespace

std::string FamilyNames() {
  std::string names;
  for (const Family& f : kFamilies) names += (names.empty() ? "" : ", ") + std::string(f.name);
  return names;
}

Result<World> DrawWorld(std::string_view family, std::uint64_t seed) {
  const auto row = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                [&](const Family& f) { return f.name == family; });
  if (row == std::end(kFamilies)) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("no family of worlds is called '{}'", EscapeForDisplay(family, 40)),
                "families: " + FamilyNames() + "; or name a world file");
  }
  World w;
  w.name = fmt::format("{}:{}", family, seed);
  w.about = std::string(row->about);
  w.seed = seed;
  w.coefficients = BuiltInCoefficients();
  Random r(MixText(seed, family));
  // default:0 is the cluster as published: fitted constants, and the recipe's own configuration as
  // fast as the physics has it. Its other configurations, memory and defects are drawn like others'.
  const bool published = family == "default" && seed == 0;
  w.keeps_baseline = true;
  if (!published) PerturbCoefficients(w.coefficients, r);
  row->shape(w, r);
  w.residuals = {r.Next() >> 1, Between(r, 0.18, 0.28), Between(r, 0.10, 0.16),
                 Between(r, 1.6, 2.6), published};
  for (const std::size_t i : Choose(r, std::size(kCouplings), 3 + r.Below(3))) {
    const Coupling& c = kCouplings[i];
    w.interactions.push_back(
        {std::string(c.id), ConditionsOf(c.when), c.term, Between(r, c.low, c.high)});
  }
  for (const std::size_t i : Choose(r, std::size(kFootprints), 3)) {
    const Footprint& f = kFootprints[i];
    w.memory.push_back({std::string(f.id), ConditionsOf(f.when),
                        Between(r, f.gib_low, f.gib_high) * kGibi, f.of_activations, 0});
  }
  w.defects.push_back(DefectOf(kTraps[r.Below(std::size(kTraps))]));
  w.defects.push_back(DefectOf(kSilences[r.Below(std::size(kSilences))]));
  w.noise.allocation_sigma *= Between(r, 0.7, 1.7);
  w.training.routing_shift *= Between(r, 0.5, 1.5);
  w.hash = Sha256Hex(CanonicalText(w));
  return w;
}

}  // namespace attune::sim
