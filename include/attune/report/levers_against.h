// What acts on a named bottleneck: the catalog's levers for a framework that has one, the declared
// ones of a custom recipe. What the recipe's owner closed is left out.
#pragma once

#include <string>
#include <vector>

#include "attune/model/diagnosis.h"
#include "attune/model/recipe.h"
#include "attune/skill/skill.h"

namespace attune {

struct BottleneckLevers {
  std::string bottleneck;
  std::vector<std::string> classes;  // "overlap", the likeliest first
  // Ids. Of the catalog: those that it names for this bottleneck before others first. Declared: in
  // the order of the classes.
  std::vector<std::string> levers;
};

// One row for each named bottleneck that something is known against.
std::vector<BottleneckLevers> LeversAgainst(const Diagnosis& diagnosis, const Recipe& recipe,
                                            const Catalog& catalog);

// "dp_overlap, p2p_overlap and 9 more".
std::string ShowLevers(const std::vector<std::string>& levers);

}  // namespace attune
