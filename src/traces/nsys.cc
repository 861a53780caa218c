// Nsight Systems writes one database a report: names in StringIds, activity in tables that exist
// only when something of their kind was seen, columns that newer versions leave NULL. Each table is
// asked for first; one that is missing is noted, not an error.
#include "nsys.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "attune/base/text.h"
#include "byte_source.h"
#include "kernel_class.h"
#include "step_pattern.h"

namespace attune::traces {
namespace {

// pid and tid in one number (NVIDIA's export reference): 24 bits each, above them the machine.
constexpr std::int64_t kIdRange = 0x1000000;
constexpr std::int64_t kMaxDuration = std::int64_t{7} * 24 * 3600 * 1'000'000'000;
constexpr std::size_t kMaxNames = 4'000'000;

std::uint64_t ProcessOf(std::int64_t global_id) {
  return static_cast<std::uint64_t>(global_id / kIdRange % kIdRange);
}

// Correlation ids are unique in a process only.
std::uint64_t KeyOf(std::int64_t global_id, std::int64_t correlation) {
  return ProcessOf(global_id) << 40 ^ static_cast<std::uint64_t>(correlation);
}

struct Finalize {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};

class NsysReader {
 public:
  NsysReader(const std::string& path, const NsysOptions& options, EventStore& store)
      : path_(path), pattern_(options.step_pattern), store_(store) {}

  Status Run() {
    ATTUNE_RETURN_IF_ERROR(CheckLength());
    ATTUNE_RETURN_IF_ERROR(Open());
    if (!HasTable("StringIds")) {
      return Fail(ErrorCode::kInvalidInput,
                  path_ + ": an SQLite database without StringIds, no Nsight Systems export",
                  "make one with: nsys export --type sqlite REPORT");
    }
    ATTUNE_RETURN_IF_ERROR(ReadNames());
    ATTUNE_RETURN_IF_ERROR(ReadKernels());
    ATTUNE_RETURN_IF_ERROR(ReadCopies());
    ATTUNE_RETURN_IF_ERROR(ReadRuntime());
    ATTUNE_RETURN_IF_ERROR(ReadNvtx());
    ReadDevice();
    ReadEnvironment();
    if (HasTable("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")) ATTUNE_RETURN_IF_ERROR(ReadGraphs());
    return {};
  }

 private:
  Status Broken() const {
    const int code = sqlite3_errcode(db_.get());
    return Fail(code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? ErrorCode::kCorrupt
                                                                : ErrorCode::kUnavailable,
                path_ + ": " + sqlite3_errmsg(db_.get()));
  }

  // SQLite reads the missing half of a page as zeroes, so a cut file can pass for a shorter one.
  // The header says how many pages there are (sqlite.org/fileformat2.html, offsets 16 and 28).
  Status CheckLength() const {
    ATTUNE_TRY(const OpenedFile file, OpenFile(path_));
    unsigned char head[32] = {};
    std::size_t got = 0;
    while (got < sizeof head) {
      ATTUNE_TRY(const std::size_t n,
                 file.source->Read(reinterpret_cast<char*>(head) + got, sizeof head - got));
      if (n == 0) break;
      got += n;
    }
    const std::int64_t stated = head[16] << 8 | head[17];
    const std::int64_t page = stated == 1 ? 65536 : stated;
    const std::int64_t pages =
        std::int64_t{head[28]} << 24 | head[29] << 16 | head[30] << 8 | head[31];
    if (file.identity.bytes < page * pages) {
      return Fail(ErrorCode::kCorrupt, fmt::format("{}: is cut short: {} of {} bytes", path_,
                                                   file.identity.bytes, page * pages));
    }
    return {};
  }

  Status Open() {
    sqlite3* db = nullptr;
    const int rc =
        sqlite3_open_v2(path_.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
    db_.reset(db);
    if (rc != SQLITE_OK) {
      if (db == nullptr) return Fail(ErrorCode::kUnavailable, path_ + ": cannot be opened");
      return Broken();
    }
    // A file from elsewhere: no code of its schema is run, and its records are bounded.
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 16 * 1024 * 1024);
    sqlite3_exec(db, "PRAGMA cell_size_check=ON; PRAGMA cache_size=-8192; PRAGMA mmap_size=0;",
                 nullptr, nullptr, nullptr);
    return {};
  }

