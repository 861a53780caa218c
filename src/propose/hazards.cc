#include "hazards.h"

#include <algorithm>
#include <cmath>

#include "traits.h"

namespace attune::rules {
namespace {

constexpr double kNovel = 0.05;  // chance that a trait which no run had yet meets a defect
// The same of two traits that no run had together. Most known defects hang on two: a move of one
// lever makes a few such pairs, a joint move of four some forty.
constexpr double kNovelPair = 0.02;
constexpr double kReach = 0.5;  // likeness of a failure that counts against a job
constexpr double kRepeats = 0.8, kClearlySmaller = 0.85;
constexpr double kSameAgain = 0.97;    // where what is to blame is certainly there again
constexpr std::size_t kFamily = 3;     // suspects that make a job one of the same family
constexpr std::size_t kGrewAfter = 2;  // steps that a job made before it ran out of memory

}  // namespace

Hazards::Hazards(const History& history, const Correction& correction)
    : history_(history), correction_(correction) {
  for (const Measured& m : history.measured) {
    if (m.step_seconds) sound_.merge(TraitsAndPairsOf(m.job));
  }
  for (const Trial& t : history.trials) Blame(t);
}

void Hazards::Blame(const Trial& t) {
  if (!t.job || t.slow || (!t.failed && !t.wrong)) return;
  // What is out of memory at once was projected wrongly; what made steps first grew.
  if (t.out_of_memory && t.run->steps.size() < kGrewAfter) return;
  for (const bool pairs : {false, true}) {
    Suspects s{pairs ? TraitsAndPairsOf(*t.job) : TraitsOf(*t.job), pairs};
    std::erase_if(s.traits, [&](const std::string& trait) { return sound_.contains(trait); });
    if (s.traits.empty()) continue;
    suspects_.push_back(std::move(s));
    return;
  }
}

double Hazards::Repeat(const Trial& t, const TrainingJob& job, double peak_bytes) const {
  if (!t.job || t.slow || (!t.failed && !t.wrong)) return 0;
  const double alike = LayoutLikeness(*t.job, job);
  if (alike <= kReach) return 0;
  if (t.out_of_memory) {
    // What ran out although it was projected to fit did so for a reason that the formulas do not
    // know: only a clearly smaller neighbour is another matter.
    const auto then = ProjectQuickly(*t.job, correction_);
    if (then && peak_bytes < kClearlySmaller * then->peak_bytes) return 0;
  }
  return kRepeats * alike;
}

double Hazards::OfNovelPairs(const TrainingJob& job) const {
  const std::set<std::string> single = TraitsOf(job), all = TraitsAndPairsOf(job);
  const auto novel = std::count_if(all.begin(), all.end(), [&](const std::string& trait) {
    return !single.contains(trait) && !sound_.contains(trait);
  });
  return 1 - std::pow(1 - kNovelPair, static_cast<double>(novel));
}

double Hazards::Of(const TrainingJob& job, double peak_bytes) const {
  const std::set<std::string> own = TraitsOf(job);
  const auto fresh = std::count_if(
      own.begin(), own.end(), [&](const std::string& trait) { return !sound_.contains(trait); });
  double risk = 1 - std::pow(1 - kNovel, static_cast<double>(fresh));
  for (const Trial& t : history_.trials) risk = std::max(risk, Repeat(t, job, peak_bytes));
  if (suspects_.empty()) return risk;
  const std::set<std::string> traits = TraitsAndPairsOf(job);
  for (const Suspects& s : suspects_) {
    const auto shared = static_cast<std::size_t>(
        std::count_if(s.traits.begin(), s.traits.end(),
                      [&](const std::string& trait) { return traits.contains(trait); }));
    // A defect often hangs on two or three things at once: who has as many is not tried, although
    // each of them alone may be innocent.
    const bool family = !s.pairs && shared >= kFamily;
    const double blamed = static_cast<double>(shared) / static_cast<double>(s.traits.size());
    risk = std::max(risk, kSameAgain * (family ? 1 : blamed));
  }
  return risk;
}

}  // namespace attune::rules
