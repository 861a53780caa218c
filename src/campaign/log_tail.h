// The end of a log, kept for a crash without a sign that we know: what a program said last is then
// the best evidence there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attune {

class LogTail {
 public:
  void Feed(std::string_view bytes);  // in order, cut anywhere

  struct Line {
    std::string text;         // fit to be shown, at most 200 bytes
    std::int64_t number = 0;  // from 1
  };
  // The last line that says anything; nullopt: there is none in the last 4 KiB.
  std::optional<Line> Last() const;

 private:
  std::string kept_;
  std::int64_t newlines_ = 0;
};

}  // namespace attune
