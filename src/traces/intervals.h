// Sets of disjoint stretches of time, [begin, end), in order.
#pragma once

#include <cstdint>
#include <vector>

namespace attune::traces {

struct Interval {
  std::int64_t begin = 0, end = 0;
  bool operator==(const Interval&) const = default;
};

// Sorts and merges; empty stretches vanish, touching ones become one.
std::vector<Interval> Union(std::vector<Interval> intervals);
// Of a merged set: its length inside [begin, end), and how many of its stretches begin there.
std::int64_t LengthWithin(const std::vector<Interval>& set, std::int64_t begin, std::int64_t end);
std::int64_t CountWithin(const std::vector<Interval>& set, std::int64_t begin, std::int64_t end);
bool Contains(const std::vector<Interval>& set, std::int64_t at);

}  // namespace attune::traces
