// What sets a job apart when a launch of it goes wrong: properties that a defect of a stack may hang
// on.
#pragma once

#include <set>
#include <string>

#include "attune/model/training_job.h"

namespace attune::rules {

std::set<std::string> TraitsOf(const TrainingJob& job);
// These, and each two of them together.
std::set<std::string> TraitsAndPairsOf(const TrainingJob& job);

}  // namespace attune::rules
