#include "sim_faults.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/model/training_job.h"
#include "attune/sim/fault.h"
#include "sim_campaign.h"
#include "simulate.h"

namespace attune::cli {
namespace {

// What is changed, and what is wrong in the world with it. A fault of the code shows wherever the
// candidate's own change does.
struct Replay {
  std::string_view name;
  std::string_view lever;
  std::vector<Edit> edits;
  std::optional<sim::Fault> fault;
  bool legitimate = false;
};

// What a proposal that changes the objective would call itself: the gate looks at the edits.
constexpr std::string_view kAnyLever = "microbatch";

Edit Set(std::string flag, std::vector<std::string> values) {
  return {Edit::Op::kSet, std::move(flag), std::move(values)};
}
Edit Unset(std::string flag) { return {Edit::Op::kUnset, std::move(flag), {}}; }

std::string Times(const Arguments& args, const char* flag, double factor) {
  const auto text = args.Value(flag);
  const auto value = text ? ParseDouble(*text) : std::nullopt;
  return value ? fmt::format("{:g}", factor * *value) : std::string();
}

// A placement change that is legal for nearly every recipe: a doubling of context parallelism.
std::vector<Edit> Placement(const TrainingJob& job) {
  return {Set("--context-parallel-size", {std::to_string(2 * job.layout.cp)})};
}

// 32 stages with what they need: experts spread over fewer ranks, end stages that make the rest
// even.
std::vector<Edit> ThirtyTwoStages(const TrainingJob& job) {
  constexpr int kStages = 32;
  std::vector<Edit> edits = {Set("--pipeline-model-parallel-size", {std::to_string(kStages)})};
  const int ranks = std::max(1, job.world / (kStages * std::max(1, job.layout.etp)));
  edits.push_back(
      Set("--expert-model-parallel-size", {std::to_string(std::min(job.layout.ep, ranks))}));
  const auto rest = static_cast<int>((job.shape.layers - 2) % (kStages - 2));
  edits.push_back(Set("--decoder-first-pipeline-num-layers", {std::to_string(1 + rest / 2)}));
  edits.push_back(Set("--decoder-last-pipeline-num-layers", {std::to_string(1 + rest - rest / 2)}));
  return edits;
}

std::vector<Replay> ReplaysOf(const Recipe& recipe, const TrainingJob& job) {
  const Arguments& args = recipe.base.args;
  const std::string more = fmt::format("cp={}", 2 * job.layout.cp);
  std::vector<Replay> out;
  out.push_back({"fault-free: one placement change", "context_parallel", Placement(job), {}, true});
  out.push_back({"fault-free: larger micro-batches",
                 "microbatch",
                 {Set("--micro-batch-size", {std::to_string(2 * job.batch.mbs)})},
                 {},
                 true});
  if (job.shape.experts > 0) {
    out.push_back(
        {"EP 1 with ETP 4",
         "experts",
         {Set("--expert-model-parallel-size", {"1"}), Set("--expert-tensor-parallel-size", {"4"})},
         {},
         false});
    out.push_back({"PP 32: half the load-balancing loss",
                   "pipeline_layout",
                   ThirtyTwoStages(job),
                   {},
                   false});
    out.push_back({"capacity factor 1",
                   kAnyLever,
                   {Set("--moe-expert-capacity-factor", {"1.0"})},
                   {},
                   false});
    out.push_back({"auxiliary-loss coefficient x 10",
                   kAnyLever,
                   {Set("--moe-aux-loss-coeff", {Times(args, "--moe-aux-loss-coeff", 10)})},
                   {},
                   false});
  }
  out.push_back(
      {"learning rate x 10", kAnyLever, {Set("--lr", {Times(args, "--lr", 10)})}, {}, false});
  out.push_back({"global batch halved",
                 kAnyLever,
                 {Set("--global-batch-size", {std::to_string(job.batch.gbs / 2)})},
                 {},
                 false});
  out.push_back({"BF16 gradient reduction",
                 kAnyLever,
                 {Unset("--accumulate-allreduce-grads-in-fp32"), Set("--grad-reduce-in-bf16", {})},
                 {},
                 false});
  out.push_back(
      {"per-token loss off", kAnyLever, {Unset("--calculate-per-token-loss")}, {}, false});
  sim::Fault labels{"labels-offset", {more}, 4.2, 0, 1, 3};
  out.push_back({"labels offset by one token", "context_parallel", Placement(job), labels, false});
  sim::Fault skipped{"gradients-of-a-stage-lost", {more}, 0, 0.004, 1, 0.8};
  out.push_back({"a stage's gradients lost", "context_parallel", Placement(job), skipped, false});
  sim::Fault balance{"balance-halved", {more}, 0, 0, 0.5, 1};
  if (job.shape.experts > 0) {
    out.push_back({"half the load-balancing loss, in no table", "context_parallel", Placement(job),
                   balance, false});
  }
  return out;
}

class OneProposal final : public Proposer {
 public:
  explicit OneProposal(const Replay& replay) : replay_(replay) {}
  std::string Name() const override { return "replay"; }
  Result<ProposerReply> Propose(const CampaignState& state, const Vet&) override {
    if (!state.proposals.empty()) return ProposerReply(StopWish{"replayed", {}});
    Proposal p;
    p.change.lever = std::string(replay_.lever);
    p.change.edits = replay_.edits;
    p.label = "fault";
    p.hypothesis = std::string(replay_.name);
    return ProposerReply(std::move(p));
  }

