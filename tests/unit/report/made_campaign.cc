#include "made_campaign.h"

namespace attune::made {
namespace {

constexpr std::int64_t kStart = 1'796'068'800'000;  // 2026-11-30T20:00:00Z
constexpr GpuMillis kOneHour{3'600'000};
const RunId kR1("r001"), kR2("r002"), kR3("r003"), kR4("r004"), kR5("r005"), kR6("r006");

Effective Of(const std::string& micro_batch) {
  return {Arguments({{"--micro-batch-size", {micro_batch}}, {"--lr", {"3e-4"}}}), {}};
}

class Maker {
 public:
  Maker(const std::string& foreign, Until until) : foreign_(foreign), until_(until) {
    Recipe& recipe = made_.state.recipe;
    recipe.name = "small " + foreign;
    recipe.workload.model = foreign;
    recipe.workload.gpu = "B200";
    recipe.workload.gpus = 2;
    recipe.price_gpu_hour_usd = 2;
    recipe.measure.relaxed = {"steps"};
    recipe.gate.accept = {{"fused_ce", foreign}};
    recipe.base = Of("1");
  }

  MadeCampaign Make() {
    Opened opened;
    opened.id = CampaignId("c-20261130-7f3a");
    opened.budget = GpuMillis{100 * kOneHour.value};
    Add(std::move(opened));
    Calibrate();
    if (until_ == Until::kCalibrating) return std::move(made_);
    Search();
    if (until_ == Until::kSearching) return std::move(made_);
    Finish();
    return std::move(made_);
  }

 private:
  template <class F>
  void Add(F fact) {
    at_ms_ += 60'000;
    Event event{made_.state.seq + 1, Instant{at_ms_}, Fact(std::move(fact))};
    made_.state = Apply(std::move(made_.state), event);
    made_.events.push_back(std::move(event));
  }

  RunPlan Plan(const RunId& id, const std::string& label, const std::string& of,
               const std::string& micro_batch, const std::string& proposal) const {
    RunPlan plan;
    plan.id = id;
    plan.label = label;
    plan.of = of;
    plan.proposal = ProposalId(proposal);
    plan.user = Of(micro_batch);
    plan.executed = Of(micro_batch);
    plan.executed.args.Set("--exit-interval", {"20"});
    return plan;
  }

  void Launch(const std::string& id, Purpose purpose, std::vector<RunPlan> runs) {
    LaunchIntended intent;
    intent.id = LaunchId(id);
    intent.purpose = purpose;
    intent.slots = 2;
    intent.hold = {2 * kOneHour.value};
    intent.limit = Millis{3'600'000};
    intent.runs = runs;
    Add(std::move(intent));
    Add(LaunchBound{LaunchId(id), {{}, "4705", "/runs/" + id}});
    for (const RunPlan& plan : runs) {
      Add(RunStarted{plan.id, "node1 " + foreign_, "/runs/" + id + "/" + plan.id.value});
    }
  }

  void Steps(const RunId& id, double ms, double loss) {
    std::vector<Step> steps;
    for (int i = 1; i <= 4; ++i) {
      Step step;
      step.iteration = i;
      step.printed_ms = ms + i;
      step.losses["lm loss"] = loss - 0.01 * i;
      steps.push_back(std::move(step));
    }
    Add(StepsSeen{id, std::move(steps)});
  }

