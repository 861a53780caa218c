#include "attune/gates/loss_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "attune/gates/step0_check.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

using References = std::map<std::string, Calibration::Reference>;

Finding Refusal(std::string rule, std::string key, std::string why) {
  return {.severity = Severity::kRefuse,
          .rule = "loss." + std::move(rule),
          .key = std::move(key),
          .was = {},
          .now = {},
          .why = std::move(why)};
}

std::string MainLossOf(const References& references) {
  std::map<std::string, double> losses;
  for (const auto& [name, reference] : references) {
    losses.emplace(name, reference.mean);
  }
  return MainLoss(losses);
}

void CheckTerm(const Step& step, const std::string& name, double baseline, double limit,
               std::vector<Finding>& findings) {
  const auto found = step.losses.find(name);
  if (found == step.losses.end() || !std::isfinite(found->second)) {
    findings.push_back(
        Refusal("term_missing", name,
                fmt::format("iteration {} does not log {} as a number", step.iteration, name)));
    return;
  }
  if (baseline == 0) {
    if (found->second != 0) {
      findings.push_back(Refusal("term_shift", name,
                                 fmt::format("{} is {:.6g} at iteration {}, the baseline's is 0",
                                             name, found->second, step.iteration)));
    }
    return;
  }
  if (found->second == 0) {
    findings.push_back(Refusal("term_zero", name,
                               fmt::format("{} is 0 at iteration {}, the baseline's is {:.6g}",
                                           name, step.iteration, baseline)));
    return;
  }
  if (ShiftExceeds(found->second, baseline, limit)) {
    findings.push_back(
        Refusal("term_shift", name,
                fmt::format("{} is off by {:+.2f}% at iteration {}, at most {:.0f}% passes", name,
                            100 * (found->second / baseline - 1), step.iteration, 100 * limit)));
  }
}

}  // namespace

GateVerdict CheckLossTerms(std::span<const Step> steps, const Calibration& calibration,
                           bool same_composition, const Thresholds& limits) {
  const auto wanted =
      std::min(static_cast<std::size_t>(limits.term_steps), calibration.losses.size());
  std::vector<Finding> findings;
  if (calibration.losses.empty() || calibration.losses.front().empty() || steps.size() < wanted) {
    findings.push_back(Refusal("too_few_steps", "",
                               fmt::format("the loss terms of {} steps are needed, {} are there",
                                           static_cast<int>(limits.term_steps), steps.size())));
    return VerdictOf(std::move(findings));
  }
  const double limit = same_composition ? limits.term_shift_same : limits.term_shift;
  for (std::size_t n = 0; n < wanted; ++n) {
    for (const auto& [name, reference] : calibration.losses[n]) {
      CheckTerm(steps[n], name, reference.mean, limit, findings);
    }
  }
  return VerdictOf(std::move(findings));
}

GateVerdict CheckTrajectory(std::span<const Step> steps, const Calibration& calibration,
                            int steps_needed, const Thresholds& limits) {
  std::vector<Finding> findings;
  const std::size_t shared = std::min(steps.size(), calibration.losses.size());
  const std::string name =
      calibration.losses.empty() ? std::string() : MainLossOf(calibration.losses.front());
  if (name.empty() || static_cast<int>(shared) < steps_needed || shared == 0) {
    findings.push_back(
        Refusal("too_few_steps", name,
                fmt::format("{} steps with a loss are needed, run and calibration share {}",
                            steps_needed, name.empty() ? 0 : shared)));
    return VerdictOf(std::move(findings));
  }
  double d0 = 0;
  for (std::size_t n = 0; n < shared; ++n) {
    const auto baseline = calibration.losses[n].find(name);
    const auto found = steps[n].losses.find(name);
    if (found == steps[n].losses.end() || steps[n].nan) {
      findings.push_back(Refusal("missing", name,
                                 fmt::format("iteration {} logs no {}", steps[n].iteration, name)));
      break;
    }
    if (!std::isfinite(found->second)) {
      findings.push_back(
          Refusal("not_finite", name,
                  fmt::format("{} is not finite at iteration {}", name, steps[n].iteration)));
      break;
    }
    if (baseline == calibration.losses[n].end() || baseline->second.mean == 0) {
      findings.push_back(
          Refusal("missing", name,
                  fmt::format("the baseline has no {} at iteration {}", name, steps[n].iteration)));
      break;
    }
    const double d = found->second / baseline->second.mean - 1;
    d0 = n == 0 ? d : d0;
    const double limit =
        std::max(limits.trajectory_floor, limits.trajectory_factor * baseline->second.e_sd);
    if (std::abs(d - d0) > limit * (1 + 1e-9)) {
      findings.push_back(Refusal(
          "trajectory", name,
          fmt::format("{} has moved by {:+.2f}% against the baseline's since step 0 at iteration "
                      "{}, at most {:.2f}% passes",
                      name, 100 * (d - d0), steps[n].iteration, 100 * limit)));
      break;
    }
  }
  return VerdictOf(std::move(findings));
}

GateVerdict CheckLosses(std::span<const Step> steps, const Calibration& calibration,
                        bool same_composition, LossLevel level, const Thresholds& limits) {
  std::vector<Finding> findings =
      CheckLossTerms(steps, calibration, same_composition, limits).findings;
  const GateVerdict path =
      CheckTrajectory(steps, calibration, static_cast<int>(limits.level2_steps), limits);
  findings.insert(findings.end(), path.findings.begin(), path.findings.end());
  if (level == LossLevel::kFinal && steps.size() < calibration.losses.size()) {
    findings.push_back(
        {.severity = Severity::kNote,
         .rule = "loss.fewer_steps",
         .key = {},
         .was = std::to_string(calibration.losses.size()),
         .now = std::to_string(steps.size()),
         .why = fmt::format("judged over {} of the {} steps that the calibration has", steps.size(),
                            calibration.losses.size())});
  }
  return VerdictOf(std::move(findings));
}

}  // namespace attune
