// How likely a launch of a job fails, or trains something else, for a reason that no formula and no
// rule knows: judged by what the campaign's own launches did.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "history.h"

namespace attune::rules {

class Hazards {
 public:
  // Both must outlive it.
  Hazards(const History& history, const Correction& correction);

  // Chance, 0 to 1, for a job that is projected to peak at so many bytes.
  double Of(const TrainingJob& job, double peak_bytes) const;
  // Chance beside it that two things which no sound run had together do not go together. Which of
  // two moves is tried first is judged with it, whether one is worth a launch at all without: the
  // only way to learn of a pair is to launch it.
  double OfNovelPairs(const TrainingJob& job) const;

 private:
  // Of one launch that hung, crashed, grew out of memory or trained something else: what it had and
  // no sound run has. One of these is to blame, as far as anyone knows.
  struct Suspects {
    std::set<std::string> traits;
    bool pairs = false;  // each trait alone was sound: two of them together
  };
  void Blame(const Trial& trial);
  double Repeat(const Trial& trial, const TrainingJob& job, double peak_bytes) const;

  const History& history_;
  const Correction& correction_;
  std::set<std::string> sound_;  // traits, and pairs of them, of runs that trained
  std::vector<Suspects> suspects_;
};

}  // namespace attune::rules
