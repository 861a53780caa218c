#include "attune/store/store.h"

#include "attune/model/campaign.h"
#include "event_json.h"
#include "gtest/gtest.h"
#include "made.h"

namespace attune {
namespace {

using made::HandClock;
using made::OpenedOf;
using made::TempFolder;

std::unique_ptr<Store> OpenIn(const TempFolder& folder, StoreOptions options = {}) {
  Result<std::unique_ptr<Store>> store = Store::Open(folder / "state", std::move(options));
  if (!store) ADD_FAILURE() << store.error().message;
  return store ? *std::move(store) : nullptr;
}

struct StoreTest : testing::Test {
  TempFolder folder;
  HandClock clock;
  std::unique_ptr<Store> store = OpenIn(folder);
  const CampaignId id{"c-20261130-7f3a"};

  std::unique_ptr<Writer> Begin() {
    EXPECT_TRUE(store->Create(OpenedOf(id.value), clock.Now()));
    Result<std::unique_ptr<Writer>> writer = store->Acquire(id, clock);
    if (!writer) ADD_FAILURE() << writer.error().message;
    return writer ? *std::move(writer) : nullptr;
  }
};

TEST_F(StoreTest, WhatIsAppendedIsLoadedInOrderByAnotherProcess) {
  const auto writer = Begin();
  const Result<Event> first = writer->Append(BudgetSet{{5}, "user"}, clock.Now());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->seq, 2);
  const auto more =
      writer->Append({PhaseSet{Phase::kSearching, "x", ""}, Paused{"y"}}, clock.Now() + Millis{5});
  ASSERT_TRUE(more);
  EXPECT_EQ(more->back().seq, 4);

  const auto other = OpenIn(folder, {.read_only = true});
  const Result<std::vector<Event>> events = other->Load(id);
  ASSERT_TRUE(events) << events.error().message;
  ASSERT_EQ(events->size(), 4U);
  EXPECT_TRUE(std::holds_alternative<Opened>((*events)[0].fact));
  EXPECT_EQ((*events)[3].at, clock.Now() + Millis{5});
  const Result<std::vector<Event>> tail = other->Load(id, 3);
  ASSERT_TRUE(tail);
  ASSERT_EQ(tail->size(), 1U);
  EXPECT_EQ(std::get<Paused>(tail->front().fact).why, "y");
}

TEST_F(StoreTest, AppendIsAllOrNothing) {
  const auto writer = Begin();
  // The second fact names a run that was never planned.
  const auto both = writer->Append({BudgetSet{{5}, "user"}, StopSent{RunId("r404")}}, clock.Now());
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().code, ErrorCode::kInternal);
  EXPECT_EQ(store->Load(id)->size(), 1U);
  EXPECT_TRUE(writer->Append(Paused{"the writer goes on"}, clock.Now()));
}

TEST_F(StoreTest, AFactThatDoesNotFitWhatIsThereIsRefused) {
  const auto writer = Begin();
  EXPECT_FALSE(writer->Append(OpenedOf(id.value), clock.Now()));
  EXPECT_FALSE(writer->Append(LaunchBound{LaunchId("l404"), {}}, clock.Now()));
  LaunchIntended intended;
  intended.id = LaunchId("l001");
  intended.token = Token("t1");
  ASSERT_TRUE(writer->Append(intended, clock.Now()));
  EXPECT_FALSE(writer->Append(intended, clock.Now())) << "the same launch twice";
  intended.id = LaunchId("l002");
  EXPECT_FALSE(writer->Append(intended, clock.Now())) << "the same token twice";
  LaunchEnded ended;
  ended.id = LaunchId("l001");
  ended.reached = true;
  EXPECT_FALSE(writer->Append(ended, clock.Now())) << "an unbound launch can't be released";
  EXPECT_EQ(store->Load(id)->size(), 2U);
}

TEST_F(StoreTest, ACampaignIsCreatedOnceAndUnderAPlainName) {
  Begin();
  const Result<Event> again = store->Create(OpenedOf(id.value), clock.Now());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidInput);
  for (const char* bad : {"", "../x", "C-1", "-c", "a b"}) {
    EXPECT_FALSE(store->Create(OpenedOf(bad), clock.Now())) << bad;
  }
}

