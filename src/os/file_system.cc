// What lies under a path: decides whether a store may use write-ahead logging there.
#include <errno.h>
#include <stdio.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <array>

#include "attune/os/files.h"

namespace attune::os {
namespace {

struct Kind {
  std::uint32_t magic;
  std::string_view name;
  bool network;
};
// Magic numbers: statfs(2) and linux/magic.h; Lustre, GPFS, BeeGFS and WekaFS from their own
// headers. FUSE may be anything, so it counts as network.
constexpr std::array kKinds = {
    Kind{0xEF53, "ext4", false},        Kind{0x58465342, "xfs", false},
    Kind{0x9123683E, "btrfs", false},   Kind{0x01021994, "tmpfs", false},
    Kind{0x794c7630, "overlay", false}, Kind{0x2FC12FC1, "zfs", false},
    Kind{0xF2F52010, "f2fs", false},    Kind{0x858458f6, "ramfs", false},
    Kind{0x6969, "nfs", true},          Kind{0x0BD00BD0, "lustre", true},
    Kind{0x47504653, "gpfs", true},     Kind{0x19830326, "beegfs", true},
    Kind{0xFF534D42, "cifs", true},     Kind{0xFE534D42, "smb2", true},
    Kind{0x517B, "smb", true},          Kind{0x65735546, "fuse", true},
    Kind{0x00C36400, "ceph", true},     Kind{0x5346414F, "afs", true},
    Kind{0x01021997, "9p", true},       Kind{0x18031977, "weka", true},
    Kind{0x7461636f, "ocfs2", true},    Kind{0x01161970, "gfs2", true},
    Kind{0x6A656A63, "virtiofs", true}, Kind{0xAAD7AAEA, "panfs", true},
};

}  // namespace

Result<std::string> FileSystemKind(const std::string& path) {
  struct statfs st {};
  if (statfs(path.c_str(), &st) != 0) {
    return FailErrno("looking at the file system of " + path, errno);
  }
  const auto magic = static_cast<std::uint32_t>(st.f_type);
  for (const Kind& kind : kKinds) {
    if (kind.magic == magic) {
      return std::string(kind.name);
    }
  }
  char text[16];
  snprintf(text, sizeof text, "0x%x", magic);
  return std::string(text);
}

bool IsNetworkFileSystem(std::string_view kind) {
  for (const Kind& k : kKinds) {
    if (k.name == kind) {
      return k.network;
    }
  }
  return true;  // unknown: the careful answer
}

Result<std::int64_t> FreeBytes(const std::string& path) {
  struct statvfs st {};
  if (statvfs(path.c_str(), &st) != 0) {
    return FailErrno("looking at the free space of " + path, errno);
  }
  return static_cast<std::int64_t>(st.f_bavail) * static_cast<std::int64_t>(st.f_frsize);
}

}  // namespace attune::os
