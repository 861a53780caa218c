// ReadTraceFile for those who want the events too.
#pragma once

#include <functional>
#include <string>

#include "attune/traces/trace_reader.h"
#include "event_store.h"

namespace attune::traces {

// `look` is called once, with the events in order of time (Prepare) and the figures.
Result<RankTrace> ReadWithEvents(
    const std::string& path, const TraceOptions& options,
    const std::function<void(const EventStore&, const RankTrace&)>& look);

}  // namespace attune::traces
