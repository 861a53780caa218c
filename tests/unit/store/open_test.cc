#include <fcntl.h>
#include <fmt/core.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "attune/model/campaign.h"
#include "attune/store/store.h"
#include "database.h"
#include "file_system.h"
#include "gtest/gtest.h"
#include "made.h"
#include "migrations.h"

namespace attune {
namespace {

using made::AskSql;
using made::HandClock;
using made::OpenedOf;
using made::RunSql;
using made::TempFolder;

constexpr uid_t kNobody = 65534;
constexpr long kNfs = 0x6969, kLustre = 0x0BD00BD0, kGpfs = 0x47504653, kFuse = 0x65735546,
               kExt4 = 0xEF53;

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

unsigned Mode(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777U : 0U;
}

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(StoreOpen, TheFolderIsOursAloneWhateverTheUmaskIs) {
  const TempFolder folder;
  const mode_t old = ::umask(0);
  const auto store = Store::Open(folder / "a/b/state");
  ::umask(old);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(Mode(folder / "a/b/state"), 0700U);
  EXPECT_EQ(Mode(folder / "a/b/state/attune.db"), 0600U);
  EXPECT_EQ(Mode(folder / "a/b/state/attune.db-wal"), 0600U);
}

TEST(StoreOpen, ALocalDiskGetsWalWithFullSync) {
  const TempFolder folder;
  const auto store = Store::Open(folder.path(), {.fs_magic = kExt4});
  ASSERT_TRUE(store) << store.error().message;
  const StorePragmas& p = (*store)->pragmas();
  EXPECT_EQ(p.journal_mode, "wal");
  EXPECT_EQ(p.synchronous, "full");
  EXPECT_EQ(p.mmap_size, 0);
  EXPECT_TRUE(p.foreign_keys);
  EXPECT_FALSE(p.trusted_schema);
  EXPECT_FALSE(p.network);
}

TEST(StoreOpen, ANetworkFileSystemGetsARollbackJournalWithExtraSyncAndNoMmap) {
  for (const long magic : {kNfs, kLustre, kGpfs, kFuse}) {
    const TempFolder folder;
    const auto store = Store::Open(folder.path(), {.fs_magic = magic});
    ASSERT_TRUE(store) << store.error().message;
    const StorePragmas& p = (*store)->pragmas();
    EXPECT_TRUE(p.network);
    EXPECT_EQ(p.journal_mode, "delete") << p.file_system;
    EXPECT_EQ(p.synchronous, "extra");
    EXPECT_EQ(p.mmap_size, 0);
    ASSERT_TRUE((*store)->Create(OpenedOf("c-1"), Instant{1}));
    EXPECT_FALSE(std::filesystem::exists(folder / "attune.db-wal"));
    EXPECT_FALSE(std::filesystem::exists(folder / "attune.db-shm"));
  }
}

TEST(StoreOpen, AReaderDrivesTheFileAsTheFileSystemWantsIt) {
  for (const long magic : {kExt4, kNfs}) {
    const TempFolder folder;
    ASSERT_TRUE(Store::Open(folder.path(), {.fs_magic = magic}));
    const auto reader = Store::Open(folder.path(), {.read_only = true, .fs_magic = magic}).value();
    EXPECT_EQ(reader->pragmas().journal_mode, magic == kNfs ? "delete" : "wal");
    EXPECT_EQ(reader->pragmas().synchronous, magic == kNfs ? "extra" : "full");
    EXPECT_FALSE(reader->pragmas().trusted_schema);
  }
}

TEST(StoreOpen, AFileThatMovesToANetworkDiskLeavesWalBehind) {
  const TempFolder folder;
  ASSERT_TRUE(
      Store::Open(folder.path(), {.fs_magic = kExt4}).value()->Create(OpenedOf("c-1"), Instant{1}));
  const auto moved = Store::Open(folder.path(), {.fs_magic = kNfs});
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_EQ((*moved)->pragmas().journal_mode, "delete");
  EXPECT_EQ((*moved)->Load(CampaignId("c-1"))->size(), 1U);
}

TEST(StoreOpen, TheMagicOfA32BitKernelIsRecognisedWithItsSignBit) {
  EXPECT_EQ(KindOfMagic(static_cast<long>(0xFFFFFFFFFF534D42UL)).name, "cifs");
  EXPECT_FALSE(KindOfMagic(kExt4).network);
}

TEST(StoreOpen, TheFileCarriesOurMarkAndItsSchemaVersionAndHistory) {
  const TempFolder folder;
  ASSERT_TRUE(Store::Open(folder.path()));
  const std::string path = folder / "attune.db";
  EXPECT_EQ(AskSql(path, "PRAGMA application_id"), std::to_string(kApplicationId));
  EXPECT_EQ(AskSql(path, "PRAGMA user_version"), std::to_string(BuiltInMigrations().size()));
  EXPECT_EQ(AskSql(path, "SELECT count(*) FROM schema_history"),
            std::to_string(BuiltInMigrations().size()));
  EXPECT_EQ(AskSql(path, "SELECT length(sha256) FROM schema_history"), "64");
}

TEST(StoreOpen, EveryTableOfThePageIsThereAndStrict) {
  const TempFolder folder;
  ASSERT_TRUE(Store::Open(folder.path()));
  for (const char* table : {"campaign", "event", "launch", "run", "measurement", "verdict",
                            "diagnosis", "proposal", "llm_call", "lesson", "lesson_evidence",
                            "calibration", "lease", "schema_history", "wish"}) {
    EXPECT_EQ(AskSql(folder / "attune.db",
                     fmt::format("SELECT strict FROM pragma_table_list('{}')", table)),
              "1")
        << table;
  }
}

TEST(StoreOpen, ANewerFileIsRefusedAndLeftUntouchedToTheByte) {
  const TempFolder folder;
  ASSERT_TRUE(Store::Open(folder.path()).value()->Create(OpenedOf("c-1"), Instant{1}));
  ASSERT_EQ(RunSql(folder / "attune.db", "PRAGMA user_version = 9999"), "");
  const std::string before = Bytes(folder / "attune.db");
  const auto names = Names(folder.path());
  for (const bool read_only : {false, true}) {
    const auto store = Store::Open(folder.path(), {.read_only = read_only});
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, ErrorCode::kNewerFormat);
    EXPECT_NE(store.error().message.find("schema 9999"), std::string::npos);
    EXPECT_EQ(Bytes(folder / "attune.db"), before);
    EXPECT_EQ(Names(folder.path()), names);
  }
}

// Made by the first version: a campaign of a fake job from its opening to the shipped recipe.
TEST(StoreOpen, ADatabaseOfTheFirstVersionIsUpgradedAndUsed) {
  const TempFolder folder;
  std::filesystem::copy_file(ATTUNE_SOURCE_DIR "/tests/data/store/v1.db", folder / "attune.db");
  const auto store = Store::Open(folder.path());
  ASSERT_TRUE(store) << store.error().message;
  const CampaignId old("c-20261130-1e6d");
  const auto events = (*store)->Load(old);
  ASSERT_TRUE(events) << events.error().message;
  EXPECT_EQ(events->size(), 237u);
  CampaignState state;
  for (const Event& event : *events) state = Apply(std::move(state), event);
  EXPECT_EQ(state.phase, Phase::kShipped);
  EXPECT_EQ(state.runs.size(), 6u);
  const auto row = (*store)->FindRun(old, "r002");
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_EQ(row->standing, Standing::kWin);
  const auto diagnosis = (*store)->DiagnosisOf(old, row->id);
  ASSERT_TRUE(diagnosis && *diagnosis);
  EXPECT_EQ((*diagnosis)->source, "log");
  EXPECT_FALSE((*store)->DiagnosisOf(old, RunId("r099"))->has_value());
  const auto lines = (*store)->Check();
  ASSERT_TRUE(lines);
  for (const CheckLine& line : *lines) EXPECT_TRUE(line.ok) << line.what << ": " << line.found;

  HandClock clock;
  ASSERT_TRUE((*store)->Create(OpenedOf("c-2"), Instant{1}));
  const auto writer = (*store)->Acquire(CampaignId("c-2"), clock);
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_TRUE((*writer)->Append(Paused{"x"}, clock.Now()));
  EXPECT_EQ((*store)->Campaigns()->size(), 2u);
}

TEST(StoreOpen, ANewerVersionThatStandsOnlyInTheWalIsRefusedToo) {
  const TempFolder folder;
  ASSERT_TRUE(Store::Open(folder.path()));
  const std::string path = folder / "attune.db";
  sqlite3* newer = nullptr;  // stays open: nothing is copied from the WAL into the file
  ASSERT_EQ(sqlite3_open(path.c_str(), &newer), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(newer, "PRAGMA wal_autocheckpoint=0; PRAGMA user_version = 9999", nullptr,
                         nullptr, nullptr),
            SQLITE_OK);
  const std::string before = Bytes(path);
  const auto store = Store::Open(folder.path());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kNewerFormat);
  EXPECT_EQ(Bytes(path), before);
  sqlite3_close(newer);
}

