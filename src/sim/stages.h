// Which layers, embedding and head stand on which pipeline stage.
#pragma once

#include <array>
#include <vector>

#include "physics.h"

namespace attune::sim {

// Fills layers, embedding, head and mtp of `stages` (resized to PP). First and last counts, counted
// embedding and loss, layout strings; what does not divide is spread, earlier stages first, with
// embedding and loss counted as a layer each.
void SplitStages(const TrainingJob& job, std::vector<StageModel>& stages);

}  // namespace attune::sim
