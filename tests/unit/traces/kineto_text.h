// Small traces as text, for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/traces/trace_reader.h"
#include "byte_source.h"
#include "event_store.h"
#include "kineto.h"

namespace attune::traces {

// Times in nanoseconds, written as microseconds with three decimals.
std::string Micros(std::int64_t ns);

struct Extra {
  std::string args;  // further members of args, each with a leading comma
};
std::string KernelEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                        std::int64_t correlation, int stream = 7, std::string_view more = "");
std::string CopyEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                      std::int64_t correlation, int stream = 7);
std::string LaunchEvent(std::int64_t start, std::int64_t correlation, int thread = 1,
                        std::string_view name = "cudaLaunchKernel");
std::string RuntimeEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                         std::int64_t correlation = 0);
std::string AnnotationEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                            int thread = 1);
std::string OperatorEvent(std::string_view name, std::int64_t start, std::int64_t dur,
                          int thread = 1);

// The events between the metadata a Kineto file has.
std::string Document(const std::vector<std::string>& events,
                     std::string_view metadata = "\"schemaVersion\": 1");

struct Read {
  KinetoResult result;
  RankTrace trace;
};
// Through the whole reader, from memory. piece: bytes per read of the source; 0: all at once.
Result<Read> ReadText(std::string_view text, std::size_t piece = 0,
                      const KinetoOptions& options = {});
RankTrace MustRead(std::string_view text);
std::int64_t NoteCount(const RankTrace& trace, std::string_view name);
std::string NoteNames(const RankTrace& trace);

std::string Gzip(std::string_view text, int members = 1);

// A trace with every kind of event that matters, three steps, two streams; deterministic.
std::vector<std::string> BusyEvents(int steps, int kernels_per_step);

// All figures as text, to compare two readings to the nanosecond. Without path and notes.
std::string Figures(const RankTrace& trace);

}  // namespace attune::traces
