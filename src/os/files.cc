#include "attune/os/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "attune/base/text.h"

namespace attune::os {
namespace {

std::string FolderOf(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Unique among processes (pid) and within one (counter), so that two writers of one name never
// share a temporary file.
std::string TemporaryName(const std::string& path) {
  static std::atomic<int> counter{0};
  return path + ".tmp." + std::to_string(getpid()) + "." + std::to_string(++counter);
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return FailErrno("writing " + path, errno);
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

// Writes a temporary file; removes it again on failure.
Result<std::string> WriteTemporary(const std::string& path, std::string_view bytes, bool sync) {
  const std::string temporary = TemporaryName(path);
  Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return FailErrno("creating " + temporary, errno);
  }
  Status written = WriteAll(fd.get(), bytes, temporary);
  if (written && sync && fsync(fd.get()) != 0) {
    written = FailErrno("syncing " + temporary, errno);
  }
  if (!written) {
    unlink(temporary.c_str());
    return Fail(std::move(written.error()));
  }
  return temporary;
}

Status Replace(const std::string& path, std::string_view bytes, bool sync) {
  ATTUNE_TRY(const std::string temporary, WriteTemporary(path, bytes, sync));
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return FailErrno("renaming to " + path, error);
  }
  return {};
}

Result<Fd> OpenRegular(int folder, const std::string& name, const std::string& shown) {
  // O_NONBLOCK: a FIFO put in place of a file must not hang the reader.
  Fd fd(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    return FailErrno("opening " + shown, errno);
  }
  struct stat st {};
  if (fstat(fd.get(), &st) != 0) {
    return FailErrno("reading " + shown, errno);
  }
  if (!S_ISREG(st.st_mode)) {
    return Fail(ErrorCode::kInvalidInput, shown + " is no regular file");
  }
  return fd;
}

}  // namespace

tl::unexpected<Error> FailErrno(const std::string& doing, int error) {
  ErrorCode code = ErrorCode::kInternal;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      code = ErrorCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = ErrorCode::kDenied;
      break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      code = ErrorCode::kFull;
      break;
    case ELOOP:
      code = ErrorCode::kInvalidInput;
      break;
    case EAGAIN:
    case EINTR:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      code = ErrorCode::kUnavailable;
      break;
    default:
      break;
  }
  if (error == ELOOP) {
    return Fail(code, doing + ": it is a symbolic link");
  }
  return Fail(code, doing + ": " + strerror(error));
}

Status SyncFolder(const std::string& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    return FailErrno("opening folder " + folder, errno);
  }
  // EINVAL: a file system that knows no sync of folders (some FUSE ones); nothing more can be done.
  if (fsync(fd.get()) != 0 && errno != EINVAL) {
    return FailErrno("syncing folder " + folder, errno);
  }
  return {};
}

Status WriteFileAtomic(const std::string& path, std::string_view bytes) {
  ATTUNE_RETURN_IF_ERROR(Replace(path, bytes, true));
  return SyncFolder(FolderOf(path));
}

Status ReplaceFile(const std::string& path, std::string_view bytes) {
  return Replace(path, bytes, false);
}

Result<bool> ClaimFile(const std::string& path, std::string_view bytes) {
  ATTUNE_TRY(const std::string temporary, WriteTemporary(path, bytes, true));
  const int linked = link(temporary.c_str(), path.c_str());
  const int error = errno;
  // A lost answer of an NFS server makes a link that worked look like EEXIST: two names of one file
  // are the proof.
  struct stat st {};
  const bool ours = linked == 0 || (stat(temporary.c_str(), &st) == 0 && st.st_nlink == 2);
  unlink(temporary.c_str());
  if (!ours) {
    if (error == EEXIST) {
      return false;
    }
    return FailErrno("claiming " + path, error);
  }
  ATTUNE_RETURN_IF_ERROR(SyncFolder(FolderOf(path)));
  return true;
}

Result<std::string> ReadFd(int fd, std::int64_t offset, std::int64_t size) {
  std::string out;
  // Polls mostly read a few bytes or none where a megabyte is allowed: pieces begin small, since the
  // memory of one is cleared before it is read into.
  constexpr std::int64_t kLargestPiece = 1 << 20;
  std::int64_t piece = 1 << 12;
  while (size > 0) {
    const std::size_t have = out.size();
    const auto want = static_cast<std::size_t>(std::min(size, piece));
    piece = std::min(4 * piece, kLargestPiece);
    out.resize(have + want);
    const ssize_t n = pread(fd, out.data() + have, want, offset);
    if (n < 0) {
      out.resize(have);
      if (errno == EINTR) {
        continue;
      }
      return FailErrno("reading", errno);
    }
    out.resize(have + static_cast<std::size_t>(n));
    if (n == 0) {
      break;
    }
    offset += n;
    size -= n;
  }
  return out;
}

