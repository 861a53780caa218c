// Parts of Analyse, shared among its files.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "event_store.h"
#include "intervals.h"

namespace attune::traces {

// Host stretches by what they explain, merged, of the main thread unless said otherwise.
struct HostTimes {
  std::uint16_t main_thread = 0;
  std::vector<Interval> data_loader, sync, allocation, overhead;  // overhead: of every thread
  std::vector<Interval> optimizer;
  std::int64_t allocation_calls = 0;
  std::vector<std::int64_t> allocation_starts;  // of every thread, in order
  // Recompute, by thread.
  std::vector<std::vector<Interval>> recompute;
  // Optimizer marks, by thread: a kernel counts as the optimizer's when its launch lies in one.
  std::vector<std::vector<Interval>> optimizer_by_thread;
};

struct StepMark {
  std::string name;
  std::int64_t start = 0, end = 0;  // of the mark on the host
};

// Marks of steps in order; one a moment (a step is marked on the host, and again on the GPU's row).
std::vector<StepMark> FindSteps(const EventStore& store);
HostTimes CollectHostTimes(const EventStore& store);

// Of one GPU event.
struct EventFlags {
  bool optimizer = false, recompute = false;
};
EventFlags FlagsOf(const GpuEvent& g, const EventStore& store, const HostTimes& host);

// Operators by own time, for traces without a GPU.
HostFigures AnalyseHost(const EventStore& store, const HostTimes& host,
                        const std::vector<StepMark>& steps);

// Lower middle is not taken: of an even number the upper one, so that it is a value that occurred.
std::int64_t Median(std::vector<std::int64_t>& values);

// Names as written in JSON, made fit for display: escapes resolved, bad bytes replaced, bounded.
std::string DisplayName(std::string_view raw, std::size_t max_bytes = 160);

}  // namespace attune::traces
