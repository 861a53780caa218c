#include "json_window.h"

#include <algorithm>
#include <cstring>

namespace attune::traces {
namespace {

constexpr std::size_t kBlock = 64;

}  // namespace

JsonWindow::JsonWindow(ByteSource& source, std::size_t start_bytes, std::size_t max_bytes)
    : source_(source), max_bytes_(std::max(start_bytes, max_bytes)) {
  capacity_ = (std::max(start_bytes, kBlock) + kBlock - 1) / kBlock * kBlock;
  bytes_.resize(capacity_ + kBlock, '\0');
  for (auto* map : {&quote_, &open_, &close_, &odd_}) map->resize(capacity_ / kBlock + 1);
}

Status JsonWindow::ReadMore() {
  while (size_ < capacity_ && !at_end_) {
    auto got = source_.Read(bytes_.data() + size_, capacity_ - size_);
    if (!got) {
      // What came before the damage is used; the caller reports the end.
      at_end_ = true;
      std::memset(bytes_.data() + size_, 0, kBlock);
      return Fail(std::move(got.error()));
    }
    if (*got == 0) at_end_ = true;
    size_ += *got;
  }
  // The block that holds the end is scanned whole: what is behind the end must be quiet.
  std::memset(bytes_.data() + size_, 0, kBlock);
  return {};
}

void JsonWindow::Mark(std::size_t from, BlockState& state) {
  const std::size_t first = from / kBlock;
  words_ = (size_ + kBlock - 1) / kBlock;
  const BlockMaps maps{quote_.data() + first, open_.data() + first, close_.data() + first,
                       odd_.data() + first};
  marker_(bytes_.data() + first * kBlock, words_ - first, state, maps);
  any_odd_ = std::any_of(odd_.begin(), odd_.begin() + static_cast<std::ptrdiff_t>(words_),
                         [](std::uint64_t w) { return w != 0; });
}

Result<bool> JsonWindow::Advance(std::size_t keep_from) {
  if (keep_from > 0) {
    std::memmove(bytes_.data(), bytes_.data() + keep_from, size_ - keep_from);
    size_ -= keep_from;
    offset_ += static_cast<std::int64_t>(keep_from);
  } else if (size_ == capacity_ && capacity_ < max_bytes_) {
    capacity_ = std::min(capacity_ * 2, (max_bytes_ + kBlock - 1) / kBlock * kBlock);
    bytes_.resize(capacity_ + kBlock, '\0');
    for (auto* map : {&quote_, &open_, &close_, &odd_}) map->resize(capacity_ / kBlock + 1);
  }
  const std::size_t before = size_;
  Status read = ReadMore();
  BlockState state;
  Mark(0, state);
  if (!read) return Fail(std::move(read.error()));
  return size_ > before;
}

std::size_t JsonWindow::ContainerEnd(std::size_t i) const {
  std::size_t word = i / kBlock;
  std::uint64_t keep = ~std::uint64_t{0} << (i % kBlock);
  int depth = 0;
  for (; word < words_; ++word, keep = ~std::uint64_t{0}) {
    const std::uint64_t open = open_[word] & keep;
    std::uint64_t close = close_[word] & keep;
    int opened = 0;  // of this word, seen so far
    while (close != 0) {
      const std::uint64_t below = (close & (~close + 1)) - 1;
      const int opened_here = std::popcount(open & below);
      depth += opened_here - opened - 1;
      opened = opened_here;
      if (depth <= 0) {
        const std::size_t at = word * kBlock + static_cast<std::size_t>(std::countr_zero(close));
        return at < size_ ? at + 1 : kMore;
      }
      close &= close - 1;
    }
    depth += std::popcount(open) - opened;
  }
  return kMore;
}

Result<bool> JsonWindow::DropValue(std::size_t i) {
  const char first = bytes_[i];
  // A scalar that fills a window is junk; drop up to what ends it.
  const bool scalar = first != '"' && first != '{' && first != '[';
  std::int64_t depth = 0;
  BlockState state;
  // The maps must start at the value: move it to the front without reading.
  std::memmove(bytes_.data(), bytes_.data() + i, size_ - i);
  size_ -= i;
  offset_ += static_cast<std::int64_t>(i);
  std::size_t skip = 0;  // bytes of the first block that are done
  if (first == '"') skip = 1;
  for (;;) {
    const Status read = ReadMore();
    if (!read) return Fail(read.error());
    // Only whole blocks, unless this is the end: a block's state must not see the quiet tail.
    const std::size_t usable = at_end_ ? size_ : size_ / kBlock * kBlock;
    const std::size_t whole = size_;
    size_ = usable;
    Mark(0, state);
    size_ = whole;
    std::size_t end = kMore;
    if (scalar) {
      for (std::size_t at = 0; at < usable && end == kMore; ++at) {
        if (kEndsScalar[static_cast<unsigned char>(bytes_[at])] != 0) end = at;
      }
    } else if (first == '"') {
      const std::size_t at = NextBit(quote_.data(), skip);
      if (at < usable) end = at + 1;
    } else {
      for (std::size_t word = 0; word < words_ && end == kMore; ++word) {
        std::uint64_t both = open_[word] | close_[word];
        for (; both != 0 && end == kMore; both &= both - 1) {
          const int bit = std::countr_zero(both);
          depth += (open_[word] >> bit & 1) != 0 ? 1 : -1;
          if (depth == 0) end = word * kBlock + static_cast<std::size_t>(bit) + 1;
        }
      }
    }
    const std::size_t drop = end == kMore ? usable : end;
    std::memmove(bytes_.data(), bytes_.data() + drop, size_ - drop);
    size_ -= drop;
    offset_ += static_cast<std::int64_t>(drop);
    skip = 0;
    if (end != kMore) {
      std::memset(bytes_.data() + size_, 0, kBlock);
      BlockState fresh;
      Mark(0, fresh);
      return true;
    }
    if (at_end_) {
      words_ = 0;
      return false;
    }
  }
}

}  // namespace attune::traces
