// The rules proposer for Megatron-LM: a search by model. Moves of one lever from the leader, with
// enablers where a move alone is illegal or does not fit, and joint moves of several are laid out
// (space.h); each is projected by the estimate that this campaign's runs correct, with its
// uncertainty; the move with the largest expected improvement is proposed, if it is worth a launch.
// The bar rises with what the search has spent: money that a search spends is part of its result.
// What the estimate does not cover is expected to bring what the catalog says, and is tried in one
// stack. A campaign thus begins with the moves that the formulas like, and turns where they prove
// wrong, because each run moves the factors and the neighbourhood it was made in. Everything is
// computed from the record: asked again, it proposes the same.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hazards.h"
#include "history.h"
#include "rules.h"
#include "space.h"

namespace attune {
namespace {

using namespace rules;

constexpr double kTightest = 0.04;     // chance of running out of memory that a launch may have
constexpr std::size_t kLookedAt = 64;  // best by mean that are projected with uncertainty
constexpr std::size_t kPerLever = 3;   // of each lever, whatever the others promise
constexpr double kAnswers = 1.15, kNoAnswer = 0.9;  // weight of levers that (don't) answer
// Expected relative gain below which no launch is made, over the square of what the search has
// spent in launches of the baseline: the first few are cheap beside what may be found, many are
// not.
constexpr double kTiring = 0.0028;
constexpr double kChanceOfWin = 0.20;
constexpr double kNear = 2.8;        // times sigma: where a fresh pair decides, about
constexpr double kPairLaunches = 2;  // what it costs
constexpr int kNullPatience = 5;     // launches without any win
constexpr int kStillLaunches = 2;    // of NothingMoves
constexpr double kApart = 0.6;       // of two of them that are no more alike than this
constexpr double kShouldMove = 0.08, kStill = 0.015;
constexpr std::size_t kStackParts = 4;  // one primary and three enablers
constexpr double kMinorLeast = 0.002;
// control_plane.md section 4: what a shipped recipe may use of the memory.
constexpr double kHeadroom = 0.95, kHeadroomExperts = 0.92;
constexpr double kUnshippable = 0.8;  // of the worth that is lost when it can't ship
// Power of the chance that a launch ends well: what is left out for its risk is not lost, it can be
// tried later from a better leader, and a failure costs more than the launch.
constexpr double kCaution = 1.5;

double NormalDensity(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI); }
double NormalMass(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }
// Of a gain that counts only above `least`: what lies below it ties, and nothing is shipped.
double ExpectedImprovement(double mean, double sd, double least) {
  const double z = (mean - least) / sd;
  return mean * NormalMass(z) + sd * NormalDensity(z);
}

struct Ranked {
  Candidate candidate;
  Estimate estimate;
  double mean = 0, sd = 0;  // of the log gain over the leader
  double worth = 0;         // expected improvement, weighed by risk and diagnosis
  double order = 0;         // the same with what may go wrong among things never seen together
  double chance = 0;        // of a gain above the band
};

class Search {
 public:
  Search(const CampaignState& s, const Vet& vet, const Catalog& catalog)
      : s_(s), vet_(vet), catalog_(catalog), history_(HistoryOf(s)) {
    for (const ProposalRecord& p : s.proposals) {
      if (!p.hash.empty()) known_.insert(p.hash);
    }
    known_.insert(CanonicalHash(s.recipe.base));
    known_.insert(CanonicalHash(s.leader.user));
  }

  ProposerReply Run() {
    auto resolved = ResolveMegatron(s_.leader.user.args, s_.leader.user.env, s_.recipe.workload);
    if (const auto* why = std::get_if<Finding>(&resolved)) {
      return StopWish{"the leader's arguments can't be resolved: " + why->why, {}};
    }
    leader_ = std::get<TrainingJob>(std::move(resolved));
    correction_ = Fit(history_.measured);
    hazards_.emplace(history_, correction_);
    const std::optional<Estimate> now = Project(leader_, correction_);
    if (!now) {
      return StopWish{
          fmt::format("GPU '{}' is not in the table, so nothing can be projected", leader_.gpu),
          {}};
    }
    leader_seconds_ = now->step_seconds;
    if (s_.leader.mean > 0) {
      leader_seconds_ = static_cast<double>(leader_.batch.gbs * leader_.batch.seq_len) /
                        leader_.world / s_.leader.mean;
    }
    const Space space(s_.recipe, s_.leader.user, leader_, catalog_);
    std::vector<Ranked> ranked = Rank(space);
    const bool spent = NothingMoves() || (!history_.any_win && history_.since_win >= kNullPatience);
    for (const Ranked& r : ranked) {
      if (spent) break;
      if (!Worthwhile(r)) continue;
      if (auto proposal = Propose(space, r)) return *proposal;
    }
    return Stop(ranked, spent);
  }

