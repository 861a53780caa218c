// The open database file: how it is opened, driven and upgraded, and the one way to write to it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "attune/store/store.h"
#include "migrations.h"
#include "statement.h"

namespace attune {

class Database {
 public:
  // `migrations` stand in for those of the program (tests of upgrades).
  static Result<Database> Open(const std::string& folder, const StoreOptions& options,
                               std::span<const Migration> migrations = BuiltInMigrations());
  // An empty database in memory with today's schema, for rebuilding projections beside the file.
  static Result<Database> InMemory();

  sql::Connection& connection() { return connection_; }
  const StorePragmas& pragmas() const { return pragmas_; }
  const std::string& path() const { return path_; }
  int schema_version() const { return static_cast<int>(migrations_.size()); }

  // One write transaction (BEGIN IMMEDIATE, so that two writers queue at its start): all of `body`
  // or nothing. Refuses when another attune has upgraded the file meanwhile.
  Status Transact(const std::function<Status()>& body);
  // One read transaction: every query of `body` sees the same moment.
  Status Snapshot(const std::function<Status()>& body);

 private:
  Database(sql::Connection connection, std::span<const Migration> migrations)
      : connection_(std::move(connection)), migrations_(migrations) {}
  Status SetPragmas(const StoreOptions& options, bool network);
  Status Upgrade();

  sql::Connection connection_;
  std::span<const Migration> migrations_;
  std::string path_;
  StorePragmas pragmas_;
  StoreHooks hooks_;
  int commits_ = 0;
};

}  // namespace attune
