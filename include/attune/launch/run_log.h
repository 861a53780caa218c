// A run's log as the wrapper left it (docs/formats/run_folder.md), for those who show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attune {

struct LogRange {
  std::int64_t from = 0, end = 0;  // bytes of `out`, the end not included
};
// What of the log came through stderr, in order. nullopt: nobody told them apart, because an older
// wrapper ran it. What was left out at the cap, and the words kept behind that, counts as stdout.
std::optional<std::vector<LogRange>> StderrRanges(const std::string& run_folder, int rank);

}  // namespace attune
