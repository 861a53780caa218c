#include "prepare.h"

#include <algorithm>
#include <tuple>

#include "kernel_class.h"

namespace attune::traces {
namespace {

// A kernel that runs on past the next of its own stream is a broken end time (ROCm has written 7 of
// 55,423 events that became 62 % of the time). Small overlaps are real: a dependent launch starts
// while its predecessor drains (up to 3.7 us on a B200).
constexpr std::int64_t kLargeOverlap = 1'000'000;
constexpr std::int64_t kLargeShareOfMedian = 10;

// Correlation ids are unique in a process, but files that were glued together repeat them: the
// launch is the last one before the kernel starts.
void Join(EventStore& store) {
  const auto by_correlation = [](const Launch& a, const Launch& b) {
    return std::tie(a.correlation, a.start, a.thread) < std::tie(b.correlation, b.start, b.thread);
  };
  if (!std::is_sorted(store.launches.begin(), store.launches.end(), by_correlation)) {
    std::sort(store.launches.begin(), store.launches.end(), by_correlation);
  }
  for (GpuEvent& g : store.gpu) {
    if (!g.has_correlation) continue;
    const auto after = std::upper_bound(
        store.launches.begin(), store.launches.end(), g, [](const GpuEvent& e, const Launch& l) {
          return std::tie(e.correlation, e.start) < std::tie(l.correlation, l.start);
        });
    const Launch* launch = nullptr;
    if (after != store.launches.begin() && (after - 1)->correlation == g.correlation) {
      launch = after - 1;
    } else if (after != store.launches.end() && after->correlation == g.correlation) {
      launch = after;
    }
    if (launch == nullptr) continue;
    const auto index = static_cast<std::uint32_t>(launch - store.launches.begin());
    g.launch = index;
    store.launches[index].joined = true;
  }
}

void NameCollectives(EventStore& store) {
  std::stable_sort(store.comm_operators.begin(), store.comm_operators.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const GpuEvent& g : store.gpu) {
    if (g.cls != EventClass::kComm || g.extra == kNone) continue;
    CommArguments& comm = store.comms[g.extra];
    if (!comm.known && comm.has_external_id) {
      const auto it = std::lower_bound(
          store.comm_operators.begin(), store.comm_operators.end(), comm.external_id,
          [](const auto& entry, std::uint64_t id) { return entry.first < id; });
      if (it != store.comm_operators.end() && it->first == comm.external_id) {
        comm = it->second;
        comm.known = false;  // not of the kernel itself: counted apart
      }
    }
    if (comm.type.empty()) comm.type = CollectiveFromName(store.names.Text(g.name));
  }
}

void SortByTime(EventStore& store) {
  const auto by_time = [&store](const GpuEvent& a, const GpuEvent& b) {
    if (a.start != b.start) return a.start < b.start;
    if (a.end != b.end) return a.end < b.end;
    const StreamId& sa = store.streams[a.stream];
    const StreamId& sb = store.streams[b.stream];
    if (sa.device != sb.device) return sa.device < sb.device;
    if (sa.stream != sb.stream) return sa.stream < sb.stream;
    if (a.name != b.name) return store.names.Hash(a.name) < store.names.Hash(b.name);
    return a.correlation < b.correlation;
  };
  if (!std::is_sorted(store.gpu.begin(), store.gpu.end(), by_time)) {
    std::sort(store.gpu.begin(), store.gpu.end(), by_time);
  }
}

// Median duration of each name, for those asked.
class NameMedians {
 public:
  explicit NameMedians(const EventStore& store) : store_(store) {}
  std::int64_t Of(std::uint32_t name) {
    if (!ready_) Collect();
    const auto from = std::lower_bound(all_.begin(), all_.end(), std::pair(name, std::int64_t{-1}));
    const auto to = std::lower_bound(from, all_.end(), std::pair(name + 1, std::int64_t{-1}));
    return from == to ? 0 : (from + (to - from) / 2)->second;
  }

 private:
  void Collect() {
    ready_ = true;
    all_.reserve(store_.gpu.size());
    for (const GpuEvent& g : store_.gpu) all_.emplace_back(g.name, g.end - g.start);
    std::sort(all_.begin(), all_.end());
  }
  const EventStore& store_;
  bool ready_ = false;
  std::vector<std::pair<std::uint32_t, std::int64_t>> all_;
};

Prepared CutOverlaps(EventStore& store) {
  Prepared result;
  NameMedians medians(store);
  // The event of each stream that ends last so far.
  std::vector<GpuEvent*> last(store.streams.size(), nullptr);
  for (GpuEvent& g : store.gpu) {
    GpuEvent*& before = last[g.stream];
    if (before != nullptr && g.start < before->end) {
      const std::int64_t overlap = before->end - g.start;
      if (overlap > kLargeOverlap || (before->cls != EventClass::kMem &&
                                      overlap > kLargeShareOfMedian * medians.Of(before->name))) {
        store.notes.Add(Note::kClippedKernel);
        before->end = g.start;
        before = &g;
        continue;
      }
      store.notes.Add(Note::kSameStreamOverlap);
      ++result.same_stream_overlaps;
      result.worst_same_stream_overlap = std::max(result.worst_same_stream_overlap, overlap);
      if (g.end < before->end) continue;
    }
    before = &g;
  }
  return result;
}

}  // namespace

Prepared Prepare(EventStore& store) {
  Join(store);
  NameCollectives(store);
  SortByTime(store);
  return CutOverlaps(store);
}

}  // namespace attune::traces
