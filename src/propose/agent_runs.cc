// What was tried, and what came of it: the rows of a request that grow with the campaign.
#include <fmt/core.h>

#include <algorithm>

#include "agent_blocks.h"
#include "agent_prompt.h"
#include "attune/base/text.h"
#include "enablers.h"
#include "forecasts.h"
#include "untrusted.h"

namespace attune {
namespace {

constexpr std::size_t kForecasts = 12;     // shown one by one, newest first
constexpr std::size_t kMostLevers = 700;   // of the list of levers that were never moved

std::string Outcome(const RunRecord& run) {
  const Judged& j = *run.judged;
  std::string word(j.standing == Standing::kFailed && run.end ? Word(run.end->detail.end)
                                                              : Word(j.standing));
  if (j.gain) word += " " + Percent(*j.gain);
  return word;
}

std::string ChangeOf(const CampaignState& s, const RunRecord& run) {
  const ProposalRecord* p = s.FindProposal(run.plan.proposal);
  if (p == nullptr || !p->proposal) return {};
  return p->proposal->change.lever + ": " +
         PlainWords(EditsText(p->proposal->change.edits), kMostChanges);
}

bool IsLaunched(const CampaignState& s, const ProposalRecord& p) {
  return p.proposal && s.FindRun(p.run) != nullptr;
}

// Enablers of wins that nobody has tried to take back since.
void AddEnablers(const CampaignState& s, std::vector<std::string>& rows) {
  for (std::size_t i = s.proposals.size(); i-- > 0;) {
    const ProposalRecord& p = s.proposals[i];
    const RunRecord* run = p.proposal ? s.FindRun(p.run) : nullptr;
    if (run == nullptr || !run->judged || !run->judged->leads) continue;
    for (const std::string& enabler : p.proposal->change.enablers) {
      const bool again =
          std::any_of(s.proposals.begin() + static_cast<std::ptrdiff_t>(i) + 1, s.proposals.end(),
                      [&](const ProposalRecord& later) {
                        return later.proposal && later.proposal->change.lever == enabler;
                      });
      if (again) continue;
      rows.push_back(fmt::format("{} {} won with enabler {}: whether it wins without is not known",
                                 p.run.value, PlainWords(run->plan.label, 24),
                                 PlainWords(enabler, 60)));
    }
  }
}

// Levers that gained inside the band alone: together they may leave it.
void AddMinor(const CampaignState& s, std::vector<std::string>& rows) {
  std::vector<std::string> minor, seen;
  for (const ProposalRecord& p : s.proposals) {
    if (!IsLaunched(s, p) || !IsMinor(s, p.proposal->change.lever)) continue;
    const std::string& lever = p.proposal->change.lever;
    if (std::find(seen.begin(), seen.end(), lever) != seen.end()) continue;
    seen.push_back(lever);
    minor.push_back(PlainWords(lever, 60));
  }
  if (minor.size() < 2) return;
  rows.push_back("gained inside the band alone, may be proposed as one stack: " +
                 Join(minor, ", "));
}

void AddUntried(const CampaignState& s, const AgentDesk& desk, std::vector<std::string>& rows) {
  std::vector<std::string> untried;
  for (const LeverOffer& lever : desk.levers) {
    if (s.opened && !InSpace(s.opened->policy, lever.id)) continue;
    const bool moved =
        std::any_of(s.proposals.begin(), s.proposals.end(), [&](const ProposalRecord& p) {
          if (!IsLaunched(s, p)) return false;
          const Change& c = p.proposal->change;
          return c.lever == lever.id ||
                 std::find(c.enablers.begin(), c.enablers.end(), lever.id) != c.enablers.end();
        });
    if (!moved) untried.push_back(lever.id);
  }
  if (!untried.empty()) rows.push_back("levers in no launch yet: " + SomeOf(untried, kMostLevers));
}

}  // namespace

std::string Percent(double x) { return fmt::format("{:+.1f}%", 100 * x); }

// Judged runs of candidates, newest first.
std::vector<const RunRecord*> Candidates(const CampaignState& s) {
  std::vector<const RunRecord*> runs;
  for (auto it = s.runs.rbegin(); it != s.runs.rend(); ++it) {
    if (it->second.purpose == Purpose::kCandidate && it->second.judged) runs.push_back(&it->second);
  }
  return runs;
}

bool HasFailed(const RunRecord& run) {
  return run.judged->standing == Standing::kFailed || run.judged->standing == Standing::kRejected ||
         run.judged->standing == Standing::kInvalid;
}

GpuMillis ChargeOf(const CampaignState& s, const RunRecord& run) {
  const auto launch = s.launches.find(run.launch);
  return launch != s.launches.end() && launch->second.end ? launch->second.end->charged
                                                          : GpuMillis{};
}

std::string ShareOf(const Bottleneck& b) {
  return b.share >= 0 ? fmt::format("{} {:.0f}% of the step", b.cls, 100 * b.share)
                      : fmt::format("{} {:.3g}", b.cls, b.metric);
}

std::string EditsText(const std::vector<Edit>& edits) {
  std::vector<std::string> shown;
  for (const Edit& edit : edits) {
    const bool off = edit.op == Edit::Op::kUnset || edit.op == Edit::Op::kUnsetEnv;
    shown.push_back(edit.name + " " +
                    (off                   ? "off"
                     : edit.values.empty() ? "on"
                                           : Join(edit.values, " ")));
  }
  return Join(shown, "; ");
}

std::string RunLine(const CampaignState& s, const RunRecord& run) {
  const Judged& j = *run.judged;
  std::string line = fmt::format("{} {}{} {}", run.plan.id.value, PlainWords(run.plan.label, 24),
                                 j.leads ? "*" : "", Outcome(run));
  if (j.measurement) line += fmt::format(" {:.1f} tok/s/GPU", j.measurement->tokens_per_s_per_slot);
  if (j.measurement && j.measurement->short_window) line += " (short window)";
  if (run.memory.max_reserved > 0) {
    line += fmt::format(" {:.1f} GB", static_cast<double>(run.memory.max_reserved) / kGb);
  }
  line += fmt::format(" {} GPU-h", ShowGpuHours(ChargeOf(s, run)));
  if (const std::string change = ChangeOf(s, run); !change.empty()) line += " | " + change;
  if (run.diagnosis && (!s.opened || s.opened->policy.diagnosis)) {
    std::vector<std::string> named;
    for (const Bottleneck& b : run.diagnosis->bottlenecks) {
      if (b.named) named.push_back(ShareOf(b));
    }
    if (!named.empty()) line += " | " + SomeOf(named, kWords);
  }
  const ProposalRecord* p = s.FindProposal(run.plan.proposal);
  if (p != nullptr && p->proposal && !p->proposal->hypothesis.empty()) {
    line += " | " + Quoted(p->proposal->hypothesis, kWords);
  }
  return line;
}

Block FailedBlock(const CampaignState& s) {
  Block block;
  block.rank = 3;
  std::vector<std::string> brief;
  for (const RunRecord* run : Candidates(s)) {
    if (!HasFailed(*run)) continue;
    brief.push_back(run->plan.label + ":" + Outcome(*run));
    std::string line = fmt::format("{} {} {} after {} GPU-h | {}", run->plan.id.value,
                                   PlainWords(run->plan.label, 24), Outcome(*run),
                                   ShowGpuHours(ChargeOf(s, *run)), ChangeOf(s, *run));
    const std::string cause =
        run->end && !run->end->detail.cause.empty() ? run->end->detail.cause : run->judged->reason;
    if (!cause.empty()) line += " | " + Quoted(cause, kWords);
    block.rows.push_back(std::move(line));
  }
  if (brief.empty()) return block;
  block.brief = "failed " + SomeOf(brief, kBriefList);
  block.full = "\n# failed runs, newest first: do not repeat their cause";
  return block;
}

Block RefusedBlock(const CampaignState& s) {
  Block block;
  block.rank = 4;
  for (auto it = s.proposals.rbegin(); it != s.proposals.rend(); ++it) {
    if (it->admitted) continue;
    std::string what = it->proposal
                           ? fmt::format("{}: {}", PlainWords(it->proposal->change.lever, 60),
                                         PlainWords(EditsText(it->proposal->change.edits), 200))
                           : std::string("a reply that was no proposal");
    if (block.rows.empty()) {
      block.brief = PlainWords(
          fmt::format("refused {} {}", it->reason, PlainWords(what, kBriefText)), kBriefList);
    }
    block.rows.push_back(fmt::format("{} {} | {} | {}", it->id.value, it->reason, what,
                                     PlainWords(it->detail, kWords)));
  }
  if (!block.rows.empty()) block.full = "\n# refused or turned back, newest first";
  return block;
}

Block ForecastBlock(const CampaignState& s) {
  Block block;
  block.rank = 5;
  const std::vector<Forecast> all = ForecastsOf(s);
  if (all.empty()) return block;
  block.full = "\n# your forecasts against outcomes\n" + RecordLine(RecordOf(all));
  // The record speaks for the older ones: their outcomes stand in the table of runs, which needs
  // the room.
  for (auto it = all.rbegin(); it != all.rend() && block.rows.size() < kForecasts; ++it) {
    block.rows.push_back(ForecastLine(*it));
  }
  return block;
}

Block RunsBlock(const CampaignState& s) {
  Block block;
  block.rank = 6;
  const std::vector<const RunRecord*> runs = Candidates(s);
  std::vector<std::string> tried;
  for (const RunRecord* run : runs) {
    tried.push_back(run->plan.label + ":" + Outcome(*run));
    if (!HasFailed(*run)) block.rows.push_back(RunLine(s, *run));
  }
  if (tried.empty()) return block;
  block.brief = "tried " + SomeOf(tried, kBriefList);
  if (!block.rows.empty()) {
    block.full = "\n# runs, newest first; gain over the leader of that moment, * became the leader";
  } else {
    block.full = block.brief;
  }
  return block;
}

Block OpenBlock(const CampaignState& s, const AgentDesk& desk) {
  Block block;
  block.rank = 3;
  AddEnablers(s, block.rows);
  AddMinor(s, block.rows);
  AddUntried(s, desk, block.rows);
  if (!block.rows.empty()) block.full = "\n# not tried yet";
  return block;
}

}  // namespace attune
