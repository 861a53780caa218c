#include "database.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "attune/base/clock.h"
#include "attune/base/text.h"
#include "file_system.h"
#include "migrations.h"

namespace attune {
namespace {

constexpr const char* kFileName = "attune.db";
constexpr std::size_t kHeaderBytes = 100;  // of a SQLite file (fileformat2, section 1.3)

struct Header {
  bool exists = false;  // with at least one byte
  bool sqlite = false;
  std::uint32_t user_version = 0, application_id = 0;
};

std::uint32_t BigEndian(const unsigned char* p) {
  return static_cast<std::uint32_t>(p[0]) << 24 | static_cast<std::uint32_t>(p[1]) << 16 |
         static_cast<std::uint32_t>(p[2]) << 8 | static_cast<std::uint32_t>(p[3]);
}

// Read with plain file calls: SQLite itself may write beside a file that it opens, and a file of a
// newer attune is to be left as it is.
Result<Header> ReadHeader(const std::string& path) {
  Header header;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return header;
    return Fail(ErrorCode::kDenied, fmt::format("opening {}: {}", path, std::strerror(errno)));
  }
  std::array<unsigned char, kHeaderBytes> bytes{};
  const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), 0);
  ::close(fd);
  if (n < 0) return Fail(ErrorCode::kDenied, fmt::format("reading {}: {}", path, strerror(errno)));
  header.exists = n > 0;
  header.sqlite = n == static_cast<ssize_t>(bytes.size()) &&
                  std::memcmp(bytes.data(), "SQLite format 3", 16) == 0;
  header.user_version = BigEndian(bytes.data() + 60);
  header.application_id = BigEndian(bytes.data() + 68);
  return header;
}

Error NewerFormat(const std::string& path, std::int64_t version, int known) {
  return Error{ErrorCode::kNewerFormat,
               fmt::format("{} was written by a newer attune (schema {}, this one knows {})", path,
                           version, known),
               "upgrade attune, or name another folder with --state DIR"};
}

Error NotOurs(const std::string& path) {
  return Error{ErrorCode::kCorrupt, fmt::format("{} is no attune database", path),
               "name another folder with --state DIR"};
}

// umask is the whole process's, so the file is made here with its mode; SQLite gives its journals
// the mode of the database.
Status MakeFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Fail(errno == ENOSPC ? ErrorCode::kFull : ErrorCode::kDenied,
                fmt::format("creating {}: {}", path, std::strerror(errno)),
                "name a writable folder with --state DIR or ATTUNE_STATE_DIR");
  }
  ::close(fd);
  return {};
}

Status CopyBeforeUpgrade(sqlite3* from, const std::string& target) {
  const std::string partial = target + ".part";
  ::unlink(partial.c_str());
  ATTUNE_RETURN_IF_ERROR(MakeFile(partial));
  ATTUNE_TRY(sql::Connection to, sql::Connection::Open(partial, SQLITE_OPEN_READWRITE));
  sqlite3_backup* backup = sqlite3_backup_init(to.raw(), "main", from, "main");
  if (backup == nullptr) return Fail(to.ErrorOf("copying before the upgrade", SQLITE_ERROR));
  const int code = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE) return Fail(to.ErrorOf("copying before the upgrade", code));
  ATTUNE_RETURN_IF_ERROR(SyncFile(partial));
  if (::rename(partial.c_str(), target.c_str()) != 0) {
    return Fail(ErrorCode::kInternal,
                fmt::format("renaming {}: {}", partial, std::strerror(errno)));
  }
  return {};
}

std::string SynchronousWord(const std::string& number) {
  if (number == "0") return "off";
  if (number == "1") return "normal";
  if (number == "2") return "full";
  if (number == "3") return "extra";
  return number;
}

Status ApplyMigration(sql::Connection& connection, const Migration& migration, Instant now) {
  ATTUNE_RETURN_IF_ERROR(connection.Script(std::string(migration.text)));
  ATTUNE_TRY(int rows,
             connection.Run("INSERT INTO schema_history VALUES(?, ?, ?, ?)", migration.version,
                            migration.name, Sha256Hex(migration.text), now));
  (void)rows;
  return connection.Script(fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {};",
                                       migration.version, kApplicationId));
}

}  // namespace

