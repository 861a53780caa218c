// Every number that a run-time check compares with, in one place and passed as an argument: a test
// can flip each one in memory. What a recipe may relax or lower stands in MeasureSpec and GateSpec
// and comes on top. Sources: control_plane.md by section ("cp 3"); [S] marks the paper's own.
#pragma once

#include <span>
#include <string_view>

namespace attune {

// Doubles only, also where a count is meant: ThresholdFields() then proves that none is forgotten.
struct Thresholds {
  // ----- calibration, cp 1
  double band_floor = 0.03;        // [S] band = max(3%, 3 sigma)
  double sigma_factor = 3.0;       // [S]
  double full_runs = 5;            // [S] at least 5 runs
  double full_runs_share = 0.20;   // of the budget, that five launches may cost
  double third_run_spread = 0.02;  // two runs that differ by more ask for a third
  double prior_sigma = 0.0129;     // largest published run-to-run sigma (Llama 405B), known stacks
  double prior_weight = 4;         // degrees of freedom that the prior counts for
  // Widening for `custom`, where the prior says nothing: t(q; R-1) sqrt(1 + 1/R) / 3 with q such
  // that R = 5 gives 1, that is q = T_4(3 / sqrt(1.2)).
  double widen_4 = 1.17, widen_3 = 1.62, widen_2 = 4.99;
  double quick_band = 0.0388;    // R = 1: the largest published band
  double unstable_in_a_row = 2;  // invalid runs in a row with one cause
  double unstable_of_seven = 2;  // more invalid ones than this among `unstable_window`
  double unstable_window = 7;
  double short_bias_max = 0.01;  // calibration's short window against its full one

  double budget_launches = 30;        // [S] default budget in unprofiled launches, cp 2
  double budget_step_gpu_hours = 10;  // rounded up to a multiple

  // ----- measurement validity, cp 3
  double settle_steps = 3;  // consecutive steps within `settle_tolerance` of the median
  double settle_tolerance = 0.05;
  double window_steps = 20;
  double window_steps_slow = 10;  // when a step takes longer than `slow_step_ms`
  double slow_step_ms = 30'000;
  double mean_over_median_max = 0.03;
  double drift_max = 0.02;        // Theil-Sen, over the window
  double own_factor = 2;          // a limit is never below this times the calibration's own value
  double clock_tolerance = 0.05;  // arrival against printed time
  double mfu_max = 0.85;
  double straggler_ratio = 1.10;
  double straggler_own_factor = 1.5;
  double gpu_clock_min = 0.90;

  // ----- early look and comparison, cp 3
  double look_steps = 5;           // timed
  double look_total_steps = 8;     // with warm-up
  double look_confidence = 0.995;  // one-sided, t with R - 1 degrees of freedom
  double look_stop_below = 0.01;
  double look_rho_max = 0.8;
  double near_sigmas = 2;

  // ----- correctness, cp 5
  double step0_shift = 0.02;       // [S] reject above
  double alarm_placement = 0.003;  // placement, overlap, env
  double alarm_memory = 0.005;     // memory, kernel
  double alarm_batching = 0.02;    // batching, or experts
  double alarm_spread_factor = 6;  // times the baseline's replica spread
  double term_shift = 0.20;        // C4
  double term_shift_same = 0.05;   // C4, micro-batch composition unchanged
  double term_steps = 3;           // C4: steps 0 to 2
  double trajectory_floor = 0.01;  // C6
  double trajectory_factor = 12;   // C6, times the replica sd of e_n
  double level2_steps = 8;

  // ----- final stage, cp 4
  double final_blocks = 3;
  double final_blocks_clear = 2;  // suffice when every ratio > 1 + clear_bands x band
  double clear_bands = 2;
  double headroom = 0.95;        // of the device's memory
  double headroom_tight = 0.92;  // dropless MoE, variable rows
  double max_falls = 2;
  double rehearsal_steps = 120;   // with graphs or overlaps that fail late
  double rehearsal_share = 0.05;  // of the budget, that those steps may cost
};

struct ThresholdField {
  std::string_view name;
  double Thresholds::*value;
};
// Every field of Thresholds, in order.
std::span<const ThresholdField> ThresholdFields();

}  // namespace attune