 private:
  std::vector<Ranked> Rank(const Space& space) {
    const auto judge = [&](const TrainingJob& job) -> Space::Projected {
      const auto e = ProjectQuickly(job, correction_);
      if (!e) return {1e9, 9};
      return {e->step_seconds, e->peak_bytes / e->device_bytes};
    };
    const auto admits = [&](const Candidate& c) { return vet_(space.ChangeOf(c)).admitted; };
    std::vector<Candidate> all = space.Candidates(judge, admits);
    std::stable_sort(all.begin(), all.end(),
                     [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    std::vector<Ranked> ranked;
    std::map<const CatalogLever*, std::size_t> taken;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t& of_lever = taken[all[i].parts.front().lever];
      if (i >= kLookedAt && of_lever >= kPerLever) continue;
      ++of_lever;
      Weigh(std::move(all[i]), 0, 0, ranked);
    }
    for (const Part& part : space.ListedMoves()) {
      if (part.lever->modelled) continue;
      if (auto c = space.Stack({part})) {
        Weigh(std::move(*c), Expected(part).mean, Expected(part).sd, ranked);
      }
    }
    AddStack(space, ranked);
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const Ranked& a, const Ranked& b) { return a.order > b.order; });
    return ranked;
  }

  // What the catalog expects of a move that no formula covers.
  ExpectedGain Expected(const Part& part) const {
    ExpectedGain gain = part.lever->gain;
    if (!Answers(*part.lever)) gain.mean *= 0.5;
    return gain;
  }

  bool Answers(const CatalogLever& lever) const {
    return std::any_of(lever.helps.begin(), lever.helps.end(),
                       [&](const std::string& cls) { return history_.named.contains(cls); });
  }

  void Weigh(Candidate candidate, double mean, double sd, std::vector<Ranked>& out) const {
    std::optional<Estimate> e = Project(candidate.job, correction_);
    if (!e) return;
    Ranked r;
    const bool covered = candidate.Primary().modelled || candidate.stack;
    r.mean = mean + (covered ? std::log(leader_seconds_ / e->step_seconds) : 0);
    r.sd = std::sqrt(sd * sd + (covered ? e->step_sd * e->step_sd : 0));
    const double oom = e->OutOfMemoryChance();
    const double least = std::log1p(Band());
    r.chance = NormalMass((r.mean - least) / r.sd) * (1 - oom);
    const double ends_well = (1 - oom) * (1 - hazards_->Of(candidate.job, e->peak_bytes));
    const double together = 1 - hazards_->OfNovelPairs(candidate.job);
    double weight = std::pow(ends_well, kCaution) * (1 - kUnshippable * AboveHeadroom(*e));
    if (!history_.named.empty()) weight *= Answers(candidate.Primary()) ? kAnswers : kNoAnswer;
    // A win near the band is measured again beside the leader, by the control plane.
    const double near = kNear * (s_.calibration ? s_.calibration->sigma : 0.01);
    const double again =
        NormalMass((r.mean - least) / r.sd) - NormalMass((r.mean - least - near) / r.sd);
    const auto worth = [&](double weight_of_gain) {
      if (oom > kTightest) return -1.0;
      return ExpectedImprovement(r.mean, r.sd, least) * weight_of_gain -
             again * kPairLaunches * Bar();
    };
    r.worth = worth(weight);
    r.order = worth(weight * std::pow(together, kCaution));
    r.candidate = std::move(candidate);
    r.estimate = *e;
    out.push_back(std::move(r));
  }

  // Chance that its peak is above what the ship gate lets a recipe use.
  double AboveHeadroom(const Estimate& e) const {
    double limit = s_.recipe.gate.memory_headroom;
    if (limit <= 0) limit = leader_.shape.experts > 0 ? kHeadroomExperts : kHeadroom;
    return NormalMass(std::log(e.MemoryShare() / limit) / e.peak_sd);
  }

