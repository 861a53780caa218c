// The times of a run's steps, and where its timed window lies. Shared by the measurement check and
// its live view, so that both see one window.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "attune/gates/thresholds.h"
#include "attune/model/measurement.h"
#include "attune/model/recipe.h"

namespace attune {

// Milliseconds a step; 0 where not known. Printed times when every step prints one, else the
// distances of the arrival stamps: never a mixture.
struct StepTimes {
  std::vector<double> ms;
  bool printed = false;
  bool known = false;  // every step but the first has a time
};
StepTimes TimesOf(std::span<const Step> steps);

struct WindowLength {
  int steps = 0;
  double ms = 0;
  int total_steps = 0;  // of the run, warm-up included
};
WindowLength FullLength(const MeasureSpec& spec, double baseline_step_ms, const Thresholds& limits);
WindowLength LookLength(const MeasureSpec& spec, const Thresholds& limits);

// The window over a prefix of the steps.
struct Window {
  bool settled = false;
  std::size_t warmup = 0;          // steps before the window
  std::vector<std::size_t> timed;  // indices into the steps, cut ones left out
  double ms = 0;                   // of the timed ones
  bool long_enough = false;
};
Window WindowOf(std::span<const Step> steps, const StepTimes& times, std::size_t prefix,
                const MeasureSpec& spec, const WindowLength& length, const Thresholds& limits);

// The window of the shortest prefix (of a fixed sequence of lengths) in which it is long enough;
// with `ended`, all steps are tried last. Not long enough: the window over all steps.
Window FindWindow(std::span<const Step> steps, const StepTimes& times, const MeasureSpec& spec,
                  const WindowLength& length, bool ended, const Thresholds& limits);

}  // namespace attune
