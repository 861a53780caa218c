// The lock of one writer on its own host: an open-file-description lock on a file a (campaign,
// epoch). The kernel frees it when the process dies, however it dies; a stopped process keeps it.
// One file an epoch, so that a stopped writer that was taken over does not look like its successor.
#pragma once

#include <string>

#include "attune/base/result.h"

namespace attune {

enum class LockSeen { kFree, kHeld, kUnknown };  // unknown: no such file, or no locks here

class OsLock {
 public:
  OsLock() = default;
  ~OsLock();
  OsLock(OsLock&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  OsLock& operator=(OsLock&& o) noexcept;
  OsLock(const OsLock&) = delete;

  // kUnavailable when somebody holds it. A file system without locks gives an OsLock that holds
  // nothing: the beat counter alone judges there.
  static Result<OsLock> Take(const std::string& path);
  // Asks without taking it.
  static LockSeen Look(const std::string& path);

 private:
  explicit OsLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace attune
