#include "links.h"

#include "jobs.h"

namespace attune::sim {
namespace {

Coefficients Ideal() {
  Coefficients c;
  c.nvlink_efficiency = c.network_efficiency = 1;
  c.nvlink_latency_s = c.network_latency_s = 0;
  c.ep_congestion = 0;
  return c;
}

TEST(Group, MembersOfANodeShareItsRails) {
  const Machine h100 = MachineOf("H100");  // 450 GB/s NVLink, 50 GB/s a NIC
  // Data-parallel group of a job without tensor parallelism: all eight NICs of a node.
  EXPECT_DOUBLE_EQ(MakeGroup(h100, Ideal(), 32, 1).rate, 8 * 50e9);
  // With TP 8 each rank has its own group: one NIC.
  EXPECT_DOUBLE_EQ(MakeGroup(h100, Ideal(), 4, 8).rate, 50e9);
  // TP 2: four members a node.
  EXPECT_DOUBLE_EQ(MakeGroup(h100, Ideal(), 16, 2).rate, 4 * 50e9);
}

TEST(Group, InsideANodeItRunsOverNvlink) {
  const Machine h100 = MachineOf("H100");
  const Group g = MakeGroup(h100, Ideal(), 8, 1);
  EXPECT_DOUBLE_EQ(g.rate, 450e9);
  EXPECT_DOUBLE_EQ(g.domains, 1);
  EXPECT_DOUBLE_EQ(MakeGroup(MachineOf("GB200"), Ideal(), 64, 1).domains, 1);
  EXPECT_DOUBLE_EQ(MakeGroup(h100, Ideal(), 64, 1).domains, 8);
}

TEST(RingTime, IsTheShareThatLeavesARankOverTheRate) {
  const Group g = MakeGroup(MachineOf("H100"), Ideal(), 8, 1);
  EXPECT_DOUBLE_EQ(RingTime(g, 8e9), 8e9 * 7 / 8 / 450e9);
  EXPECT_DOUBLE_EQ(RingTime(MakeGroup(MachineOf("H100"), Ideal(), 1, 1), 8e9), 0);
}

TEST(AllToAll, TwoNodesSendHalfOverTheNetwork) {
  const Machine m = MachineOf("H100");
  const Group g = MakeGroup(m, Ideal(), 16, 1);
  EXPECT_DOUBLE_EQ(AllToAllTime(m, Ideal(), g, {.bytes = 1e9}), 0.5e9 / 50e9);
}

TEST(AllToAll, FlexSendsOneCopyANode) {
  const Machine m = MachineOf("H100");
  const Group g = MakeGroup(m, Ideal(), 16, 1);
  const double plain = AllToAllTime(m, Ideal(), g, {.bytes = 8e9, .topk = 8});
  const double flex =
      AllToAllTime(m, Ideal(), g, {.bytes = 8e9, .topk = 8, .places = 2, .flex = true});
  // Of eight copies nearly two distinct nodes are left.
  EXPECT_NEAR(flex / plain, 2 * (1 - 1 / 256.0) / 8, 1e-9);
  const double limited =
      AllToAllTime(m, Ideal(), g, {.bytes = 8e9, .topk = 8, .places = 1, .flex = true});
  EXPECT_LT(limited, flex);
}

TEST(AllToAll, CongestionGrowsWithTheNodes) {
  const Machine m = MachineOf("H100");
  Coefficients c = Ideal();
  const Group g = MakeGroup(m, c, 64, 1);
  const double free = AllToAllTime(m, c, g, {.bytes = 1e9});
  c.ep_congestion = 0.2;
  EXPECT_NEAR(AllToAllTime(m, c, g, {.bytes = 1e9}), free * (1 + 0.2 * 3), 1e-12);
}

TEST(AllToAll, ASlowNetworkForAllToAllSlowsOnlyWhatCrossesNodes) {
  Machine m = MachineOf("B200");
  const Group inside = MakeGroup(m, Ideal(), 8, 1), across = MakeGroup(m, Ideal(), 16, 1);
  const double a = AllToAllTime(m, Ideal(), inside, {.bytes = 1e9});
  const double b = AllToAllTime(m, Ideal(), across, {.bytes = 1e9});
  m.network.alltoall_efficiency = 0.5;
  EXPECT_DOUBLE_EQ(AllToAllTime(m, Ideal(), inside, {.bytes = 1e9}), a);
  EXPECT_DOUBLE_EQ(AllToAllTime(m, Ideal(), across, {.bytes = 1e9}), 2 * b);
}

}  // namespace
}  // namespace attune::sim
