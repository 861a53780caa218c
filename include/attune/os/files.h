// Files as a campaign needs them: written whole or not at all, claimed by exactly one, read with a
// bound, no symbolic link followed where somebody else may write.
//
// Errors: kNotFound, kDenied (permission, read-only file system), kFull (disk, quota, file size
// limit), kInvalidInput (a link or a device where a file is expected, larger than the bound),
// kInternal for the rest. Messages name the path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"
#include "attune/os/fd.h"

namespace attune::os {

// The error of a failed system call: "doing: strerror".
tl::unexpected<Error> FailErrno(const std::string& doing, int error);

// Temporary name in the same folder, fsync, rename, fsync of the folder: after a crash the file
// holds the old bytes or the new ones. Mode 0600.
Status WriteFileAtomic(const std::string& path, std::string_view bytes);
// The same without the syncs: whole for every reader, but a power cut may undo it. For beats.
Status ReplaceFile(const std::string& path, std::string_view bytes);
// Like WriteFileAtomic, but the name must be free: false when it is taken, and then nothing
// changed. link(2), which is atomic on NFS too, where O_EXCL once was not.
Result<bool> ClaimFile(const std::string& path, std::string_view bytes);
Status SyncFolder(const std::string& folder);

// The whole file. kInvalidInput when it is longer than `max` or no regular file. The last component
// is not followed when it is a link.
Result<std::string> ReadFileBounded(const std::string& path, std::int64_t max);
// At most `size` bytes from `offset`; empty at or behind the end.
Result<std::string> ReadRange(const std::string& path, std::int64_t offset, std::int64_t size);
// Writes at `offset`; the file is made when absent (mode 0600), never cut. A link is not followed.
Status WriteRange(const std::string& path, std::int64_t offset, std::string_view bytes);
Result<std::string> ReadTail(const std::string& path, std::int64_t max);
// Opens `relative` below `folder` without following any link on the way; "..", "." and absolute
// paths are kInvalidInput. Regular files only.
Result<Fd> OpenBelow(const std::string& folder, const std::string& relative);
Result<std::string> ReadFd(int fd, std::int64_t offset, std::int64_t size);
struct FileFacts {
  std::int64_t size = 0;
  std::int64_t modified_wall_ms = 0;
};
Result<FileFacts> StatFile(const std::string& path);  // regular files, links not followed
bool Exists(const std::string& path);                 // any kind; a dangling link exists

// Makes the folder with mode 0700, parents too. There already: it must be a folder and no link.
Status MakeFolder(const std::string& path);
// One level, in one step: true when this call made it, false when it was there (a real folder).
Result<bool> MakeFolderOnce(const std::string& path);

// "ext4", "xfs", "tmpfs", "nfs", "lustre", "overlay" ...; "0x<magic>" for one without a name here.
Result<std::string> FileSystemKind(const std::string& path);
// Kinds on which locks, mmap or the visibility of a write can't be trusted as on a local disk.
bool IsNetworkFileSystem(std::string_view kind);
Result<std::int64_t> FreeBytes(const std::string& path);  // for an ordinary user

// flock(2) on a file that is made when absent. Held until destruction or Release, and by every
// forked process that keeps the descriptor.
class FileLock {
 public:
  // nullopt: somebody else holds it, also after `wait`.
  static Result<std::optional<FileLock>> Try(const std::string& path, Millis wait = Millis{0});
  int fd() const { return fd_.get(); }
  Fd Release() { return std::move(fd_); }

 private:
  explicit FileLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace attune::os