 private:
  const Replay& replay_;
};

std::string RefusalIn(const std::vector<Finding>& findings) {
  for (const Finding& f : findings) {
    if (f.severity == Severity::kRefuse) return f.rule;
  }
  return {};
}

FaultRow RowOf(const Replay& replay, const CampaignState& s) {
  FaultRow row;
  row.fault = std::string(replay.name);
  row.legitimate = replay.legitimate;
  row.caught = replay.legitimate ? "passes" : "no";
  const ProposalRecord* proposal = s.proposals.empty() ? nullptr : &s.proposals.front();
  if (proposal == nullptr) {
    row.caught = "not here";
    return row;
  }
  if (!proposal->admitted) {
    row.caught = "before launch";
    row.rule = proposal->reason;
  } else if (const RunRecord* run = s.FindRun(proposal->run); run != nullptr) {
    if (run->stop && run->stop->why == StopWhy::kStep0) {
      row.caught = "at step 0";
      row.rule = RefusalIn(run->stop->findings);
    } else if (run->judged && (run->judged->standing == Standing::kRejected ||
                               run->judged->standing == Standing::kInvalid)) {
      row.caught = "in the run";
      row.rule = RefusalIn(run->judged->findings);
    } else if (run->judged && run->judged->standing == Standing::kFailed) {
      row.caught = "not here";  // it did not train at all
      row.rule = run->judged->reason;
    }
  }
  row.right =
      replay.legitimate ? row.caught == "passes" : row.caught != "no" && row.caught != "not here";
  return row;
}

}  // namespace

Result<std::vector<FaultRow>> ReplayFaults(const LoadedRecipe& rehearsed,
                                           const sim::WorldRef& world, std::uint64_t seed,
                                           Clock& machine_clock) {
  const Recipe& recipe = rehearsed.recipe;
  const auto resolved = ResolveMegatron(recipe.base.args, recipe.base.env, recipe.workload);
  if (const auto* finding = std::get_if<Finding>(&resolved)) {
    return Fail(ErrorCode::kInvalidInput, finding->why);
  }
  std::vector<FaultRow> rows;
  for (const Replay& replay : ReplaysOf(recipe, std::get<TrainingJob>(resolved))) {
    SimCampaign campaign;
    campaign.recipe = &rehearsed;
    campaign.world = world;
    if (replay.fault) {
      ATTUNE_TRY(campaign.world, sim::WithFault(*world, *replay.fault));
    }
    campaign.policy.proposer = "scripted";
    campaign.policy.name = "replay";
    campaign.policy.seed = seed;
    campaign.budget = FromGpuHours(1e7);
    ATTUNE_TRY(const std::unique_ptr<Store> store, Store::OpenInMemory());
    OneProposal proposer(replay);
    ATTUNE_TRY(const CampaignState state,
               RunSimCampaign(campaign, proposer, *store, machine_clock));
    FaultRow row = RowOf(replay, state);
    ATTUNE_TRY(const auto cluster, sim::MakeCluster(SetupOf(recipe, campaign.world, seed)));
    Effective changed = recipe.base;
    for (const Edit& e : replay.edits) {
      if (e.op == Edit::Op::kSet) changed.args.Set(e.name, e.values);
      if (e.op == Edit::Op::kUnset) changed.args.Unset(e.name);
    }
    row.step0_shift = cluster->FirstLoss(changed) / cluster->FirstLoss(recipe.base) - 1;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace attune::cli
