#include "config_gate.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <set>

#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/gates/candidate_traits.h"
#include "attune/gates/config_check.h"
#include "attune/gates/instrument.h"
#include "attune/gates/readback_check.h"
#include "attune/gates/rules.h"
#include "prefilter.h"

namespace attune {
namespace {

constexpr std::string_view kDefect = "defect.";

const DefectRow* FindDefect(std::string_view id) {
  const std::span<const DefectRow> rows = BuiltInRules().defects;
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const DefectRow& row) { return row.id == id; });
  return found == rows.end() ? nullptr : &*found;
}

// Whether a judged run went wrong in the way that an entry of the defect list says. Of an entry
// that the list lacks nothing is known: whatever went wrong counts.
bool ShowsEffect(const DefectRow* entry, const RunRecord& run) {
  const bool rejected = run.judged->standing == Standing::kRejected;
  const bool failed = run.judged->standing == Standing::kFailed;
  if (entry == nullptr) return rejected || failed;
  const RunEnd end = run.end ? run.end->detail.end : RunEnd::kLost;
  if (entry->effect == DefectEffect::kSilent || entry->effect_word == "log") {
    return rejected || (failed && end == RunEnd::kNan);
  }
  if (!failed || end == RunEnd::kOomGpu || end == RunEnd::kOomHost) return false;
  const bool stood = end == RunEnd::kHung || end == RunEnd::kTooSlow;
  if (entry->effect_word == "slow") return stood;
  // A collective that waits in vain is often ended by its own time limit, which is a crash.
  if (entry->effect_word == "hang") return stood || end == RunEnd::kCrashed;
  return !stood;
}

// What the record says that a check of one change needs. Holds what ConfigFacts points to.
struct Known {
  std::set<std::string> hashes;
  std::vector<PassedTest> passed;
  std::vector<std::string> escalated;
  std::vector<DraftDefect> drafts;

  explicit Known(const CampaignState& s) {
    hashes.insert(CanonicalHash(s.recipe.base));
    for (const ProposalRecord& p : s.proposals) {
      if (!p.hash.empty() && p.reason != "budget") hashes.insert(p.hash);
    }
    for (const auto& [id, run] : s.runs) {
      if (run.purpose != Purpose::kComponentTest || !run.end) continue;
      if (run.end->detail.end != RunEnd::kCompleted) continue;
      for (const ComponentTest& test : s.recipe.gate.component_tests) {
        if (test.command == run.plan.argv) passed.push_back({test.lever, test.value});
      }
    }
    Learn(s);
  }

  // A caution that did twice what it warns of refuses; a rejection without a listed entry becomes a
  // draft one (control_plane.md section 6).
  void Learn(const CampaignState& s) {
    std::map<std::string, int> failures;
    for (const ProposalRecord& p : s.proposals) {
      const RunRecord* run = s.FindRun(p.run);
      if (run == nullptr || !run->judged || !p.proposal) continue;
      const Standing standing = run->judged->standing;
      if (standing == Standing::kRejected) {
        const Finding* why = nullptr;
        for (const Finding& f : run->judged->findings) {
          if (f.severity == Severity::kRefuse) why = &f;
        }
        drafts.push_back({fmt::format("draft.{}", run->plan.id.value), p.proposal->change.edits,
                          why != nullptr ? why->rule + ": " + why->why : run->judged->reason});
      }
      for (const Finding& f : p.verdict.findings) {
        if (f.severity != Severity::kCaution || !f.rule.starts_with(kDefect)) continue;
        const std::string entry = f.rule.substr(kDefect.size());
        if (ShowsEffect(FindDefect(entry), *run) && ++failures[entry] == 2) {
          escalated.push_back(entry);
        }
      }
    }
  }

  ConfigFacts Facts(const CampaignState& s) const {
    ConfigFacts facts;
    facts.known = &hashes;
    facts.passed_tests = passed;
    facts.escalated = escalated;
    facts.drafts = drafts;
    const std::optional<std::int64_t> rows = GlobalBatchOf(s.recipe);
    if (s.opened && rows) facts.start_samples = s.opened->start_iteration * *rows;
    return facts;
  }
};

// The earlier result that a duplicate has, in one phrase.
std::string EarlierResult(const CampaignState& s, const std::string& hash) {
  for (const ProposalRecord& p : s.proposals) {
    if (p.hash != hash) continue;
    const RunRecord* run = s.FindRun(p.run);
    if (run == nullptr || !run->judged) return fmt::format("asked already as {}", p.id.value);
    return fmt::format("measured already as {}: {}", run->plan.id.value,
                       Word(run->judged->standing));
  }
  return "it is the recipe as given";
}

Effective MeasuredForm(const CampaignState& s, const Effective& user) {
  return Instrument(s.recipe, user, WindowFor(s, 1, "run"), BuiltInRules()).effective;
}

// The check of one change, with what is the same for all changes to one state.
class ChangeGate {
 public:
  explicit ChangeGate(const CampaignState& s)
      : s_(s), known_(s), facts_(known_.Facts(s)), measured_base_(MeasuredForm(s, s.recipe.base)) {}
  ChangeGate(const ChangeGate&) = delete;  // the facts point into what it knows
  ChangeGate& operator=(const ChangeGate&) = delete;

