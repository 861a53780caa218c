// --svg FILE of diagnose and explain.
#pragma once

#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "attune/traces/trace_reader.h"

namespace attune::cli {

// Draws a step of the first trace that has GPU events. step: its name; empty: of median length.
Status DrawStep(const std::string& file, const TraceSet& set, const TraceOptions& options,
                std::string_view step);

}  // namespace attune::cli
