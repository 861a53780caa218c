// From events in any order to a timeline: launches joined, times in order, impossible overlaps cut.
#pragma once

#include "event_store.h"

namespace attune::traces {

// Afterwards store.gpu is ordered by start, launches by correlation, GpuEvent.launch is set where
// the launch is known, and every communication event has a type. The result does not depend on the
// order in which events were added.
struct Prepared {
  std::int64_t same_stream_overlaps = 0, worst_same_stream_overlap = 0;
};
Prepared Prepare(EventStore& store);

}  // namespace attune::traces
