// Terms and factors to seconds.
#pragma once

#include "attune/estimate/estimate.h"
#include "terms.h"

namespace attune::estimate {

double StepSeconds(const StepTerms& t, const Factors& f);
// The same with its parts; slower.
StepParts PartsOf(const StepTerms& t, const Factors& f);

}  // namespace attune::estimate
