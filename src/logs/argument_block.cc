#include "argument_block.h"

#include "attune/base/text.h"

namespace attune {
namespace {

// About 900 arguments exist; a block that doesn't end is none.
constexpr std::size_t kMostArguments = 8192;
constexpr std::int64_t kMostLines = 50'000;
constexpr std::size_t kLongestKey = 256;
constexpr std::size_t kLongestValue = 16384;

// "-----<title>-----" with at least five dashes on each side.
bool IsRule(std::string_view text, std::string_view title) {
  constexpr std::string_view kDashes = "-----";
  const std::size_t from = text.find_first_not_of('-');
  const std::size_t to = text.find_last_not_of('-');
  if (from == std::string_view::npos || from < kDashes.size() ||
      text.size() - to - 1 < kDashes.size()) {
    return false;
  }
  return Trim(text.substr(from, to - from + 1)) == title;
}

bool IsKeyByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

bool ArgumentBlock::Begin(const LogLine& line) {
  if (state_ != State::kBefore || !IsRule(Trim(line.text), "arguments")) {
    return false;
  }
  state_ = State::kReading;
  source_ = line.source;
  return true;
}

bool ArgumentBlock::Read(const LogLine& line) {
  if (line.source != source_) {
    return false;
  }
  if (IsRule(Trim(line.text), "end of arguments")) {
    state_ = State::kComplete;
    return true;
  }
  if (++lines_ > kMostLines || block_.size() >= kMostArguments) {
    state_ = State::kGivenUp;
    block_.clear();
    return false;
  }
  std::string_view rest = line.text;
  std::size_t n = 0;
  while (n < rest.size() && n <= kLongestKey && IsKeyByte(rest[n])) {
    ++n;
  }
  const std::string_view key = rest.substr(0, n);
  rest.remove_prefix(n);
  // "key ..... value": one space on either side of the dots, of which a long key leaves none.
  const bool spaced = TakeLiteral(rest, " ");
  const std::size_t dots = std::min(rest.find_first_not_of('.'), rest.size());
  rest.remove_prefix(dots);
  if (key.empty() || n > kLongestKey || !spaced || (dots == 0 && n < 48) ||
      (!rest.empty() && !TakeLiteral(rest, " ")) || rest.size() > kLongestValue ||
      !IsValidUtf8(rest)) {
    ++odd_lines_;
    return false;
  }
  if (!block_.try_emplace(std::string(key), Trim(rest)).second) {
    ++repeated_keys_;
  }
  return true;
}

std::optional<std::map<std::string, std::string>> ArgumentBlock::TakeComplete() {
  if (state_ != State::kComplete) {
    return std::nullopt;
  }
  state_ = State::kTaken;
  return std::move(block_);
}

}  // namespace attune
