#include "printed_number.h"

#include <gtest/gtest.h>

namespace attune {
namespace {

TEST(ValueOf, FindsAKeyAtTheStartOfAWordOnly) {
  EXPECT_EQ(ValueOf("grad_norm: 0.5 loss:  2.5 | x", "loss:"), "2.5");
  EXPECT_EQ(ValueOf("aux_loss:1 loss:2", "loss:"), "2");
  EXPECT_EQ(ValueOf("actor/loss:1", "loss:"), "");
  EXPECT_EQ(ValueOf("skipped=2, lr=1", "skipped="), "2");
  EXPECT_EQ(ValueOf("loss:", "loss:"), "");
}

TEST(UseLoss, NanMarksTheStepAndTextIsRefused) {
  StepLine line;
  EXPECT_TRUE(UseLoss(line, "loss", "nan"));
  EXPECT_TRUE(line.step.nan);
  EXPECT_TRUE(line.step.losses.empty());
  EXPECT_FALSE(UseLoss(line, "loss", "low"));
  EXPECT_TRUE(UseGradNorm(line, "0.25"));
  EXPECT_EQ(line.step.grad_norm, 0.25);
  EXPECT_EQ(line.grad_norm, "0.25");
}

}  // namespace
}  // namespace attune
