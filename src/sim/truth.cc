#include "truth.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "machines.h"

namespace attune::sim {
namespace {

// Streams of a world's seeded waves beyond the terms.
constexpr std::uint64_t kActivationWave = 100;
// The allocator keeps blocks that nobody uses at the moment.
constexpr double kReservedOverAllocated = 1.03;
// A step in which one rank's experts get more tokens than the usual slowest: late OOM.
constexpr int kLateStep = 3;

double Sum(const Terms& terms) { return std::accumulate(terms.begin(), terms.end(), 0.0); }

std::size_t Index(Term t) { return static_cast<std::size_t>(t); }

// How much two places have to do with each other: the covariance of a wave's values there.
double Likeness(const Place& a, const Place& b, double reach) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::exp(-sum / (2 * reach * reach));
}

// The world's factors at one job's place, by term, and of the activations.
struct Factors {
  Terms terms;
  double activations = 1;
};

Factors FactorsAt(const Site& site, const TrainingJob& job, const Place& place) {
  const Residuals& r = site.world->residuals;
  const double like = site.pin ? Likeness(place, *site.pin, r.reach) : 0;
  const auto wave = [&](std::size_t w) {
    return site.waves[w].At(place) - (site.pin ? like * site.at_pin[w] : 0);
  };
  Factors f;
  f.terms.fill(1);
  if (r.time > 0) {
    for (std::size_t t = 0; t < kTermCount; ++t) f.terms[t] = std::exp(r.time * wave(t));
  }
  if (r.memory > 0) f.activations = std::exp(r.memory * wave(kTermCount));
  for (const Interaction* i : site.interactions) {
    if (HoldAll(i->when, job)) f.terms[Index(i->term)] *= i->factor;
  }
  return f;
}

void FindMemory(const Site& site, const TrainingJob& job, double factor, Truth& out) {
  out.stage_allocated.clear();
  out.needed = out.peak_allocated = 0;
  for (const StageModel& stage : out.model.stages) {
    const Memory& m = stage.memory;
    double allocated = m.Allocated() + (factor - 1) * m.activations;
    for (const ExtraMemory* e : site.memory) {
      if (HoldAll(e->when, job)) {
        allocated += e->bytes + e->of_activations * m.activations + e->of_static * m.Static();
      }
    }
    out.stage_allocated.push_back(allocated);
    out.peak_allocated = std::max(out.peak_allocated, allocated);
    out.needed = std::max(out.needed, allocated + m.fragmentation + m.fixed);
  }
  out.limit = out.model.limit_bytes * site.more_memory;
  out.peak_reserved = std::min(out.peak_allocated * kReservedOverAllocated, out.limit);
  out.oom = OomAt::kNone;
  if (out.needed > out.limit) {
    double fixed = 0;
    for (const StageModel& stage : out.model.stages) {
      fixed = std::max(fixed, stage.memory.Static() + stage.memory.fixed);
    }
    out.oom = fixed > out.limit ? OomAt::kBuild : OomAt::kForward;
  } else if (out.model.oom == OomAt::kLate) {
    out.oom = OomAt::kLate;
    out.oom_step = kLateStep;
  }
}

void MeetDefects(const Site& site, const TrainingJob& job, Truth& out) {
  out.defects.clear();
  for (const Defect* met : site.defects) {
    const Defect& d = *met;
    if (!HoldAll(d.when, job)) continue;
    out.defects.push_back(met);
    switch (d.effect) {
      case Effect::kSlow:
        for (double& t : out.terms) t *= d.factor;
        break;
      case Effect::kOom:
        if (out.oom == OomAt::kNone) {
          out.oom = d.step == 0 ? OomAt::kForward : OomAt::kLate;
          out.oom_step = d.step;
        }
        break;
      case Effect::kCrash:
        if (out.trouble.failure == Failure::kNone) out.trouble = {Failure::kStartCrash, d.id};
        break;
      case Effect::kHang:
        if (out.trouble.failure == Failure::kNone && d.step == 0) {
          out.trouble = {Failure::kHang, d.id};
        }
        break;
      case Effect::kNan:
      case Effect::kSilent:
        break;
    }
  }
}

// The row of the stack table that a recipe's own words mean. 1dcf0da is the commit that the paper
// ran under slime; with it comes what that stack is known for.
std::string FrameworkOf(const std::map<std::string, std::string>& stack) {
  if (stack.contains("megatron-bridge")) return "Megatron-Bridge";
  const auto commit = stack.find("megatron-lm");
  const bool papers = commit != stack.end() && commit->second.starts_with("1dcf0da");
  return stack.contains("slime") || papers ? "slime+Megatron-LM 1dcf0da" : "Megatron-LM";
}

}  // namespace

