// The rules proposer for declared levers: one-lever descent. From the leader, each lever in its
// declared order is moved to its neighbouring values; a win moves the leader and goes on in the
// same direction with a longer stride; a value that ran out of memory is not exceeded again; a
// lever that lost is left alone until another lever that shares a class has won. Levers whose class
// acts on what the leader's diagnosis names come first. When a whole round
// gives nothing, wins too small to believe alone (minor levers) are stacked once; then it stops.
// All of it is computed from the record, so a restarted campaign asks for the same change.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "attune/propose/proposer.h"
#include "declared.h"
#include "rules.h"

namespace attune {
namespace {

constexpr std::size_t kMaxStack = 4;  // one primary and three enablers

struct Trial {
  std::string lever, value;
  Standing standing = Standing::kInvalid;
  double gain = 0;  // over the leader of its moment
  RunEnd end = RunEnd::kCompleted;
  RunId run, leader_before;
};

// The value that a proposal's own lever was moved to.
std::string MovedTo(const Recipe& recipe, const Proposal& p, const Effective& candidate) {
  for (const DeclaredLever& lever : recipe.declared) {
    if (lever.id == p.change.lever) return ValueIn(lever, candidate).value_or("");
  }
  return {};
}

std::vector<Trial> TrialsOf(const CampaignState& s) {
  std::vector<Trial> trials;
  RunId leader;
  for (const ProposalRecord& p : s.proposals) {
    if (!p.proposal || !p.candidate || p.run.empty()) continue;
    const RunRecord* run = s.FindRun(p.run);
    if (run == nullptr || !run->judged) continue;
    trials.push_back({.lever = p.proposal->change.lever,
                      .value = MovedTo(s.recipe, *p.proposal, *p.candidate),
                      .standing = run->judged->standing,
                      .gain = run->judged->gain.value_or(0),
                      .end = run->end ? run->end->detail.end : RunEnd::kLost,
                      .run = p.run,
                      .leader_before = leader});
    if (run->judged->leads) leader = p.run;
  }
  return trials;
}

bool IsMemoryEnd(RunEnd e) { return e == RunEnd::kOomGpu || e == RunEnd::kOomHost; }

class DeclaredRules final : public Proposer {
 public:
  std::string Name() const override { return "rules"; }

  Result<ProposerReply> Propose(const CampaignState& s, const Vet& vet) override {
    if (s.recipe.declared.empty()) {
      return StopWish{"no lever is declared, so there is nothing to try", {}};
    }
    const std::vector<Trial> trials = TrialsOf(s);
    if (auto next = Continue(s, vet, trials)) return *next;
    for (const DeclaredLever* lever : InOrder(s)) {
      if (auto next = Neighbour(s, vet, trials, *lever)) return *next;
    }
    if (auto stack = Stack(s, vet, trials)) return *stack;
    return Stop(s, vet, trials);
  }

 private:
  static std::set<std::string> Known(const CampaignState& s) {
    std::set<std::string> hashes = {CanonicalHash(s.recipe.base), CanonicalHash(s.leader.user)};
    for (const ProposalRecord& p : s.proposals) {
      if (!p.hash.empty()) hashes.insert(p.hash);
    }
    return hashes;
  }

  static std::optional<Proposal> Move(const CampaignState& s, const Vet& vet,
                                      const DeclaredLever& lever, std::size_t to,
                                      std::string hypothesis) {
    const std::string& value = lever.values[to];
    const std::optional<Change> change = MoveTo(s.recipe, s.leader.user, lever, value);
    if (!change) return std::nullopt;
    const Effective candidate = ApplyEdits(s.leader.user, change->edits);
    if (Known(s).contains(CanonicalHash(candidate)) || !vet(*change).admitted) return std::nullopt;
    Proposal p;
    p.change = *change;
    p.label = MoveLabel(lever, value);
    p.hypothesis = std::move(hypothesis);
    p.bottleneck = Bottleneck(s);
    if (!s.leader.run.empty()) p.evidence = {s.leader.run};
    return p;
  }

  // Of the leader; of the baseline's runs the last, whose caches are warm.
  static const Diagnosis* DiagnosisOf(const CampaignState& s) {
    const RunRecord* run = s.FindRun(s.leader.run);
    if (run == nullptr && s.calibration && !s.calibration->runs.empty()) {
      run = s.FindRun(s.calibration->runs.back());
    }
    return run != nullptr && run->diagnosis ? &*run->diagnosis : nullptr;
  }

  static std::string Bottleneck(const CampaignState& s) {
    if (const Diagnosis* diagnosis = DiagnosisOf(s)) {
      for (const attune::Bottleneck& b : diagnosis->bottlenecks) {
        if (b.named) return b.cls;
      }
    }
    return "unknown";
  }

