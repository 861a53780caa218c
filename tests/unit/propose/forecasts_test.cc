// Forecasts against outcomes.
#include "forecasts.h"

#include <gtest/gtest.h>

#include "record.h"

namespace attune {
namespace {

using testing::Move;
using testing::Record;

TEST(Forecasts, AreComparedWithWhatCame) {
  Record record{Recipe{}};
  record.Calibrate(2, 100, {});
  record.Try(Move("a", "--a", "1", "hit"),
             {Standing::kWin, 106, 0.06, RunEnd::kCompleted, "", 10, 165});
  record.Try(Move("b", "--b", "1", "below"), {Standing::kLoss, 90, -0.10});
  record.Try(Move("c", "--c", "1", "oom"), {Standing::kFailed, 0, {}, RunEnd::kOomGpu});
  const std::vector<Forecast> all = ForecastsOf(record.s);
  ASSERT_EQ(all.size(), 3u);
  const ForecastRecord sum = RecordOf(all);
  EXPECT_EQ(sum.scored, 2);
  EXPECT_EQ(sum.inside, 1);
  EXPECT_EQ(sum.below, 1);
  EXPECT_EQ(sum.no_score, 1);
  EXPECT_NEAR(sum.mean_miss, ((0.06 - 0.06) + (-0.10 - 0.06)) / 2, 1e-12);
  EXPECT_NEAR(sum.mean_peak_ratio, 165.0 / 150.0, 1e-9);
  EXPECT_EQ(
      ForecastLine(all[0]),
      "r003 hit expected +2.0% to +10.0%, got +6.0% (inside); peak expected 150.0 GB, got 165.0");
  EXPECT_NE(ForecastLine(all[2]).find("got oom_gpu"), std::string::npos);
  EXPECT_NE(RecordLine(sum).find("1 of 2 scored runs inside the expected range, 1 below, 0 above"),
            std::string::npos);
}

TEST(Forecasts, AreNoneBeforeAnythingRan) {
  EXPECT_EQ(RecordLine(RecordOf({})), "no forecast has an outcome yet");
}

}  // namespace
}  // namespace attune
