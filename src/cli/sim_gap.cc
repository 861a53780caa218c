#include "sim_gap.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "attune/base/random.h"
#include "attune/estimate/estimate.h"
#include "sim_scan.h"

namespace attune::cli {
namespace {

constexpr int kPairs = 200'000;
constexpr std::int64_t kEvery = 7;  // of the layouts that resolve, one in so many is asked about
constexpr double kDiffers = 0.05;
constexpr double kNearLow = 0.85, kNearHigh = 1.15;

double Quantile(std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[at];
}

}  // namespace

Result<Gap> MeasureGap(const Recipe& recipe, const sim::Cluster& cluster) {
  Gap gap;
  struct Steps {
    double estimated, actual;
  };
  std::vector<Steps> steps;
  std::vector<double> errors;
  std::int64_t wrong_fit = 0;
  const Legality legality(recipe);
  std::int64_t seen = 0;
  VisitLayouts(recipe, [&](const Effective& e, const TrainingJob& job) {
    if (seen++ % kEvery != 0 || !legality.Check(e)) return;
    ++gap.legal;
    const std::optional<Estimate> estimate = Project(job);
    if (!estimate) return;
    const sim::Oracle truth = cluster.AskJob(job);
    const bool fits = truth.needed_bytes <= truth.limit_bytes;
    if (truth.limit_bytes > 0) {
      const double share = truth.needed_bytes / truth.limit_bytes;
      if (share >= kNearLow && share <= kNearHigh) {
        ++gap.near_limit;
        if ((estimate->MemoryShare() <= 1) != fits) ++wrong_fit;
      }
    }
    if (!fits || truth.step_seconds <= 0) return;
    steps.push_back({estimate->step_seconds, truth.step_seconds});
    errors.push_back(std::abs(estimate->step_seconds / truth.step_seconds - 1));
  });
  gap.compared = static_cast<std::int64_t>(steps.size());
  if (steps.size() < 2) {
    return Fail(ErrorCode::kInvalidInput, "too few legal configurations train in this world");
  }
  std::sort(errors.begin(), errors.end());
  gap.median = Quantile(errors, 0.5);
  gap.p90 = Quantile(errors, 0.9);
  Random random(1);
  std::int64_t wrong = 0;
  for (int i = 0; i < kPairs; ++i) {
    const Steps& a = steps[random.Below(steps.size())];
    const Steps& b = steps[random.Below(steps.size())];
    const double differs = a.actual / b.actual;
    if (std::max(differs, 1 / differs) <= 1 + kDiffers) continue;
    ++gap.pairs;
    if ((a.estimated < b.estimated) != (a.actual < b.actual)) ++wrong;
  }
  if (gap.pairs > 0) {
    gap.wrong_sign = static_cast<double>(wrong) / static_cast<double>(gap.pairs);
  }
  if (gap.near_limit > 0) {
    gap.wrong_fit = static_cast<double>(wrong_fit) / static_cast<double>(gap.near_limit);
  }
  return gap;
}

}  // namespace attune::cli
