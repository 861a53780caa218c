// Worlds in which the recipe's own configuration trains. A drawn world knows no recipe; a recipe
// that somebody asks to be tuned runs on their cluster, so of all worlds that a seed could mean
// only those matter in which it does.
#pragma once

#include "truth.h"

namespace attune::sim {

// Leaves out of the site what stops or corrupts `baseline`: defects that it meets, then the largest
// pieces of memory that it meets, then the wave of its activations; at last the device is as large
// as it needs.
void KeepBaseline(Site& site, const TrainingJob& baseline);
// The factors are 1 at `baseline`, and couplings that it meets are left out.
void PinAt(Site& site, const TrainingJob& baseline);

}  // namespace attune::sim
