// What keeps the file healthy: check, backup, export, rebuild, pruning.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "attune/store/store.h"
#include "event_json.h"
#include "file_system.h"
#include "impl.h"
#include "projector.h"

namespace attune {
namespace {

// One text a row, columns in order, so that two databases can be compared.
Result<std::vector<std::string>> DumpTable(sql::Connection& db, const char* table,
                                           const char* where, const char* order,
                                           const CampaignId& campaign) {
  ATTUNE_TRY(sql::Rows rows, db.Select(fmt::format("SELECT * FROM {} WHERE {} = ? ORDER BY {}",
                                                   table, where, order),
                                       campaign));
  std::vector<std::string> dump;
  for (;;) {
    ATTUNE_TRY(const bool more, rows.Next());
    if (!more) return dump;
    std::string line;
    for (int i = 0; i < rows.Columns(); ++i) {
      line += rows.Null(i) ? std::string("NULL") : "'" + rows.Text(i) + "'";
      line += '|';
    }
    dump.push_back(std::move(line));
  }
}

Status ReplayInto(sql::Connection& db, const CampaignId& campaign,
                  const std::vector<Event>& events) {
  Projector projector(db, campaign);
  for (const Event& event : events) {
    const Status done = projector.Project(event);
    if (!done) return Fail(fmt::format("event {}", event.seq), done.error());
  }
  if (events.empty()) return {};
  ATTUNE_TRY(const int rows, db.Run("UPDATE campaign SET last_seq = ?, updated_ms = ? WHERE id = ?",
                                    events.back().seq, events.back().at, campaign));
  (void)rows;
  return {};
}

// The same events, projected in a database of its own; empty when all tables agree.
Result<std::string> FirstDifference(sql::Connection& db, const CampaignId& campaign,
                                    const std::vector<Event>& events) {
  ATTUNE_TRY(Database fresh, Database::InMemory());
  // The bodies are needed too: what a change is compared with is read from the plan's event.
  ATTUNE_RETURN_IF_ERROR(fresh.connection().Script("BEGIN"));
  Projector projector(fresh.connection(), campaign);
  for (const Event& event : events) {
    ATTUNE_TRY(const std::string body, EncodeFact(event.fact));
    if (Status done = projector.Project(event); !done) {
      return Fail(fmt::format("event {}", event.seq), done.error());
    }
    ATTUNE_TRY(const int rows,
               fresh.connection().Run("INSERT INTO event VALUES(?, ?, ?, ?, ?)", campaign,
                                      event.seq, event.at, FactWord(event.fact), body));
    (void)rows;
  }
  ATTUNE_TRY(const int rows,
             fresh.connection().Run("UPDATE campaign SET last_seq = ?, updated_ms = ? WHERE id = ?",
                                    events.back().seq, events.back().at, campaign));
  (void)rows;
  ATTUNE_RETURN_IF_ERROR(fresh.connection().Script("COMMIT"));
  const auto compare = [&](const char* table, const char* where,
                           const char* order) -> Result<std::string> {
    ATTUNE_TRY(const auto stored, DumpTable(db, table, where, order, campaign));
    ATTUNE_TRY(const auto rebuilt, DumpTable(fresh.connection(), table, where, order, campaign));
    if (stored == rebuilt) return std::string();
    for (std::size_t i = 0; i < std::max(stored.size(), rebuilt.size()); ++i) {
      const std::string a = i < stored.size() ? stored[i] : "nothing";
      const std::string b = i < rebuilt.size() ? rebuilt[i] : "nothing";
      if (a != b) return fmt::format("{} row {}: stored {} rebuilt {}", table, i + 1, a, b);
    }
    return std::string();
  };
  ATTUNE_TRY(std::string difference, compare("campaign", "id", "id"));
  for (const ProjectionTable& table : kProjections) {
    if (!difference.empty()) break;
    ATTUNE_TRY(difference, compare(table.name, "campaign", table.key));
  }
  return difference;
}

CheckLine Line(bool ok, std::string what, std::string found) {
  return CheckLine{.ok = ok, .what = std::move(what), .found = std::move(found)};
}

}  // namespace

Status Store::RebuildProjections(const CampaignId& campaign) {
  sql::Connection& db = impl_->database.connection();
  return impl_->database.Transact([&]() -> Status {
    ATTUNE_TRY(const std::vector<Event> events, Load(campaign));
    // Events, lease and wishes point to the campaign's row while it is away.
    ATTUNE_RETURN_IF_ERROR(db.Script("PRAGMA defer_foreign_keys = ON"));
    for (const ProjectionTable& table : kProjections) {
      ATTUNE_TRY(const int rows,
                 db.Run(fmt::format("DELETE FROM {} WHERE campaign = ?", table.name), campaign));
      (void)rows;
    }
    ATTUNE_TRY(const int gone, db.Run("DELETE FROM campaign WHERE id = ?", campaign));
    (void)gone;
    return ReplayInto(db, campaign, events);
  });
}

Result<std::vector<CheckLine>> Store::Check() {
  std::vector<CheckLine> lines;
  sql::Connection& db = impl_->database.connection();
  const StorePragmas& p = pragmas();
  struct stat info {};
  if (::stat(folder().c_str(), &info) == 0) {
    const unsigned mode = info.st_mode & 0777U;
    lines.push_back(Line((mode & 077U) == 0, "state folder",
                         fmt::format("{} mode {:04o}{}", folder(), mode,
                                     (mode & 077U) == 0 ? "" : ": others can enter; chmod 700")));
  }
  lines.push_back(Line(p.journal_mode == (p.network ? "delete" : "wal"), "journal",
                       fmt::format("{} on a {} file system", p.journal_mode, p.file_system)));
  lines.push_back(
      Line(p.synchronous == (p.network ? "extra" : "full"), "synchronous", p.synchronous));
  lines.push_back(Line(p.mmap_size == 0, "mmap_size", std::to_string(p.mmap_size)));
  lines.push_back(Line(p.foreign_keys, "foreign_keys", p.foreign_keys ? "on" : "off"));
  lines.push_back(Line(!p.trusted_schema, "trusted_schema", p.trusted_schema ? "on" : "off"));
  lines.push_back(Line(true, "schema", std::to_string(impl_->database.schema_version())));

  const auto read = [&]() -> Status {
    ATTUNE_TRY(const std::string integrity, db.Pragma("integrity_check(1)"));
    lines.push_back(Line(integrity == "ok", "integrity_check", integrity));
    ATTUNE_TRY(const std::string foreign, db.Pragma("foreign_key_check"));
    lines.push_back(Line(foreign.empty(), "foreign_key_check",
                         foreign.empty() ? "ok" : "a row of " + foreign + " points to nothing"));
    ATTUNE_TRY(const std::vector<CampaignRow> campaigns, Campaigns());
    for (const CampaignRow& campaign : campaigns) {
      const std::string what = "campaign " + campaign.id.value;
      const Result<std::vector<Event>> events = Load(campaign.id);
      if (!events) {
        lines.push_back(Line(false, what, events.error().message));
        continue;
      }
      const Result<std::string> difference = FirstDifference(db, campaign.id, *events);
      if (!difference) {
        lines.push_back(Line(false, what, difference.error().message));
      } else if (!difference->empty()) {
        lines.push_back(Line(false, what, "projection differs from its events: " + *difference));
      } else {
        lines.push_back(Line(
            true, what, fmt::format("{} events, projections equal a rebuild", events->size())));
      }
    }
    return {};
  };
  // A file so damaged that a query fails is a finding too.
  if (const Status done = impl_->database.Snapshot(read); !done) {
    if (done.error().code != ErrorCode::kCorrupt) return Fail(done.error());
    lines.push_back(Line(false, "database", done.error().message));
  }
  return lines;
}

Status Store::Backup(const std::string& target) {
  const int fd = ::open(target.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Fail(errno == EEXIST   ? ErrorCode::kInvalidInput
                : errno == ENOSPC ? ErrorCode::kFull
                                  : ErrorCode::kDenied,
                fmt::format("{}: {}", target, std::strerror(errno)));
  }
  ::close(fd);
  const auto copy = [&]() -> Status {
    ATTUNE_TRY(sql::Connection to, sql::Connection::Open(target, SQLITE_OPEN_READWRITE));
    sqlite3_backup* backup =
        sqlite3_backup_init(to.raw(), "main", impl_->database.connection().raw(), "main");
    if (backup == nullptr) return Fail(to.ErrorOf("backup", SQLITE_ERROR));
    int code = SQLITE_OK;
    // In one step: the copy is of one moment, and a writer waits at most for a file copy.
    code = sqlite3_backup_step(backup, -1);
    sqlite3_backup_finish(backup);
    if (code != SQLITE_DONE) return Fail(to.ErrorOf("backup", code));
    // A copy that stands alone: its pages say DELETE, so that it can be read from anywhere.
    ATTUNE_TRY(const std::string mode, to.Pragma("journal_mode = delete"));
    (void)mode;
    return SyncFile(target);
  };
  const Status done = copy();
  if (!done) {
    ::unlink(target.c_str());
    return Fail("backup to " + target, done.error());
  }
  return {};
}

Status Store::Export(const std::function<Status(const std::string&)>& line,
                     const std::optional<CampaignId>& only) {
  sql::Connection& db = impl_->database.connection();
  return impl_->database.Snapshot([&]() -> Status {
    ATTUNE_TRY(std::vector<CampaignRow> campaigns, Campaigns());
    for (auto campaign = campaigns.rbegin(); campaign != campaigns.rend(); ++campaign) {
      if (only && campaign->id != *only) continue;
      ATTUNE_TRY(sql::Rows rows, db.Select("SELECT seq, at_ms, kind, body FROM event"
                                           " WHERE campaign = ? ORDER BY seq",
                                           campaign->id));
      for (;;) {
        ATTUNE_TRY(const bool more, rows.Next());
        if (!more) break;
        // Decoded first: what is damaged is not handed on.
        const std::string body = rows.Text(3);
        Result<Fact> fact = DecodeFact(rows.Text(2), body);
        if (!fact) {
          return Fail(fmt::format("campaign {} event {}", campaign->id.value, rows.Int(0)),
                      fact.error());
        }
        const Event event{.seq = rows.Int(0), .at = {rows.Int(1)}, .fact = *std::move(fact)};
        ATTUNE_RETURN_IF_ERROR(line(EventLine(campaign->id, event, body)));
      }
    }
    return {};
  });
}

Result<std::vector<Store::OldRun>> Store::OldRuns(int keep) {
  ATTUNE_TRY(const std::vector<CampaignRow> campaigns, Campaigns());
  std::vector<OldRun> old;
  for (std::size_t i = campaigns.size(); i-- > static_cast<std::size_t>(std::max(keep, 0));) {
    if (!campaigns[i].Ended()) continue;
    ATTUNE_TRY(sql::Rows rows,
               impl_->database.connection().Select("SELECT id, folder FROM run WHERE campaign = ?"
                                                   " AND folder != '' ORDER BY seq, position",
                                                   campaigns[i].id));
    for (;;) {
      ATTUNE_TRY(const bool more, rows.Next());
      if (!more) break;
      old.push_back(
          OldRun{.campaign = campaigns[i].id, .run = RunId(rows.Text(0)), .folder = rows.Text(1)});
    }
  }
  return old;
}

Status Store::Compact() {
  sql::Connection& db = impl_->database.connection();
  ATTUNE_RETURN_IF_ERROR(db.Script("VACUUM"));
  if (pragmas().journal_mode == "wal") {
    ATTUNE_TRY(const std::string busy, db.Pragma("wal_checkpoint(TRUNCATE)"));
    (void)busy;
  }
  return {};
}

}  // namespace attune
