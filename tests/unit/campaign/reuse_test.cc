// A calibration of an earlier campaign is taken over once one fresh run confirms it, and only then.
#include <gtest/gtest.h>

#include "harness.h"

namespace attune {
namespace {

using testing::BrokenBooks;
using testing::Campaign;
using testing::FakeRecipe;

int Calibrated(const CampaignState& s) {
  int launches = 0;
  for (const auto& [id, launch] : s.launches) {
    launches += launch.intent.purpose == Purpose::kCalibration ? 1 : 0;
  }
  return launches;
}

// What a campaign of the same recipe leaves to the next one, three days later.
const EarlierCalibration& Earlier() {
  static const EarlierCalibration earlier = [] {
    Campaign first(FakeRecipe());
    EXPECT_TRUE(first.Go());
    const CampaignState s = first.State();
    EXPECT_EQ(Calibrated(s), 3);
    return EarlierCalibration{CampaignId{"c-20261127-1111"}, s.opened_at - std::chrono::hours(72),
                              *s.calibration, s.past_leaders.front().scores};
  }();
  return earlier;
}

CampaignState After(Campaign& c, EarlierCalibration earlier) {
  c.opening.earlier = std::move(earlier);
  const Result<CampaignEnd> end = c.Go();
  EXPECT_TRUE(end) << end.error().message;
  EXPECT_EQ(BrokenBooks(c), "");
  return c.State();
}

TEST(ReusedCalibration, IsInForceAfterOneFreshRunAndCostsThatRunAlone) {
  Campaign c(FakeRecipe());
  const CampaignState s = After(c, Earlier());
  ASSERT_TRUE(s.calibration);
  EXPECT_EQ(Calibrated(s), 1);
  EXPECT_EQ(s.calibration_from, CampaignId{"c-20261127-1111"});
  EXPECT_EQ(s.calibration->mean, Earlier().calibration.mean);
  EXPECT_EQ(s.calibration->band, Earlier().calibration.band);
  EXPECT_EQ(s.CalibrationRuns(), 3U);
  ASSERT_EQ(s.calibration->runs.size(), 1U);
  const LaunchRecord& probe = s.launches.at(s.runs.at(s.calibration->runs.front()).launch);
  EXPECT_EQ(s.ledger.calibration, probe.end->charged);
  EXPECT_NE(s.calibration->how.find("of c-20261127-1111"), std::string::npos) << s.calibration->how;
  ASSERT_FALSE(s.past_leaders.empty());
  EXPECT_EQ(s.past_leaders.front().scores, Earlier().scores);
  EXPECT_TRUE(s.shipped) << s.phase_reason;
}

TEST(ReusedCalibration, IsNotWhenTheFreshRunIsOutsideItsBandEitherWay) {
  for (const double moved : {0.8, 1.25}) {
    EarlierCalibration earlier = Earlier();
    earlier.calibration.mean *= moved;
    Campaign c(FakeRecipe());
    const CampaignState s = After(c, earlier);
    EXPECT_EQ(Calibrated(s), 3);
    EXPECT_TRUE(s.calibration_from.empty());
    EXPECT_EQ(s.calibration->runs.size(), 3U);  // the run that did not confirm is the first of them
  }
}

TEST(ReusedCalibration, IsNotWhenTheBaselineLearnsSomethingElseNow) {
  EarlierCalibration earlier = Earlier();
  for (auto& losses : earlier.calibration.losses) {
    for (auto& [name, reference] : losses) reference.mean *= 1.2;
  }
  Campaign c(FakeRecipe());
  EXPECT_EQ(Calibrated(After(c, earlier)), 3);
}

TEST(ReusedCalibration, IsNotWhenItWasMadeFromFewerRunsThanThisCampaignWants) {
  EarlierCalibration earlier = Earlier();
  earlier.scores.pop_back();
  Campaign c(FakeRecipe());
  EXPECT_EQ(Calibrated(After(c, earlier)), 3);
}

}  // namespace
}  // namespace attune
