// The final stage: may this leader be shipped (control_plane.md section 4)? Only fresh runs count:
// the best of many equal candidates looks better than it is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attune/gates/thresholds.h"
#include "attune/model/campaign.h"
#include "attune/model/measurement.h"
#include "attune/model/verdict.h"

namespace attune {

// One launch with baseline and winner one after the other, both valid.
struct FinalBlock {
  double baseline = 0, winner = 0;  // scores
  GateVerdict winner_losses;        // level 3 of the winner's run (CheckLosses)
  std::optional<MemorySeen> winner_memory;
  std::string allocation = {};  // held one that it was made in; empty: one of its own
};
// The blocks of a held allocation are one, in the place of the first: the mean of each side, the
// winner's worst losses and most memory. They differ by what runs in one allocation differ by,
// which says nothing of another.
std::vector<FinalBlock> ByAllocation(std::span<const FinalBlock> blocks);

// One run of the winner in the user's own form.
enum class Rehearsal {
  kNotRun,
  kPassed,  // one evaluation, one save, restarted from that save with the next iteration number
  kVoid,    // the recipe neither saves nor evaluates: said so
  kFailed,
};

// Blocks to run: the caller's number where given (`--final-blocks`), else 3; 2 suffice when every
// block ratio > 1 + 2 x band, or the reserve is short.
bool NeedMoreBlocks(std::span<const FinalBlock> blocks, double band, int asked, bool reserve_short,
                    const Thresholds& limits);

// Share of the device's memory that may be reserved: the recipe's where set (it may only lower the
// rule's), else 0.95, or 0.92 for dropless MoE or variable rows.
double HeadroomLimit(double recipe, bool dropless_or_variable, const Thresholds& limits);

struct ShipInput {
  RunId leader;
  std::span<const FinalBlock> blocks;
  const Calibration* calibration = nullptr;   // required
  double search_gain = 0;                     // the leader's figure of the search
  std::optional<std::int64_t> device_memory;  // bytes; unset: head-room is not available
  double headroom_limit = 0.95;
  Rehearsal rehearsal = Rehearsal::kNotRun;
  std::string rehearsal_detail;
  // Checks that had no input ("readback", "step0", "memory", "probe" ...): never passed; any of
  // them makes the strength basic.
  std::vector<std::string> not_available;
};
// passed iff (a) mean(winner) / mean(baseline) - 1 > band, exactly; (b) every winner run passes
// level 3; (c) head-room; (d) the rehearsal passed or is void. Fails closed: no blocks, or no
// rehearsal, does not pass. Rules ship.no_blocks, .gain, .losses, .headroom, .rehearsal. p is the
// one-sided sign-flip test over the blocks' differences, p_floor = 2^-blocks.
FinalResult CheckShip(const ShipInput& input, const Thresholds& limits);

// After `falls` leaders that did not pass: may the previous one be tried? At most 2 falls.
bool MayFallBack(int falls, const Thresholds& limits);

// Steps of the rehearsal: at least `shortest` (what one evaluation, one save and a restart take);
// 120 where graphs or overlaps are in play and those steps cost at most 5% of the budget.
int RehearsalSteps(int shortest, bool graphs_or_overlaps, GpuMillis step_cost, GpuMillis budget,
                   const Thresholds& limits);

// Shrinkage of the search-time figure: fresh gain over search gain, in [.., 1] when it shrank.
double Shrinkage(double search_gain, double fresh_gain);

}  // namespace attune
