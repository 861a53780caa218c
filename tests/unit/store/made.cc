#include "made.h"

#include <fmt/core.h>
#include <sqlite3.h>

namespace attune::made {
namespace {

struct Maker {
  std::string campaign;
  Random random;
  std::vector<std::vector<Fact>> commits;
  int launches = 0, runs = 0, proposals = 0;

  void Commit(std::vector<Fact> facts) { commits.push_back(std::move(facts)); }

  RunPlan Plan(const std::string& label, const std::string& of, const std::string& mbs) {
    RunPlan plan;
    plan.id = RunId(fmt::format("r{:03}", ++runs));
    plan.label = label;
    plan.of = of;
    plan.user = plan.executed = EffectiveOf(mbs);
    plan.argv = {"/usr/bin/python3", "train.py", "--micro-batch-size", mbs};
    plan.steps_wanted = 10;
    return plan;
  }

  LaunchIntended Intend(Purpose purpose, std::vector<RunPlan> plans) {
    LaunchIntended intent;
    intent.id = LaunchId(fmt::format("l{:03}", ++launches));
    intent.token = Token(fmt::format("attune-{}-{}-{:08x}", campaign, intent.id.value, launches));
    intent.purpose = purpose;
    intent.slots = 2;
    intent.hold = {200'000};
    intent.limit = Millis{100'000};
    intent.runs = std::move(plans);
    return intent;
  }

  void Run(const LaunchIntended& intent, const RunPlan& plan, RunEnd end, Standing standing,
           double score, bool leads) {
    Commit({RunStarted{plan.id, "node1", "/r/runs/" + plan.id.value}});
    std::vector<Step> steps(3);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      steps[i].iteration = static_cast<std::int64_t>(i) + 1;
      steps[i].printed_ms = 20 + random.Unit();
      steps[i].losses["lm loss"] = 5 - 0.1 * static_cast<double>(i);
    }
    Commit({StepsSeen{plan.id, {steps[0]}}, MemoryNoted{plan.id, {1'000, 2'000}}});
    Commit({StepsSeen{plan.id, {steps[1], steps[2]}}, DumpSeen{plan.id, {{"lr", "0.0003"}}}});
    RunEnded ended;
    ended.id = plan.id;
    ended.detail.end = end;
    ended.detail.exit_code = end == RunEnd::kCompleted ? 0 : 1;
    if (IsFailed(end)) {
      FailureNoted failure;
      failure.id = plan.id;
      failure.cls = "oom_gpu";
      Commit({failure, StopAsked{plan.id, StopWhy::kFatalLine, {}, "out of memory"}});
      Commit({StopSent{plan.id}});
      ended.detail.failure_class = "oom_gpu";
      ended.detail.cause = "rank 0: tried 2.1 GiB, 0.4 free";
    }
    ended.held = Millis{40'000};
    Judged judged;
    judged.id = plan.id;
    judged.standing = standing;
    judged.validity = end == RunEnd::kCompleted ? Validity::kValid : Validity::kInvalid;
    if (end == RunEnd::kCompleted) {
      Measurement m;
      m.steps = 3;
      m.tokens_per_s_per_slot = score;
      m.memory = MemorySeen{1'000, 2'000};
      judged.measurement = m;
      judged.gain = score / 100 - 1;
    }
    judged.leads = leads;
    Finding alarm;
    alarm.severity = Severity::kAlarm;
    alarm.rule = "step0.class";
    judged.findings = {alarm};
    Diagnosed diagnosed;
    diagnosed.id = plan.id;
    diagnosed.diagnosis.source = "log";
    diagnosed.diagnosis.summary = "compute bound";
    diagnosed.diagnosis.bottlenecks.resize(1);
    diagnosed.diagnosis.bottlenecks[0].cls = "compute";
    diagnosed.diagnosis.bottlenecks[0].share = 0.8;
    Commit({ended});
    Commit({judged});
    Commit({diagnosed});
    (void)intent;
  }

  void End(const LaunchIntended& intent, GpuMillis charged, GpuMillis overrun = {}) {
    LaunchEnded ended;
    ended.id = intent.id;
    ended.charged = charged;
    ended.overrun = overrun;
    ended.nodes = "node1";
    Commit({ended});
  }

  void Launch(Purpose purpose, const RunPlan& plan, RunEnd end, Standing standing, double score,
              bool leads) {
    const LaunchIntended intent = Intend(purpose, {plan});
    Commit({intent});
    Commit({LaunchBound{intent.id, {intent.token, "4711", "/r/runs/" + intent.id.value}}});
    Run(intent, plan, end, standing, score, leads);
    End(intent, {80'000 + static_cast<std::int64_t>(random.Below(1'000))});
  }

