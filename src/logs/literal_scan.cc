#include "literal_scan.h"

#include <deque>
#include <limits>

#include "attune/base/check.h"

namespace attune {
namespace {

constexpr std::uint16_t kNone = std::numeric_limits<std::uint16_t>::max();

}  // namespace

LiteralScan::LiteralScan(const std::vector<std::string_view>& literals) {
  ATTUNE_CHECK(literals.size() <= kMaxLiterals, "more literals than LiteralSet holds");
  for (const std::string_view literal : literals) {
    ATTUNE_CHECK(!literal.empty(), "an empty literal is in every line");
    for (const char c : literal) {
      std::uint8_t& cls = class_of_[static_cast<unsigned char>(c)];
      if (cls == 0) {
        cls = static_cast<std::uint8_t>(classes_++);
      }
    }
  }
  // The trie, then failure links in breadth-first order; the links are folded into the table.
  std::vector<std::uint16_t> table(classes_, kNone);
  std::vector<LiteralSet> found(1);
  for (std::size_t i = 0; i < literals.size(); ++i) {
    std::size_t state = 0;
    for (const char c : literals[i]) {
      const std::size_t at = state * classes_ + class_of_[static_cast<unsigned char>(c)];
      if (table[at] == kNone) {
        ATTUNE_CHECK(found.size() < kNone, "literals too long together");
        table[at] = static_cast<std::uint16_t>(found.size());
        found.emplace_back();
        table.resize(table.size() + classes_, kNone);
      }
      state = table[at];
    }
    found[state].Add(i);
  }
  std::vector<std::size_t> fail(found.size(), 0);
  std::deque<std::size_t> queue;
  for (std::size_t c = 0; c < classes_; ++c) {
    if (table[c] == kNone) {
      table[c] = 0;
    } else {
      queue.push_back(table[c]);
    }
  }
  while (!queue.empty()) {
    const std::size_t state = queue.front();
    queue.pop_front();
    found[state].Add(found[fail[state]]);
    for (std::size_t c = 0; c < classes_; ++c) {
      std::uint16_t& to = table[state * classes_ + c];
      const std::uint16_t fallback = table[fail[state] * classes_ + c];
      if (to == kNone) {
        to = fallback;
      } else {
        fail[to] = fallback;
        queue.push_back(to);
      }
    }
  }
  // Renumber: silent states first, so that one comparison tells whether a state says anything.
  std::vector<std::uint32_t> row(found.size());
  std::uint32_t rows = 0;
  const auto stride = static_cast<std::uint32_t>(classes_);
  for (std::size_t s = 0; s < found.size(); ++s) {
    if (found[s].empty()) row[s] = stride * rows++;
  }
  first_output_ = stride * rows;
  for (std::size_t s = 0; s < found.size(); ++s) {
    if (!found[s].empty()) {
      row[s] = stride * rows++;
      outputs_.push_back(found[s]);
    }
  }
  next_.resize(table.size());
  for (std::size_t s = 0; s < found.size(); ++s) {
    for (std::size_t c = 0; c < classes_; ++c) {
      next_[row[s] + c] = row[table[s * classes_ + c]];
    }
  }
}

LiteralSet LiteralScan::Find(std::string_view line) const {
  LiteralSet hits;
  std::uint32_t state = 0;  // the root: silent, and numbered first
  const std::uint32_t* const next = next_.data();
  for (const char c : line) {
    state = next[state + class_of_[static_cast<unsigned char>(c)]];
    if (state >= first_output_) {
      hits.Add(outputs_[(state - first_output_) / classes_]);
    }
  }
  return hits;
}

}  // namespace attune
