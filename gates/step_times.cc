#include "step_times.h"

#include <algorithm>
#include <cmath>

#include "attune/stats/stats.h"

namespace attune {

StepTimes TimesOf(std::span<const Step> steps) {
  StepTimes times;
  times.ms.assign(steps.size(), 0);
  times.printed = std::all_of(steps.begin(), steps.end(), [](const Step& s) {
    return std::isfinite(s.printed_ms) && s.printed_ms > 0;
  });
  times.known = !steps.empty();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (times.printed) {
      times.ms[i] = steps[i].printed_ms;
    } else if (i > 0 && steps[i - 1].arrival_ms >= 0 &&
               steps[i].arrival_ms > steps[i - 1].arrival_ms) {
      times.ms[i] = static_cast<double>(steps[i].arrival_ms - steps[i - 1].arrival_ms);
    } else if (i > 0) {
      times.known = false;
    }
  }
  return times;
}

WindowLength FullLength(const MeasureSpec& spec, double baseline_step_ms,
                        const Thresholds& limits) {
  WindowLength length;
  const bool slow = baseline_step_ms > limits.slow_step_ms;
  length.steps = spec.steps
                     ? std::max(1, *spec.steps)
                     : static_cast<int>(slow ? limits.window_steps_slow : limits.window_steps);
  length.ms = static_cast<double>(spec.min_seconds.count());
  return length;
}

WindowLength LookLength(const MeasureSpec& spec, const Thresholds& limits) {
  WindowLength length;
  length.steps = static_cast<int>(limits.look_steps);
  length.ms = static_cast<double>(spec.min_seconds.count());
  length.total_steps = static_cast<int>(limits.look_total_steps);
  return length;
}

namespace {

// The 1-based number of the first step from which three in a row are close to the median of the
// last third; 0 when there is none. `usable`: indices of steps that are not cut and have a time.
std::size_t FirstSettled(const StepTimes& times, std::span<const std::size_t> usable,
                         double tolerance, std::size_t in_a_row) {
  if (usable.size() < in_a_row || usable.empty()) {
    return 0;
  }
  const std::size_t third = (usable.size() + 2) / 3;
  std::vector<double> last;
  for (const std::size_t i : usable.last(third)) {
    last.push_back(times.ms[i]);
  }
  const double level = Median(last);
  std::size_t close = 0;
  for (std::size_t u = 0; u < usable.size(); ++u) {
    close = ShiftExceeds(times.ms[usable[u]], level, tolerance) ? 0 : close + 1;
    if (close == in_a_row) {
      return usable[u + 1 - in_a_row] + 1;
    }
  }
  return 0;
}

}  // namespace

Window WindowOf(std::span<const Step> steps, const StepTimes& times, std::size_t prefix,
                const MeasureSpec& spec, const WindowLength& length, const Thresholds& limits) {
  std::vector<std::size_t> usable;
  for (std::size_t i = 0; i < prefix; ++i) {
    if (!steps[i].cut && times.ms[i] > 0) {
      usable.push_back(i);
    }
  }
  // A recipe that accepts noisier steps accepts them here too, or it would never settle.
  const double tolerance = std::max(limits.settle_tolerance, spec.cv_max);
  const std::size_t settled =
      FirstSettled(times, usable, tolerance, static_cast<std::size_t>(limits.settle_steps));
  Window window;
  window.settled = settled > 0;
  if (!window.settled) {
    return window;
  }
  window.warmup = std::max(static_cast<std::size_t>(std::max(0, spec.warmup_steps)), settled);
  for (const std::size_t i : usable) {
    if (i >= window.warmup) {
      window.timed.push_back(i);
      window.ms += times.ms[i];
    }
  }
  window.long_enough = static_cast<int>(window.timed.size()) >= length.steps &&
                       window.ms >= length.ms && static_cast<int>(prefix) >= length.total_steps;
  return window;
}

// Lengths that grow by 2% keep the search linear for jobs of many thousand steps, and are the same
// however many steps have been seen.
Window FindWindow(std::span<const Step> steps, const StepTimes& times, const MeasureSpec& spec,
                  const WindowLength& length, bool ended, const Thresholds& limits) {
  const auto warmup = static_cast<std::size_t>(std::max(0, spec.warmup_steps));
  std::size_t prefix = warmup + static_cast<std::size_t>(length.steps);
  double ms = 0;
  for (std::size_t i = static_cast<std::size_t>(std::max(0, spec.warmup_steps)); i < steps.size();
       ++i) {
    ms += steps[i].cut ? 0 : times.ms[i];
    if (ms >= length.ms) {
      prefix = std::max(prefix, i + 1);
      break;
    }
    if (i + 1 == steps.size()) {
      prefix = std::max(prefix, i + 2);  // not long enough at any length
    }
  }
  for (; prefix <= steps.size(); prefix += std::max<std::size_t>(1, prefix / 50)) {
    Window window = WindowOf(steps, times, prefix, spec, length, limits);
    if (window.long_enough) {
      return window;
    }
  }
  Window all = WindowOf(steps, times, steps.size(), spec, length, limits);
  all.long_enough = all.long_enough && ended;
  return all;
}

}  // namespace attune
