#include <algorithm>
#include <map>

#include "timeline.h"

namespace attune::traces {
namespace {

// The thread of the step marks; without any, the one that launches most, else the busiest.
std::uint16_t MainThread(const EventStore& store) {
  std::vector<std::int64_t> votes(std::max<std::size_t>(store.ThreadCount(), 1), 0);
  constexpr std::int64_t kStepVote = std::int64_t{1} << 40;
  constexpr std::int64_t kLaunchVote = 1 << 10;
  for (const HostSpan& s : store.host) {
    votes[s.thread] += s.kind == HostKind::kStep ? kStepVote : 1;
  }
  for (const Launch& l : store.launches) votes[l.thread] += kLaunchVote;
  return static_cast<std::uint16_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

std::int64_t LastLaunch(const EventStore& store) {
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const Launch& l : store.launches) {
    if (l.joined) last = std::max(last, l.start);
  }
  return last;
}

}  // namespace

std::vector<StepMark> FindSteps(const EventStore& store) {
  std::vector<StepMark> steps;
  for (const HostSpan& s : store.host) {
    if (s.kind == HostKind::kStep) {
      steps.push_back({DisplayName(store.names.Text(s.name), 80), s.start, s.end});
    }
  }
  std::sort(steps.begin(), steps.end(), [](const StepMark& a, const StepMark& b) {
    return a.start != b.start ? a.start < b.start : a.name < b.name;
  });
  steps.erase(std::unique(steps.begin(), steps.end(),
                          [](const StepMark& a, const StepMark& b) {
                            return a.name == b.name && b.start < a.end;
                          }),
              steps.end());
  return steps;
}

HostTimes CollectHostTimes(const EventStore& store) {
  HostTimes host;
  host.main_thread = MainThread(store);
  const std::size_t threads = std::max<std::size_t>(store.ThreadCount(), 1);
  host.recompute.resize(threads);
  host.optimizer_by_thread.resize(threads);
  std::vector<std::vector<Interval>> checkpoint(threads), autograd(threads), forward(threads);
  const std::int64_t last_launch = LastLaunch(store);
  for (const HostSpan& s : store.host) {
    const bool main = s.thread == host.main_thread;
    const Interval interval{s.start, s.end};
    switch (s.kind) {
      case HostKind::kOptimizer:
        host.optimizer_by_thread[s.thread].push_back(interval);
        host.optimizer.push_back(interval);
        break;
      case HostKind::kDataLoader:
        if (main) host.data_loader.push_back(interval);
        break;
      case HostKind::kDeviceSyncCall:
        // The profiler ends its window with one: nothing is launched after it.
        if (main && s.start < last_launch) host.sync.push_back(interval);
        break;
      case HostKind::kSyncOperator:
      case HostKind::kSyncCall:
        if (main) host.sync.push_back(interval);
        break;
      case HostKind::kAllocation:
        host.allocation.push_back(interval);
        host.allocation_starts.push_back(s.start);
        break;
      case HostKind::kCheckpoint:
        checkpoint[s.thread].push_back(interval);
        break;
      case HostKind::kAutograd:
        autograd[s.thread].push_back(interval);
        break;
      case HostKind::kForwardOperator:
        if (store.IsAutogradThread(s.thread)) forward[s.thread].push_back(interval);
        break;
      case HostKind::kOverhead:
        host.overhead.push_back(interval);
        break;
      case HostKind::kStep:
      case HostKind::kOperator:
      case HostKind::kNothing:
        break;
    }
  }
  for (auto* set :
       {&host.data_loader, &host.sync, &host.allocation, &host.overhead, &host.optimizer}) {
    *set = Union(std::move(*set));
  }
  std::sort(host.allocation_starts.begin(), host.allocation_starts.end());
  for (std::size_t t = 0; t < threads; ++t) {
    host.optimizer_by_thread[t] = Union(std::move(host.optimizer_by_thread[t]));
    // A checkpoint's backward runs the forward pass again and may then run that part's backward
    // inside itself: the functions of that are no recompute.
    const std::vector<Interval> whole = Union(std::move(checkpoint[t]));
    std::vector<Interval> inner;
    for (const Interval& a : autograd[t]) {
      const auto at =
          std::upper_bound(whole.begin(), whole.end(), a.begin,
                           [](std::int64_t time, const Interval& i) { return time < i.end; });
      if (at != whole.end() && at->begin < a.begin && a.end <= at->end) inner.push_back(a);
    }
    std::vector<Interval> recompute = std::move(forward[t]);
    const std::vector<Interval> backward = Union(std::move(inner));
    for (const Interval& w : whole) {
      std::int64_t from = w.begin;
      auto b = std::lower_bound(backward.begin(), backward.end(), w.begin,
                                [](const Interval& i, std::int64_t time) { return i.end < time; });
      for (; b != backward.end() && b->begin < w.end; ++b) {
        recompute.push_back({from, b->begin});
        from = b->end;
      }
      recompute.push_back({from, w.end});
    }
    host.recompute[t] = Union(std::move(recompute));
  }
  return host;
}

EventFlags FlagsOf(const GpuEvent& g, const EventStore& store, const HostTimes& host) {
  EventFlags flags;
  if (g.launch == kNone) return flags;
  const Launch& l = store.launches[g.launch];
  flags.optimizer = Contains(host.optimizer_by_thread[l.thread], l.start);
  flags.recompute = Contains(host.recompute[l.thread], l.start);
  return flags;
}

std::int64_t Median(std::vector<std::int64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace attune::traces
