// The sizes that a layout lever may set, together with those that may follow it.
#pragma once

#include <vector>

#include "attune/model/training_job.h"
#include "attune/skill/skill.h"
#include "space.h"

namespace attune::rules {

// Every move of the lever from `job` whose sizes divide at the job's other sizes. What divides only
// with another lever's move is left out: layouts are many.
std::vector<Sizes> MovesOf(const CatalogLever& lever, const TrainingJob& job);

}  // namespace attune::rules
