// A SQLite VFS over the system's own that fails chosen writes with SQLITE_FULL: a disk that is
// full, at any moment of any file operation (database, journal, WAL).
#pragma once

namespace attune::made {

// Registers the VFS under this name; safe to call again.
const char* InstallFailingVfs();

// Writes are counted from 1 since the last call. The nth fails; with `and_all_after` every later
// one too. 0: none fails.
void FailWrite(int nth, bool and_all_after);
bool WriteFailed();  // since the last FailWrite

}  // namespace attune::made
