// PyTorch's profiler output (libkineto): Chrome trace JSON, as an object or a bare array.
#pragma once

#include <cstdint>
#include <string>

#include "byte_source.h"
#include "event_store.h"

namespace attune::traces {

struct KinetoOptions {
  // Marks that are steps besides ProfilerStep#N, "{n}" standing for a number; empty: none.
  std::string step_pattern;
  // False: scan and count only, to measure the scanner.
  bool decode = true;
  std::size_t window_bytes = std::size_t{512} * 1024;
  std::size_t max_window_bytes = std::size_t{8} * 1024 * 1024;
};

struct KinetoResult {
  bool whole = true;
  bool array_form = false;
  std::int64_t text_bytes = 0;
  std::int64_t stopped_at = -1;  // byte at which reading stopped when not whole
};

// Adds to `store`. Error kInvalidInput: the text is not a Kineto trace; the message names what it
// is where that can be told. A truncated or damaged trace is no error: whole is false then.
Result<KinetoResult> ReadKineto(ByteSource& source, const KinetoOptions& options,
                                EventStore& store);

}  // namespace attune::traces
