// Nsight Systems' export, from databases made here in the schema of its reference.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "attune/traces/diagnose.h"
#include "kineto_text.h"

namespace attune::traces {
namespace {

constexpr std::int64_t kProcess = std::int64_t{4711} * 0x1000000;
constexpr std::int64_t kThread = kProcess + 99;

class Nsys : public ::testing::Test {
 protected:
  Nsys() {
    std::string pattern = std::filesystem::temp_directory_path() / "nsys.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/report_rank3.sqlite";
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db_), SQLITE_OK);
    Sql("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  }
  ~Nsys() override {
    Finish();
    std::filesystem::remove_all(folder_);
  }

  void Sql(const std::string& sql) {
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << sql << ": " << (error != nullptr ? error : "");
    sqlite3_free(error);
  }
  int Name(const std::string& text) {
    ++names_;
    Sql("INSERT INTO StringIds VALUES (" + std::to_string(names_) + ", '" + text + "')");
    return names_;
  }
  void KernelTable() {
    Sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, "
        "streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT, gridX "
        "INT, "
        "gridY INT, gridZ INT)");
  }
  void Kernel(std::int64_t start, std::int64_t end, int name, int correlation, int stream = 7,
              std::int64_t process = kProcess) {
    Sql("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + std::to_string(start) + "," +
        std::to_string(end) + ",0,1," + std::to_string(stream) + "," + std::to_string(correlation) +
        "," + std::to_string(process) + "," + std::to_string(name) + ",NULL,128,2,1)");
  }
  void RuntimeTable() {
    Sql("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, "
        "correlationId "
        "INT, nameId INT, returnValue INT)");
  }
  void Runtime(std::int64_t start, std::int64_t end, int name, int correlation,
               std::int64_t thread = kThread) {
    Sql("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + std::to_string(start) + "," +
        std::to_string(end) + "," + std::to_string(thread) + "," + std::to_string(correlation) +
        "," + std::to_string(name) + ",0)");
  }
  void Nvtx(std::int64_t start, std::int64_t end, const std::string& text, int type = 59) {
    Sql("INSERT INTO NVTX_EVENTS VALUES (" + std::to_string(start) + "," + std::to_string(end) +
        "," + std::to_string(type) + ",'" + text + "',NULL," + std::to_string(kThread) + ")");
  }
  void NvtxTable() {
    Sql("CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, "
        "globalTid INT)");
  }
  void Finish() {
    if (db_ != nullptr) sqlite3_close(db_);
    db_ = nullptr;
  }
  RankTrace Read(const TraceOptions& options = {}) {
    Finish();
    auto read = ReadTraceFile(path_, options);
    EXPECT_TRUE(read.has_value()) << (read ? "" : read.error().message);
    return read ? *read : RankTrace{};
  }

