#include "statement.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>

namespace attune::sql {
namespace {

ErrorCode CodeOf(int primary, int system_errno) {
  switch (primary) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kUnavailable;
    case SQLITE_FULL:
      return ErrorCode::kFull;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::kCorrupt;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return ErrorCode::kDenied;
    case SQLITE_IOERR:
      return system_errno == ENOSPC || system_errno == EDQUOT ? ErrorCode::kFull
                                                              : ErrorCode::kInternal;
    default:
      return ErrorCode::kInternal;
  }
}

std::string HelpFor(ErrorCode code) {
  if (code == ErrorCode::kFull) return "free some space, then resume: what was committed is safe";
  if (code == ErrorCode::kUnavailable) return "another process is writing; try again";
  return {};
}

}  // namespace

Result<bool> Rows::Next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const ErrorCode mapped = CodeOf(code & 0xff, sqlite3_system_errno(db_));
  return Fail(mapped, fmt::format("SQLite: {}", sqlite3_errmsg(db_)), HelpFor(mapped));
}

std::string Rows::Text(int column) const {
  const auto* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

Result<Connection> Connection::Open(const std::string& path, int flags, const std::string& vfs) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, vfs.empty() ? nullptr : vfs.c_str());
  Connection connection(raw);  // SQLite hands out a connection to close even when it fails
  if (code != SQLITE_OK) return Fail(connection.ErrorOf("opening " + path, code));
  sqlite3_extended_result_codes(raw, 1);
  return connection;
}

Error Connection::ErrorOf(std::string_view doing, int code) const {
  const ErrorCode mapped = CodeOf(code & 0xff, raw() ? sqlite3_system_errno(raw()) : 0);
  return Error{mapped,
               fmt::format("{}: {}", doing, raw() ? sqlite3_errmsg(raw()) : sqlite3_errstr(code)),
               HelpFor(mapped)};
}

Status Connection::Script(const std::string& text) {
  const int code = sqlite3_exec(raw(), text.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return Fail(ErrorOf("SQLite", code));
  return {};
}

Result<sqlite3_stmt*> Connection::Prepare(std::string_view text) {
  std::string key(text);
  if (const auto it = prepared_.find(key); it != prepared_.end()) return it->second.get();
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(raw(), key.c_str(), static_cast<int>(key.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Fail(ErrorOf("SQLite", code));
  prepared_.emplace(std::move(key), statement);
  return statement;
}

Result<std::string> Connection::Pragma(const std::string& name) {
  ATTUNE_TRY(Rows rows, Select("PRAGMA " + name));
  ATTUNE_TRY(const bool more, rows.Next());
  return more ? rows.Text(0) : std::string();
}

}  // namespace attune::sql