  Result<Statement> Prepare(const std::string& sql) {
    sqlite3_stmt* s = nullptr;
    if (sqlite3_prepare_v2(db_.get(), sql.c_str(), -1, &s, nullptr) != SQLITE_OK) {
      return Fail(std::move(Broken().error()));
    }
    return Statement(s);
  }

  // Runs a query and gives every row to `row`.
  template <class Row>
  Status Each(const std::string& sql, const Row& row) {
    ATTUNE_TRY(const Statement s, Prepare(sql));
    for (;;) {
      const int rc = sqlite3_step(s.get());
      if (rc == SQLITE_DONE) return {};
      if (rc != SQLITE_ROW) return Broken();
      row(s.get());
    }
  }

  // Tables only, not views: a view could be anything.
  bool HasTable(const std::string& table) { return !Columns(table).empty(); }

  const std::set<std::string>& Columns(const std::string& table) {
    const auto known = columns_.find(table);
    if (known != columns_.end()) return known->second;
    std::set<std::string>& names = columns_[table];
    bool is_table = false;
    auto s = Prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1");
    if (s && sqlite3_bind_text(s->get(), 1, table.c_str(), -1, SQLITE_TRANSIENT) == SQLITE_OK &&
        sqlite3_step(s->get()) == SQLITE_ROW) {
      is_table = sqlite3_column_int64(s->get(), 0) > 0;
    }
    if (!is_table) return names;
    const Status listed =
        Each(fmt::format("PRAGMA table_info({})", table), [&names](sqlite3_stmt* row) {
          const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(row, 1));
          if (name != nullptr) names.insert(name);
        });
    if (!listed) names.clear();
    return names;
  }

  // A column, or NULL where this version of the table does not have it.
  std::string Column(const std::string& table, const std::string& column) {
    return Columns(table).contains(column) ? column : "NULL";
  }

  std::string Select(const std::string& table, std::initializer_list<const char*> columns) {
    std::string sql = "SELECT ";
    bool first = true;
    for (const char* c : columns) {
      sql += (first ? "" : ", ") + Column(table, c);
      first = false;
    }
    return sql + " FROM " + table;
  }

