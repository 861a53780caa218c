// What lies under the state folder: network file systems get no WAL and no mmap, because both need
// memory shared between hosts (SQLite's own documentation of WAL says so).
#pragma once

#include <string>

#include "attune/base/result.h"

namespace attune {

struct FileSystemKind {
  std::string name;  // "nfs", "lustre" ...; "local" for all others
  bool network = false;
};

// By statfs().f_type. FUSE counts as network: what is behind it can't be seen (sshfs, s3fs).
FileSystemKind KindOfMagic(long f_type);
Result<FileSystemKind> KindOf(const std::string& folder);

// mkdir -p with 0700 for what is created.
Status MakeFolder(const std::string& folder);
Status SyncFile(const std::string& path);
Status SyncFolder(const std::string& folder);

}  // namespace attune
