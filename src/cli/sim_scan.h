// The space of a recipe's legal configurations, for the simulated cluster's own comparisons: what
// is the best in a world, how far off is an estimate. No proposer sees any of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/recipe.h"
#include "attune/model/training_job.h"
#include "attune/sim/cluster.h"

namespace attune::cli {

// Legal as the configuration gate reads a whole recipe: nothing refused, and no defect of level
// refuse that the baseline does not meet itself.
class Legality {
 public:
  explicit Legality(const Recipe& recipe);
  bool Check(const Effective& config) const;

 private:
  Recipe recipe_;                 // base is replaced by what is asked
  std::vector<std::string> met_;  // refusing defects of the baseline
};

// Every layout of at least the paper's Table E1, by recomputation, micro-batch, dispatcher and
// overlaps: `visit` is called with each one that resolves, once. Whether it is legal is the
// visitor's question: asking costs ten times what resolving does. Gives the number of all that were
// looked at.
std::int64_t VisitLayouts(const Recipe& recipe,
                          const std::function<void(const Effective&, const TrainingJob&)>& visit);

struct Scan {
  // Of the layouts: all, those that resolve, of these those that train as the baseline does. Legal
  // among those that could be among the best.
  std::int64_t looked_at = 0, resolve = 0, train = 0, checked = 0, legal = 0;
  std::int64_t ascents = 0;  // configurations of the ascent
  // The best that leaves the head-room without which nothing is shipped, and the best of all.
  Effective best;
  sim::Oracle oracle;  // of it
  double best_of_all = 0;  // tokens/s/GPU
  sim::Oracle baseline;
};
// The best that does not fail, trains the same and may be shipped (ship.headroom): all layouts, then
// coordinate ascent over the other levers from the best 200. The best of all is looked for among
// the layouts alone.
Result<Scan> ScanSpace(const Recipe& recipe, const sim::Cluster& cluster);

}  // namespace attune::cli
