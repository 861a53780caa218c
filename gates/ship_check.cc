#include "attune/gates/ship_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/stats/stats.h"

namespace attune {
namespace {

Finding Refusal(std::string rule, std::string why) {
  return {.severity = Severity::kRefuse,
          .rule = "ship." + std::move(rule),
          .key = {},
          .was = {},
          .now = {},
          .why = std::move(why)};
}

Finding Note(std::string rule, std::string why) {
  return {.severity = Severity::kNote,
          .rule = "ship." + std::move(rule),
          .key = {},
          .was = {},
          .now = {},
          .why = std::move(why)};
}

// True when the memory was seen and known to be enough.
bool CheckHeadroom(const ShipInput& input, std::vector<Finding>& findings) {
  std::optional<std::int64_t> most;
  bool everywhere = true;
  for (const FinalBlock& block : input.blocks) {
    if (block.winner_memory && block.winner_memory->max_reserved > 0) {
      most = std::max(most.value_or(0), block.winner_memory->max_reserved);
    } else {
      everywhere = false;
    }
  }
  if (!most || !input.device_memory || *input.device_memory <= 0) {
    findings.push_back(Note("headroom",
                            "memory head-room is not available: no memory line, or the "
                            "device's memory is not known"));
    return false;
  }
  const Decimal reserved(*most);
  const Decimal allowed = Decimal::FromDouble(input.headroom_limit) * Decimal(*input.device_memory);
  if (reserved > allowed) {
    findings.push_back(Refusal(
        "headroom",
        fmt::format("{:.1f}% of the device's memory was reserved, at most {:.1f}% ships",
                    100 * static_cast<double>(*most) / static_cast<double>(*input.device_memory),
                    100 * input.headroom_limit)));
  }
  return everywhere;
}

void CheckRehearsal(const ShipInput& input, FinalResult& result, std::vector<Finding>& findings) {
  switch (input.rehearsal) {
    case Rehearsal::kPassed:
      result.rehearsed = true;
      return;
    case Rehearsal::kVoid:
      findings.push_back(Note("rehearsal",
                              "the recipe neither saves nor evaluates: nothing to "
                              "rehearse"));
      return;
    case Rehearsal::kNotRun:
      findings.push_back(
          Refusal("rehearsal", "the recipe has not been rehearsed in the user's form"));
      return;
    case Rehearsal::kFailed:
      findings.push_back(
          Refusal("rehearsal", input.rehearsal_detail.empty()
                                   ? "the rehearsal failed"
                                   : "the rehearsal failed: " + input.rehearsal_detail));
      return;
  }
  ATTUNE_CHECK(false, "a rehearsal without a word");
}

std::string Summary(const FinalResult& result, const ShipInput& input) {
  std::string text =
      fmt::format("{:+.2f}% over the re-measured baseline in {} blocks, band {:.2f}%",
                  100 * result.gain, result.block_ratios.size(), 100 * input.calibration->band);
  for (const Finding& finding : result.findings) {
    if (finding.severity == Severity::kRefuse) {
      return finding.why;
    }
  }
  return text;
}

}  // namespace

std::vector<FinalBlock> ByAllocation(std::span<const FinalBlock> blocks) {
  std::vector<FinalBlock> out;
  std::map<std::string, std::pair<std::size_t, int>> held;  // its place, and how many it has
  for (const FinalBlock& block : blocks) {
    if (block.allocation.empty() || !held.contains(block.allocation)) {
      if (!block.allocation.empty()) held[block.allocation] = {out.size(), 1};
      out.push_back(block);
      continue;
    }
    auto& [at, many] = held.at(block.allocation);
    FinalBlock& into = out[at];
    into.baseline = (into.baseline * many + block.baseline) / (many + 1);
    into.winner = (into.winner * many + block.winner) / (many + 1);
    ++many;
    if (into.winner_losses.admitted) into.winner_losses = block.winner_losses;
    if (block.winner_memory) {
      MemorySeen& most = into.winner_memory ? *into.winner_memory : into.winner_memory.emplace();
      most.max_allocated = std::max(most.max_allocated, block.winner_memory->max_allocated);
      most.max_reserved = std::max(most.max_reserved, block.winner_memory->max_reserved);
    }
  }
  return out;
}

bool NeedMoreBlocks(std::span<const FinalBlock> blocks, double band, int asked, bool reserve_short,
                    const Thresholds& limits) {
  const auto done = static_cast<int>(blocks.size());
  if (asked > 0) {
    return done < asked;
  }
  if (done < static_cast<int>(limits.final_blocks_clear)) {
    return true;
  }
  const bool clear = std::all_of(blocks.begin(), blocks.end(), [&](const FinalBlock& block) {
    return block.baseline > 0 &&
           RatioExceeds(block.winner, block.baseline, limits.clear_bands * band);
  });
  return !clear && !reserve_short && done < static_cast<int>(limits.final_blocks);
}

double HeadroomLimit(double recipe, bool dropless_or_variable, const Thresholds& limits) {
  const double rule = dropless_or_variable ? limits.headroom_tight : limits.headroom;
  return recipe > 0 ? std::min(recipe, rule) : rule;
}

FinalResult CheckShip(const ShipInput& input, const Thresholds&) {
  ATTUNE_CHECK(input.calibration != nullptr, "the final stage compares with a band");
  FinalResult result;
  result.leader = input.leader;
  std::vector<Finding> findings;
  std::vector<double> baseline;
  std::vector<double> winner;
  std::vector<double> differences;
  for (const FinalBlock& block : input.blocks) {
    if (!std::isfinite(block.baseline) || !std::isfinite(block.winner) || block.baseline <= 0 ||
        block.winner <= 0) {
      findings.push_back(Refusal("no_blocks", "a block lacks a measurement of one side"));
      continue;
    }
    baseline.push_back(block.baseline);
    winner.push_back(block.winner);
    differences.push_back(block.winner - block.baseline);
    result.block_ratios.push_back(block.winner / block.baseline);
    if (!block.winner_losses.admitted) {
      const Finding* first = block.winner_losses.FirstRefusal();
      findings.push_back(
          Refusal("losses", first == nullptr ? "a winner run has no loss verdict" : first->why));
    }
  }
  if (baseline.empty()) {
    findings.push_back(Refusal("no_blocks", "no block of fresh runs"));
  } else {
    result.baseline_mean = Mean(baseline);
    result.winner_mean = Mean(winner);
    result.gain = result.winner_mean / result.baseline_mean - 1;
    if (!MeanRatioExceeds(winner, baseline, input.calibration->band)) {
      findings.push_back(
          Refusal("gain", fmt::format("the fresh runs gain {:+.2f}%, the band is {:.2f}%",
                                      100 * result.gain, 100 * input.calibration->band)));
    }
    if (const std::optional<ExactTest> test = SignFlipTest(differences)) {
      result.p = test->P();
      result.p_floor = test->Floor();
    }
  }
  const bool memory = CheckHeadroom(input, findings);
  CheckRehearsal(input, result, findings);
  result.strength = memory && input.not_available.empty() ? "full" : "basic";
  if (!input.not_available.empty()) {
    findings.push_back(Note("strength", "not available: " + Join(input.not_available, ", ")));
  }
  GateVerdict verdict = VerdictOf(std::move(findings));
  result.passed = verdict.admitted;
  result.findings = std::move(verdict.findings);
  result.reason = Summary(result, input);
  return result;
}

bool MayFallBack(int falls, const Thresholds& limits) { return falls < limits.max_falls; }

int RehearsalSteps(int shortest, bool graphs_or_overlaps, GpuMillis step_cost, GpuMillis budget,
                   const Thresholds& limits) {
  const double cost = static_cast<double>(step_cost.value) * limits.rehearsal_steps;
  const bool affordable = cost <= limits.rehearsal_share * static_cast<double>(budget.value);
  return graphs_or_overlaps && affordable
             ? std::max(shortest, static_cast<int>(limits.rehearsal_steps))
             : shortest;
}

double Shrinkage(double search_gain, double fresh_gain) {
  return search_gain > 0 ? fresh_gain / search_gain : 1;
}

}  // namespace attune
