// Where a rank's output goes: the bytes as they came into `out`, their arrival into `stamps`, which
// of them are stderr's into `errs`. Never blocks the job and never fails it: past the cap, or on a
// full disk, bytes are counted and dropped, all but the last ones, which hold the reason why it
// died.
//
// Two pipes have no order between them. A line that one of them left open is not broken by the
// other: what the other says waits for its end, but never for long, since arrival times count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "attune/base/units.h"
#include "attune/os/fd.h"

namespace attune::launch {

enum class Stream { kOut, kErr };

class LogSink {
 public:
  // A line without an end holds the other stream back no longer than this, nor more of it.
  static constexpr Millis kHoldTime{50};
  static constexpr std::size_t kHoldBytes = 64 << 10;

  // The files must not exist yet.
  static Result<LogSink> Open(const std::string& folder, int rank, std::int64_t cap);

  void Write(std::string_view bytes, Stream stream, Millis since_start);
  // Lets go of what waited too long. `holding`: a call of it is due within kHoldTime.
  void Tick(Millis since_start);
  bool holding() const { return !held_.empty(); }
  // Appends the kept tail, if anything was dropped, and syncs the files.
  void Finish(Millis since_start);

  std::int64_t bytes() const { return bytes_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  std::size_t Append(std::string_view bytes, Stream stream);
  void Take(std::string_view bytes, Stream stream, Millis since_start);
  void Release(Millis since_start);
  void StampUpTo(Millis since_start);

  os::Fd out_, stamps_, errs_;
  std::int64_t cap_ = 0, bytes_ = 0, dropped_ = 0;
  std::int64_t last_ms_ = 0, stamped_ = 0;
  Stream last_ = Stream::kOut;  // that wrote last, and whether its line is open
  bool open_ = false;
  std::string held_;  // of the other one
  Millis held_since_{0};
  std::string tail_;
};

}  // namespace attune::launch