  static bool IsNull(sqlite3_stmt* s, int column) {
    return sqlite3_column_type(s, column) == SQLITE_NULL;
  }
  static std::int64_t Int(sqlite3_stmt* s, int column, std::int64_t otherwise = 0) {
    return IsNull(s, column) ? otherwise : sqlite3_column_int64(s, column);
  }
  static std::string_view Text(sqlite3_stmt* s, int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s, column));
    if (text == nullptr) return {};
    return {text, static_cast<std::size_t>(sqlite3_column_bytes(s, column))};
  }

  Status ReadNames() {
    return Each(Select("StringIds", {"id", "value"}), [this](sqlite3_stmt* s) {
      if (names_.size() < kMaxNames) names_[Int(s, 0)] = store_.names.Intern(Text(s, 1));
    });
  }

  std::uint32_t NameOf(std::int64_t id) {
    const auto it = names_.find(id);
    return it != names_.end() ? it->second : store_.names.Intern("(no name)");
  }

  // Start and end of a row in columns 0 and 1. False: not to be used, and noted.
  bool Times(sqlite3_stmt* s, std::int64_t& start, std::int64_t& end) {
    ++store_.events;
    if (IsNull(s, 0)) {
      store_.notes.Add(Note::kBadTime);
      return false;
    }
    start = Int(s, 0);
    end = Int(s, 1, start);
    const std::optional<Note> wrong = WrongWith(start, end);
    if (wrong) store_.notes.Add(*wrong);
    return !wrong;
  }

  static std::optional<Note> WrongWith(std::int64_t start, std::int64_t end) {
    constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 2;
    if (start < -kFar || start > kFar || end < -kFar || end > kFar) return Note::kBadTime;
    if (end < start) return Note::kNegativeDuration;
    if (end - start > kMaxDuration) return Note::kAbsurdDuration;
    if (start == 0 && end == 0) return Note::kZeroTime;
    return std::nullopt;
  }

  Status Missing() {
    store_.notes.Add(Note::kMissingTable);
    return {};
  }

  Status ReadKernels() {
    const std::string table = "CUPTI_ACTIVITY_KIND_KERNEL";
    if (!HasTable(table)) return Missing();
    // The demangled name tells most; older exports have the short one only.
    return Each(Select(table, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                               "demangledName", "shortName", "gridX", "gridY", "gridZ"}),
                [this](sqlite3_stmt* s) {
                  GpuEvent g;
                  if (!Times(s, g.start, g.end)) return;
                  g.name = NameOf(IsNull(s, 6) ? Int(s, 7, -1) : Int(s, 6));
                  const bool comm =
                      ClassifyKernel(store_.names.Text(g.name)) == KernelClass::kCommunication;
                  g.cls = comm ? EventClass::kComm : EventClass::kCompute;
                  Place(s, g);
                  if (comm) {
                    g.extra = store_.AddComm({});
                  } else {
                    g.extra = Blocks(s);
                  }
                  store_.AddGpu(g);
                });
  }

  static std::uint32_t Blocks(sqlite3_stmt* s) {
    std::int64_t blocks = 1;
    for (int c = 8; c <= 10; ++c) {
      const std::int64_t n = Int(s, c);
      if (n <= 0 || n > 0x7fffffff || blocks > 0x7fffffff) return kNone;
      blocks *= n;
    }
    return static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, std::int64_t{kNone} - 1));
  }

  // Columns 2 to 5: device, stream, correlation, process.
  void Place(sqlite3_stmt* s, GpuEvent& g) {
    g.stream = store_.Stream({Int(s, 2, -1), Int(s, 3, -1)});
    if (!IsNull(s, 4)) {
      g.correlation = KeyOf(Int(s, 5), Int(s, 4));
      g.has_correlation = true;
    } else {
      store_.notes.Add(Note::kMissingArguments);
    }
  }

  static std::string_view CopyName(std::int64_t kind, bool pageable) {
    switch (kind) {
      case 1:
        return pageable ? "Memcpy HtoD (Pageable -> Device)" : "Memcpy HtoD (Pinned -> Device)";
      case 2:
        return "Memcpy DtoH";
      case 8:
        return "Memcpy DtoD";
      case 10:
        return "Memcpy PtoP";
      default:
        return "Memcpy";
    }
  }

  Status ReadCopies() {
    const std::string copies = "CUPTI_ACTIVITY_KIND_MEMCPY";
    if (HasTable(copies)) {
      constexpr std::int64_t kPageable = 0;  // of enum memory kinds: 0 pageable, 1 pinned
      ATTUNE_RETURN_IF_ERROR(
          Each(Select(copies, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                               "copyKind", "srcKind"}),
               [this](sqlite3_stmt* s) {
                 AddMemory(s, CopyName(Int(s, 6), !IsNull(s, 7) && Int(s, 7) == kPageable));
               }));
    }
    const std::string sets = "CUPTI_ACTIVITY_KIND_MEMSET";
    if (HasTable(sets)) {
      ATTUNE_RETURN_IF_ERROR(
          Each(Select(sets, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid"}),
               [this](sqlite3_stmt* s) { AddMemory(s, "Memset"); }));
    }
    return {};
  }

  void AddMemory(sqlite3_stmt* s, std::string_view name) {
    GpuEvent g;
    if (!Times(s, g.start, g.end)) return;
    g.name = store_.names.Intern(name);
    g.cls = EventClass::kMem;
    Place(s, g);
    store_.AddGpu(g);
  }

  std::uint16_t ThreadOf(std::int64_t global_tid) {
    return store_.Thread(std::to_string(ProcessOf(global_tid)),
                         std::to_string(global_tid % kIdRange));
  }

  Status ReadRuntime() {
    const std::string table = "CUPTI_ACTIVITY_KIND_RUNTIME";
    if (!HasTable(table)) return Missing();
    return Each(
        Select(table, {"start", "end", "globalTid", "correlationId", "nameId"}),
        [this](sqlite3_stmt* s) {
          std::int64_t start = 0, end = 0;
          if (!Times(s, start, end)) return;
          const std::uint32_t name = NameOf(Int(s, 4, -1));
          std::string_view text = store_.names.Text(name);
          // cudaLaunchKernel_v7000: the version of the entry point says nothing here.
          const std::size_t version = text.rfind("_v");
          if (version != std::string_view::npos && text.rfind("cuda", 0) == 0) {
            text = text.substr(0, version);
          }
          const RuntimeCall call = ClassifyRuntime(text);
          const std::uint16_t thread = ThreadOf(Int(s, 2));
          if (call.kind != HostKind::kNothing) {
            store_.AddHost({start, end, name, thread, call.kind});
          }
          if (!call.never_launches && !IsNull(s, 3)) {
            store_.AddLaunch({KeyOf(Int(s, 2), Int(s, 3)), start, thread, call.launch, false});
          }
        });
  }

  HostKind KindOf(std::string_view text) const {
    if (pattern_.Matches(text)) return HostKind::kStep;
    const HostKind kind = ClassifyOperator(text);
    if (kind != HostKind::kNothing || !pattern_.empty()) return kind;
    // Frameworks mark steps in their own words.
    for (const StepPattern& p : UsualStepPatterns()) {
      if (p.Matches(text)) return HostKind::kStep;
    }
    return HostKind::kNothing;
  }

  Status ReadNvtx() {
    const std::string table = "NVTX_EVENTS";
    if (!HasTable(table)) return Missing();
    constexpr std::int64_t kPushPop = 59, kStartEnd = 60;
    return Each(Select(table, {"start", "end", "globalTid", "eventType", "text", "textId"}),
                [this](sqlite3_stmt* s) {
                  const std::int64_t type = Int(s, 3);
                  if ((type != kPushPop && type != kStartEnd) || IsNull(s, 1)) return;
                  std::int64_t start = 0, end = 0;
                  if (!Times(s, start, end)) return;
                  const std::uint32_t name =
                      IsNull(s, 4) ? NameOf(Int(s, 5, -1)) : store_.names.Intern(Text(s, 4));
                  ++store_.host_events;
                  const HostKind kind = KindOf(store_.names.Text(name));
                  if (kind == HostKind::kNothing) return;
                  store_.AddHost({start, end, name, ThreadOf(Int(s, 2)), kind});
                });
  }

  // One row a graph: the kernels inside cannot be told apart, so it counts as one compute event.
  Status ReadGraphs() {
    const std::string table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
    return Each(
        Select(table, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid"}),
        [this](sqlite3_stmt* s) {
          GpuEvent g;
          if (!Times(s, g.start, g.end)) return;
          g.name = store_.names.Intern("CUDA graph");
          Place(s, g);
          store_.notes.Add(Note::kGraphTrace);
          store_.AddGpu(g);
        });
  }

  void ReadDevice() {
    const std::string table = "TARGET_INFO_GPU";
    if (!HasTable(table)) return;
    (void)Each(Select(table, {"name", "smCount"}) + " LIMIT 1", [this](sqlite3_stmt* s) {
      store_.device = EscapeForDisplay(Text(s, 0), 120);
      store_.processors = std::clamp<std::int64_t>(Int(s, 1), 0, 100'000);
    });
  }

  // The rank is no field of the export: the process environment has it where it was recorded.
  void ReadEnvironment() {
    const std::string table = "TARGET_INFO_SYSTEM_ENV";
    if (!HasTable(table)) return;
    (void)Each(Select(table, {"name", "value"}), [this](sqlite3_stmt* s) {
      const std::string_view name = Text(s, 0);
      const auto value = ParseInt(Text(s, 1));
      if (!value || *value < 0) return;
      if (name == "RANK" || (name == "SLURM_PROCID" && store_.rank < 0)) store_.rank = *value;
      if (name == "WORLD_SIZE" || (name == "SLURM_NTASKS" && store_.world_size < 0)) {
        store_.world_size = *value;
      }
    });
  }

  const std::string& path_;
  StepPattern pattern_;
  EventStore& store_;
  std::unique_ptr<sqlite3, Close> db_;
  std::map<std::string, std::set<std::string>> columns_;
  std::unordered_map<std::int64_t, std::uint32_t> names_;
};

}  // namespace

Status ReadNsys(const std::string& path, const NsysOptions& options, EventStore& store) {
  return NsysReader(path, options, store).Run();
}

}  // namespace attune::traces
