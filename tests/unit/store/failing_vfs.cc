// Every sqlite3_file of ours is followed in memory by the file of the system VFS; all methods hand
// on, but xWrite counts first.
#include "failing_vfs.h"

#include <sqlite3.h>

namespace attune::made {
namespace {

int fail_at = 0, writes = 0;
bool all_after = false, failed = false;

struct File {
  sqlite3_file base;
  sqlite3_file* real;
};

sqlite3_file* Real(sqlite3_file* f) { return reinterpret_cast<File*>(f)->real; }

int Close(sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); }
int Read(sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
  return Real(f)->pMethods->xRead(Real(f), to, n, at);
}
int Write(sqlite3_file* f, const void* from, int n, sqlite3_int64 at) {
  ++writes;
  if (fail_at > 0 && (writes == fail_at || (all_after && writes > fail_at))) {
    failed = true;
    return SQLITE_FULL;
  }
  return Real(f)->pMethods->xWrite(Real(f), from, n, at);
}
int Truncate(sqlite3_file* f, sqlite3_int64 n) { return Real(f)->pMethods->xTruncate(Real(f), n); }
int Sync(sqlite3_file* f, int flags) { return Real(f)->pMethods->xSync(Real(f), flags); }
int FileSize(sqlite3_file* f, sqlite3_int64* n) { return Real(f)->pMethods->xFileSize(Real(f), n); }
int Lock(sqlite3_file* f, int level) { return Real(f)->pMethods->xLock(Real(f), level); }
int Unlock(sqlite3_file* f, int level) { return Real(f)->pMethods->xUnlock(Real(f), level); }
int CheckReserved(sqlite3_file* f, int* out) {
  return Real(f)->pMethods->xCheckReservedLock(Real(f), out);
}
int Control(sqlite3_file* f, int op, void* arg) {
  return Real(f)->pMethods->xFileControl(Real(f), op, arg);
}
int SectorSize(sqlite3_file* f) { return Real(f)->pMethods->xSectorSize(Real(f)); }
int Device(sqlite3_file* f) { return Real(f)->pMethods->xDeviceCharacteristics(Real(f)); }
int ShmMap(sqlite3_file* f, int region, int size, int extend, void volatile** to) {
  return Real(f)->pMethods->xShmMap(Real(f), region, size, extend, to);
}
int ShmLock(sqlite3_file* f, int offset, int n, int flags) {
  return Real(f)->pMethods->xShmLock(Real(f), offset, n, flags);
}
void ShmBarrier(sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); }
int ShmUnmap(sqlite3_file* f, int remove) { return Real(f)->pMethods->xShmUnmap(Real(f), remove); }

// Version 2: shared memory for WAL, no memory-mapped reads.
const sqlite3_io_methods kMethods = {2,          Close,      Read,    Write,  Truncate,
                                     Sync,       FileSize,   Lock,    Unlock, CheckReserved,
                                     Control,    SectorSize, Device,  ShmMap, ShmLock,
                                     ShmBarrier, ShmUnmap,   nullptr, nullptr};

int Open(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
  auto* system = static_cast<sqlite3_vfs*>(vfs->pAppData);
  auto* ours = reinterpret_cast<File*>(file);
  ours->real = reinterpret_cast<sqlite3_file*>(ours + 1);
  const int code = system->xOpen(system, name, ours->real, flags, out);
  ours->base.pMethods = ours->real->pMethods != nullptr ? &kMethods : nullptr;
  return code;
}

}  // namespace

const char* InstallFailingVfs() {
  static sqlite3_vfs vfs = [] {
    sqlite3_vfs* system = sqlite3_vfs_find(nullptr);
    sqlite3_vfs own = *system;
    own.zName = "attune-failing";
    own.szOsFile = static_cast<int>(sizeof(File)) + system->szOsFile;
    own.pNext = nullptr;
    own.pAppData = system;
    own.xOpen = Open;
    return own;
  }();
  // The other entries get `vfs`, whose pAppData the system's functions do not look at: they use the
  // finder of their own table only in xOpen.
  sqlite3_vfs_register(&vfs, 0);
  return vfs.zName;
}

void FailWrite(int nth, bool and_all_after) {
  fail_at = nth;
  all_after = and_all_after;
  writes = 0;
  failed = false;
}

bool WriteFailed() { return failed; }

}  // namespace attune::made
