// Cases for the limits of the run-time gates: text files tests/cases/gates/run_*.case, run against
// any Thresholds, so that a changed limit can be seen to break one of them.
//
// A file is blocks of `key value` lines with blank lines between; `#` starts a comment line.
//   case NAME      what the case claims
//   check KIND     one of the kinds in threshold_cases.cc; the other keys are its input
//   expect ANSWER
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/gates/thresholds.h"

namespace attune {

// One line a failed case ("name: expected tie, got win"); also for a case that can't be read, or a
// key that its kind does not know. Empty when all pass; a text without cases fails.
std::vector<std::string> RunThresholdCases(const Thresholds& limits, std::string_view text);

struct ThresholdMutant {
  std::string name;  // "step0_shift up"
  Thresholds limits;
};
// Every field moved a little up and a little down: counts by one, shares by a fifth or a quarter
// of their distance to 0 or 1.
std::vector<ThresholdMutant> ThresholdMutants();

}  // namespace attune