  void End(const RunId& id, RunEnd end) {
    RunEnded ended;
    ended.id = id;
    ended.detail.end = end;
    ended.held = Millis{600'000};
    ended.startup = Millis{60'000};
    if (end == RunEnd::kOomGpu) {
      ended.detail.failure_class = "oom_gpu";
      ended.detail.cause = "rank 3 ran out of memory: " + foreign_;
      ended.detail.evidence = "CUDA out of memory. " + foreign_;
      ended.detail.evidence_at = "out:1182";
    }
    Add(std::move(ended));
  }

  void Release(const std::string& id) {
    LaunchEnded ended;
    ended.id = LaunchId(id);
    ended.charged = kOneHour;
    Add(std::move(ended));
  }

  void Judge(const RunId& id, Standing standing, double score, double step0,
             std::optional<double> gain = {}, bool leads = false) {
    Judged judged;
    judged.id = id;
    judged.standing = standing;
    judged.gain = gain;
    judged.leads = leads;
    judged.reason = foreign_;
    if (score > 0) {
      judged.validity = Validity::kValid;
      Measurement m;
      m.first_iteration = 1;
      m.last_iteration = 4;
      m.steps = 4;
      m.seconds = 0.4;
      m.tokens_per_s_per_slot = score;
      m.median_step_ms = 100;
      m.p95_step_ms = 104;
      m.step0_loss = step0;
      judged.measurement = m;
    }
    Add(std::move(judged));
  }

  void Calibrate() {
    int n = 1;
    for (const RunId& id : {kR1, kR2}) {
      const std::string launch = "l00" + std::to_string(n++);
      Launch(launch, Purpose::kCalibration, {Plan(id, "baseline", "baseline", "1", "")});
      Steps(id, 100, 10.0);
      End(id, RunEnd::kCompleted);
      Release(launch);
      Judge(id, Standing::kReference, 100, 10.0);
    }
    Calibration calibration;
    calibration.runs = {kR1, kR2};
    calibration.mean = 100;
    calibration.sigma = 0.0061;
    calibration.band = 0.03;
    calibration.how = "2 runs widened";
    Add(Calibrated{calibration, {}});
    Add(PhaseSet{Phase::kSearching, "calibrated", ""});
  }

  Proposal Idea(const std::string& micro_batch, const std::string& label) const {
    Proposal proposal;
    proposal.label = label;
    proposal.hypothesis = "bigger rows fill the device; " + foreign_;
    proposal.change.lever = "micro_batch";
    proposal.change.edits = {{Edit::Op::kSet, "--micro-batch-size", {micro_batch}}};
    return proposal;
  }

  void Search() {
    TurnedBack refused;
    refused.id = ProposalId("p001");
    refused.proposal = Idea("1", "tokloss");
    refused.source = "rules";
    refused.reason = "gate.objective.--lr";
    refused.verdict = VerdictOf({{Severity::kRefuse, "objective.--lr", "--lr", "3e-4", foreign_,
                                  "changes the training objective; " + foreign_}});
    Add(std::move(refused));
    Try("p002", "l003", kR3, "mbs2", "2");
    Steps(kR3, 90, 10.02);
    End(kR3, RunEnd::kCompleted);
    Release("l003");
    Judge(kR3, Standing::kWin, 110, 10.02, 0.10, true);
    Try("p003", "l004", kR4, "mbs4", "4");
    End(kR4, RunEnd::kOomGpu);
    Release("l004");
    Judge(kR4, Standing::kFailed, 0, 0);
    Add(StopWished{StopWish{"nothing left: " + foreign_, {}}, "rules"});
  }

  void Try(const std::string& id, const std::string& launch, const RunId& run,
           const std::string& label, const std::string& micro_batch) {
    Proposed proposed;
    proposed.id = ProposalId(id);
    proposed.proposal = Idea(micro_batch, label);
    proposed.source = "rules";
    proposed.candidate = Of(micro_batch);
    proposed.verdict = VerdictOf({{Severity::kCaution, "defect.D4", "x", "", "", foreign_}});
    Add(std::move(proposed));
    Launch(launch, Purpose::kCandidate, {Plan(run, label, "candidate", micro_batch, id)});
  }

  void Finish() {
    Add(PhaseSet{Phase::kFinalizing, "agent stopped", "agent"});
    Launch("l005", Purpose::kFinal,
           {Plan(kR5, "baseline", "baseline", "1", ""), Plan(kR6, "mbs2", "leader", "2", "")});
    Steps(kR5, 101, 10.0);
    End(kR5, RunEnd::kCompleted);
    Steps(kR6, 91, 10.05);
    End(kR6, RunEnd::kCompleted);
    Release("l005");
    Judge(kR5, Standing::kReference, 100, 10.0);
    Judge(kR6, Standing::kReference, 109, 10.05);
    FinalResult final;
    final.leader = kR3;
    final.passed = true;
    final.baseline_mean = 100;
    final.winner_mean = 109;
    final.gain = 0.09;
    final.block_ratios = {1.09, 1.088};
    final.p = 0.25;
    final.p_floor = 0.25;
    final.strength = "basic";
    final.findings = {{Severity::kNote, "ship.strength", "", "", "", "not available: probe"}};
    Add(std::move(final));
    Add(ShipIntended{"gain", kR3, "shipped-c-20261130-7f3a"});
    Add(Shipped{"/state/shipped/shipped-c-20261130-7f3a", "/home/user/recipe.tuned.yaml", 0.09});
    Add(PhaseSet{Phase::kShipped, foreign_, "agent"});
  }

  const std::string foreign_;
  const Until until_;
  std::int64_t at_ms_ = kStart - 60'000;
  MadeCampaign made_;
};

}  // namespace

MadeCampaign MakeCampaign(const std::string& foreign, Until until) {
  return Maker(foreign, until).Make();
}

}  // namespace attune::made