  std::string folder_, path_;
  sqlite3* db_ = nullptr;
  int names_ = 0;
};

TEST_F(Nsys, GivesTheSameFiguresAsKinetoForTheSameTimeline) {
  KernelTable();
  RuntimeTable();
  NvtxTable();
  Sql("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT, "
      "correlationId INT, globalPid INT, bytes INT, copyKind INT, srcKind INT)");
  const int gemm = Name("gemm"), nccl = Name("ncclDevKernel_AllReduce");
  const int launch = Name("cudaLaunchKernel_v7000"), copy = Name("cudaMemcpyAsync_v3020");
  Nvtx(1000, 901'000, "iteration 5");
  Runtime(2000, 5000, launch, 1);
  Runtime(8000, 9000, launch, 2);
  Runtime(9500, 9600, copy, 3);
  Kernel(10'000, 110'000, gemm, 1);
  Kernel(60'000, 210'000, nccl, 2, 9);
  Sql("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (200000, 230000, 0, 11, 3, " +
      std::to_string(kProcess) + ", 64, 1, 0)");
  const RankTrace t = Read();
  EXPECT_EQ(t.format, TraceFormat::kNsightSystems);

  RankTrace same = MustRead(Document(
      {AnnotationEvent("ProfilerStep#5", 1000, 900'000), LaunchEvent(2000, 1), LaunchEvent(8000, 2),
       LaunchEvent(9500, 3, 1, "cudaMemcpyAsync"), KernelEvent("gemm", 10'000, 100'000, 1),
       KernelEvent("ncclDevKernel_AllReduce", 60'000, 150'000, 2, 9),
       CopyEvent("Memcpy HtoD (Pageable -> Device)", 200'000, 30'000, 3, 11)}));
  EXPECT_EQ(t.whole_file.counts.events, 3);
  EXPECT_EQ(t.whole_file.without_launch, 0);
  EXPECT_EQ(t.whole_file.time.busy, same.whole_file.time.busy);
  EXPECT_EQ(t.whole_file.time.exposed, same.whole_file.time.exposed);
  EXPECT_EQ(t.whole_file.time.mem, 30'000);
  EXPECT_EQ(t.whole_file.median_launch_delay, same.whole_file.median_launch_delay);
  ASSERT_EQ(t.steps.size(), 1u);
  EXPECT_EQ(t.steps[0].name, "iteration 5");
  EXPECT_EQ(t.steps[0].pageable_exposed, 30'000);
  ASSERT_EQ(t.collectives.size(), 1u);
  EXPECT_EQ(t.collectives[0].type, "allreduce");
}

TEST_F(Nsys, RanksComeFromTheEnvironmentElseFromTheName) {
  KernelTable();
  Kernel(1000, 2000, Name("k"), 1);
  Sql("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)");
  Sql("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('RANK', '6'), ('WORLD_SIZE', '8')");
  const RankTrace t = Read();
  EXPECT_EQ(t.rank, 6);
  EXPECT_EQ(t.world_size, 8);
}

TEST_F(Nsys, WithoutARankInTheFileTheNameIsAsked) {
  KernelTable();
  Kernel(1000, 2000, Name("k"), 1);
  const RankTrace t = Read();
  EXPECT_EQ(t.rank, 3);
  EXPECT_EQ(NoteCount(t, "rank_from_name"), 1);
  EXPECT_GE(NoteCount(t, "missing_table"), 2);  // neither runtime nor NVTX
  EXPECT_EQ(NoteCount(t, "no_steps"), 1);
}

TEST_F(Nsys, CorrelationsAreOfOneProcess) {
  KernelTable();
  RuntimeTable();
  const int name = Name("k"), launch = Name("cudaLaunchKernel");
  Runtime(1000, 1100, launch, 1);
  Kernel(2000, 3000, name, 1);
  Kernel(4000, 5000, name, 1, 7, kProcess + 0x1000000);
  const RankTrace t = Read();
  EXPECT_EQ(t.whole_file.counts.events, 2);
  EXPECT_EQ(t.whole_file.without_launch, 1);
}

TEST_F(Nsys, NullsAndOddTimesAreNoted) {
  KernelTable();
  const int name = Name("k");
  Kernel(1000, 2000, name, 1);
  Kernel(5000, 4000, name, 2);
  Sql("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end) VALUES (NULL, 5)");
  Sql("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end) VALUES (3000, 3500)");
  const RankTrace t = Read();
  EXPECT_EQ(t.whole_file.counts.events, 2);
  EXPECT_EQ(NoteCount(t, "negative_duration"), 1);
  EXPECT_EQ(NoteCount(t, "bad_time"), 1);
  EXPECT_EQ(NoteCount(t, "missing_arguments"), 1);
}

TEST_F(Nsys, OlderTablesWithoutColumnsAreRead) {
  Sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL, deviceId "
      "INT, "
      "streamId INT, correlationId INT, shortName INT)");
  const int name = Name("ncclKernel_AllGather_RING");
  Sql("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 1, " + std::to_string(name) +
      ")");
  EXPECT_EQ(Read().whole_file.counts.comm, 1);
}

TEST_F(Nsys, AStepPatternOfTheUserWins) {
  KernelTable();
  RuntimeTable();
  NvtxTable();
  Nvtx(0, 900, "iteration 1");
  Nvtx(1000, 2000, "my step 1");
  Nvtx(2000, 3000, "my step 2", 34);  // a mark in time is no range
  Runtime(1100, 1200, Name("cudaLaunchKernel"), 1);
  Kernel(1500, 1600, Name("k"), 1);
  TraceOptions options;
  options.step_pattern = "my step {n}";
  const RankTrace t = Read(options);
  ASSERT_EQ(t.steps.size(), 1u);
  EXPECT_EQ(t.steps[0].name, "my step 1");
}

TEST_F(Nsys, WholeGraphRowsAreCountedAndSaidSo) {
  Sql("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, streamId "
      "INT, "
      "correlationId INT, globalPid INT)");
  Sql("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (100, 300, 0, 7, 1, 0)");
  const RankTrace t = Read();
  EXPECT_EQ(t.whole_file.time.busy, 200);
  EXPECT_EQ(NoteCount(t, "graph_trace"), 1);
}

TEST_F(Nsys, AnotherDatabaseIsRefusedByName) {
  Sql("DROP TABLE StringIds");
  Sql("CREATE TABLE runs (id INT)");
  Finish();
  const auto read = ReadTraceFile(path_);
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("no Nsight Systems export"), std::string::npos);
}

TEST_F(Nsys, AViewInTheNameOfATableIsNotRead) {
  Sql("CREATE TABLE t (start INT, end INT)");
  Sql("INSERT INTO t VALUES (1, 2)");
  Sql("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM t");
  EXPECT_EQ(Read().whole_file.counts.events, 0);
}

TEST_F(Nsys, ADatabaseCutAnywhereIsRefused) {
  KernelTable();
  const int name = Name("k");
  Sql("BEGIN");
  for (int i = 0; i < 400; ++i) Kernel(1000 + i * 10, 1005 + i * 10, name, i);
  Sql("COMMIT");
  const std::int64_t all = Read().whole_file.counts.events;
  ASSERT_EQ(all, 400);
  std::ifstream in(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (std::size_t cut = 16; cut < bytes.size(); cut += 997) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes.substr(0, cut);
    const auto read = ReadTraceFile(path_);
    ASSERT_FALSE(read.has_value()) << cut;
  }
}

}  // namespace
}  // namespace attune::traces
