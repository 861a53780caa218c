// A campaign's record against a world that the proposer does not know: the estimate with other
// factors, and a rest of its own for each configuration. It says nothing about real clusters; it
// shows whether the search finds its way when the formulas are wrong.
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "attune/base/random.h"
#include "attune/estimate/estimate.h"
#include "attune/gates/config_check.h"
#include "attune/propose/proposer.h"

namespace attune::testing {

struct FakeTruth {
  std::map<std::string, double> factor;  // of a step-time term
  double memory = 1;                     // of the peak
  double rest = 0.03;                    // sd of what is a configuration's own
  double noise = 0.006;                  // sd of one run
  std::uint64_t seed = 1;
  bool flat = false;  // nothing beats the baseline
};

class FakeCampaign {
 public:
  FakeCampaign(Recipe recipe, FakeTruth truth) : truth_(std::move(truth)), random_(truth_.seed) {
    s.recipe = std::move(recipe);
    Opened opened;
    opened.id = CampaignId{"c-1"};
    Put(opened);
    for (const std::string_view term : Correction::Terms()) {
      const auto it = truth_.factor.find(std::string(term));
      world_.step.log_factor.push_back(it == truth_.factor.end() ? 0 : std::log(it->second));
    }
    world_.peak.log_factor.assign(3, std::log(truth_.memory));
    const std::optional<double> base = SecondsOf(s.recipe.base);
    base_seconds_ = base.value_or(0);
    const RunId run = Run("baseline", s.recipe.base, Purpose::kCalibration, {});
    Calibration calibration;
    calibration.runs = {run};
    calibration.mean = TokensOf(s.recipe.base, base_seconds_);
    calibration.band = 0.03;
    Put(Calibrated{calibration, {}});
  }

  void Put(Fact fact) {
    s = Apply(std::move(s), Event{s.seq + 1, Instant{s.seq}, std::move(fact)});
  }

  // True seconds of a configuration; nothing when it runs out of memory or does not resolve.
  std::optional<double> SecondsOf(const Effective& e) {
    const auto job = ResolveMegatron(e.args, e.env, s.recipe.workload);
    const auto* resolved = std::get_if<TrainingJob>(&job);
    if (resolved == nullptr) return std::nullopt;
    const std::optional<Estimate> at = Project(*resolved, world_);
    if (!at || at->peak_bytes > 0.98 * at->device_bytes) return std::nullopt;
    Random own(truth_.seed * 7919 + std::hash<std::string>{}(CanonicalHash(e)));
    const double factor = std::exp(truth_.rest * own.Normal());
    const double seconds = at->step_seconds * factor;
    if (truth_.flat && base_seconds_ > 0) {
      return base_seconds_ * std::max(1.0, 1.05 * std::exp(0.05 * own.Normal()));
    }
    return seconds;
  }

  // One turn. False when the proposer stops.
  bool Step(Proposer& proposer) {
    const Vet vet = [this](const Change& c) { return Judge(c); };
    const ProposerReply reply = *proposer.Propose(s, vet);
    if (const auto* stop = std::get_if<StopWish>(&reply)) {
      stopped = *stop;
      return false;
    }
    const Proposal& p = std::get<Proposal>(reply);
    proposals.push_back(p);
    const Effective candidate = ApplyEdits(s.leader.user, p.change.edits);
    const ProposalId id{fmt::format("p{:03}", s.next_proposal)};
    Put(Proposed{id, p, "rules", "", candidate, CanonicalHash(candidate), Judge(p.change)});
    Run(p.label, candidate, Purpose::kCandidate, id);
    return true;
  }

  GateVerdict Judge(const Change& change) const {
    std::set<std::string> known = {CanonicalHash(s.recipe.base)};
    for (const ProposalRecord& p : s.proposals) known.insert(p.hash);
    ConfigFacts facts;
    facts.known = &known;
    return CheckConfig(s.recipe, s.leader.user, change, BuiltInRules(), facts);
  }

  double TrueGain() { return base_seconds_ / SecondsOf(s.leader.user).value_or(1e9) - 1; }

  CampaignState s;
  std::vector<Proposal> proposals;
  std::optional<StopWish> stopped;
  int failed = 0;

 private:
  double TokensOf(const Effective& e, double seconds) const {
    const TrainingJob job =
        std::get<TrainingJob>(ResolveMegatron(e.args, e.env, s.recipe.workload));
    return static_cast<double>(job.batch.gbs * job.batch.seq_len) / job.world / seconds;
  }

  RunId Run(const std::string& label, const Effective& e, Purpose purpose, const ProposalId& of) {
    const LaunchId launch{fmt::format("l{:03}", s.next_launch)};
    const RunId run{fmt::format("r{:03}", s.next_run)};
    RunPlan plan;
    plan.id = run;
    plan.label = label;
    plan.proposal = of;
    plan.user = plan.executed = e;
    LaunchIntended intended;
    intended.id = launch;
    intended.purpose = purpose;
    intended.runs = {plan};
    Put(intended);
    Put(LaunchBound{launch, {}});
    const std::optional<double> seconds = SecondsOf(e);
    EndDetail detail;
    detail.end = seconds ? RunEnd::kCompleted : RunEnd::kOomGpu;
    Judged judged;
    judged.id = run;
    if (seconds) {
      const TrainingJob job =
          std::get<TrainingJob>(ResolveMegatron(e.args, e.env, s.recipe.workload));
      Put(MemoryNoted{run, {static_cast<std::int64_t>(Project(job, world_)->peak_bytes), 0}});
      Measurement m;
      m.tokens_per_s_per_slot = TokensOf(e, *seconds * std::exp(truth_.noise * random_.Normal()));
      const double gain = s.leader.mean > 0 ? m.tokens_per_s_per_slot / s.leader.mean - 1 : 0;
      judged.measurement = m;
      judged.gain = gain;
      judged.standing = purpose == Purpose::kCalibration ? Standing::kReference
                        : gain > 0.03                    ? Standing::kWin
                        : gain < -0.03                   ? Standing::kLoss
                                                         : Standing::kTie;
      judged.leads = judged.standing == Standing::kWin;
    } else {
      judged.standing = Standing::kFailed;
      ++failed;
    }
    Put(RunEnded{run, detail, {}, {}});
    LaunchEnded ended;
    ended.id = launch;
    Put(ended);
    Put(judged);
    return run;
  }

  FakeTruth truth_;
  Random random_;
  Correction world_;
  double base_seconds_ = 0;
};

}  // namespace attune::testing