TEST(StoreOpen, AWriterStopsWhenANewerAttuneUpgradesTheFileUnderIt) {
  const TempFolder folder;
  HandClock clock;
  const auto store = Store::Open(folder.path()).value();
  ASSERT_TRUE(store->Create(OpenedOf("c-1"), Instant{1}));
  const auto writer = store->Acquire(CampaignId("c-1"), clock).value();
  ASSERT_EQ(RunSql(folder / "attune.db", "PRAGMA user_version = 9999"), "");
  const auto event = writer->Append(Paused{"x"}, clock.Now());
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, ErrorCode::kNewerFormat);
}

TEST(StoreOpen, AnotherProgramsDatabaseOrFileIsRefused) {
  const TempFolder folder;
  const std::string path = folder / "attune.db";
  const auto refusal = [&] {
    const auto store = Store::Open(folder.path());
    return store ? ErrorCode::kInternal : store.error().code;
  };
  ASSERT_EQ(RunSql(path, "CREATE TABLE t(x)"), "");
  EXPECT_EQ(refusal(), ErrorCode::kCorrupt) << "no mark of ours";
  ASSERT_EQ(RunSql(path, "PRAGMA application_id = 7"), "");
  EXPECT_EQ(refusal(), ErrorCode::kCorrupt) << "another program's mark";
  std::ofstream(path, std::ios::trunc) << std::string(5000, 'x');
  EXPECT_EQ(refusal(), ErrorCode::kCorrupt) << "no database at all";
  EXPECT_EQ(Bytes(path), std::string(5000, 'x'));
}