  // Levers that are expected inside the band, together.
  void AddStack(const Space& space, std::vector<Ranked>& ranked) const {
    struct Minor {
      Part part;
      double mean = 0, sd = 0;
    };
    std::map<const CatalogLever*, Minor> best;
    const std::optional<Estimate> here = Project(leader_, correction_);
    for (const Part& part : space.ListedMoves()) {
      if (!part.lever->minor) continue;
      const auto alone = space.Stack({part});
      if (!alone) continue;
      Minor m{part, 0, 0};
      if (part.lever->modelled) {
        const auto e = ProjectQuickly(alone->job, correction_);
        if (!e || !here || e->peak_bytes > 0.95 * e->device_bytes) continue;
        m.mean = std::log(here->step_seconds / e->step_seconds);
      }
      const ExpectedGain gain = Expected(part);
      if (!part.lever->modelled || m.mean == 0) {
        m.mean += gain.mean;
        m.sd = gain.sd;
      }
      if (m.mean < kMinorLeast || Tried(part)) continue;
      const auto it = best.find(part.lever);
      if (it == best.end() || m.mean > it->second.mean) best[part.lever] = m;
    }
    std::vector<Minor> minors;
    for (const CatalogLever& lever : catalog_.levers) {  // in catalog order, not by address
      if (const auto it = best.find(&lever); it != best.end()) minors.push_back(it->second);
    }
    std::stable_sort(minors.begin(), minors.end(),
                     [](const Minor& a, const Minor& b) { return a.mean > b.mean; });
    std::vector<Part> parts;
    double mean = 0, variance = 0, modelled = 0;
    for (const Minor& m : minors) {
      if (parts.size() == kStackParts) break;
      std::vector<Part> more = parts;
      more.push_back(m.part);
      if (!space.Stack(more) || !vet_(space.ChangeOf(*space.Stack({m.part}))).admitted) continue;
      parts = std::move(more);
      if (m.part.lever->modelled && m.sd == 0) modelled += m.mean;
      if (!m.part.lever->modelled || m.sd > 0) {
        mean += m.mean;
        variance += m.sd * m.sd;
      }
    }
    // A stack inside the band would be measured again in a fresh pair, at several launches' price.
    if (parts.size() < 2 || mean + modelled < Band()) return;
    Weigh(*space.Stack(parts), mean, std::sqrt(variance), ranked);
  }

  // Launched before, alone or in a stack.
  bool Tried(const Part& part) const {
    return std::any_of(history_.trials.begin(), history_.trials.end(), [&](const Trial& t) {
      const Change& change = t.proposal->proposal->change;
      return std::all_of(part.move->edits.begin(), part.move->edits.end(), [&](const Edit& e) {
        return e.op == Edit::Op::kUnset ||
               std::find(change.edits.begin(), change.edits.end(), e) != change.edits.end();
      });
    });
  }

  double Band() const { return s_.calibration ? s_.calibration->band : 0.03; }

  // By the search so far, in launches of the baseline: pairs and hangs cost more than one.
  double Spent() const {
    if (!s_.calibration || s_.calibration->launch_cost.value <= 0) {
      return static_cast<double>(history_.trials.size());
    }
    return static_cast<double>(s_.ledger.search.value) /
           static_cast<double>(s_.calibration->launch_cost.value);
  }

  // Expected gain below which no launch is made.
  double Bar() const { return kTiring * Spent() * Spent(); }

  bool Worthwhile(const Ranked& r) const { return r.worth >= Bar() && r.chance >= kChanceOfWin; }

  // Launches of unlike layouts that should have moved the step time and did not: something that no
  // lever touches bounds it, such as the input pipeline. Like ones say that the estimate is wrong.
  bool NothingMoves() const {
    std::vector<const TrainingJob*> still;
    for (const Trial& t : history_.trials) {
      if (t.won) return false;
      if (!t.proposal->proposal->expected_gain || !t.seconds) continue;
      const auto [low, high] = *t.proposal->proposal->expected_gain;
      const bool moved = std::abs(leader_seconds_ / *t.seconds - 1) > kStill;
      if ((low + high) / 2 <= kShouldMove || moved || !t.job) continue;
      const bool apart = std::all_of(still.begin(), still.end(), [&](const TrainingJob* job) {
        return LayoutLikeness(*job, *t.job) <= kApart;
      });
      if (apart) still.push_back(&*t.job);
    }
    return std::ssize(still) >= kStillLaunches;
  }

  std::optional<Proposal> Propose(const Space& space, const Ranked& r) const {
    Proposal p;
    p.change = space.ChangeOf(r.candidate);
    if (p.change.edits.empty()) return std::nullopt;
    const Effective candidate = ApplyEdits(s_.leader.user, p.change.edits);
    if (known_.contains(CanonicalHash(candidate)) || !vet_(p.change).admitted) return std::nullopt;
    p.label = space.LabelOf(r.candidate);
    p.hypothesis = Hypothesis(space, r);
    p.bottleneck = history_.top_class;
    if (!s_.leader.run.empty()) {
      p.evidence.push_back(s_.leader.run);
    } else if (s_.calibration && !s_.calibration->runs.empty()) {
      p.evidence.push_back(s_.calibration->runs.front());
    }
    p.expected_gain = {std::expm1(r.mean - r.sd), std::expm1(r.mean + r.sd)};
    p.expected_peak_gb = r.estimate.peak_bytes / 1e9;
    if (r.estimate.MemoryShare() >= 0.92) {
      p.fits_because = fmt::format(
          "projected {:.1f} of {:.0f} GB with a standard deviation of {:.1f} % after {} runs",
          r.estimate.peak_bytes / 1e9, r.estimate.device_bytes / 1e9, 100 * r.estimate.peak_sd,
          correction_.runs);
    }
    return p;
  }

