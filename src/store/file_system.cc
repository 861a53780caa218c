#include "file_system.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace attune {
namespace {

struct Magic {
  unsigned long value;
  const char* name;
};
// Values of <linux/magic.h> and, for those outside the kernel tree, of their own sources.
constexpr Magic kNetwork[] = {
    {0x6969, "nfs"},        {0x0BD00BD0, "lustre"}, {0x47504653, "gpfs"}, {0x65735546, "fuse"},
    {0xFF534D42, "cifs"},   {0xFE534D42, "smb2"},   {0x517B, "smb"},      {0x00C36400, "ceph"},
    {0x19830326, "beegfs"}, {0x5346414F, "afs"},    {0x73757245, "coda"}, {0x01021997, "9p"},
    {0xAAD7AAEA, "panfs"},  {0x7461636F, "ocfs2"},  {0x01161970, "gfs2"}, {0x786F4256, "vboxsf"},
    {0x20030528, "pvfs2"},
};

ErrorCode CodeOfErrno(int e) {
  if (e == EACCES || e == EPERM || e == EROFS) return ErrorCode::kDenied;
  if (e == ENOSPC || e == EDQUOT) return ErrorCode::kFull;
  if (e == ENOENT) return ErrorCode::kNotFound;
  return ErrorCode::kInternal;
}

Status SyncAt(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) {
    return Fail(CodeOfErrno(errno), fmt::format("opening {}: {}", path, std::strerror(errno)));
  }
  const int rc = ::fsync(fd);
  const int e = errno;
  ::close(fd);
  if (rc != 0) return Fail(CodeOfErrno(e), fmt::format("syncing {}: {}", path, std::strerror(e)));
  return {};
}

}  // namespace

FileSystemKind KindOfMagic(long f_type) {
  // The high half is sign extension on some platforms.
  const unsigned long value = static_cast<unsigned long>(f_type) & 0xFFFFFFFFUL;
  for (const Magic& m : kNetwork) {
    if (m.value == value) return {m.name, true};
  }
  return {"local", false};
}

Result<FileSystemKind> KindOf(const std::string& folder) {
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0) {
    return Fail(CodeOfErrno(errno), fmt::format("statfs {}: {}", folder, std::strerror(errno)));
  }
  return KindOfMagic(static_cast<long>(info.f_type));
}

Status MakeFolder(const std::string& folder) {
  if (folder.empty()) return Fail(ErrorCode::kInvalidInput, "the state folder has no name");
  for (std::size_t at = 1; at <= folder.size(); ++at) {
    if (at != folder.size() && folder[at] != '/') continue;
    const std::string part = folder.substr(0, at);
    if (::mkdir(part.c_str(), 0700) == 0 || errno == EEXIST) continue;
    return Fail(CodeOfErrno(errno), fmt::format("creating {}: {}", part, std::strerror(errno)),
                "name a writable folder with --state DIR or ATTUNE_STATE_DIR");
  }
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Fail(ErrorCode::kDenied, fmt::format("{} is not a folder", folder),
                "name a writable folder with --state DIR or ATTUNE_STATE_DIR");
  }
  return {};
}

Status SyncFile(const std::string& path) { return SyncAt(path, O_RDONLY); }
Status SyncFolder(const std::string& folder) { return SyncAt(folder, O_RDONLY | O_DIRECTORY); }

}  // namespace attune
