// The comparison with the leader and the final stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attune/gates/comparison.h"
#include "attune/gates/ship_check.h"

namespace attune {
namespace {

Calibration WithBand(double band) {
  Calibration calibration;
  calibration.runs.resize(5);
  calibration.band = band;
  calibration.sigma = 0.01;
  return calibration;
}

TEST(Compare, ATieAboveZeroIsAMinorLever) {
  const Calibration calibration = WithBand(0.03);
  const double leader[] = {100};
  const auto minor = [&](double score) {
    const double candidate[] = {score};
    return Compare(candidate, leader, calibration, Thresholds{}).minor;
  };
  EXPECT_TRUE(minor(101));
  EXPECT_TRUE(minor(103)) << "exactly the band is still a tie";
  EXPECT_FALSE(minor(100));
  EXPECT_FALSE(minor(99));
  EXPECT_FALSE(minor(104));
}

TEST(Compare, MoreRunsNarrowTheNeighbourhoodOfTheBand) {
  const Calibration calibration = WithBand(0.03);
  const std::vector<double> once = {104.9};
  const std::vector<double> often(9, 104.9);
  const std::vector<double> leader(9, 100.0);
  EXPECT_TRUE(Compare(once, leader, calibration, Thresholds{}).near_band);
  EXPECT_FALSE(Compare(often, leader, calibration, Thresholds{}).near_band);
}

TEST(ComparePair, TheFreshRunsDecideAlone) {
  const Calibration calibration = WithBand(0.03);
  const double candidate[] = {104, 103};
  const double leader[] = {100, 100};
  const Comparison comparison = ComparePair(candidate, leader, calibration, Thresholds{});
  EXPECT_EQ(comparison.standing, Standing::kWin);
  EXPECT_FALSE(comparison.near_band) << "one pair a candidate";
}

// Three blocks that ship.
struct Final {
  Calibration calibration = WithBand(0.03);
  std::vector<FinalBlock> blocks;
  ShipInput input;