  Proposal Propose(const std::string& mbs) {
    Proposal p;
    p.change.lever = "micro_batch";
    p.change.edits = {{Edit::Op::kSet, "--micro-batch-size", {mbs}}};
    p.label = "mbs" + mbs;
    p.hypothesis = "larger micro-batches fill the units";
    return p;
  }
};

}  // namespace

std::vector<std::vector<Fact>> CampaignFacts(const std::string& id, int searches,
                                             std::uint64_t seed) {
  Maker m{.campaign = id, .random = Random(seed), .commits = {}};
  Calibration calibration;
  for (int i = 0; i < 3; ++i) {
    const RunPlan plan = m.Plan("baseline", "baseline", "1");
    m.Launch(Purpose::kCalibration, plan, RunEnd::kCompleted, Standing::kReference, 100, false);
    calibration.runs.push_back(plan.id);
  }
  calibration.mean = 100;
  calibration.sigma = 0.005;
  calibration.launch_cost = {80'000};
  calibration.losses = {{{"lm loss", {5.0, 0.001, 3}}}};
  m.Commit({Calibrated{calibration, {}}, PhaseSet{Phase::kSearching, "calibrated", ""}});
  m.Commit({BudgetSet{GpuMillis{2'000'000'000}, "raised by user"}});

  struct Fate {
    RunEnd end;
    Standing standing;
    double score;
    bool leads;
  };
  const Fate fates[] = {{RunEnd::kCompleted, Standing::kWin, 120, true},
                        {RunEnd::kCompleted, Standing::kTie, 121, false},
                        {RunEnd::kOomGpu, Standing::kFailed, 0, false},
                        {RunEnd::kCompleted, Standing::kLoss, 90, false},
                        {RunEnd::kStopped, Standing::kStoppedEarly, 0, false},
                        {RunEnd::kStopped, Standing::kRejected, 0, false},
                        {RunEnd::kPreempted, Standing::kEnvironment, 0, false},
                        {RunEnd::kCompleted, Standing::kWin, 150, true}};
  for (int i = 0; i < searches; ++i) {
    const std::string call = fmt::format("c{:03}", i);
    m.Commit({AskIntended{call, "sha", "model-a", "", "decide", 20'000}});
    const ProposalId proposal(fmt::format("p{:03}", ++m.proposals));
    if (m.random.Below(4) == 0) {
      TurnedBack back;
      back.id = proposal;
      back.source = "rules";
      back.reason = i % 3 == 0 ? "duplicate" : i % 3 == 1 ? "gate.objective.--lr" : "schema";
      if (i % 3 != 2) back.proposal = m.Propose("8");
      Finding refusal;
      refusal.rule = "objective.--lr";
      back.verdict.findings = {refusal};
      m.Commit({Answered{call, "action"}, back});
      continue;
    }
    const std::string mbs = std::to_string(2 + i);
    Proposed proposed;
    proposed.id = proposal;
    proposed.proposal = m.Propose(mbs);
    proposed.source = "rules";
    proposed.candidate = EffectiveOf(mbs);
    proposed.hash = "hash" + mbs;
    proposed.verdict.admitted = true;
    m.Commit({Answered{call, "action"}, proposed});
    RunPlan plan = m.Plan("mbs" + mbs, "candidate", mbs);
    plan.proposal = proposal;
    const Fate& fate = fates[m.random.Below(std::size(fates))];
    m.Launch(Purpose::kCandidate, plan, fate.end, fate.standing, fate.score, fate.leads);
    if (m.random.Below(6) == 0) {  // one that never reached the cluster
      RunPlan lost = m.Plan("lost", "candidate", mbs);
      lost.proposal = proposal;
      const LaunchIntended intent = m.Intend(Purpose::kCandidate, {lost});
      m.Commit({intent});
      m.Commit({Resumed{"node0 pid 1"}, LaunchUncertain{intent.id, "killed"}});
      m.Commit({LaunchAbsent{intent.id}});
      LaunchEnded ended;
      ended.id = intent.id;
      ended.reached = false;
      ended.source = ChargeSource::kNeverStarted;
      m.Commit({ended});
    }
  }
  m.Commit(
      {StopWished{{"nothing promising is left", {{"compute", "tried micro_batch"}}}, "rules"}});
  m.Commit({PhaseSet{Phase::kFinalizing, "stop wished", "agent"}});
  const RunPlan baseline = m.Plan("baseline", "baseline", "1");
  const RunPlan winner = m.Plan("winner", "leader", "2");
  const LaunchIntended block = m.Intend(Purpose::kFinal, {baseline, winner});
  m.Commit({block});
  m.Commit({LaunchBound{block.id, {block.token, "4712", "/r/runs/" + block.id.value}}});
  m.Run(block, baseline, RunEnd::kCompleted, Standing::kReference, 100, false);
  m.Run(block, winner, RunEnd::kCompleted, Standing::kReference, 120, false);
  m.End(block, {210'000}, {10'000});
  FinalResult final_result;
  final_result.leader = winner.id;
  final_result.passed = m.random.Below(2) == 0;
  final_result.baseline_mean = 100;
  final_result.winner_mean = 120;
  final_result.gain = 0.2;
  final_result.block_ratios = {1.2, 1.19, 1.21};
  final_result.strength = "basic";
  m.Commit({final_result});
  m.Commit({ShipIntended{"gain", winner.id, "/r/bundle"}});
  m.Commit({Shipped{"/r/bundle", "/r/recipe.tuned.yaml", 0.2}, NoticeIntended{"end"}});
  m.Commit({Noticed{"end"}, UserAsked{"drain"}});
  m.Commit({PhaseSet{Phase::kShipped, "verified", "agent"}});
  return m.commits;
}

std::string RunSql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  std::string error;
  if (sqlite3_open(path.c_str(), &db) != SQLITE_OK ||
      sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    error = sqlite3_errmsg(db);
  }
  sqlite3_close(db);
  return error;
}

std::string AskSql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  std::string answer;
  const auto first = [](void* to, int columns, char** values, char**) {
    if (columns > 0 && values[0] != nullptr) *static_cast<std::string*>(to) = values[0];
    return 1;  // one row is enough
  };
  if (sqlite3_open(path.c_str(), &db) == SQLITE_OK) {
    sqlite3_exec(db, sql.c_str(), first, &answer, nullptr);
  }
  sqlite3_close(db);
  return answer;
}

}  // namespace attune::made