  GateVerdict Of(const Change& change) const {
    GateVerdict verdict = CheckConfig(s_.recipe, s_.leader.user, change, BuiltInRules(), facts_);
    if (!verdict.admitted) return verdict;
    // What will be executed differs from the measured baseline in exactly the change: a lever that
    // the instrumentation sets or removes would measure the baseline under another name.
    const Effective candidate = ApplyEdits(s_.leader.user, change.edits);
    GateVerdict executed = CheckDifference(measured_base_, MeasuredForm(s_, candidate),
                                           Difference(s_.recipe.base, candidate));
    return executed.admitted ? verdict : executed;
  }

 private:
  const CampaignState& s_;
  const Known known_;
  const ConfigFacts facts_;
  const Effective measured_base_;
};

}  // namespace

GateVerdict VetChange(const CampaignState& s, const Change& change) {
  return ChangeGate(s).Of(change);
}

GateVerdict VetShipped(const CampaignState& s, const Effective& shipped) {
  const Known known(s);
  return CheckShipped(s.recipe, shipped, Difference(s.recipe.base, shipped), BuiltInRules(),
                      known.Facts(s));
}

Vet MakeVet(const CampaignState& state) {
  return [gate = std::make_shared<const ChangeGate>(state)](const Change& change) {
    return gate->Of(change);
  };
}

Fact JudgeProposal(const CampaignState& s, const ProposalId& id, Proposal proposal,
                   const std::string& source, const std::string& llm_call) {
  GateVerdict verdict = VetChange(s, proposal.change);
  Effective candidate = ApplyEdits(s.leader.user, proposal.change.edits);
  std::string hash = CanonicalHash(candidate);
  if (!verdict.admitted) {
    const Finding* why = verdict.FirstRefusal();
    TurnedBack back;
    back.id = id;
    back.source = source;
    back.llm_call = llm_call;
    const bool duplicate = why != nullptr && why->rule.starts_with("duplicate");
    back.reason = duplicate ? "duplicate" : "gate." + (why != nullptr ? why->rule : "unknown");
    back.detail = duplicate ? EarlierResult(s, hash) : (why != nullptr ? why->why : "");
    back.proposal = std::move(proposal);
    back.verdict = std::move(verdict);
    return back;
  }
  if (std::optional<std::string> why = PrefilterMemory(s, proposal, candidate)) {
    TurnedBack back;
    back.id = id;
    back.source = source;
    back.llm_call = llm_call;
    back.reason = "prefilter.memory";
    back.detail = std::move(*why);
    back.proposal = std::move(proposal);
    back.verdict = std::move(verdict);
    return back;
  }
  Proposed admitted;
  admitted.id = id;
  admitted.proposal = std::move(proposal);
  admitted.source = source;
  admitted.llm_call = llm_call;
  admitted.candidate = std::move(candidate);
  admitted.hash = std::move(hash);
  admitted.verdict = std::move(verdict);
  return admitted;
}

std::vector<LeverClass> ClassesOf(const Recipe& recipe, const Effective& from,
                                  const Effective& to) {
  return ClassesOfDifference(recipe, BuiltInRules(), from, to);
}

std::map<std::string, std::string> DerivedKeys(const Recipe& recipe, const Effective& executed) {
  if (recipe.framework == Framework::kMegatronLm) {
    const auto job = ResolveMegatron(executed.args, executed.env, recipe.workload);
    if (const auto* resolved = std::get_if<TrainingJob>(&job)) {
      return DerivedMegatronKeys(*resolved);
    }
    return {};
  }
  std::map<std::string, std::string> derived;
  for (const DeclaredLever& lever : recipe.declared) {
    std::string value;
    if (lever.env.empty()) {
      value = executed.args.Value(lever.flag).value_or("");
    } else if (const auto it = executed.env.find(lever.env); it != executed.env.end()) {
      value = it->second;
    }
    for (const auto& [key, form] : lever.derives) {
      std::string text = form;
      if (const std::size_t at = text.find("{v}"); at != std::string::npos) {
        text.replace(at, 3, value);
      }
      derived[key] = text;
    }
  }
  return derived;
}

namespace {

std::optional<std::int64_t> FactOf(const Recipe& recipe, const std::optional<std::int64_t>& fact,
                                   std::string_view flag) {
  if (fact || recipe.framework != Framework::kMegatronLm) return fact;
  const std::optional<std::string> value = recipe.base.args.Value(flag);
  return value ? ParseInt(*value) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> GlobalBatchOf(const Recipe& recipe) {
  return FactOf(recipe, recipe.workload.global_batch, "--global-batch-size");
}

std::optional<std::int64_t> SequenceOf(const Recipe& recipe) {
  return FactOf(recipe, recipe.workload.seq_length, "--seq-length");
}

std::optional<std::int64_t> DeviceMemory(const Recipe& recipe) {
  const auto it = recipe.workload.shape.find("device_memory");
  if (it == recipe.workload.shape.end()) return std::nullopt;
  const Result<std::int64_t> bytes = ParseSize(it->second);
  return bytes ? std::optional<std::int64_t>(*bytes) : std::nullopt;
}

}  // namespace attune