Result<std::string> ReadFileBounded(const std::string& path, std::int64_t max) {
  ATTUNE_TRY(const Fd fd, OpenRegular(AT_FDCWD, path, path));
  // One byte more than allowed tells "too long" apart from "exactly as long".
  auto bytes = ReadFd(fd.get(), 0, max + 1);
  if (!bytes) {
    return Fail(path, std::move(bytes.error()));
  }
  if (static_cast<std::int64_t>(bytes->size()) > max) {
    return Fail(ErrorCode::kInvalidInput,
                path + " is longer than " + std::to_string(max) + " bytes");
  }
  return bytes;
}

Result<std::string> ReadRange(const std::string& path, std::int64_t offset, std::int64_t size) {
  if (offset < 0 || size < 0) {
    return Fail(ErrorCode::kInvalidInput, "reading " + path + ": a negative range");
  }
  ATTUNE_TRY(const Fd fd, OpenRegular(AT_FDCWD, path, path));
  return ReadFd(fd.get(), offset, size);
}

Status WriteRange(const std::string& path, std::int64_t offset, std::string_view bytes) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return FailErrno("opening " + path, errno);
  }
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd.get(), bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return FailErrno("writing " + path, errno);
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += n;
  }
  return {};
}

Result<std::string> ReadTail(const std::string& path, std::int64_t max) {
  ATTUNE_TRY(const FileFacts facts, StatFile(path));
  return ReadRange(path, std::max<std::int64_t>(0, facts.size - max), max);
}

Result<Fd> OpenBelow(const std::string& folder, const std::string& relative) {
  const std::string shown = folder + "/" + relative;
  if (relative.empty() || relative.find('\0') != std::string::npos) {
    return Fail(ErrorCode::kInvalidInput, "not a path below " + folder);
  }
  Fd at(open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!at.valid()) {
    return FailErrno("opening folder " + folder, errno);
  }
  const std::vector<std::string_view> parts = Split(relative, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part(parts[i]);
    if (part.empty() || part == "." || part == "..") {
      return Fail(ErrorCode::kInvalidInput, "'" + shown + "' leaves its folder or is not plain");
    }
    if (i + 1 == parts.size()) {
      return OpenRegular(at.get(), part, shown);
    }
    Fd next(openat(at.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) {
      return FailErrno("opening " + shown, errno);
    }
    at = std::move(next);
  }
  return Fail(ErrorCode::kInvalidInput, "not a path below " + folder);
}

Result<FileFacts> StatFile(const std::string& path) {
  struct stat st {};
  if (lstat(path.c_str(), &st) != 0) {
    return FailErrno("looking at " + path, errno);
  }
  if (!S_ISREG(st.st_mode)) {
    return Fail(ErrorCode::kInvalidInput, path + " is no regular file");
  }
  return FileFacts{st.st_size,
                   std::int64_t{st.st_mtim.tv_sec} * 1000 + st.st_mtim.tv_nsec / 1'000'000};
}

bool Exists(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0;
}

Result<bool> MakeFolderOnce(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) {
    return true;
  }
  const int error = errno;
  struct stat st {};
  if (error == EEXIST && lstat(path.c_str(), &st) == 0) {
    if (S_ISDIR(st.st_mode)) {
      return false;
    }
    return Fail(ErrorCode::kInvalidInput,
                path + (S_ISLNK(st.st_mode) ? " is a symbolic link" : " is no folder"),
                "move it away, or choose another folder");
  }
  return FailErrno("making folder " + path, error);
}

Status MakeFolder(const std::string& path) {
  auto made = MakeFolderOnce(path);
  if (!made && made.error().code == ErrorCode::kNotFound && FolderOf(path) != path) {
    // Parents may be links (a home folder often is one): only the folder itself must not be.
    if (!Exists(FolderOf(path))) {
      ATTUNE_RETURN_IF_ERROR(MakeFolder(FolderOf(path)));
    }
    made = MakeFolderOnce(path);
  }
  if (!made) {
    return Fail(std::move(made.error()));
  }
  return {};
}

Result<std::optional<FileLock>> FileLock::Try(const std::string& path, Millis wait) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return FailErrno("opening lock " + path, errno);
  }
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_BOOTTIME, &t);
    return Millis{std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000};
  };
  const Millis until = now() + wait;
  for (;;) {
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      return std::optional<FileLock>(FileLock(std::move(fd)));
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return FailErrno("locking " + path, errno);
    }
    if (now() >= until) {
      return std::optional<FileLock>();
    }
    const timespec nap{0, 5'000'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace attune::os
