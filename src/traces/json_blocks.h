// Stage one of the scanner: which bytes of a window are quotes, brackets outside strings, or odd.
// 64 bytes make one word of each map. A window always starts outside a string.
//
// Method as in simdjson's paper (Langdale, Lemire 2019, section 3.1): escaped characters from runs
// of backslashes, the inside of strings by a prefix sum of the quote bits. Unlike there, bad bytes
// do not end the scan: they are marked as odd, and whoever reads that event looks at it in detail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace attune::traces {

struct BlockMaps {
  std::uint64_t* quote;  // quotes that are not escaped, opening and closing
  std::uint64_t* open;   // { [ outside strings
  std::uint64_t* close;  // } ] outside strings
  // Backslashes, control characters inside strings, bytes above 0x7f, and outside strings the
  // letters that only NaN and Infinity have.
  std::uint64_t* odd;
};

// What one block leaves to the next.
struct BlockState {
  std::uint64_t in_string = 0;  // all ones inside a string
  std::uint64_t escaped = 0;    // 1: the first byte of the next block is escaped
};

// bytes: blocks * 64 readable bytes.
using BlockMarker = void (*)(const char* bytes, std::size_t blocks, BlockState& state,
                             const BlockMaps& maps);
// The fastest one that this machine can run.
BlockMarker FastestMarker();
// All that this machine can run, the plain one first: they agree bit for bit.
std::vector<BlockMarker> AllMarkers();

}  // namespace attune::traces