TEST(StoreOpen, ReadingWithoutADatabaseCreatesNothing) {
  const TempFolder folder;
  const auto store = Store::Open(folder / "state", {.read_only = true});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder / "state"));
}

TEST(StoreOpen, AnUnwritableStateFolderIsDeniedByName) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  const auto below_a_file = Store::Open(folder / "file/state");
  ASSERT_FALSE(below_a_file);
  EXPECT_NE(below_a_file.error().message.find("file"), std::string::npos);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
  const auto denied = [&](const std::string& in) {
    // Root may write anywhere: the store is opened as somebody else.
    const bool root = ::geteuid() == 0;
    if (root &&
        (::chown(folder.path().c_str(), kNobody, kNobody) != 0 || ::seteuid(kNobody) != 0)) {
      return std::string("can't be tried");
    }
    const auto store = Store::Open(in);
    if (root && ::seteuid(0) != 0) return std::string("still somebody else");
    return store ? std::string("opened")
                 : (store.error().code == ErrorCode::kDenied ? "denied" : store.error().message);
  };
  EXPECT_EQ(denied(folder / "state"), "denied");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  ASSERT_TRUE(Store::Open(folder / "state"));
  EXPECT_EQ(denied(folder / "state"), ::geteuid() == 0 ? "denied" : "opened");
}

