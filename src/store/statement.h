// SQLite's C API with owners: a connection that keeps its prepared statements, and the rows of one
// query. Errors carry what SQLite said; which ErrorCode a result code becomes is in statement.cc.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "attune/base/ids.h"
#include "attune/base/result.h"
#include "attune/base/units.h"

namespace attune::sql {

struct CloseStatement {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
struct CloseConnection {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};

// The rows of one query. While it lives the statement is in use; its destructor resets it.
class Rows {
 public:
  Rows(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  ~Rows() { Reset(); }
  Rows(Rows&& o) noexcept : db_(o.db_), statement_(std::exchange(o.statement_, nullptr)) {}
  Rows& operator=(Rows&& o) noexcept {
    if (this != &o) {
      Reset();
      db_ = o.db_;
      statement_ = std::exchange(o.statement_, nullptr);
    }
    return *this;
  }

  Result<bool> Next();  // false after the last row

  std::int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }
  int Small(int column) const { return sqlite3_column_int(statement_, column); }
  bool Bool(int column) const { return Int(column) != 0; }
  double Real(int column) const { return sqlite3_column_double(statement_, column); }
  std::string Text(int column) const;
  bool Null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::optional<std::int64_t> MaybeInt(int c) const {
    return Null(c) ? std::nullopt : std::optional(Int(c));
  }
  std::optional<double> MaybeReal(int c) const {
    return Null(c) ? std::nullopt : std::optional(Real(c));
  }
  int Columns() const { return sqlite3_column_count(statement_); }

 private:
  void Reset() {
    if (statement_ == nullptr) return;
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  sqlite3* db_;
  sqlite3_stmt* statement_;
};

class Connection {
 public:
  static Result<Connection> Open(const std::string& path, int flags, const std::string& vfs = {});
  Connection(Connection&&) = default;
  Connection& operator=(Connection&&) = default;

  sqlite3* raw() const { return db_.get(); }

  // Several statements, no parameters, no rows.
  Status Script(const std::string& text);
  // One statement without rows. Returns the number of changed rows.
  template <class... A>
  Result<int> Run(std::string_view text, const A&... args) {
    ATTUNE_TRY(Rows rows, Select(text, args...));
    ATTUNE_TRY(const bool more, rows.Next());
    (void)more;
    return sqlite3_changes(raw());
  }
  template <class... A>
  Result<Rows> Select(std::string_view text, const A&... args) {
    ATTUNE_TRY(sqlite3_stmt * statement, Prepare(text));
    Rows rows(raw(), statement);
    [[maybe_unused]] int i = 0;
    int bad = SQLITE_OK;
    ((bad = bad == SQLITE_OK ? Bind(statement, ++i, args) : bad), ...);
    if (bad != SQLITE_OK) return Fail(ErrorOf("binding", bad));
    return rows;
  }
  // The first column of the first row.
  Result<std::string> Pragma(const std::string& name);

  bool InTransaction() const { return sqlite3_get_autocommit(raw()) == 0; }
  Error ErrorOf(std::string_view doing, int code) const;

 private:
  explicit Connection(sqlite3* db) : db_(db) {}
  Result<sqlite3_stmt*> Prepare(std::string_view text);

  static int Bind(sqlite3_stmt* s, int i, std::int64_t v) { return sqlite3_bind_int64(s, i, v); }
  static int Bind(sqlite3_stmt* s, int i, int v) { return sqlite3_bind_int(s, i, v); }
  static int Bind(sqlite3_stmt* s, int i, bool v) { return sqlite3_bind_int(s, i, v ? 1 : 0); }
  static int Bind(sqlite3_stmt* s, int i, double v) { return sqlite3_bind_double(s, i, v); }
  static int Bind(sqlite3_stmt* s, int i, std::string_view v) {
    return sqlite3_bind_text64(s, i, v.data() == nullptr ? "" : v.data(), v.size(),
                               SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  static int Bind(sqlite3_stmt* s, int i, const std::string& v) {
    return Bind(s, i, std::string_view(v));
  }
  static int Bind(sqlite3_stmt* s, int i, const char* v) { return Bind(s, i, std::string_view(v)); }
  static int Bind(sqlite3_stmt* s, int i, Instant v) { return Bind(s, i, v.ms); }
  static int Bind(sqlite3_stmt* s, int i, Millis v) {
    return Bind(s, i, static_cast<std::int64_t>(v.count()));
  }
  static int Bind(sqlite3_stmt* s, int i, GpuMillis v) { return Bind(s, i, v.value); }
  template <class T>
  static int Bind(sqlite3_stmt* s, int i, const Id<T>& v) {
    return Bind(s, i, std::string_view(v.value));
  }
  template <class T>
  static int Bind(sqlite3_stmt* s, int i, const std::optional<T>& v) {
    return v ? Bind(s, i, *v) : sqlite3_bind_null(s, i);
  }

  // Order of destruction: statements before the connection.
  std::unique_ptr<sqlite3, CloseConnection> db_;
  std::unordered_map<std::string, std::unique_ptr<sqlite3_stmt, CloseStatement>> prepared_;
};

}  // namespace attune::sql
