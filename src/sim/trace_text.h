// One step of a simulated job as a Kineto trace: streams, kernels, collectives and gaps whose sums
// are the step's terms. Repeated micro-batches and layers are merged, so that no step has more than
// kMostTraceEvents events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attune/base/result.h"
#include "attune/base/units.h"
#include "attune/model/arguments.h"
#include "attune/model/training_job.h"
#include "truth.h"

namespace attune::sim {

inline constexpr int kMostTraceEvents = 20'000;

struct TraceStep {
  std::int64_t number = 0;  // of ProfilerStep#N
  double seconds = 0;       // of this step, noise included; terms are scaled to it
  Instant begin;
  int rank = 0;
};
// JSON as torch.profiler writes it.
std::string KinetoTrace(const TrainingJob& job, const Truth& truth, const TraceStep& step);

// What the profiler's flags ask of a job: the first whole step of the window, of one rank.
struct TraceWish {
  std::int64_t step = 0;  // counted from the process's start, the first is 1
  int rank = 0;
  std::string folder;
};
std::optional<TraceWish> TraceWishOf(const Arguments& args);  // nothing: no trace
// The file that fulfils it, named as torch.profiler's handler names it. Error: it can't be written.
Status WriteTrace(const TraceWish& wish, const TrainingJob& job, const Truth& truth,
                  const TraceStep& step);

// Shares of the step by what a trace can tell apart, from the terms alone: what --truth writes.
struct Shares {
  double compute = 0, exposed = 0, memory_copies = 0, idle = 0;
};
Shares SharesOf(const Terms& terms);
// {"step_ms": ..., "shares": {...}, "terms": {...}}
std::string TruthJson(const Truth& truth, double step_ms);

}  // namespace attune::sim