  // The declared order, with those first that act on a named bottleneck of the trace, the largest
  // one's before the next one's. What a log names (stalls, spread, memory) is no part of the step
  // that a class of levers would shrink.
  static std::vector<const DeclaredLever*> InOrder(const CampaignState& s) {
    std::vector<const DeclaredLever*> order;
    const auto add = [&](const DeclaredLever& lever) {
      if (std::find(order.begin(), order.end(), &lever) == order.end()) order.push_back(&lever);
    };
    const Diagnosis* diagnosis = DiagnosisOf(s);
    if (diagnosis != nullptr && diagnosis->source == "trace") {
      for (const attune::Bottleneck& b : diagnosis->bottlenecks) {
        if (!b.named || b.share <= 0) continue;
        for (const LeverClass cls : LeverClassesFor(b.cls)) {
          for (const DeclaredLever& lever : s.recipe.declared) {
            if (lever.cls == cls) add(lever);
          }
        }
      }
    }
    for (const DeclaredLever& lever : s.recipe.declared) add(lever);
    return order;
  }

  // Values that ran out of memory bound the lever from that side on.
  static bool BeyondMemory(const DeclaredLever& lever, const std::vector<Trial>& trials,
                           std::size_t from, std::size_t to) {
    for (const Trial& t : trials) {
      if (t.lever != lever.id || !IsMemoryEnd(t.end)) continue;
      const auto it = std::find(lever.values.begin(), lever.values.end(), t.value);
      const auto bad = static_cast<std::size_t>(it - lever.values.begin());
      if ((bad > from && to >= bad) || (bad < from && to <= bad)) return true;
    }
    return false;
  }

  // Tried from this very leader, or lost or failed under an earlier one with no win of a related
  // lever since.
  static bool Settled(const CampaignState& s, const std::vector<Trial>& trials,
                      const DeclaredLever& lever, const std::string& value) {
    for (auto it = trials.begin(); it != trials.end(); ++it) {
      if (it->lever != lever.id || it->value != value) continue;
      if (it->standing == Standing::kEnvironment) continue;
      if (it->leader_before == s.leader.run) return true;
      if (it->standing == Standing::kRejected || it->standing == Standing::kInvalid) return true;
      const bool related = std::any_of(it, trials.end(), [&](const Trial& later) {
        return later.standing == Standing::kWin && Related(s.recipe, lever, later.lever);
      });
      if (!related) return true;
    }
    return false;
  }

  // Levers interact through what they spend: those of one class do, and batching and placement
  // change the work of every other lever.
  static bool Related(const Recipe& recipe, const DeclaredLever& lever, const std::string& other) {
    for (const DeclaredLever& d : recipe.declared) {
      if (d.id != other) continue;
      return d.id != lever.id && (d.cls == lever.cls || d.cls == LeverClass::kBatching ||
                                  d.cls == LeverClass::kPlacement);
    }
    return false;
  }

  // The last launch won: go on in its direction, twice as far.
  static std::optional<Proposal> Continue(const CampaignState& s, const Vet& vet,
                                          const std::vector<Trial>& trials) {
    if (trials.empty() || trials.back().standing != Standing::kWin) return std::nullopt;
    const Trial& last = trials.back();
    for (const DeclaredLever& lever : s.recipe.declared) {
      if (lever.id != last.lever || lever.values.size() < 3) continue;
      const std::optional<std::size_t> now = IndexIn(lever, s.leader.user);
      const Effective& before = s.past_leaders.empty() ? s.recipe.base : s.past_leaders.back().user;
      const std::optional<std::size_t> was = IndexIn(lever, before);
      if (!now || !was || *now == *was) return std::nullopt;
      const bool up = *now > *was;
      const std::size_t stride = 2 * (up ? *now - *was : *was - *now);
      for (std::size_t step = stride; step >= 1; step /= 2) {
        if (up ? *now + step >= lever.values.size() : *now < step) continue;
        const std::size_t to = up ? *now + step : *now - step;
        if (BeyondMemory(lever, trials, *now, to)) continue;
        if (Settled(s, trials, lever, lever.values[to])) continue;
        auto p = Move(s, vet, lever, to,
                      fmt::format("{} {} won by {:.1f}%: more of the same", lever.id, last.value,
                                  100 * last.gain));
        if (p) return p;
      }
    }
    return std::nullopt;
  }

  static std::optional<Proposal> Neighbour(const CampaignState& s, const Vet& vet,
                                           const std::vector<Trial>& trials,
                                           const DeclaredLever& lever) {
    if (!IsOffered(s.recipe, lever)) return std::nullopt;
    const std::optional<std::size_t> now = IndexIn(lever, s.leader.user);
    std::vector<std::size_t> order;
    if (!now) {  // unset in the recipe: every declared value in order
      for (std::size_t i = 0; i < lever.values.size(); ++i) order.push_back(i);
    } else {
      const bool ordered = lever.values.size() > 2 && IsOrdered(lever);
      for (std::size_t i = *now + 1; i < lever.values.size(); ++i) {
        order.push_back(i);
        if (ordered) break;  // a neighbour first; a win goes on from there
      }
      for (std::size_t i = *now; i-- > 0;) {
        order.push_back(i);
        if (ordered) break;
      }
    }
    for (const std::size_t to : order) {
      if (now && BeyondMemory(lever, trials, *now, to)) continue;
      if (Settled(s, trials, lever, lever.values[to])) continue;
      auto p =
          Move(s, vet, lever, to,
               fmt::format("{} is untried at {} from this leader{}", lever.id, lever.values[to],
                           lever.why.empty() ? std::string() : ": " + lever.why));
      if (p) return p;
    }
    return std::nullopt;
  }

