// Cuts a growing stream of bytes into lines. What comes out depends on the bytes alone, never on
// how they were cut into chunks. Memory is bounded by one line, a line by kMaxLine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace attune {

class LineAssembler {
 public:
  // A longer line is cut to its head: real log lines are under 4 KiB, an argument dump under 32
  // KiB.
  static constexpr std::size_t kMaxLine = std::size_t{64} << 10;

  struct Piece {
    std::string_view text;    // without its end; valid during the call only
    std::int64_t number = 0;  // of the line in the file, from 1
    bool cut = false;         // longer than kMaxLine: this is its head
    bool ended = true;        // false: the stream stopped in the middle of it
  };
  using Sink = std::function<void(const Piece&)>;

  explicit LineAssembler(Sink sink) : sink_(std::move(sink)) {}

  // Calls the sink once for each piece that ended. A carriage return ends a piece (a progress bar
  // redraws itself with it) but not the line: pieces of one line share its number. Empty pieces are
  // left out.
  void Feed(std::string_view bytes);
  // Hands out what is left, with ended = false.
  void Finish();

  std::int64_t long_lines() const { return long_lines_; }

 private:
  void Take(std::string_view part, bool ends);
  void Keep(std::string_view part);
  void Emit(std::string_view text, bool cut, bool ended);

  Sink sink_;
  std::string pending_;
  bool overlong_ = false;  // pending_ is full and bytes were dropped
  std::int64_t number_ = 1;
  std::int64_t long_lines_ = 0;
};

}  // namespace attune
