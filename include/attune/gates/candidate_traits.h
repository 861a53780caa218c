// What the run-time checks need to know about how two configurations differ.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "attune/gates/readback_check.h"
#include "attune/gates/rules.h"
#include "attune/model/recipe.h"

namespace attune {

// Class of every lever in which the two differ, each once; kUnknown for what no row explains.
std::vector<LeverClass> ClassesOfDifference(const Recipe& recipe, const Rules& rules,
                                            const Effective& from, const Effective& to);

// The same rows meet in the same micro-batches: neither micro-batch nor data-parallel size differs.
// Custom: no declared batching lever and no declared placement flag differs. False when unsure.
bool SameComposition(const Recipe& recipe, const Effective& from, const Effective& to);

bool HasExperts(const Recipe& recipe, const Effective& e);
// Dropless experts, or rows of different length: memory moves from step to step.
bool DroplessOrVariable(const Recipe& recipe, const Effective& e);
// CUDA graphs, EP overlap or param-gather overlap: they rehearse longer (control_plane.md 4.2d).
bool GraphsOrOverlaps(const Recipe& recipe, const Effective& e);

// Destinations of the printed argument block that are not their flag's own name.
std::map<std::string, BlockDestination> BlockDestinationsOf(const Rules& rules);

}  // namespace attune