Result<Database> Database::InMemory() {
  ATTUNE_TRY(sql::Connection connection,
             sql::Connection::Open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  Database database(std::move(connection), BuiltInMigrations());
  for (const Migration& migration : database.migrations_) {
    ATTUNE_RETURN_IF_ERROR(ApplyMigration(database.connection_, migration, Instant{0}));
  }
  return database;
}

Result<Database> Database::Open(const std::string& folder, const StoreOptions& options,
                                std::span<const Migration> migrations) {
  const int known = static_cast<int>(migrations.size());
  const std::string path = folder + "/" + kFileName;
  if (!options.read_only) ATTUNE_RETURN_IF_ERROR(MakeFolder(folder));
  ATTUNE_TRY(const Header header, ReadHeader(path));
  if (header.exists) {
    if (!header.sqlite) return Fail(NotOurs(path));
    // A file whose first transaction is still in the WAL has zeros here; SQLite is asked below.
    if (header.application_id != 0 && header.application_id != kApplicationId) {
      return Fail(NotOurs(path));
    }
    if (header.user_version > static_cast<std::uint32_t>(known)) {
      return Fail(NewerFormat(path, header.user_version, known));
    }
  } else if (options.read_only) {
    return Fail(ErrorCode::kNotFound, fmt::format("no campaigns yet: there is no {}", path));
  } else {
    ATTUNE_RETURN_IF_ERROR(MakeFile(path));
  }

  ATTUNE_TRY(
      sql::Connection connection,
      sql::Connection::Open(path, options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE,
                            options.vfs));
  sqlite3_busy_timeout(connection.raw(), static_cast<int>(options.busy_timeout.count()));
  sqlite3_db_config(connection.raw(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // Until the version is known, closing must not write the WAL back into the file.
  sqlite3_db_config(connection.raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  ATTUNE_TRY(const std::string version, connection.Pragma("user_version"));
  const std::int64_t number = ParseInt(version).value_or(0);
  if (number > known) return Fail(NewerFormat(path, number, known));
  ATTUNE_TRY(const std::string id, connection.Pragma("application_id"));
  if (number > 0 && id != std::to_string(kApplicationId)) return Fail(NotOurs(path));
  if (number == 0) {
    ATTUNE_TRY(const std::string tables, connection.Pragma("schema_version"));
    if (tables != "0") return Fail(NotOurs(path));
  }
  if (options.read_only && number < known) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{} has an older schema ({} of {})", path, number, known),
                "run a command that may write, for example: attune db check");
  }
  sqlite3_db_config(connection.raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);

  Database database(std::move(connection), migrations);
  database.path_ = path;
  database.hooks_ = options.hooks;
  FileSystemKind kind;
  if (options.fs_magic) {
    kind = KindOfMagic(*options.fs_magic);
  } else {
    ATTUNE_TRY(kind, KindOf(folder));
  }
  database.pragmas_.file_system = kind.name;
  ATTUNE_RETURN_IF_ERROR(database.SetPragmas(options, kind.network));
  if (!options.read_only) ATTUNE_RETURN_IF_ERROR(database.Upgrade());
  return database;
}

Status Database::SetPragmas(const StoreOptions& options, bool network) {
  pragmas_.network = network;
  // mmap is off everywhere: a truncated file would be a SIGBUS instead of an error.
  ATTUNE_RETURN_IF_ERROR(
      connection_.Script("PRAGMA mmap_size = 0; PRAGMA foreign_keys = ON;"
                         "PRAGMA trusted_schema = OFF;"
                         "PRAGMA cell_size_check = ON;"));
  ATTUNE_RETURN_IF_ERROR(
      connection_.Script(network ? "PRAGMA synchronous = EXTRA" : "PRAGMA synchronous = FULL"));
  if (!options.read_only) {
    const std::string journal = network ? "delete" : "wal";
    ATTUNE_TRY(const std::string set, connection_.Pragma("journal_mode = " + journal));
    if (set != journal) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("{} stays in journal mode {}, {} needs {}", path_, set,
                              pragmas_.file_system, journal),
                  "end the other attune processes that use it");
    }
    if (options.max_pages) {
      ATTUNE_RETURN_IF_ERROR(
          connection_.Script(fmt::format("PRAGMA max_page_count = {}", *options.max_pages)));
    }
  }
  std::string mmap, foreign_keys, trusted;
  const auto ask = [&](const char* name, std::string& to) -> Status {
    ATTUNE_TRY(to, connection_.Pragma(name));
    return {};
  };
  ATTUNE_RETURN_IF_ERROR(ask("journal_mode", pragmas_.journal_mode));
  ATTUNE_RETURN_IF_ERROR(ask("synchronous", pragmas_.synchronous));
  ATTUNE_RETURN_IF_ERROR(ask("mmap_size", mmap));
  ATTUNE_RETURN_IF_ERROR(ask("foreign_keys", foreign_keys));
  ATTUNE_RETURN_IF_ERROR(ask("trusted_schema", trusted));
  pragmas_.synchronous = SynchronousWord(pragmas_.synchronous);
  pragmas_.mmap_size = ParseInt(mmap).value_or(0);
  pragmas_.foreign_keys = foreign_keys == "1";
  pragmas_.trusted_schema = trusted != "0";
  return {};
}

