#include "attune/gates/step0_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "attune/base/check.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

double AlarmValue(LeverClass cls, bool experts, const Thresholds& limits) {
  if (experts) {
    return limits.alarm_batching;
  }
  switch (cls) {
    case LeverClass::kPlacement:
    case LeverClass::kOverlap:
    case LeverClass::kEnv:
      return limits.alarm_placement;
    case LeverClass::kMemory:
    case LeverClass::kKernel:
      return limits.alarm_memory;
    case LeverClass::kBatching:
      return limits.alarm_batching;
    case LeverClass::kIoLogging:
    case LeverClass::kUnsafe:
    case LeverClass::kObjective:
    case LeverClass::kUnknown:
      return 0;  // refused before launch; should one arrive here, any shift is an alarm
  }
  ATTUNE_CHECK(false, "a class without an alarm value");
}

// Several levers shift the loss by no more than the one that may shift it most.
double AlarmLimit(const Step0Input& input, double spread, const Thresholds& limits) {
  double limit = 0;
  for (const LeverClass cls : input.classes) {
    limit = std::max(limit, AlarmValue(cls, input.experts, limits));
  }
  return std::max(limit, limits.alarm_spread_factor * spread);
}

Finding Refusal(std::string key, std::string why, std::string was, std::string now) {
  return {.severity = Severity::kRefuse,
          .rule = "step0.loss",
          .key = std::move(key),
          .was = std::move(was),
          .now = std::move(now),
          .why = std::move(why)};
}

}  // namespace

std::string MainLoss(const std::map<std::string, double>& losses) {
  for (const char* name : {"lm loss", "loss"}) {
    if (losses.contains(name)) {
      return name;
    }
  }
  return losses.size() == 1 ? losses.begin()->first : std::string();
}

Step0Verdict CheckStep0(const Step0Input& input, const Thresholds& limits) {
  ATTUNE_CHECK(input.calibration != nullptr, "step 0 is compared with the baseline's");
  Step0Verdict result;
  result.weak = input.incomparable;
  std::map<std::string, double> baseline;
  if (!input.calibration->losses.empty()) {
    for (const auto& [name, reference] : input.calibration->losses.front()) {
      baseline.emplace(name, reference.mean);
    }
  }
  const std::string name = MainLoss(baseline);
  if (name.empty() || baseline[name] == 0) {
    result.verdict = VerdictOf({Refusal(name, "the baseline has no loss to compare with", "", "")});
    return result;
  }
  const double was = baseline[name];
  const auto found = input.step == nullptr ? std::map<std::string, double>::const_iterator{}
                                           : input.step->losses.find(name);
  if (input.step == nullptr || found == input.step->losses.end() || input.step->nan ||
      !std::isfinite(found->second)) {
    result.verdict = VerdictOf({Refusal(name, "the first iteration has no finite " + name,
                                        fmt::format("{:.6g}", was), "none")});
    return result;
  }
  const double now = found->second;
  result.shift = now / was - 1;
  std::vector<Finding> findings;
  const double limit = std::min(limits.step0_shift, input.recipe_limit);
  const std::string shown_was = fmt::format("{:.6g}", was);
  const std::string shown_now = fmt::format("{:.6g}", now);
  if (ShiftExceeds(now, was, limit)) {
    findings.push_back(
        Refusal(name,
                fmt::format("{} is off by {:+.3f}% at step 0, at most {:.2f}% passes", name,
                            100 * result.shift, 100 * limit),
                shown_was, shown_now));
  }
  const double spread = input.calibration->losses.front().at(name).sd;
  const double alarm = AlarmLimit(input, spread, limits);
  result.alarm = ShiftExceeds(now, was, alarm);
  if (result.alarm) {
    findings.push_back({.severity = Severity::kAlarm,
                        .rule = "step0.class",
                        .key = name,
                        .was = shown_was,
                        .now = shown_now,
                        .why = fmt::format("{} is off by {:+.3f}% at step 0, more than the {:.2f}% "
                                           "usual for this class of change",
                                           name, 100 * result.shift, 100 * alarm)});
  }
  if (input.incomparable) {
    findings.push_back({.severity = Severity::kNote,
                        .rule = "step0.weak",
                        .key = name,
                        .was = {},
                        .now = {},
                        .why = "from random weights or with dropout, layouts can't be compared by "
                               "the first loss"});
  }
  result.verdict = VerdictOf(std::move(findings));
  return result;
}

}  // namespace attune
