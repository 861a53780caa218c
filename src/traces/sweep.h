// One pass over a timeline that tells, for every stretch between two changes, what was running.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "event_store.h"

namespace attune::traces {

// visit(begin, end): a stretch of positive length with something running or not, in order, from the
// first start to the last end. start(event, index), stop(event, index): around it.
template <class Start, class Stop, class Visit>
void Sweep(const PodVector<GpuEvent>& events, const Start& start, const Stop& stop,
           const Visit& visit) {
  using End = std::pair<std::int64_t, std::uint32_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> running;
  if (events.empty()) return;
  std::int64_t now = events[0].start;
  const auto advance = [&](std::int64_t to) {
    if (to > now) {
      visit(now, to);
      now = to;
    }
  };
  const auto stop_until = [&](std::int64_t to) {
    while (!running.empty() && running.top().first <= to) {
      const auto [end, index] = running.top();
      advance(end);
      stop(events[index], index);
      running.pop();
    }
  };
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const GpuEvent& e = events[i];
    if (e.end <= e.start) continue;
    stop_until(e.start);
    advance(e.start);
    start(e, i);
    running.emplace(e.end, i);
  }
  stop_until(std::numeric_limits<std::int64_t>::max());
}

// How many of each class run.
struct Running {
  std::array<int, 3> count{};

  void Change(EventClass c, int by) { count[static_cast<std::size_t>(c)] += by; }
  bool compute() const { return count[0] > 0; }
  bool comm() const { return count[1] > 0; }
  bool mem() const { return count[2] > 0; }
};

// Adds a stretch to what a breakdown counts. The span is the caller's.
inline void AddStretch(const Running& running, std::int64_t length, Breakdown& b) {
  if (running.compute()) b.compute += length;
  if (running.comm()) b.comm += length;
  if (running.mem()) b.mem += length;
  if (running.compute() && running.comm()) b.overlap += length;
  if (running.comm() && !running.compute() && !running.mem()) b.exposed += length;
  if (running.compute() || running.comm() || running.mem()) b.busy += length;
}

}  // namespace attune::traces
