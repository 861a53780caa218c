#include "gate_loss.h"

#include <gtest/gtest.h>

namespace attune::cli {
namespace {

std::vector<Step> Losses(double scale_from = 1, std::size_t from = 0, std::size_t steps = 12) {
  std::vector<Step> run;
  for (std::size_t i = 0; i < steps; ++i) {
    Step step;
    step.iteration = static_cast<std::int64_t>(i) + 1;
    step.losses["lm loss"] = (10.0 - 0.1 * static_cast<double>(i)) * (i >= from ? scale_from : 1);
    run.push_back(std::move(step));
  }
  return run;
}

TEST(CompareLosses, TheSameRunIsAlike) {
  const LossComparison same = CompareLosses(Losses(), Losses());
  EXPECT_TRUE(same.verdict.admitted);
  EXPECT_EQ(same.compared, 12u);
  EXPECT_EQ(same.shift, 0);
}

TEST(CompareLosses, AFirstLossThreePercentOffIsRefused) {
  const LossComparison off = CompareLosses(Losses(), Losses(1.03));
  ASSERT_FALSE(off.verdict.admitted);
  EXPECT_EQ(off.verdict.FirstRefusal()->rule, "step0.loss");
  EXPECT_NEAR(off.shift, 0.03, 1e-9);
}

TEST(CompareLosses, ALossThatPartsLaterIsRefused) {
  EXPECT_FALSE(CompareLosses(Losses(), Losses(1.05, 6)).verdict.admitted);
}

TEST(CompareLosses, AnotherStartIsNoComparison) {
  std::vector<Step> later = Losses();
  for (Step& step : later) step.iteration += 5;
  const LossComparison off = CompareLosses(Losses(), later);
  ASSERT_FALSE(off.verdict.admitted);
  EXPECT_EQ(off.verdict.FirstRefusal()->rule, "loss.other_start");
}

}  // namespace
}  // namespace attune::cli