Status Database::Upgrade() {
  ATTUNE_TRY(const std::string before, connection_.Pragma("user_version"));
  const int found = static_cast<int>(ParseInt(before).value_or(0));
  if (found == schema_version()) return {};
  if (found > 0) {
    const Status copied =
        CopyBeforeUpgrade(connection_.raw(), fmt::format("{}.v{}.bak", path_, found));
    if (!copied) return Fail("the database was not upgraded", copied.error());
  }
  SystemClock clock;
  for (const Migration& migration : migrations_.subspan(static_cast<std::size_t>(found))) {
    ATTUNE_RETURN_IF_ERROR(connection_.Script("BEGIN IMMEDIATE"));
    // Another process may have upgraded between the look and the lock.
    const auto step = [&]() -> Status {
      ATTUNE_TRY(const std::string now, connection_.Pragma("user_version"));
      if (now != std::to_string(migration.version - 1)) return {};
      return ApplyMigration(connection_, migration, clock.Now());
    };
    Status done = step();
    if (done) done = connection_.Script("COMMIT");
    if (!done) {
      if (connection_.InTransaction()) (void)connection_.Script("ROLLBACK");
      return Fail(fmt::format("migration {}", migration.name), done.error());
    }
  }
  return {};
}

Status Database::Transact(const std::function<Status()>& body) {
  // Prepared once, unlike a script: a campaign commits hundreds of times.
  const auto run = [&](const char* statement) -> Status {
    ATTUNE_TRY(const int rows, connection_.Run(statement));
    (void)rows;
    return {};
  };
  ATTUNE_RETURN_IF_ERROR(run("BEGIN IMMEDIATE"));
  const auto guarded = [&]() -> Status {
    ATTUNE_TRY(const std::string version, connection_.Pragma("user_version"));
    if (version != std::to_string(schema_version())) {
      return Fail(NewerFormat(path_, ParseInt(version).value_or(0), schema_version()));
    }
    ATTUNE_RETURN_IF_ERROR(body());
    if (hooks_.before_commit) ATTUNE_RETURN_IF_ERROR(hooks_.before_commit(commits_ + 1));
    return run("COMMIT");
  };
  const Status done = guarded();
  if (!done) {
    // SQLite may have rolled back by itself (disk full, I/O error).
    if (connection_.InTransaction()) (void)connection_.Script("ROLLBACK");
    return Fail(done.error());
  }
  ++commits_;
  if (hooks_.after_commit) ATTUNE_RETURN_IF_ERROR(hooks_.after_commit(commits_));
  return {};
}

Status Database::Snapshot(const std::function<Status()>& body) {
  if (connection_.InTransaction()) return body();
  ATTUNE_RETURN_IF_ERROR(connection_.Script("BEGIN"));
  const Status done = body();
  if (connection_.InTransaction()) (void)connection_.Script("COMMIT");
  return done;
}

}  // namespace attune