TEST(StoreOpen, OpeningTwiceChangesNothing) {
  const TempFolder folder;
  ASSERT_TRUE(Store::Open(folder.path()).value()->Create(OpenedOf("c-1"), Instant{1}));
  ASSERT_TRUE(Store::Open(folder.path()));
  EXPECT_EQ(Store::Open(folder.path()).value()->Load(CampaignId("c-1"))->size(), 1U);
  EXPECT_EQ(AskSql(folder / "attune.db", "SELECT count(*) FROM schema_history"),
            std::to_string(BuiltInMigrations().size()));
}

// A program whose schema is one further than ours.
std::vector<Migration> OneMore(const char* text) {
  const auto ours = BuiltInMigrations();
  std::vector<Migration> migrations(ours.begin(), ours.end());
  migrations.push_back({static_cast<int>(ours.size()) + 1, "0099_next", text});
  return migrations;
}

struct StoreUpgrade : testing::Test {
  TempFolder folder;
  const std::string path = folder / "attune.db";
  const std::string now = std::to_string(BuiltInMigrations().size());
  const std::string next = std::to_string(BuiltInMigrations().size() + 1);
  const std::string copy = path + ".v" + now + ".bak";

  void SetUp() override {
    ASSERT_TRUE(Store::Open(folder.path()).value()->Create(OpenedOf("c-1"), Instant{1}));
  }
  Result<Database> Upgrade(const std::vector<Migration>& migrations) {
    return Database::Open(folder.path(), {}, migrations);
  }
};

TEST_F(StoreUpgrade, AnOlderFileIsUpgradedAfterACopyThatStillOpens) {
  const auto migrations =
      OneMore("ALTER TABLE campaign ADD COLUMN extra TEXT NOT NULL DEFAULT 'x'");
  ASSERT_TRUE(Upgrade(migrations));
  EXPECT_EQ(AskSql(path, "PRAGMA user_version"), next);
  EXPECT_EQ(AskSql(path, "SELECT extra FROM campaign"), "x");
  EXPECT_EQ(AskSql(path, "SELECT max(version) FROM schema_history"), next);
  EXPECT_EQ(AskSql(copy, "PRAGMA user_version"), now);
  EXPECT_EQ(Mode(copy), 0600U);
  // And the program of before refuses the upgraded file, but opens the copy.
  EXPECT_EQ(Store::Open(folder.path()).error().code, ErrorCode::kNewerFormat);
  std::filesystem::create_directory(folder / "old");
  std::filesystem::copy_file(copy, folder / "old/attune.db");
  EXPECT_EQ(Store::Open(folder / "old").value()->Load(CampaignId("c-1"))->size(), 1U);
}

TEST_F(StoreUpgrade, AMigrationThatFailsHalfwayLeavesTheOldSchema) {
  const auto migrations = OneMore("CREATE TABLE half(x INTEGER) STRICT; CREATE TABEL broken(x);");
  const auto upgraded = Upgrade(migrations);
  ASSERT_FALSE(upgraded);
  EXPECT_NE(upgraded.error().message.find("migration 0099_next"), std::string::npos);
  EXPECT_EQ(AskSql(path, "PRAGMA user_version"), now);
  EXPECT_EQ(AskSql(path, "SELECT count(*) FROM sqlite_master WHERE name = 'half'"), "0");
  EXPECT_EQ(Store::Open(folder.path()).value()->Load(CampaignId("c-1"))->size(), 1U);
}

TEST_F(StoreUpgrade, WithoutACopyThereIsNoUpgrade) {
  std::filesystem::create_directories(copy + ".part/in the way");
  const auto migrations = OneMore("CREATE TABLE more(x INTEGER) STRICT");
  const auto upgraded = Upgrade(migrations);
  ASSERT_FALSE(upgraded);
  EXPECT_NE(upgraded.error().message.find("the database was not upgraded"), std::string::npos);
  EXPECT_EQ(AskSql(path, "PRAGMA user_version"), now);
}

TEST_F(StoreUpgrade, AReaderDoesNotUpgrade) {
  const auto migrations = OneMore("CREATE TABLE more(x INTEGER) STRICT");
  const auto reader = Database::Open(folder.path(), {.read_only = true}, migrations);
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().message.find("older schema"), std::string::npos);
  EXPECT_EQ(AskSql(path, "PRAGMA user_version"), now);
}

}  // namespace
}  // namespace attune
