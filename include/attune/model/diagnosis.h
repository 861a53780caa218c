// The diagnosis of one run: named bottleneck classes with their share of the step. Made by
// logs/diagnose_log, and by traces/diagnose where the run left profiler traces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/model/lever.h"

namespace attune {

struct Bottleneck {
  std::string cls;    // "launch_bound", "exposed_communication", "data_loader", "memory_tight" ...
  double share = 0;   // of the step time, 0..1; negative when not known
  double metric = 0;  // the number behind it
  double threshold = 0;  // past which it is named
  bool named = false;    // metric is past the threshold
  std::string evidence;  // one sentence with the numbers

  bool operator==(const Bottleneck&) const = default;
};

// Where the time of one rank's analysed steps went, in nanoseconds. The parts are disjoint and fill
// the span; a trace without GPU events has a span and operators of the host alone.
struct TimeSplit {
  std::int64_t rank = -1;  // negative: not known
  std::int64_t steps = 0;  // analysed; 0: no step marks, the whole window
  std::int64_t span = 0;
  std::int64_t compute = 0;  // with communication under it or without
  std::int64_t memory = 0;   // copies with no compute
  std::int64_t exposed = 0;  // communication with neither
  std::int64_t host_wait = 0, other_idle = 0;
  std::int64_t host_operators = 0;  // without GPU events

  bool operator==(const TimeSplit&) const = default;
};

// A bar of `cells` characters in proportion to the parts, and what its characters mean. Plain ASCII
// unless `unicode`.
std::string TimeBar(const TimeSplit& t, int cells, bool unicode);
std::string TimeLegend(bool unicode);
// "rank 3", or "rank ?".
std::string RankName(std::int64_t rank);
// 1.5 us, 12.34 ms, 3.21 s.
std::string ShowNanoseconds(std::int64_t ns);

// Classes of levers that act on a bottleneck, the likeliest first; empty: none is known. A rule of
// thumb for recipes without a catalog: what hides or shrinks that part of the step.
std::span<const LeverClass> LeverClassesFor(std::string_view bottleneck);

struct Diagnosis {
  std::string source;                   // "log", "trace"
  std::vector<Bottleneck> bottlenecks;  // named ones first, by share
  std::string summary;                  // one paragraph for people
  std::vector<TimeSplit> times;         // by rank; from traces
  std::string traces;                   // the folder that holds them; empty: none
  std::vector<std::string> notes;  // what could not be read, was left out or removed: sentences

  bool operator==(const Diagnosis&) const = default;
};

}  // namespace attune
