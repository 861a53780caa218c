// Which of a fixed set of texts occur in a line, found in one pass over it whatever their number:
// the automaton of Aho and Corasick (1975). Every line of a log that is no step goes through here,
// so this decides what reading a log costs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace attune {

constexpr std::size_t kMaxLiterals = 256;

// Set of literals, by their number.
class LiteralSet {
 public:
  void Add(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void Add(const LiteralSet& o) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= o.words_[w];
  }
  bool Has(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  bool HasAll(const LiteralSet& o) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if ((o.words_[w] & ~words_[w]) != 0) return false;
    }
    return true;
  }
  bool HasAny(const LiteralSet& o) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if ((o.words_[w] & words_[w]) != 0) return true;
    }
    return false;
  }
  bool empty() const {
    for (const std::uint64_t w : words_) {
      if (w != 0) return false;
    }
    return true;
  }

 private:
  std::array<std::uint64_t, kMaxLiterals / 64> words_{};
};

class LiteralScan {
 public:
  // At most kMaxLiterals literals, none empty. Literal i is bit i of the answer.
  explicit LiteralScan(const std::vector<std::string_view>& literals);

  LiteralSet Find(std::string_view line) const;

 private:
  // Bytes that stand in no literal share class 0, which keeps the table in the cache.
  std::array<std::uint8_t, 256> class_of_{};
  std::size_t classes_ = 1;
  // A state is the place of its row in the table: no multiplication on the way from one byte to the
  // next, which is all that the scan waits for.
  std::vector<std::uint32_t> next_;  // [state + class]
  // States that end a literal (or whose suffix does) have their rows from first_output_ on.
  std::uint32_t first_output_ = 0;
  std::vector<LiteralSet> outputs_;  // [(state - first_output_) / classes_]
};

}  // namespace attune
