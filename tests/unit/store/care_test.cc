#include <algorithm>
#include <filesystem>
#include <fstream>

#include "attune/store/store.h"
#include "event_json.h"
#include "gtest/gtest.h"
#include "made.h"

namespace attune {
namespace {

using made::CampaignFacts;
using made::HandClock;
using made::OpenedOf;
using made::TempFolder;

struct CareTest : testing::Test {
  TempFolder folder;
  HandClock clock;
  std::unique_ptr<Store> store = Store::Open(folder / "state").value();

  void Write(const std::string& id) {
    clock.Pass(Millis{1'000});
    ASSERT_TRUE(store->Create(OpenedOf(id), clock.Now()));
    const auto writer = store->Acquire(CampaignId(id), clock).value();
    for (const auto& facts : CampaignFacts(id, 3, 1)) {
      ASSERT_TRUE(writer->Append(facts, clock.Now()));
    }
  }
};

TEST_F(CareTest, ABackupIsAWholeStoreThatOpens) {
  Write("c-1");
  std::filesystem::create_directory(folder / "copy");
  const Status done = store->Backup(folder / "copy/attune.db");
  ASSERT_TRUE(done) << done.error().message;
  const auto copy = Store::Open(folder / "copy").value();
  EXPECT_EQ(copy->Load(CampaignId("c-1"))->size(), store->Load(CampaignId("c-1"))->size());
  const auto lines = copy->Check().value();
  for (const CheckLine& line : lines) {
    if (line.what == "state folder") continue;
    EXPECT_TRUE(line.ok) << line.what << ": " << line.found;
  }
}

TEST_F(CareTest, ABackupNeverReplacesAFile) {
  Write("c-1");
  ASSERT_TRUE(store->Backup(folder / "copy.db"));
  const Status again = store->Backup(folder / "copy.db");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidInput);
}

TEST_F(CareTest, TheExportHoldsEveryEventInOrderAndReadsBack) {
  Write("c-1");
  Write("c-2");
  std::vector<std::string> lines;
  ASSERT_TRUE(store->Export([&](const std::string& line) -> Status {
    lines.push_back(line);
    return {};
  }));
  std::vector<std::string> expected;
  for (const char* id : {"c-1", "c-2"}) {
    const auto events = store->Load(CampaignId(id)).value();
    for (const Event& event : events) {
      expected.push_back(EventLine(CampaignId(id), event).value());
    }
  }
  EXPECT_EQ(lines, expected);
  int only = 0;
  ASSERT_TRUE(store->Export(
      [&](const std::string&) -> Status {
        ++only;
        return {};
      },
      CampaignId("c-2")));
  EXPECT_EQ(only * 2, static_cast<int>(lines.size()));
}

TEST_F(CareTest, AnExportThatCantBeWrittenStops) {
  Write("c-1");
  int calls = 0;
  const Status done = store->Export([&](const std::string&) -> Status {
    ++calls;
    return Fail(ErrorCode::kFull, "disk full");
  });
  EXPECT_EQ(done.error().code, ErrorCode::kFull);
  EXPECT_EQ(calls, 1);
}

TEST_F(CareTest, PruningOffersRunFoldersOfEndedCampaignsOldestFirstAndKeepsTheNewest) {
  Write("c-1");
  Write("c-2");
  ASSERT_TRUE(store->Create(OpenedOf("c-3"), clock.Now() + Millis{1}));  // not ended
  const auto all = store->OldRuns(0).value();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().campaign.value, "c-1");
  EXPECT_EQ(all.back().campaign.value, "c-2");
  EXPECT_EQ(all.front().folder, "/r/runs/r001");
  const auto items = store->OldRuns(2).value();
  for (const auto& run : items) EXPECT_EQ(run.campaign.value, "c-1");
  EXPECT_TRUE(store->OldRuns(3)->empty());
}

TEST_F(CareTest, CompactingLosesNothing) {
  Write("c-1");
  const std::size_t events = store->Load(CampaignId("c-1"))->size();
  ASSERT_TRUE(store->Compact());
  EXPECT_EQ(store->Load(CampaignId("c-1"))->size(), events);
  const auto lines = store->Check().value();
  for (const CheckLine& line : lines) EXPECT_TRUE(line.ok) << line.found;
}

TEST_F(CareTest, ADamagedPageOrACutFileIsFoundWhereverItIs) {
  Write("c-1");
  const std::string path = store->path();
  store.reset();  // the last one to leave writes the WAL back
  constexpr std::uintmax_t kPage = 4096;
  const std::uintmax_t size = std::filesystem::file_size(path);
  ASSERT_EQ(size % kPage, 0U);
  const std::string whole = path + ".whole";
  std::filesystem::copy_file(path, whole);
  const auto found = [&] {
    const auto damaged = Store::Open(folder / "state", {.read_only = true});
    if (!damaged) return damaged.error().code == ErrorCode::kCorrupt;
    const auto lines = (*damaged)->Check();
    if (!lines) return lines.error().code == ErrorCode::kCorrupt;
    return std::any_of(lines->begin(), lines->end(), [](const CheckLine& l) { return !l.ok; });
  };
  const auto restore = [&] {
    for (const char* beside : {"-wal", "-shm"}) std::filesystem::remove(path + beside);
    std::filesystem::copy_file(whole, path, std::filesystem::copy_options::overwrite_existing);
  };
  EXPECT_FALSE(found()) << "sound before";
  for (std::uintmax_t at = kPage; at < size; at += kPage) {
    restore();
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(at));
      file << std::string(100, '\xff');
    }
    EXPECT_TRUE(found()) << "page " << at / kPage + 1;
    restore();
    std::filesystem::resize_file(path, at);
    EXPECT_TRUE(found()) << "cut to " << at;
  }
  restore();
  EXPECT_FALSE(found()) << "sound after";
}

TEST_F(CareTest, AFolderThatOthersCanEnterIsReported) {
  std::filesystem::permissions(folder / "state", std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  bool reported = false;
  const auto lines = store->Check().value();
  for (const CheckLine& line : lines) {
    if (line.what == "state folder") reported = !line.ok;
  }
  EXPECT_TRUE(reported);
}

}  // namespace
}  // namespace attune