  std::string Hypothesis(const Space& space, const Ranked& r) const {
    const StepParts& p = r.estimate.parts;
    std::string text =
        fmt::format("{}: projected {:.2f} s a step against {:.2f}", space.Describe(r.candidate),
                    r.estimate.step_seconds, leader_seconds_);
    const std::pair<const char*, double> shares[] = {
        {"compute", p.compute},    {"recomputation", p.recompute}, {"host", p.host},
        {"TP traffic", p.tp},      {"expert traffic", p.ep},       {"CP traffic", p.cp},
        {"stage messages", p.pp},  {"replica traffic", p.dp},      {"bubble", p.bubble},
        {"optimizer", p.optimizer}};
    const auto most =
        std::max_element(std::begin(shares), std::end(shares),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    text += fmt::format(", {:.0f} % of it {}", 100 * most->second / r.estimate.step_seconds,
                        most->first);
    if (r.candidate.joint) {
      text += "; together, because each makes the projection faster or lets it fit";
    } else if (r.candidate.parts.size() > 1 && !r.candidate.stack) {
      text += "; enablers because alone it is illegal or is projected not to fit";
    }
    return text;
  }

  StopWish Stop(const std::vector<Ranked>& ranked, bool spent) const {
    StopWish wish;
    const std::size_t launches = history_.trials.size();
    if (spent) {
      wish.reason = fmt::format("converged: {} launches and none beat the baseline", launches);
    } else if (ranked.empty()) {
      wish.reason = "nothing legal is left to try";
    } else {
      const Ranked& best =
          *std::max_element(ranked.begin(), ranked.end(),
                            [](const Ranked& a, const Ranked& b) { return a.worth < b.worth; });
      wish.reason = fmt::format(
          "converged: {} launches; the best move left ({}) is expected to gain {:.1f} %, with a "
          "chance of {:.0f} % to pass the band",
          launches, best.candidate.Primary().lever, 100 * std::max(0.0, best.worth),
          100 * best.chance);
    }
    std::set<std::string> classes = history_.named;
    if (classes.empty()) classes = {"exposed_communication", "launch_bound", "memory_tight"};
    for (const std::string& cls : classes) wish.per_class.emplace_back(cls, Answer(cls, ranked));
    return wish;
  }

  // For one bottleneck class: what was tried, else why nothing.
  std::string Answer(const std::string& cls, const std::vector<Ranked>& ranked) const {
    std::string tried, untried;
    for (const CatalogLever* lever : catalog_.Answering(cls)) {
      const Trial* last = nullptr;
      for (const Trial& t : history_.trials) {
        const Change& change = t.proposal->proposal->change;
        const bool enabler = std::find(change.enablers.begin(), change.enablers.end(),
                                       lever->lever) != change.enablers.end();
        if (change.lever == lever->lever || enabler) last = &t;
      }
      if (last != nullptr) {
        tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", lever->lever,
                             Word(last->run->judged->standing));
        continue;
      }
      const auto best = std::find_if(ranked.begin(), ranked.end(), [&](const Ranked& r) {
        return &r.candidate.Primary() == lever;
      });
      if (best != ranked.end() && untried.size() < 200) {
        untried += fmt::format("{}{} ({:+.1f} % projected)", untried.empty() ? "" : ", ",
                               lever->lever, 100 * std::expm1(best->mean));
      }
    }
    if (!tried.empty()) return "tried: " + tried;
    if (!untried.empty()) return "not worth a launch: " + untried;
    return "no lever of the catalog applies here";
  }

  const CampaignState& s_;
  const Vet& vet_;
  const Catalog& catalog_;
  History history_;
  std::set<std::string> known_;
  TrainingJob leader_;
  Correction correction_;
  std::optional<Hazards> hazards_;
  double leader_seconds_ = 0;
};

class MegatronRules final : public Proposer {
 public:
  explicit MegatronRules(Catalog catalog) : catalog_(std::move(catalog)) {}
  std::string Name() const override { return "rules"; }
  Result<ProposerReply> Propose(const CampaignState& s, const Vet& vet) override {
    return Search(s, vet, catalog_).Run();
  }

 private:
  Catalog catalog_;
};

}  // namespace

std::unique_ptr<Proposer> MakeMegatronRules(Catalog catalog) {
  return std::make_unique<MegatronRules>(std::move(catalog));
}

}  // namespace attune