  Final() {
    for (const double winner : {120.0, 122.0, 121.0}) {
      FinalBlock& block = blocks.emplace_back();
      block.baseline = 100;
      block.winner = winner;
      block.winner_losses = VerdictOf({});
      block.winner_memory = MemorySeen{.max_allocated = 80, .max_reserved = 90};
    }
    input.leader = RunId("r009");
    input.device_memory = 100;
    input.rehearsal = Rehearsal::kPassed;
  }
  FinalResult Result() {
    input.calibration = &calibration;
    input.blocks = blocks;
    return CheckShip(input, Thresholds{});
  }
  std::string Rule() {
    for (const Finding& finding : Result().findings) {
      if (finding.severity == Severity::kRefuse) {
        return finding.rule;
      }
    }
    return "";
  }
};

TEST(CheckShip, PassesAndReportsFreshFigures) {
  Final final;
  const FinalResult result = final.Result();
  EXPECT_TRUE(result.passed) << result.reason;
  EXPECT_EQ(result.leader, RunId("r009"));
  EXPECT_DOUBLE_EQ(result.gain, 0.21);
  EXPECT_DOUBLE_EQ(result.baseline_mean, 100);
  EXPECT_DOUBLE_EQ(result.winner_mean, 121);
  EXPECT_EQ(result.block_ratios.size(), 3U);
  EXPECT_DOUBLE_EQ(result.p, 0.125);
  EXPECT_DOUBLE_EQ(result.p_floor, 0.125) << "three blocks can't show more";
  EXPECT_TRUE(result.rehearsed);
  EXPECT_EQ(result.strength, "full");
}

TEST(CheckShip, AGainOfExactlyTheBandDoesNotShip) {
  Final final;
  for (FinalBlock& block : final.blocks) {
    block.winner = 103;
  }
  EXPECT_EQ(final.Rule(), "ship.gain");
  final.blocks[0].winner = 103.01;
  EXPECT_EQ(final.Rule(), "");
}

TEST(CheckShip, TheMeanDecidesNotTheBlocks) {
  Final final;
  final.blocks[0].winner = 90;
  EXPECT_TRUE(final.Result().passed);
  EXPECT_DOUBLE_EQ(final.Result().p, 0.25) << "90 against 100 is one flip from the observed signs";
}

TEST(CheckShip, EveryWinnerRunPassesLevelThree) {
  Final final;
  Finding moved;
  moved.severity = Severity::kRefuse;
  moved.rule = "loss.trajectory";
  final.blocks[2].winner_losses = VerdictOf({moved});
  EXPECT_EQ(final.Rule(), "ship.losses");
  final.blocks[2].winner_losses = GateVerdict{};
  EXPECT_EQ(final.Rule(), "ship.losses") << "a verdict that nobody made refuses";
}

TEST(CheckShip, HeadroomIsOfTheLargestBlock) {
  Final final;
  final.blocks[1].winner_memory->max_reserved = 95;
  EXPECT_EQ(final.Rule(), "") << "exactly 95%";
  final.blocks[1].winner_memory->max_reserved = 96;
  EXPECT_EQ(final.Rule(), "ship.headroom");
  final.input.headroom_limit = 0.97;
  EXPECT_EQ(final.Rule(), "");
}

TEST(CheckShip, WithoutMemoryTheStrengthIsBasic) {
  Final final;
  final.blocks[1].winner_memory.reset();
  EXPECT_TRUE(final.Result().passed);
  EXPECT_EQ(final.Result().strength, "basic");
  Final unknown;
  unknown.input.device_memory.reset();
  EXPECT_EQ(unknown.Result().strength, "basic");
}

TEST(CheckShip, WhatWasNotAvailableIsNamed) {
  Final final;
  final.input.not_available = {"readback", "step0"};
  const FinalResult result = final.Result();
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.strength, "basic");
  EXPECT_EQ(result.findings.back().why, "not available: readback, step0");
}

TEST(CheckShip, NothingShipsUnrehearsed) {
  Final final;
  final.input.rehearsal = Rehearsal::kNotRun;
  EXPECT_EQ(final.Rule(), "ship.rehearsal");
  final.input.rehearsal = Rehearsal::kFailed;
  final.input.rehearsal_detail = "no checkpoint was written";
  EXPECT_EQ(final.Rule(), "ship.rehearsal");
  EXPECT_NE(final.Result().reason.find("no checkpoint"), std::string::npos);
  final.input.rehearsal = Rehearsal::kVoid;
  EXPECT_EQ(final.Rule(), "");
  EXPECT_FALSE(final.Result().rehearsed);
}

TEST(CheckShip, WithoutBlocksNothingShips) {
  Final final;
  final.blocks.clear();
  EXPECT_EQ(final.Rule(), "ship.no_blocks");
  Final half;
  half.blocks[0].baseline = 0;
  EXPECT_EQ(half.Rule(), "ship.no_blocks");
}

TEST(NeedMoreBlocks, TheUsersNumberWins) {
  std::vector<FinalBlock> blocks(3);
  for (FinalBlock& block : blocks) {
    block.baseline = 1;
    block.winner = 2;
  }
  EXPECT_TRUE(NeedMoreBlocks(blocks, 0.03, 5, true, Thresholds{}));
  EXPECT_FALSE(NeedMoreBlocks(std::span(blocks).first(1), 0.03, 1, false, Thresholds{}));
  EXPECT_TRUE(NeedMoreBlocks({}, 0.03, 0, true, Thresholds{})) << "never none";
}

TEST(Shrinkage, IsTheFreshGainOverTheSearchs) {
  EXPECT_DOUBLE_EQ(Shrinkage(0.2, 0.15), 0.75);
  EXPECT_DOUBLE_EQ(Shrinkage(0, 0.1), 1);
}

TEST(ByAllocation, BlocksOfAHeldOneAreOne) {
  Final made;
  made.blocks.push_back(made.blocks.back());
  made.blocks.back().winner = 131;
  made.blocks.back().winner_memory->max_reserved = 95;
  made.blocks.back().winner_losses = VerdictOf({Finding{.severity = Severity::kRefuse,
                                                        .rule = "losses",
                                                        .key = {},
                                                        .was = {},
                                                        .now = {},
                                                        .why = "they differ"}});
  EXPECT_EQ(ByAllocation(made.blocks).size(), 4u) << "each launch had one of its own";
  made.blocks[0].allocation = "77-1";
  made.blocks[2].allocation = made.blocks[3].allocation = "78-1";
  const std::vector<FinalBlock> blocks = ByAllocation(made.blocks);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].winner, 120);
  EXPECT_EQ(blocks[1].winner, 122);
  EXPECT_EQ(blocks[2].winner, 126) << "the mean of 121 and 131";
  EXPECT_EQ(blocks[2].winner_memory->max_reserved, 95);
  EXPECT_FALSE(blocks[2].winner_losses.admitted) << "a rejected run of the winner stays rejected";
  EXPECT_TRUE(NeedMoreBlocks(std::vector<FinalBlock>(blocks.begin(), blocks.begin() + 1), 0.03, 3,
                             false, Thresholds{}));
}

}  // namespace
}  // namespace attune
