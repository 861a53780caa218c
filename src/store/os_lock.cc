#include "os_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace attune {
namespace {

struct flock WholeFile() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

OsLock::~OsLock() {
  if (fd_ >= 0) ::close(fd_);
}

OsLock& OsLock::operator=(OsLock&& o) noexcept {
  std::swap(fd_, o.fd_);
  return *this;
}

Result<OsLock> OsLock::Take(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Fail(errno == ENOSPC ? ErrorCode::kFull : ErrorCode::kDenied,
                fmt::format("opening {}: {}", path, std::strerror(errno)));
  }
  struct flock lock = WholeFile();
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return OsLock(fd);
  const int e = errno;
  ::close(fd);
  if (e == EAGAIN || e == EACCES) return Fail(ErrorCode::kUnavailable, path + " is locked");
  return OsLock();
}

LockSeen OsLock::Look(const std::string& path) {
  // F_OFD_GETLK of a write lock needs no write access to the file.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return LockSeen::kUnknown;
  struct flock lock = WholeFile();
  const int rc = ::fcntl(fd, F_OFD_GETLK, &lock);
  ::close(fd);
  if (rc != 0) return LockSeen::kUnknown;
  return lock.l_type == F_UNLCK ? LockSeen::kFree : LockSeen::kHeld;
}

}  // namespace attune
