// The dump of the resolved arguments that Megatron-LM's rank 0 prints between two ruled lines:
//   ------------------------ arguments ------------------------
//     micro_batch_size ................................ 1
//   -------------------- end of arguments ---------------------
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "line_text.h"

namespace attune {

class ArgumentBlock {
 public:
  bool reading() const { return state_ == State::kReading; }
  bool begun() const { return state_ != State::kBefore; }
  // A line that holds the mark " arguments -". True: the block begins here.
  bool Begin(const LogLine& line);
  // A line while reading(). True: it belongs to the block (or ends it).
  bool Read(const LogLine& line);
  // The complete block, once.
  std::optional<std::map<std::string, std::string>> TakeComplete();
  // Lines between the rules that are no argument: other ranks print there too.
  std::int64_t odd_lines() const { return odd_lines_; }
  std::int64_t repeated_keys() const { return repeated_keys_; }

 private:
  enum class State { kBefore, kReading, kComplete, kTaken, kGivenUp };
  State state_ = State::kBefore;
  std::int64_t source_ = 0, lines_ = 0;
  std::map<std::string, std::string> block_;
  std::int64_t odd_lines_ = 0, repeated_keys_ = 0;
};

}  // namespace attune