  static bool IsOrdered(const DeclaredLever& lever) {
    return std::all_of(lever.values.begin(), lever.values.end(), [](const std::string& v) {
      return !v.empty() && v.find_first_not_of("0123456789.") == std::string::npos;
    });
  }

  // Several gains inside the band may add up to one outside it.
  static std::optional<Proposal> Stack(const CampaignState& s, const Vet& vet,
                                       const std::vector<Trial>& trials) {
    for (const ProposalRecord& p : s.proposals) {
      if (p.proposal && p.proposal->label == "stack") return std::nullopt;
    }
    std::map<std::string, Trial> best;
    for (const Trial& t : trials) {
      if (t.standing != Standing::kTie || t.gain <= 0) continue;
      auto [it, fresh] = best.emplace(t.lever, t);
      if (!fresh && t.gain > it->second.gain) it->second = t;
    }
    std::vector<Trial> minors;
    for (const auto& [lever, t] : best) minors.push_back(t);
    std::sort(minors.begin(), minors.end(),
              [](const Trial& a, const Trial& b) { return a.gain > b.gain; });
    Proposal p;
    p.label = "stack";
    Effective e = s.leader.user;
    double sum = 0;
    for (const Trial& t : minors) {
      if (p.change.enablers.size() + 1 >= kMaxStack && !p.change.lever.empty()) break;
      for (const DeclaredLever& lever : s.recipe.declared) {
        if (lever.id != t.lever || ValueIn(lever, e) == t.value) continue;
        const std::optional<Change> move = MoveTo(s.recipe, e, lever, t.value);
        if (!move || move->edits.size() != 1) continue;  // disjoint levers only
        if (p.change.lever.empty()) {
          p.change.lever = lever.id;
        } else {
          p.change.enablers.push_back(lever.id);
        }
        p.change.edits.push_back(move->edits.front());
        e = ApplyEdits(e, move->edits);
        p.evidence.push_back(t.run);
        sum += t.gain;
      }
    }
    if (p.change.enablers.empty()) return std::nullopt;
    if (Known(s).contains(CanonicalHash(e)) || !vet(p.change).admitted) return std::nullopt;
    p.hypothesis = fmt::format("{} gains inside the band add up to about {:.1f}%",
                               p.change.edits.size(), 100 * sum);
    p.bottleneck = Bottleneck(s);
    p.expected_gain = {0.0, sum};
    return p;
  }

  // What the gate says of a lever that was never launched: its first refusal, from this leader.
  static std::string WhyNot(const CampaignState& s, const Vet& vet, const DeclaredLever& lever) {
    for (const std::string& value : lever.values) {
      const std::optional<Change> change = MoveTo(s.recipe, s.leader.user, lever, value);
      if (!change || ApplyEdits(s.leader.user, change->edits) == s.leader.user) continue;
      const GateVerdict verdict = vet(*change);
      if (const Finding* why = verdict.FirstRefusal()) return why->rule + ": " + why->why;
    }
    return "nothing else to set it to";
  }

  static StopWish Stop(const CampaignState& s, const Vet& vet, const std::vector<Trial>& trials) {
    StopWish wish;
    wish.reason = fmt::format(
        "converged: {} launches, no declared lever is left that is untried from the leader",
        trials.size());
    if (trials.empty()) {
      // Nothing could be tried at all: say what stood in the way of the first lever.
      wish.reason += fmt::format(" ({}: {})", s.recipe.declared.front().id,
                                 WhyNot(s, vet, s.recipe.declared.front()));
    }
    std::map<std::string, std::string> per_class;
    for (const DeclaredLever& lever : s.recipe.declared) {
      const std::string cls(Word(lever.cls));
      std::string told = lever.id;
      const auto last = std::find_if(trials.rbegin(), trials.rend(),
                                     [&](const Trial& t) { return t.lever == lever.id; });
      if (last != trials.rend()) {
        told += fmt::format(" tried ({})", Word(last->standing));
      } else {
        told += IsOffered(s.recipe, lever) ? " not launched: " + WhyNot(s, vet, lever)
                                           : std::string(" not offered by the recipe");
      }
      std::string& entry = per_class[cls];
      if (!entry.empty()) entry += ", ";
      entry += told;
    }
    wish.per_class.assign(per_class.begin(), per_class.end());
    return wish;
  }
};

}  // namespace

std::unique_ptr<Proposer> MakeDeclaredRules() { return std::make_unique<DeclaredRules>(); }

}  // namespace attune
