// Where a rank's output goes: the bytes as they came into `out`, their arrival into `stamps`. Never
// blocks the job and never fails it: past the cap, or on a full disk, bytes are counted and
// dropped, all but the last ones, which hold the reason why it died.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "attune/base/units.h"
#include "attune/os/fd.h"

namespace attune::launch {

class LogSink {
 public:
  // Both files must not exist yet.
  static Result<LogSink> Open(const std::string& folder, int rank, std::int64_t cap);

  void Write(std::string_view bytes, Millis since_start);
  // Appends the kept tail, if anything was dropped, and syncs both files.
  void Finish(Millis since_start);

  std::int64_t bytes() const { return bytes_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  std::size_t Append(std::string_view bytes);
  void StampUpTo(Millis since_start);

  os::Fd out_, stamps_;
  std::int64_t cap_ = 0, bytes_ = 0, dropped_ = 0;
  std::int64_t last_ms_ = 0, stamped_ = 0;
  std::string tail_;
};

}  // namespace attune::launch
