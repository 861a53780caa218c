#include "intervals.h"

#include <algorithm>

namespace attune::traces {
namespace {

// First stretch that ends after `at`.
auto After(const std::vector<Interval>& set, std::int64_t at) {
  return std::upper_bound(set.begin(), set.end(), at,
                          [](std::int64_t t, const Interval& i) { return t < i.end; });
}

}  // namespace

std::vector<Interval> Union(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::size_t kept = 0;
  for (const Interval& i : intervals) {
    if (i.end <= i.begin) continue;
    if (kept > 0 && i.begin <= intervals[kept - 1].end) {
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, i.end);
    } else {
      intervals[kept++] = i;
    }
  }
  intervals.resize(kept);
  return intervals;
}

std::int64_t LengthWithin(const std::vector<Interval>& set, std::int64_t begin, std::int64_t end) {
  std::int64_t length = 0;
  for (auto it = After(set, begin); it != set.end() && it->begin < end; ++it) {
    length += std::min(it->end, end) - std::max(it->begin, begin);
  }
  return length;
}

std::int64_t CountWithin(const std::vector<Interval>& set, std::int64_t begin, std::int64_t end) {
  std::int64_t count = 0;
  for (auto it = After(set, begin); it != set.end() && it->begin < end; ++it) {
    if (it->begin >= begin) ++count;
  }
  return count;
}

bool Contains(const std::vector<Interval>& set, std::int64_t at) {
  const auto it = After(set, at);
  return it != set.end() && it->begin <= at;
}

}  // namespace attune::traces
