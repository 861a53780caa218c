// A window of JSON text that moves over a source: bytes, their block maps, and the few ways to move
// in them. Memory is the window's, whatever the document's size.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "byte_source.h"
#include "json_blocks.h"

namespace attune::traces {

// Positions are offsets in the window; kMore: the answer lies beyond it.
inline constexpr std::size_t kMore = static_cast<std::size_t>(-1);

// , } ] : " white space; and NUL, which stands behind the last byte.
inline constexpr std::array<char, 256> kEndsScalar = [] {
  std::array<char, 256> ends{};
  for (const char c : {',', '}', ']', ':', '"', ' ', '\n', '\r', '\t', '\0'}) {
    ends[static_cast<unsigned char>(c)] = 1;
  }
  return ends;
}();

class JsonWindow {
 public:
  // The window starts small enough for the cache and grows to max_bytes when one element needs it.
  explicit JsonWindow(ByteSource& source, std::size_t start_bytes = std::size_t{512} * 1024,
                      std::size_t max_bytes = std::size_t{8} * 1024 * 1024);

  // Drops what lies before `keep_from`, which is outside a string, and reads on. False: nothing was
  // added, because the source has ended or the window is full (see Full). Error: of the source.
  Result<bool> Advance(std::size_t keep_from);
  bool AtEnd() const { return at_end_; }
  // One element fills the window and it may not grow further.
  bool Full() const { return size_ == capacity_ && capacity_ >= max_bytes_; }

  const char* data() const { return bytes_.data(); }
  std::size_t size() const { return size_; }
  // The byte after the last one is NUL.
  char At(std::size_t i) const { return bytes_[i]; }
  std::string_view Slice(std::size_t from, std::size_t to) const {
    return {bytes_.data() + from, to - from};
  }
  // Where the window's byte 0 lies in the text.
  std::int64_t Offset(std::size_t i) const { return offset_ + static_cast<std::int64_t>(i); }

  // First byte at or after i that is no white space; size() when there is none.
  std::size_t SkipSpace(std::size_t i) const {
    // Profilers write nothing, one space, or a line break and an indent.
    const char* p = bytes_.data();
    if (p[i] > ' ') return i;
    if (p[i] == ' ' && p[i + 1] > ' ') return i + 1;
    while (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t') ++i;
    return i;
  }
  // i: just after an opening quote. The closing quote, or kMore.
  std::size_t StringEnd(std::size_t i) const { return NextBit(quote_.data(), i); }
  // i: an opening bracket outside a string. Just after its closing one, or kMore. Brackets are
  // counted, not matched by kind.
  std::size_t ContainerEnd(std::size_t i) const;
  // Any byte in [from, to), which is not empty, that needs a closer look.
  bool HasOdd(std::size_t from, std::size_t to) const {
    if (!any_odd_) return false;
    const std::size_t last = (to - 1) / 64;
    std::uint64_t bits = odd_[from / 64] & (~std::uint64_t{0} << (from % 64));
    for (std::size_t word = from / 64; word < last; bits = odd_[++word]) {
      if (bits != 0) return true;
    }
    return (bits & (~std::uint64_t{0} >> (63 - (to - 1) % 64))) != 0;
  }
  // i: the start of a JSON value. Just after it, or kMore. A scalar ends at , } ] or white space.
  std::size_t ValueEnd(std::size_t i) const {
    const char c = bytes_[i];
    if (c == '"') {
      const std::size_t end = StringEnd(i + 1);
      return end == kMore ? kMore : end + 1;
    }
    if (c == '{' || c == '[') return ContainerEnd(i);
    const char* p = bytes_.data();
    while (kEndsScalar[static_cast<unsigned char>(p[i])] == 0) ++i;
    return i < size_ ? i : kMore;
  }

  // Reads and drops the rest of a value that starts at i and does not fit, whatever its size.
  // False: the source ended in it. After it the window starts just behind the value.
  Result<bool> DropValue(std::size_t i);

 private:
  Status ReadMore();
  void Mark(std::size_t from, BlockState& state);
  std::size_t NextBit(const std::uint64_t* map, std::size_t i) const {
    std::size_t word = i / 64;
    if (word >= words_) return kMore;
    std::uint64_t bits = map[word] & (~std::uint64_t{0} << (i % 64));
    while (bits == 0) {
      if (++word >= words_) return kMore;
      bits = map[word];
    }
    const std::size_t at = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    return at < size_ ? at : kMore;
  }

  ByteSource& source_;
  BlockMarker marker_ = FastestMarker();
  std::size_t capacity_, max_bytes_;
  std::size_t size_ = 0;   // bytes in the window
  std::size_t words_ = 0;  // blocks of the maps that are valid
  std::int64_t offset_ = 0;
  bool at_end_ = false, any_odd_ = false;
  std::vector<char> bytes_;
  std::vector<std::uint64_t> quote_, open_, close_, odd_;
};

}  // namespace attune::traces
