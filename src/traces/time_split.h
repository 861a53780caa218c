// The disjoint parts of a stretch of GPU time, as bars and diagnoses show them.
#pragma once

#include <algorithm>

#include "attune/model/diagnosis.h"
#include "attune/traces/trace_report.h"

namespace attune::traces {

inline TimeSplit SplitOf(const Breakdown& b, const IdleSplit& idle) {
  TimeSplit t;
  t.span = b.span;
  t.compute = b.compute;
  t.memory = std::max<std::int64_t>(0, b.busy - b.compute - b.exposed);
  t.exposed = b.exposed;
  t.host_wait = std::min(idle.host_wait, b.idle());
  t.other_idle = b.idle() - t.host_wait;
  return t;
}

}  // namespace attune::traces
