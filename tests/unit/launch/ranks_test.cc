#include "ranks.h"

#include <gtest/gtest.h>

namespace attune::launch {
namespace {

using Words = std::vector<std::string>;

Stage StageOf(Words argv, RanksKind kind, int ranks, int nodes = 1) {
  Stage stage;
  stage.run = RunId("r001");
  stage.argv = std::move(argv);
  stage.kind = kind;
  stage.ranks = ranks;
  stage.nodes = nodes;
  return stage;
}

TEST(UnderTorchrun, StandsBetweenTheInterpreterAndTheScript) {
  const Stage s = StageOf({"/usr/bin/python3", "train.py", "--lr", "1"}, RanksKind::kTorchrun, 8);
  EXPECT_EQ(UnderTorchrun(s),
            (Words{"/usr/bin/python3", "-m", "torch.distributed.run", "--nproc-per-node", "8",
                   "--max-restarts", "0", "--standalone", "train.py", "--lr", "1"}));
}

TEST(UnderTorchrun, KeepsTheInterpretersOwnOptionsAndAModule) {
  const Stage s = StageOf({"python3.11", "-u", "-X", "faulthandler", "-m", "pkg.train", "--lr"},
                          RanksKind::kTorchrun, 2);
  EXPECT_EQ(UnderTorchrun(s),
            (Words{"python3.11", "-u", "-X", "faulthandler", "-m", "torch.distributed.run",
                   "--nproc-per-node", "2", "--max-restarts", "0", "--standalone", "-m",
                   "pkg.train", "--lr"}));
}

TEST(UnderTorchrun, RunsAnotherProgramAsItIs) {
  const Stage s = StageOf({"./train", "--lr", "1"}, RanksKind::kTorchrun, 2);
  EXPECT_EQ(UnderTorchrun(s), (Words{"torchrun", "--nproc-per-node", "2", "--max-restarts", "0",
                                     "--standalone", "--no-python", "./train", "--lr", "1"}));
}

TEST(OnNode, TellsTorchrunItsPlaceAmongTheNodes) {
  const auto s =
      OnNode(StageOf({"python3", "t.py"}, RanksKind::kTorchrun, 4, 3), 2, "gpu01", 23'456);
  ASSERT_TRUE(s.has_value());
  EXPECT_EQ(s->argv, (Words{"python3", "-m", "torch.distributed.run", "--nproc-per-node", "4",
                            "--max-restarts", "0", "--nnodes", "3", "--node-rank", "2",
                            "--master-addr", "gpu01", "--master-port", "23456", "t.py"}));
  EXPECT_EQ(s->kind, RanksKind::kNone);  // the wrapper starts it once
  EXPECT_EQ(s->ranks, 0);
}

TEST(OnNode, LeavesWhereRanksMeetToTheUserWhoSaysIt) {
  Stage stage = StageOf({"t"}, RanksKind::kEnv, 4, 2);
  stage.env = {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4000"}};
  const auto s = OnNode(stage, 1, "gpu01", 23'456);
  ASSERT_TRUE(s.has_value());
  EXPECT_EQ(s->master_addr, "10.0.0.1");
  EXPECT_EQ(s->master_port, 4000);
  EXPECT_EQ(s->node_rank, 1);
  stage.env["MASTER_PORT"] = "port";
  EXPECT_FALSE(OnNode(stage, 1, "gpu01", 23'456).has_value());
}

TEST(OnNode, HasNoSrun) {
  EXPECT_FALSE(OnNode(StageOf({"t"}, RanksKind::kSrun, 4), 0, "", 0).has_value());
}

TEST(PortFor, IsTheSameForEverySubmitAndBelowThePortsThatLinuxHandsOut) {
  const Token token("attune-c-l001-00000000");
  EXPECT_EQ(PortFor(token, 0), PortFor(token, 0));
  EXPECT_NE(PortFor(token, 0), PortFor(token, 1));
  for (int i = 0; i < 200; ++i) {
    const int port = PortFor(Token("attune-t" + std::to_string(i)), 0);
    EXPECT_GE(port, 20'000);
    EXPECT_LT(port, 32'000);
  }
}

}  // namespace
}  // namespace attune::launch