Result<Site> SiteOf(const World& world, const Workload& workload,
                    const std::map<std::string, std::string>& stack) {
  Site site;
  site.world = &world;
  const auto network = stack.find("network");
  // A network that the physics does not know is the usual one.
  std::optional<Machine> machine;
  if (network != stack.end()) machine = FindMachine(workload.gpu, network->second);
  if (!machine) machine = FindMachine(workload.gpu);
  if (!machine) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the simulated cluster has no GPU '{}'", workload.gpu),
                "workload.gpu names one of its table, H100 or B200 for instance");
  }
  site.machine = *machine;
  Network& net = site.machine.network;
  if (world.nvlink_rate > 0) net.nvlink_rate = world.nvlink_rate;
  if (world.nic_rate > 0) net.nic_rate = world.nic_rate;
  if (world.hbm_bytes > 0) {
    site.machine.gpu.memory_bytes = static_cast<std::int64_t>(world.hbm_bytes);
  }
  if (world.network_efficiency > 0) net.efficiency = world.network_efficiency;
  if (world.alltoall_efficiency > 0) net.alltoall_efficiency = world.alltoall_efficiency;
  if (world.gpu_initiated) net.gpu_initiated = *world.gpu_initiated;

  const std::string framework =
      world.stack_framework.empty() ? FrameworkOf(stack) : world.stack_framework;
  const std::optional<StackProfile> profile = FindStack(framework, world.stack_version);
  if (!profile) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the simulated cluster has no stack '{}'", framework));
  }
  site.stack = *profile;
  if (world.stack_factor > 0) site.stack.factor = world.stack_factor;
  site.conditions.varying_shapes = workload.variable_rows;

  for (std::uint64_t t = 0; t < kTermCount; ++t) {
    site.waves.emplace_back(world.residuals.seed, t, world.residuals.reach);
  }
  site.waves.emplace_back(world.residuals.seed, kActivationWave, world.residuals.reach);
  for (const Interaction& i : world.interactions) site.interactions.push_back(&i);
  for (const ExtraMemory& m : world.memory) site.memory.push_back(&m);
  for (const Defect& d : world.defects) site.defects.push_back(&d);
  site.tokens_per_gpu = world.input.tokens_per_gpu;
  return site;
}

void Pin(Site& site, const Place& place) {
  site.pin = place;
  site.at_pin.clear();
  for (const Wave& wave : site.waves) site.at_pin.push_back(wave.At(place));
}

void TruthOf(const Site& site, const TrainingJob& job, Truth& out) {
  ModelStep(job, site.machine, site.stack, site.world->coefficients, site.conditions, out.model);
  const Factors factors = FactorsAt(site, job, PlaceOf(job));
  out.trouble = out.model.trouble;
  out.oom_step = 0;

  // The pipeline goes as fast as its slowest stage; the factors may make another one the slowest.
  out.step = 0;
  for (std::size_t s = 0; s < out.model.stages.size(); ++s) {
    Terms terms = out.model.stages[s].terms;
    for (std::size_t t = 0; t < kTermCount; ++t) terms[t] *= factors.terms[t];
    const double busy = Sum(terms) - terms[Index(Term::kBubble)];
    if (s == 0 || busy > out.step) {
      out.step = busy;
      out.terms = terms;
      out.stage = static_cast<int>(s);
    }
  }
  FindMemory(site, job, factors.activations, out);
  MeetDefects(site, job, out);
  out.step = Sum(out.terms);
  if (site.tokens_per_gpu > 0 && job.world > 0) {
    const double tokens =
        static_cast<double>(job.batch.gbs) * static_cast<double>(job.batch.seq_len) / job.world;
    const double shortest = tokens / site.tokens_per_gpu;
    if (shortest > out.step) {
      out.terms[Index(Term::kFixed)] += shortest - out.step;
      out.step = shortest;
    }
  }
  out.launch_bound = out.step > 0 ? out.terms[Index(Term::kLaunchWait)] / out.step : 0;
}

double TrueRate(const Truth& truth, const TrainingJob& job) {
  if (Fails(truth) || truth.step <= 0 || job.world <= 0) return 0;
  return static_cast<double>(job.batch.gbs) * static_cast<double>(job.batch.seq_len) / truth.step /
         job.world;
}

bool Fails(const Truth& truth) {
  return !truth.Trains() ||
         std::any_of(truth.defects.begin(), truth.defects.end(), [](const Defect* d) {
           return d->effect == Effect::kHang || d->effect == Effect::kOom ||
                  d->effect == Effect::kCrash || d->effect == Effect::kNan;
         });
}

}  // namespace attune::sim
