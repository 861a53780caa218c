// Something fails at the Nth step, for N = 1, 2, 3 ... until nothing fails. After each failure: the
// file is sound, what was reported as written is there, what failed is not, and the rest can be
// written to the same end.
#include <functional>

#include "attune/store/store.h"
#include "event_json.h"
#include "failing_vfs.h"
#include "gtest/gtest.h"
#include "made.h"

namespace attune {
namespace {

using made::CampaignFacts;
using made::HandClock;
using made::OpenedOf;
using made::TempFolder;

const CampaignId kId("c-1");

// A short campaign: what it writes, in order.
const std::vector<std::vector<Fact>>& Commits() {
  static const auto commits = [] {
    auto all = CampaignFacts(kId.value, 2, 3);
    all.resize(5);
    return all;
  }();
  return commits;
}

std::vector<std::string> Lines(Store& store) {
  std::vector<std::string> lines;
  const Status done = store.Export([&](const std::string& line) -> Status {
    lines.push_back(line);
    return {};
  });
  EXPECT_TRUE(done);
  return lines;
}

void ExpectSound(Store& store, const std::string& where) {
  const auto lines = store.Check();
  ASSERT_TRUE(lines) << where << ": " << lines.error().message;
  for (const CheckLine& line : *lines) {
    EXPECT_TRUE(line.ok) << where << ": " << line.what << ": " << line.found;
  }
}

// Runs the campaign from wherever the store is; `done` counts commits whose success was reported.
Status Go(const std::string& folder, StoreOptions options, HandClock& clock, std::size_t& done) {
  ATTUNE_TRY(const std::unique_ptr<Store> store, Store::Open(folder, std::move(options)));
  ATTUNE_TRY(const std::vector<CampaignRow> campaigns, store->Campaigns());
  if (campaigns.empty()) {
    ATTUNE_TRY(const Event opened, store->Create(OpenedOf(kId.value), Instant{1}));
    (void)opened;
  }
  ATTUNE_TRY(const std::unique_ptr<Writer> writer, store->Acquire(kId, clock));
  ATTUNE_TRY(const std::vector<Event> events, store->Load(kId));
  // Each commit is as long as its facts: find the first that is not there.
  std::size_t stored = events.size() - 1, next = 0;
  while (next < Commits().size() && stored >= Commits()[next].size()) {
    stored -= Commits()[next++].size();
  }
  EXPECT_EQ(stored, 0U) << "half a commit";
  EXPECT_GE(next, done) << "a commit that was reported is gone";
  for (; next < Commits().size(); ++next) {
    ATTUNE_TRY(const std::vector<Event> written, writer->Append(Commits()[next], Instant{2}));
    (void)written;
    done = next + 1;
  }
  return {};
}

std::vector<std::string> Unbroken() {
  const TempFolder folder;
  HandClock clock;
  std::size_t done = 0;
  EXPECT_TRUE(Go(folder / "state", {}, clock, done));
  return Lines(*Store::Open(folder / "state").value());
}

TEST(StoreFault, ADiskThatIsFullAtTheNthWriteLosesNothingThatWasReported) {
  const std::string vfs = made::InstallFailingVfs();
  const std::vector<std::string> unbroken = Unbroken();
  constexpr long kNfs = 0x6969;
  struct Disk {
    bool network, stays_full;
  };
  for (const auto& [network, stays_full] :
       {Disk{false, false}, Disk{false, true}, Disk{true, true}}) {
    const bool nfs = network;
    int n = 1;
    for (bool failed = true; failed; ++n) {
      const TempFolder folder;
      HandClock clock;
      const auto options = [&] {
        StoreOptions o;
        o.vfs = vfs;
        if (nfs) o.fs_magic = kNfs;
        return o;
      };
      std::size_t done = 0;
      if (stays_full) {  // the file is there already; the first disk has it made under failures
        ASSERT_TRUE(Store::Open(folder / "state", options()));
      }
      made::FailWrite(n, stays_full);
      const Status first = Go(folder / "state", options(), clock, done);
      failed = made::WriteFailed();
      made::FailWrite(0, false);
      const std::string where = "write " + std::to_string(n) + (network ? " network" : " local");
      if (!first) {
        EXPECT_EQ(first.error().code, ErrorCode::kFull) << where << ": " << first.error().message;
      }
      const Status second = Go(folder / "state", options(), clock, done);
      ASSERT_TRUE(second) << where << ": " << second.error().message;
      const auto store = Store::Open(folder / "state", options()).value();
      EXPECT_EQ(made::AskSql(store->path(), "PRAGMA integrity_check"), "ok") << where;
      if (n % 8 == 1) ExpectSound(*store, where);  // dearer: rebuilds every projection
      EXPECT_EQ(Lines(*store), unbroken) << where;
      ASSERT_LT(n, 2'000);
    }
    EXPECT_GT(n, 20) << "the campaign writes that often";
  }
}

TEST(StoreFault, ACutBeforeOrAfterTheNthCommitGoesOnToTheSameEnd) {
  const std::vector<std::string> unbroken = Unbroken();
  for (const bool after : {false, true}) {
    bool cut = true;
    int n = 1;
    for (; cut; ++n) {
      const TempFolder folder;
      HandClock clock;
      cut = false;
      StoreOptions options;
      (after ? options.hooks.after_commit : options.hooks.before_commit) = [&](int commit) {
        if (commit != n) return Status();
        cut = true;
        return Status(Fail(ErrorCode::kInternal, "cut"));
      };
      std::size_t done = 0;
      const Status first = Go(folder / "state", options, clock, done);
      EXPECT_EQ(first.has_value(), !cut);
      const Status second = Go(folder / "state", {}, clock, done);
      ASSERT_TRUE(second) << n << ": " << second.error().message;
      const auto store = Store::Open(folder / "state").value();
      ExpectSound(*store, "commit " + std::to_string(n));
      EXPECT_EQ(Lines(*store), unbroken) << n;
      ASSERT_LT(n, 100);
    }
    EXPECT_GT(n, 5);
  }
}

TEST(StoreFault, ADatabaseThatMayNotGrowReportsFullAndWritesNothing) {
  const TempFolder folder;
  HandClock clock;
  {
    const auto store = Store::Open(folder / "state").value();
    ASSERT_TRUE(store->Create(OpenedOf(kId.value), Instant{1}));
  }
  const auto store = Store::Open(folder / "state", {.max_pages = 1}).value();
  const auto writer = store->Acquire(kId, clock).value();
  const std::size_t before = store->Load(kId)->size();
  const auto event = writer->Append(Paused{std::string(100'000, 'x')}, Instant{2});
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, ErrorCode::kFull);
  EXPECT_NE(event.error().help, "");
  EXPECT_EQ(store->Load(kId)->size(), before);
  EXPECT_TRUE(writer->Check());
}

TEST(StoreFault, WhileAnotherProcessHoldsTheFileAWriteIsUnavailableNotLost) {
  const TempFolder folder;
  HandClock clock;
  const auto store = Store::Open(folder / "state", {.busy_timeout = Millis{1}}).value();
  ASSERT_TRUE(store->Create(OpenedOf(kId.value), Instant{1}));
  const auto writer = store->Acquire(kId, clock).value();
  StoreOptions options;
  bool inside = false;
  options.hooks.before_commit = [&](int) {
    if (inside) return Status();
    inside = true;
    const auto event = writer->Append(Paused{"x"}, Instant{2});
    EXPECT_FALSE(event);
    if (!event) {
      EXPECT_EQ(event.error().code, ErrorCode::kUnavailable);
    }
    return Status();
  };
  const auto other = Store::Open(folder / "state", options).value();
  ASSERT_TRUE(other->AddWish(kId, "drain", "x", Instant{2}));
  EXPECT_TRUE(writer->Append(Paused{"x"}, Instant{2}));
}

}  // namespace
}  // namespace attune
