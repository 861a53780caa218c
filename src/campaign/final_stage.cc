#include "final_stage.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "attune/gates/candidate_traits.h"
#include "attune/gates/loss_check.h"
#include "attune/gates/measurement_check.h"
#include "attune/gates/ship_check.h"
#include "attune/gates/thresholds.h"
#include "config_gate.h"
#include "pace.h"
#include "plan.h"
#include "watch.h"

namespace attune {
namespace {

constexpr Thresholds kLimits{};
constexpr int kSpareBlocks = 2;      // replacements of blocks that the environment spoiled
constexpr int kSpareRehearsals = 1;  // the same, of the rehearsal

struct FinalRecord {
  std::vector<FinalBlock> blocks;
  int attempts = 0;  // block launches of this leader
  Rehearsal rehearsal = Rehearsal::kNotRun;
  std::string rehearsal_detail;
  int rehearsals = 0;
  std::vector<std::string> not_available;
  const RunRecord* rejected = nullptr;  // a run of the winner that level 1 to 3 ended
};

bool Runs(const CampaignState& s, const LaunchRecord& launch, const Effective& user) {
  return std::any_of(launch.intent.runs.begin(), launch.intent.runs.end(),
                     [&](const RunPlan& plan) { return plan.user == user; }) &&
         launch.intent.purpose != Purpose::kCandidate && user != s.recipe.base;
}

const RunRecord* ValidRun(const CampaignState& s, const LaunchRecord& launch, std::string_view of) {
  for (const RunPlan& plan : launch.intent.runs) {
    const RunRecord& run = s.runs.at(plan.id);
    if (plan.of == of && run.judged && run.judged->validity == Validity::kValid &&
        run.judged->measurement) {
      return &run;
    }
  }
  return nullptr;
}

// Both runs must end well and go on from where they load. The restart prints every step, so it must
// begin with the iteration after the save; the first run keeps the user's log interval, and its
// first line may be any one of the run.
void ReadRehearsal(const CampaignState& s, const LaunchRecord& launch, FinalRecord& record) {
  record.rehearsals++;
  const bool spoiled =
      std::any_of(launch.intent.runs.begin(), launch.intent.runs.end(), [&](const RunPlan& plan) {
        const RunRecord& run = s.runs.at(plan.id);
        return run.judged && run.judged->standing == Standing::kEnvironment;
      });
  if (spoiled && record.rehearsals <= kSpareRehearsals) {
    record.rehearsal = Rehearsal::kNotRun;
    return;
  }
  record.rehearsal = Rehearsal::kFailed;
  for (const RunPlan& plan : launch.intent.runs) {
    const RunRecord& run = s.runs.at(plan.id);
    if (!run.end ||
        (run.end->detail.end != RunEnd::kCompleted && run.end->detail.end != RunEnd::kStopped)) {
      record.rehearsal_detail =
          fmt::format("{} {}: {}", plan.id.value, plan.label,
                      run.judged ? run.judged->reason : std::string("did not end well"));
      return;
    }
    const bool restart = &plan != &launch.intent.runs.front();
    const std::int64_t first = run.steps.empty() ? 0 : run.steps.front().iteration;
    const std::int64_t latest = plan.start_iteration + (restart ? 1 : plan.steps_wanted);
    if (first <= plan.start_iteration || first > latest) {
      record.rehearsal_detail = fmt::format(
          "{} {} began at iteration {}, expected {}", plan.id.value, plan.label,
          run.steps.empty() ? std::string("none") : std::to_string(run.steps.front().iteration),
          plan.start_iteration + 1);
      return;
    }
  }
  record.rehearsal = Rehearsal::kPassed;
  record.rehearsal_detail = launch.intent.runs.size() > 1
                                ? fmt::format("evaluated, saved after {}, restarted there",
                                              launch.intent.runs.back().start_iteration)
                                : std::string("evaluated");
}

FinalRecord Read(const CampaignState& s) {
  FinalRecord record;
  const bool same = SameComposition(s.recipe, s.recipe.base, s.leader.user);
  for (const auto& [id, launch] : s.launches) {
    if (launch.state != LaunchState::kEnded || !Runs(s, launch, s.leader.user)) continue;
    if (launch.intent.purpose == Purpose::kRehearsal) ReadRehearsal(s, launch, record);
    if (launch.intent.purpose != Purpose::kFinal) continue;
    record.attempts++;
    for (const RunPlan& plan : launch.intent.runs) {
      const RunRecord& run = s.runs.at(plan.id);
      const bool rejected = run.judged && run.judged->standing == Standing::kRejected;
      if (plan.of == "leader" && rejected) record.rejected = &run;
    }
    const RunRecord* baseline = ValidRun(s, launch, "baseline");
    const RunRecord* winner = ValidRun(s, launch, "leader");
    if (baseline == nullptr || winner == nullptr) continue;
    FinalBlock block;
    block.baseline = ScoreOf(*baseline->judged->measurement, *s.calibration);
    block.winner = ScoreOf(*winner->judged->measurement, *s.calibration);
    block.winner_losses =
        CheckLosses(winner->steps, *s.calibration, same, LossLevel::kFinal, kLimits);
    for (const Correctness& check : {CheckFirstStep(s, *winner), CheckBlock(s, *winner)}) {
      if (check.refused) block.winner_losses = VerdictOf(check.findings);
      for (const std::string& missing : check.not_available) {
        if (std::find(record.not_available.begin(), record.not_available.end(), missing) ==
            record.not_available.end()) {
          record.not_available.push_back(missing);
        }
      }
    }
    if (winner->memory.max_reserved > 0) block.winner_memory = winner->memory;
    if (launch.handle) block.allocation = launch.handle->allocation;
    record.blocks.push_back(std::move(block));
  }
  record.blocks = ByAllocation(record.blocks);
  if (!NeedsRehearsal(s)) {
    record.rehearsal = Rehearsal::kVoid;
    record.rehearsal_detail = "the recipe neither saves nor evaluates";
  }
  record.not_available.emplace_back("probe");  // gradients, replicas, data: no probe is loaded yet
  return record;
}

// Leaders that fell in a block. What the gate would not ship was not measured and cost nothing.
int FallsOf(const CampaignState& s) {
  const auto measured = [&](const FinalResult& f) {
    const RunRecord* leader = s.FindRun(f.leader);
    return std::any_of(s.launches.begin(), s.launches.end(), [&](const auto& entry) {
      const LaunchRecord& launch = entry.second;
      return launch.intent.purpose == Purpose::kFinal &&
             (leader == nullptr || Runs(s, launch, leader->plan.user));
    });
  };
  return static_cast<int>(std::count_if(s.finals.begin(), s.finals.end(), measured));
}

// The leader fell, and no other stands behind it.
bool FellAlready(const CampaignState& s) {
  return !s.finals.empty() && s.finals.back().leader == s.leader.run;
}

Action ShipNothing(const CampaignState& s) {
  return Record{{ShipIntended{"no_gain", {}, fmt::format("shipped-{}", s.id.value)}}};
}

// `shipped`: what the gate says of the leader as it would be shipped.
Action Conclude(const CampaignState& s, const FinalRecord& record, const GateVerdict& shipped) {
  ShipInput input;
  input.leader = s.leader.run;
  input.blocks = record.blocks;
  input.calibration = &*s.calibration;
  input.search_gain = s.leader.gain;
  input.device_memory = DeviceMemory(s.recipe);
  input.headroom_limit = HeadroomLimit(s.recipe.gate.memory_headroom,
                                       DroplessOrVariable(s.recipe, s.leader.user), kLimits);
  input.rehearsal = record.rehearsal;
  input.rehearsal_detail = record.rehearsal_detail;
  input.not_available = record.not_available;
  FinalResult result = CheckShip(input, kLimits);
  result.findings.insert(result.findings.end(), shipped.findings.begin(), shipped.findings.end());
  if (record.rejected != nullptr) {
    const GateVerdict why = VerdictOf(record.rejected->judged->findings);
    const Finding* first = why.FirstRefusal();
    const bool arguments =
        record.rejected->stop && record.rejected->stop->why == StopWhy::kReadback;
    Finding refusal;
    refusal.severity = Severity::kRefuse;
    refusal.rule = arguments ? "ship.readback" : "ship.losses";
    refusal.why = fmt::format(
        "{} was rejected: {}", record.rejected->plan.id.value,
        first != nullptr ? first->rule + ": " + first->why : record.rejected->judged->reason);
    result.passed = false;
    result.reason = refusal.why;
    result.findings.push_back(std::move(refusal));
  }
  const bool unmeasured = record.blocks.empty() && record.rejected == nullptr;
  if (const Finding* refusal = shipped.FirstRefusal();
      refusal != nullptr && (result.passed || unmeasured)) {
    result.passed = false;
    result.reason = refusal->rule + ": " + refusal->why;
  }
  return Record{{std::move(result)}};
}

}  // namespace

bool FellForCorrectness(const CampaignState& s) {
  return std::any_of(s.finals.begin(), s.finals.end(), [](const FinalResult& f) {
    return !f.passed && std::any_of(f.findings.begin(), f.findings.end(), [](const Finding& x) {
      return x.severity == Severity::kRefuse &&
             (x.rule == "ship.losses" || x.rule == "ship.readback");
    });
  });
}

std::optional<Action> LeaderFalls(const CampaignState& s) {
  if (s.leader.run.empty() || !s.calibration || FellAlready(s)) return std::nullopt;
  const GateVerdict shipped = VetShipped(s, s.leader.user);
  if (shipped.admitted) return std::nullopt;
  return Conclude(s, Read(s), shipped);
}

Action DecideFinal(const CampaignState& s, const std::string& allocation) {
  if (s.ship) {
    if (!s.shipped) return Ship{};
    const bool gain = s.ship->verdict == "gain";
    return Record{{PhaseSet{gain ? Phase::kShipped : Phase::kNoGain, s.phase_reason, s.stop}}};
  }
  if (!s.finals.empty() && s.finals.back().passed) {
    return Record{
        {ShipIntended{"gain", s.finals.back().leader, fmt::format("shipped-{}", s.id.value)}}};
  }
  if (s.leader.run.empty() || !s.calibration) return ShipNothing(s);
  if (!MayFallBack(FallsOf(s), kLimits)) return ShipNothing(s);
  if (FellAlready(s)) return ShipNothing(s);

  const FinalRecord record = Read(s);
  const GateVerdict shipped = VetShipped(s, s.leader.user);
  // Every winner run passes level 3 and the gate takes what is shipped, or it does not ship:
  // neither a block nor a rehearsal is paid for to hear it again.
  if (record.rejected != nullptr || !shipped.admitted) return Conclude(s, record, shipped);
  const int asked = s.opened ? s.opened->policy.final_blocks : 0;
  const GpuMillis block_hold = HoldFor(s, FinalLimit(s));
  const bool short_of_money = !Affordable(s, block_hold, false);
  const bool more =
      NeedMoreBlocks(record.blocks, s.calibration->band, asked, short_of_money, kLimits) &&
      record.attempts < FinalBlocksWanted(s) + kSpareBlocks;
  // Each block is of a fresh allocation, and a held one is one.
  const bool elsewhere =
      more && !allocation.empty() &&
      std::any_of(record.blocks.begin(), record.blocks.end(),
                  [&](const FinalBlock& block) { return block.allocation == allocation; });
  if (more && !elsewhere) {
    if (short_of_money) return Done{5, "the budget does not cover the final stage"};
    std::vector<RunDraft> order = {BaselineDraft(s), LeaderDraft(s)};
    // By the blocks that count: one that was spoiled is made again in its own order.
    if (record.blocks.size() % 2 == 1) std::swap(order[0], order[1]);
    return Record{{PlanMeasured(s, Purpose::kFinal, order)}};
  }
  if (record.rehearsal == Rehearsal::kNotRun) {
    const LaunchIntended rehearsal = PlanRehearsal(s);
    if (!Affordable(s, rehearsal.hold, false)) {
      return Done{5, "the budget does not cover the rehearsal"};
    }
    return Record{{rehearsal}};
  }
  if (elsewhere) {
    return Done{75,
                "this allocation has had its final block, and the next takes a fresh one: attune "
                "run or attune resume goes on"};
  }
  return Conclude(s, record, shipped);
}

}  // namespace attune
