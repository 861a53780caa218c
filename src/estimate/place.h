// Where a job stands among others: coordinates such that near jobs miss the formulas alike.
#pragma once

#include <vector>

#include "attune/model/training_job.h"

namespace attune::estimate {

std::vector<double> PlaceOf(const TrainingJob& job);
// exp(-distance^2 / 2): 1 at the same place.
double Likeness(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace attune::estimate
