// A campaign's record written by hand: what the loop would have committed, for proposers to read.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <utility>

#include "attune/model/campaign.h"

namespace attune::testing {

class Record {
 public:
  explicit Record(Recipe recipe, Policy policy = {}) {
    s.recipe = std::move(recipe);
    Opened opened;
    opened.id = CampaignId{"c-20261130-7f3a"};
    opened.policy = std::move(policy);
    opened.budget = FromGpuHours(1'880);
    Put(opened);
  }
  void Put(Fact fact) {
    s = Apply(std::move(s), Event{s.seq + 1, Instant{s.seq}, std::move(fact)});
  }

  void Calibrate(int runs, double mean, const Diagnosis& diagnosis) {
    Calibration calibration;
    calibration.mean = mean;
    calibration.sigma = 0.0095;
    calibration.band = 0.03;
    calibration.step_ms = 45'000;
    calibration.startup = Millis{360'000};
    calibration.launch_cost = FromGpuHours(58.1);  // without the profile that is charged below
    for (int i = 0; i < runs; ++i) {
      Proposal none;
      const RunId run = Launch(Purpose::kCalibration, none, {}, s.recipe.base, "baseline");
      End(run, {Standing::kReference, mean, {}, RunEnd::kCompleted, "", 62.6, 150});
      Put(Diagnosed{run, diagnosis});
      calibration.runs.push_back(run);
    }
    Put(Calibrated{calibration, {}});
    Put(PhaseSet{Phase::kSearching, "calibrated", ""});
  }

  struct Fate {
    Standing standing = Standing::kTie;
    double score = 0;
    std::optional<double> gain = {};
    RunEnd end = RunEnd::kCompleted;
    std::string cause = {};
    double gpu_hours = 10;
    double peak_gb = 0;
  };

  // Proposes, launches and judges.
  RunId Try(const Proposal& p, const Fate& fate, const Diagnosis& diagnosis = {}) {
    const ProposalId id{fmt::format("p{:03}", s.next_proposal)};
    const Effective candidate = ApplyEdits(s.leader.user, p.change.edits);
    Put(Proposed{id, p, "agent", "", candidate, CanonicalHash(candidate), VerdictOf({})});
    const RunId run = Launch(Purpose::kCandidate, p, id, candidate, p.label);
    End(run, fate);
    if (!diagnosis.source.empty()) Put(Diagnosed{run, diagnosis});
    return run;
  }
  void Refuse(const Proposal& p, const std::string& reason, const std::string& why) {
    TurnedBack back;
    back.id = ProposalId{fmt::format("p{:03}", s.next_proposal)};
    back.proposal = p;
    back.source = "agent";
    back.reason = reason;
    back.detail = why;
    Put(back);
  }

  CampaignState s;

 private:
  RunId Launch(Purpose purpose, const Proposal&, const ProposalId& proposal, const Effective& user,
               const std::string& label) {
    LaunchIntended intended;
    intended.id = LaunchId{fmt::format("l{:03}", s.next_launch)};
    intended.purpose = purpose;
    RunPlan plan;
    plan.id = RunId{fmt::format("r{:03}", s.next_run)};
    plan.label = label;
    plan.proposal = proposal;
    plan.user = plan.executed = user;
    intended.runs = {plan};
    Put(intended);
    Put(LaunchBound{intended.id, {}});
    return plan.id;
  }
  void End(const RunId& run, const Fate& fate) {
    if (fate.peak_gb > 0) {
      const auto bytes = static_cast<std::int64_t>(fate.peak_gb * 1e9);
      Put(MemoryNoted{run, {bytes, bytes}});
    }
    EndDetail detail;
    detail.end = fate.end;
    detail.cause = fate.cause;
    Put(RunEnded{run, detail, {}, {}});
    LaunchEnded ended;
    ended.id = s.runs.at(run).launch;
    ended.charged = FromGpuHours(fate.gpu_hours);
    Put(ended);
    Judged judged;
    judged.id = run;
    judged.standing = fate.standing;
    judged.gain = fate.gain;
    judged.leads = fate.standing == Standing::kWin;
    judged.reason = fate.cause;
    if (fate.score > 0) {
      judged.measurement = Measurement{};
      judged.measurement->tokens_per_s_per_slot = fate.score;
    }
    Put(judged);
  }
};

// One edit as a proposal with everything that the agent's schema demands.
inline Proposal Move(std::string lever, std::string flag, std::string value, std::string label) {
  Proposal p;
  p.change.lever = std::move(lever);
  p.change.edits = {{Edit::Op::kSet, std::move(flag), {std::move(value)}}};
  p.label = std::move(label);
  p.hypothesis = "it should be faster";
  p.bottleneck = "launch_bound";
  p.evidence = {RunId{"r001"}};
  p.expected_gain = {0.02, 0.10};
  p.expected_peak_gb = 150;
  return p;
}

}  // namespace attune::testing
