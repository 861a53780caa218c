#include "machines.h"

#include "jobs.h"

namespace attune::sim {
namespace {

TEST(Machines, KnowTheirGeneration) {
  EXPECT_EQ(MachineOf("A100-80").architecture, Architecture::kAmpere);
  EXPECT_EQ(MachineOf("H200").architecture, Architecture::kHopper);
  EXPECT_EQ(MachineOf("GB300").architecture, Architecture::kBlackwell);
  EXPECT_EQ(MachineOf("MI355X").architecture, Architecture::kInstinct);
  EXPECT_FALSE(FindMachine("cpu"));
  EXPECT_FALSE(FindMachine("H100", "carrier pigeon"));
}

TEST(Stacks, AVersionWithoutARowTakesItsFrameworks) {
  const std::optional<StackProfile> known = FindStack("Megatron-Bridge", "nemo-26.06");
  const std::optional<StackProfile> unknown = FindStack("Megatron-Bridge", "nemo-99.01");
  ASSERT_TRUE(known && unknown);
  EXPECT_TRUE(known->fused_experts);
  EXPECT_FALSE(unknown->fused_experts);
  EXPECT_EQ(unknown->factor, FrameworkStack("Megatron-Bridge")->factor);
  EXPECT_FALSE(FindStack("no such framework", "1"));
}

TEST(Coefficients, StandWithinTheirBoundsAndAreAllInTheTable) {
  const Coefficients c = BuiltInCoefficients();
  EXPECT_EQ(CoefficientRows().size() * sizeof(double), sizeof(Coefficients));
  for (const CoefficientRow& row : CoefficientRows()) {
    EXPECT_GE(c.*row.member, row.low) << row.name;
    EXPECT_LE(c.*row.member, row.high) << row.name;
    EXPECT_FALSE(row.source.empty()) << row.name;
  }
}

}  // namespace
}  // namespace attune::sim