TEST_F(StoreTest, CampaignsAreFoundByIdUniquePrefixRecipeAndNewest) {
  for (const char* name : {"c-20261130-7f3a", "c-20261130-7f99", "c-20261201-0001"}) {
    clock.Pass(Millis{1000});
    Opened opened = OpenedOf(name);
    opened.recipe_hash = std::string("hash of ") + name;
    ASSERT_TRUE(store->Create(opened, clock.Now()));
  }
  EXPECT_EQ(store->FindCampaign(id.value)->id, id);
  EXPECT_EQ(store->FindCampaign("c-20261201")->id.value, "c-20261201-0001");
  EXPECT_EQ(store->FindCampaign("latest")->id.value, "c-20261201-0001");
  EXPECT_EQ(store->FindCampaign("c-20261130").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(store->FindCampaign("x").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->FindCampaign("%").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->FindCampaign("").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->NewestOf("hash of c-20261130-7f99").value()->id.value, "c-20261130-7f99");
  EXPECT_EQ(store->NewestOfPath("/r/recipe.yaml").value()->id.value, "c-20261201-0001");
  EXPECT_FALSE(store->NewestOf("none").value().has_value());
  EXPECT_EQ(store->Campaigns()->size(), 3U);
  EXPECT_EQ(store->Campaigns()->front().name, "tiny");
}

TEST_F(StoreTest, DamageInTheEventsIsFoundWithCampaignAndSeq) {
  const auto writer = Begin();
  ASSERT_TRUE(writer->Append(Paused{"a"}, clock.Now()));
  ASSERT_TRUE(writer->Append(Paused{"b"}, clock.Now()));
  // As somebody with a database shell would: the triggers are dropped first.
  const auto spoil = [&](const std::string& sql) {
    return made::RunSql(store->path(),
                        "DROP TRIGGER IF EXISTS event_never_changes;"
                        "DROP TRIGGER IF EXISTS event_never_goes;" +
                            sql);
  };
  EXPECT_NE(made::RunSql(store->path(), "UPDATE event SET at_ms = 0"), "");
  EXPECT_NE(made::RunSql(store->path(), "DELETE FROM event"), "");
  ASSERT_EQ(spoil("UPDATE event SET body = '{}' WHERE seq = 2"), "");
  const Result<std::vector<Event>> events = store->Load(id);
  ASSERT_FALSE(events);
  EXPECT_EQ(events.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(events.error().message.find("campaign c-20261130-7f3a event 2: paused: "),
            std::string::npos)
      << events.error().message;
  ASSERT_EQ(spoil("DELETE FROM event WHERE seq = 2"), "");
  EXPECT_NE(store->Load(id).error().message.find("event 2 is missing"), std::string::npos);
}

TEST_F(StoreTest, WishesOfOtherProcessesBecomeEventsOnce) {
  const auto writer = Begin();
  EXPECT_TRUE(writer->TakeWishes(clock.Now())->empty());
  const auto other = OpenIn(folder);
  ASSERT_TRUE(other->AddWish(id, "drain", "login2 pid 7", clock.Now()));
  ASSERT_TRUE(other->AddWish(id, "retry:r007", "login2 pid 7", clock.Now()));
  EXPECT_EQ(store->Summary(id)->pending_wishes, (std::vector<std::string>{"drain", "retry:r007"}));
  const auto taken = writer->TakeWishes(clock.Now());
  ASSERT_TRUE(taken) << taken.error().message;
  ASSERT_EQ(taken->size(), 2U);
  EXPECT_EQ(std::get<UserAsked>((*taken)[1].fact).what, "retry:r007");
  EXPECT_TRUE(writer->TakeWishes(clock.Now())->empty());
  EXPECT_TRUE(store->Wishes(id)->empty());
  EXPECT_EQ(store->Load(id)->size(), 3U);
  EXPECT_EQ(other->AddWish(CampaignId("c-none"), "drain", "x", clock.Now()).error().code,
            ErrorCode::kNotFound);
}

TEST_F(StoreTest, ACalibrationIsFoundAgainForTheSameBaselineOnly) {
  const auto writer = Begin();
  Calibrated calibrated;
  calibrated.calibration.mean = 801.2;
  calibrated.calibration.losses = {{{"lm loss", {5.1, 0.002, 5}}}};
  ASSERT_TRUE(writer->Append(calibrated, clock.Now()));
  const Opened same = OpenedOf(id.value);
  const Instant since = clock.Now() - Millis{1}, until = clock.Now() + Millis{1};
  const auto found = store->FindCalibration(same, since, until);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->campaign, id);
  EXPECT_EQ((*found)->at.ms, clock.Now().ms);
  EXPECT_EQ((*found)->calibration.mean, 801.2);
  EXPECT_EQ((*found)->calibration.losses[0].at("lm loss").mean, 5.1);

  const auto is_found = [&](auto change) {
    Opened other = same;
    change(other);
    return store->FindCalibration(other, since, until)->has_value();
  };
  EXPECT_TRUE(is_found([](Opened&) {}));
  EXPECT_FALSE(is_found([](Opened& o) { o.recipe_hash = "another"; }));
  EXPECT_FALSE(is_found([](Opened& o) { o.recipe_path = "/another.yaml"; }));
  EXPECT_FALSE(is_found([](Opened& o) { o.stack_fingerprint = "other"; }));
  EXPECT_FALSE(is_found([](Opened& o) { o.attune_version = "0.0.0"; }));
  EXPECT_FALSE(is_found([](Opened& o) { o.start_iteration = 41; }));
  EXPECT_FALSE(is_found([](Opened& o) { o.checkpoint = "/elsewhere"; }));
  EXPECT_FALSE(is_found([](Opened& o) { o.checkpoint_files = "written to"; }));
  EXPECT_FALSE(is_found([](Opened& o) { o.world = "default"; }));
  EXPECT_FALSE(store->FindCalibration(same, until, until)->has_value());
  EXPECT_FALSE(store->FindCalibration(same, since, since)->has_value());
}

TEST_F(StoreTest, ACalibrationThatWasTakenOverIsNotOfferedOnce) {
  const auto writer = Begin();
  Calibrated calibrated;
  calibrated.reused = CampaignId{"c-20261101-0000"};
  ASSERT_TRUE(writer->Append(calibrated, clock.Now()));
  EXPECT_FALSE(store->FindCalibration(OpenedOf(id.value), Instant{0}, clock.Now())->has_value());
  // Its opening offered none: the file says what cannot be.
  const auto loaded = store->Load(id);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace attune
