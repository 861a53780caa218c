// What changes from request to request: the campaign as it stands.
#include <fmt/core.h>

#include <algorithm>

#include "agent_blocks.h"
#include "agent_prompt.h"
#include "attune/base/text.h"
#include "attune/model/training_job.h"
#include "attune/propose/experience.h"
#include "declared.h"
#include "sheet.h"
#include "stop_rules.h"
#include "untrusted.h"

namespace attune {
namespace {

constexpr int kNoLaunchLimit = 10;         // control_plane.md section 3, stop rules
constexpr std::size_t kErrorBytes = 300;

// What the next launch will be charged, profile and all: the mean of the search so far, else that
// of the calibration. (Calibration::launch_cost, from which the default budget is made, leaves the
// profile out.)
GpuMillis LaunchCost(const CampaignState& s) {
  GpuMillis sum;
  int n = 0;
  const auto add = [&](const RunRecord& run) {
    sum += ChargeOf(s, run);
    ++n;
  };
  for (const RunRecord* run : Candidates(s)) {
    if (!HasFailed(*run)) add(*run);
  }
  if (n == 0 && s.calibration) {
    for (const RunId& id : s.calibration->runs) {
      if (const RunRecord* run = s.FindRun(id)) add(*run);
    }
  }
  return n > 0 ? GpuMillis{sum.value / n} : GpuMillis{};
}

std::string BudgetWords(const CampaignState& s) {
  if (!s.budget) return "budget not set";
  return fmt::format("budget {} of {} GPU-h left, a launch about {}",
                     ShowGpuHours(*s.budget - s.ledger.Charged() - s.ledger.held),
                     ShowGpuHours(*s.budget), ShowGpuHours(LaunchCost(s)));
}

// What of the budget the search can't have, and how many launches the rest is at what they have
// cost so far: fresh pairs near the band included, which are most of the money of a search without
// wins.
std::string ReserveWords(const CampaignState& s, const AgentDesk& desk) {
  if (!s.budget || !desk.reserve) return {};
  const GpuMillis reserve = desk.reserve(s);
  const GpuMillis left = *s.budget - s.ledger.Charged() - s.ledger.held - reserve;
  const int launched = CountsOf(s).launched;
  const std::int64_t each = launched > 0 ? s.ledger.search.value / launched : LaunchCost(s).value;
  std::string words =
      fmt::format("\nof it {} are set aside for the final stage", ShowGpuHours(reserve));
  if (each > 0) {
    words +=
        fmt::format("; about {} more launches at {} each, their fresh pairs included",
                    std::max<std::int64_t>(0, left.value) / each, ShowGpuHours(GpuMillis{each}));
  }
  return words;
}

Block StateBlock(const CampaignState& s, const AgentDesk& desk) {
  const Counts c = CountsOf(s);
  Block block;
  block.brief = fmt::format("{}; launched {}, won {}, {} in a row without", BudgetWords(s),
                            c.launched, c.win, NonWinsInARow(s));
  const Recipe& r = s.recipe;
  std::vector<std::string> stack;
  for (const auto& [key, value] : r.stack) stack.push_back(key + " " + PlainWords(value, 60));
  block.full =
      fmt::format("# campaign\njob {} ({}), {} on {} x {}, {} a node", PlainWords(r.name, 80),
                  Word(r.framework), PlainWords(r.workload.model, 60), r.workload.gpus,
                  PlainWords(r.workload.gpu, 40), r.workload.gpus_per_node);
  if (!stack.empty()) block.full += "\nstack " + Join(stack, ", ");
  block.full += fmt::format(
      "\n{}{}"
      "\nlaunches {}: {} win, {} tie, {} loss, {} failed, {} stopped early, {} rejected; {} in a "
      "row "
      "without a win\nproposals refused {}, turned back {}, asked before {}; {} in a row launched "
      "nothing (the search ends at {})",
      BudgetWords(s), ReserveWords(s, desk), c.launched, c.win, c.tie, c.loss, c.failed,
      c.stopped_early, c.rejected, NonWinsInARow(s), c.refused, c.turned_back, c.duplicate,
      s.no_launch_in_a_row, kNoLaunchLimit);
  if (s.calibration) {
    const Calibration& k = *s.calibration;
    block.full += fmt::format(
        "\nbaseline {:.1f} tok/s/GPU, sigma {:.2f}%, band {:.2f}% (a win gains more), step {:.4g} "
        "s, "
        "start-up {}",
        k.mean, 100 * k.sigma, 100 * k.band, k.step_ms / 1'000, ShowDuration(k.startup));
    if (k.within_runs > 0) {
      block.full +=
          fmt::format("\ncompared inside one held allocation: sigma {:.2f}%, band {:.2f}%",
                      100 * k.within_sigma, 100 * k.within_band);
    }
  }
  return block;
}

// The leader's place on the declared levers, or its difference to the baseline.
std::string Place(const CampaignState& s, std::size_t bytes) {
  if (s.recipe.framework == Framework::kCustom) {
    std::vector<std::string> values;
    for (const DeclaredLever& lever : s.recipe.declared) {
      if (!IsOffered(s.recipe, lever)) continue;
      values.push_back(lever.id + "=" + ValueIn(lever, s.leader.user).value_or("unset"));
    }
    return SomeOf(values, bytes);
  }
  const std::string diff = DescribeDifference(s.recipe.base, s.leader.user);
  return "diff " + (diff.empty() ? std::string("none") : PlainWords(diff, bytes));
}

std::string LayoutLine(const CampaignState& s) {
  if (s.recipe.framework != Framework::kMegatronLm) return {};
  const auto resolved = ResolveMegatron(s.leader.user.args, s.leader.user.env, s.recipe.workload);
  const auto* job = std::get_if<TrainingJob>(&resolved);
  if (job == nullptr) return {};
  const Layout& l = job->layout;
  std::string stages;
  if (l.first_layers || l.last_layers) {
    stages = fmt::format(" (first/last stage {}/{} layers)",
                         l.first_layers ? std::to_string(*l.first_layers) : "even",
                         l.last_layers ? std::to_string(*l.last_layers) : "even");
  }
  std::string line = fmt::format(
      "\nlayout tp {} pp {}{} vp {} ep {} etp {} cp {} dp {}; gbs {} mbs {} seq {}, {} "
      "microbatches a pipeline and step; {} layers, {} experts; recompute {}; dispatcher {}",
      l.tp, l.pp, stages, l.vp, l.ep, l.etp, l.cp, l.dp, job->batch.gbs, job->batch.mbs,
      job->batch.seq_len, job->batch.microbatches, job->shape.layers, job->shape.experts,
      job->switches.recompute.empty() ? "none" : job->switches.recompute,
      job->switches.dispatcher.empty() ? "none" : job->switches.dispatcher);
  return line;
}

// The levers' arguments as they stand in the leader.
std::string NowLine(const CampaignState& s, const AgentDesk& desk) {
  std::vector<std::string> set;
  for (const LeverOffer& lever : desk.levers) {
    for (const LeverOffer::Name& name : lever.names) {
      std::string text = name.name;
      if (const Argument* a = s.leader.user.args.Find(name.name)) {
        if (!a->values.empty()) text += " " + Join(a->values, " ");
      } else if (const auto it = s.leader.user.env.find(name.name); it != s.leader.user.env.end()) {
        text += "=" + it->second;
      } else {
        continue;
      }
      if (std::find(set.begin(), set.end(), text) == set.end()) set.push_back(std::move(text));
    }
  }
  return set.empty() ? std::string() : "\nset now: " + PlainWords(Join(set, ", "), 3'000);
}

// The run that speaks for the leader: of the baseline, the last one of the calibration.
const RunRecord* LeaderRun(const CampaignState& s) {
  if (!s.leader.run.empty() || !s.calibration || s.calibration->runs.empty()) {
    return s.FindRun(s.leader.run);
  }
  return s.FindRun(s.calibration->runs.back());
}

std::string NameOf(const RunRecord& run) {
  return fmt::format("{} {}", run.plan.id.value, PlainWords(run.plan.label, 24));
}

// Peak as measured; where step and memory go by the estimate, which `inspect estimate` asks too.
std::string FootprintLines(const CampaignState& s) {
  std::string lines;
  const std::optional<Estimate> e = ProjectCandidate(s, s.leader.user);
  const RunRecord* run = LeaderRun(s);
  if (run != nullptr && run->memory.max_reserved > 0) {
    lines =
        fmt::format("\npeak memory {:.1f} GB", static_cast<double>(run->memory.max_reserved) / kGb);
    if (e) lines += fmt::format(" of {:.1f}", e->device_bytes / kGb);
  }
  if (e && (!s.opened || s.opened->policy.inspections > 0)) {
    lines += fmt::format("\nby the estimate: {}; {}", WhereTimeGoes(*e), WhereMemoryGoes(*e));
  }
  return lines;
}

Block LeaderBlock(const CampaignState& s, const AgentDesk& desk) {
  const RunRecord* run = s.FindRun(s.leader.run);
  const std::string who = run == nullptr ? std::string("baseline") : NameOf(*run);
  const std::string score =
      fmt::format("{:.1f} tok/s/GPU ({} over the baseline)", s.leader.mean, Percent(s.leader.gain));
  Block block;
  block.rank = 1;
  block.brief =
      fmt::format("leader {} {}\nnow {}", who, Percent(s.leader.gain), Place(s, kBriefList));
  const std::string diff = DescribeDifference(s.recipe.base, s.leader.user);
  block.full = fmt::format("\n# leader\n{} {}\ndiff to the baseline: {}", who, score,
                           diff.empty() ? "none" : PlainWords(diff, 2'000));
  if (s.recipe.framework == Framework::kCustom) {
    block.full += "\nnow " + Place(s, 1'000);
  }
  block.full += LayoutLine(s) + NowLine(s, desk) + FootprintLines(s);
  return block;
}

const RunRecord* LastDiagnosed(const CampaignState& s) {
  const RunRecord* found = nullptr;
  for (const auto& [id, run] : s.runs) {
    if (run.diagnosis) found = &run;
  }
  return found;
}

// What was named of the leader, where the last diagnosis is another run's: the next change is made
// to the leader.
std::string LeaderDiagnosis(const CampaignState& s, const RunRecord& last) {
  const RunRecord* leader = LeaderRun(s);
  if (leader == nullptr || leader == &last || !leader->diagnosis) return {};
  std::vector<std::string> named;
  for (const Bottleneck& b : leader->diagnosis->bottlenecks) {
    if (b.named) named.push_back(ShareOf(b));
  }
  return fmt::format("\nof the leader, {}: {} {}", NameOf(*leader),
                     PlainWords(leader->diagnosis->summary, 300),
                     named.empty() ? "Nothing named." : "Named: " + Join(named, ", ") + ".");
}

Block DiagnosisBlock(const CampaignState& s, const Policy& policy) {
  Block block;
  block.rank = 2;
  if (!policy.diagnosis) return block;
  const RunRecord* run = LastDiagnosed(s);
  if (run == nullptr) return block;
  std::vector<std::string> named, brief;
  for (const Bottleneck& b : run->diagnosis->bottlenecks) {
    const std::string line = ShareOf(b) + ": " + PlainWords(b.evidence, 300);
    if (b.named) {
      brief.push_back(b.cls);
      named.push_back("\n  " + line);
    } else {
      block.rows.push_back("  not past its threshold: " + line);
    }
  }
  block.brief = fmt::format("diagnosis {} {}", run->plan.id.value,
                            brief.empty() ? "nothing named" : SomeOf(brief, kBriefText));
  block.full = fmt::format("\n# last diagnosis: {}, from its {}\n{}", NameOf(*run),
                           run->diagnosis->source, PlainWords(run->diagnosis->summary, 600));
  const std::vector<std::string> classes = NamedClasses(s);
  if (!classes.empty()) {
    block.full += "\nclasses that a stop must answer for: " + Join(classes, ", ");
  }
  block.full += Join(named, "") + LeaderDiagnosis(s, *run);
  return block;
}

// What was wrong with the last answer that a model gave. A call that was cut off, refused or never
// answered says nothing about one: the request after it is the same again.
std::string LastError(const TurnView& view) {
  for (auto it = view.answered.rbegin(); it != view.answered.rend(); ++it) {
    const Answered& a = *(*it)->answer;
    if (a.outcome == llm::Word(llm::TurnKind::kAction)) return {};
    if (a.outcome == llm::Word(llm::TurnKind::kFormatError) ||
        a.outcome == llm::Word(llm::TurnKind::kTruncated)) {
      return PlainWords(a.error, kErrorBytes);
    }
  }
  return {};
}

// What this decision has asked and been told so far.
Block DecisionBlock(const TurnView& view, const Policy& policy) {
  Block block;
  block.rank = 0;
  const std::string error = LastError(view);
  for (auto it = view.answered.rbegin(); it != view.answered.rend(); ++it) {
    if (!(*it)->answer->shown.empty()) block.rows.push_back((*it)->answer->shown);
  }
  if (!error.empty()) block.brief = "last answer not taken: " + PlainWords(error, kBriefText);
  if (!error.empty() || !block.rows.empty()) {
    block.full = "\n# this decision so far";
    if (!error.empty()) block.full += "\nyour last answer was not taken: " + error;
    if (view.inspections > 0) {
      block.full +=
          fmt::format("\ninspections used: {} of {}", view.inspections, policy.inspections);
    }
  }
  return block;
}

Block CommitteeBlock(const TurnView& view, int agents) {
  Block block;
  if (view.drafts.empty()) return block;
  std::vector<std::string> lines;
  for (const Draft& d : view.drafts) {
    lines.push_back(fmt::format("proposal {}: {} | {} | {} | expected {} to {}", d.letter,
                                PlainWords(d.proposal.change.lever, 60),
                                PlainWords(EditsText(d.proposal.change.edits), kMostChanges),
                                Quoted(d.proposal.hypothesis, kWords),
                                Percent(d.proposal.expected_gain->first),
                                Percent(d.proposal.expected_gain->second)));
  }
  for (const Ballot& ballot : view.ballots) {
    for (const auto& [letter, text] : ballot.criticism) {
      lines.push_back(fmt::format("on {}: {}", letter, Quoted(text, kWords)));
    }
  }
  block.brief = fmt::format("\n# committee of {}\n{}", agents, Join(lines, "\n"));
  return block;
}

std::string AskLine(const TurnView& view) {
  if (view.voting) return "call vote";
  std::string line = "call propose";
  if (!view.drafts.empty()) line = "propose another change than the committee's proposals";
  if (!view.rules.questions.empty()) line += ", inspect";
  if (view.rules.stop) line += " or stop";
  return line;
}

}  // namespace

bool IsCompact(const CampaignState& s) { return s.recipe.llm.prompt_bytes < kCompactBytes; }

Result<std::string> UserText(const CampaignState& s, const AgentDesk& desk, const TurnView& view,
                             std::size_t bytes) {
  const Policy policy = s.opened ? s.opened->policy : Policy{};
  std::vector<Block> blocks = {StateBlock(s, desk),
                               LeaderBlock(s, desk),
                               DiagnosisBlock(s, policy),
                               OpenBlock(s, desk),
                               FailedBlock(s),
                               RefusedBlock(s),
                               ForecastBlock(s),
                               RunsBlock(s),
                               CommitteeBlock(view, policy.agents),
                               DecisionBlock(view, policy),
                               {.brief = AskLine(view), .full = {}, .rows = {}, .rank = 9}};
  if (IsCompact(s)) KeepBrief(blocks);
  return FitSheet(blocks, bytes);
}

}  // namespace attune
