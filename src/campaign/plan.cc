#include "plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/gates/instrument.h"
#include "attune/gates/rules.h"
#include "config_gate.h"
#include "pace.h"

namespace attune {
namespace {

// Deterministic, so that Decide stays pure: the campaign's id is random already.
Token TokenFor(const CampaignState& s, const LaunchId& id) {
  const std::string seed = fmt::format("{}|{}|{}", s.id.value, id.value, s.opened_at.ms);
  return Token{fmt::format("attune-{}-{}-{}", s.id.value, id.value, Sha256Hex(seed).substr(0, 8))};
}

LaunchIntended Draft(const CampaignState& s, Purpose purpose, Millis limit) {
  const LaunchId id{fmt::format("l{:03}", s.next_launch)};
  return {.id = id,
          .token = TokenFor(s, id),
          .purpose = purpose,
          .slots = s.recipe.workload.gpus,
          .hold = HoldFor(s, limit),
          .limit = limit,
          .runs = {},
          .exclude = ExcludedNodes(s),
          .attempt = 0};
}

std::vector<std::string> ArgvOf(const Recipe& recipe, const Effective& executed) {
  return InstrumentCommand(RenderCommand(recipe, executed.args));
}

RunPlan PlanRun(const CampaignState& s, int number, const RunDraft& draft) {
  return {.id = RunId{fmt::format("r{:03}", number)},
          .label = draft.label,
          .of = draft.of,
          .proposal = draft.proposal,
          .form = Form::kMeasured,
          .user = draft.user,
          .executed = draft.user,
          .argv = {},
          .start_iteration = s.opened ? s.opened->start_iteration : 0,
          .steps_wanted = 0,
          .profile_first = 0,
          .profile_last = 0};
}

}  // namespace

std::string Scratch(const CampaignState& s, const Token& launch, const RunId& run) {
  const std::string root = s.opened ? s.opened->run_root : std::string();
  return root + "/" + launch.value + "/scratch/" + run.value;
}

LaunchIntended PlanMeasured(const CampaignState& s, Purpose purpose,
                            const std::vector<RunDraft>& runs, int attempt) {
  const Millis limit =
      purpose == Purpose::kFinal ? FinalLimit(s) : LaunchLimit(s, static_cast<int>(runs.size()));
  LaunchIntended launch = Draft(s, purpose, limit);
  launch.attempt = attempt;
  int number = s.next_run;
  for (const RunDraft& draft : runs) {
    RunPlan plan = PlanRun(s, number++, draft);
    plan.steps_wanted = PlanWindow(s).bound;
    const MeasuredWindow window =
        WindowFor(s, plan.steps_wanted, Scratch(s, launch.token, plan.id));
    plan.executed = Instrument(s.recipe, draft.user, window, BuiltInRules()).effective;
    plan.argv = ArgvOf(s.recipe, plan.executed);
    const ProfiledIterations profiled = ProfiledBy(window);
    plan.profile_first = profiled.first;
    plan.profile_last = profiled.last;
    launch.runs.push_back(std::move(plan));
  }
  return launch;
}

LaunchIntended PlanRehearsal(const CampaignState& s) {
  RunPlan first = PlanRun(s, s.next_run, LeaderDraft(s));
  LaunchIntended launch = Draft(s, Purpose::kRehearsal, LaunchLimit(s, 2));
  const RehearsalForms forms = RehearsalForm(s.recipe, s.leader.user,
                                             {.start_iteration = first.start_iteration,
                                              .steps = RehearsalStepsWanted(s),
                                              .run_dir = Scratch(s, launch.token, first.id)},
                                             BuiltInRules());
  first.label = "rehearsal";
  first.form = Form::kUser;
  first.executed = forms.first;
  first.steps_wanted = forms.first_steps;
  first.argv = RenderCommand(s.recipe, first.executed.args);
  launch.runs.push_back(first);
  if (forms.second) {
    RunPlan second = first;
    second.id = RunId{fmt::format("r{:03}", s.next_run + 1)};
    second.label = "restart";
    second.executed = *forms.second;
    second.start_iteration = forms.last_iteration;
    second.steps_wanted = forms.second_steps;
    second.argv = RenderCommand(s.recipe, second.executed.args);
    launch.runs.push_back(std::move(second));
  }
  return launch;
}

bool NeedsRehearsal(const CampaignState& s) {
  return !RehearsalForm(s.recipe, s.recipe.base, {}, BuiltInRules()).IsVoid();
}

LaunchIntended PlanComponentTest(const CampaignState& s, const ComponentTest& test) {
  LaunchIntended launch = Draft(s, Purpose::kComponentTest, test.time);
  RunPlan plan = PlanRun(s, s.next_run, BaselineDraft(s));
  plan.label = "test-" + test.lever;
  plan.of = "component_test";
  plan.form = Form::kUser;
  plan.argv = test.command;
  launch.runs.push_back(std::move(plan));
  return launch;
}

RunDraft BaselineDraft(const CampaignState& s) {
  return {.label = "baseline", .of = "baseline", .proposal = {}, .user = s.recipe.base};
}

RunDraft LeaderDraft(const CampaignState& s) {
  const RunRecord* run = s.FindRun(s.leader.run);
  if (run == nullptr) return BaselineDraft(s);
  return {.label = run->plan.label,
          .of = "leader",
          .proposal = run->plan.proposal,
          .user = s.leader.user};
}

RunDraft CandidateDraft(const ProposalRecord& proposal) {
  const Proposal& p = *proposal.proposal;
  return {.label = p.label.empty() ? p.change.lever : p.label,
          .of = "candidate",
          .proposal = proposal.id,
          .user = *proposal.candidate};
}

std::vector<std::string> ExcludedNodes(const CampaignState& s) {
  std::set<std::string> nodes;
  for (const auto& [id, run] : s.runs) {
    if (!run.end || run.end->detail.end != RunEnd::kNodeFailed) continue;
    const LaunchRecord& launch = s.launches.at(run.launch);
    if (launch.end && !launch.end->failed_nodes.empty()) {
      nodes.insert(launch.end->failed_nodes.begin(), launch.end->failed_nodes.end());
    } else if (run.started && !run.started->node.empty()) {
      nodes.insert(run.started->node);
    }
  }
  return {nodes.begin(), nodes.end()};
}

}  // namespace attune
