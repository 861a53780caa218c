#include "attune/gates/thresholds.h"

#include <array>

namespace attune {
namespace {

#define ATTUNE_FIELD(name) \
  ThresholdField { #name, &Thresholds::name }
constexpr std::array kFields = {
    ATTUNE_FIELD(band_floor),
    ATTUNE_FIELD(sigma_factor),
    ATTUNE_FIELD(full_runs),
    ATTUNE_FIELD(full_runs_share),
    ATTUNE_FIELD(third_run_spread),
    ATTUNE_FIELD(prior_sigma),
    ATTUNE_FIELD(prior_weight),
    ATTUNE_FIELD(widen_4),
    ATTUNE_FIELD(widen_3),
    ATTUNE_FIELD(widen_2),
    ATTUNE_FIELD(quick_band),
    ATTUNE_FIELD(unstable_in_a_row),
    ATTUNE_FIELD(unstable_of_seven),
    ATTUNE_FIELD(unstable_window),
    ATTUNE_FIELD(short_bias_max),
    ATTUNE_FIELD(budget_launches),
    ATTUNE_FIELD(budget_step_gpu_hours),
    ATTUNE_FIELD(settle_steps),
    ATTUNE_FIELD(settle_tolerance),
    ATTUNE_FIELD(window_steps),
    ATTUNE_FIELD(window_steps_slow),
    ATTUNE_FIELD(slow_step_ms),
    ATTUNE_FIELD(mean_over_median_max),
    ATTUNE_FIELD(drift_max),
    ATTUNE_FIELD(own_factor),
    ATTUNE_FIELD(clock_tolerance),
    ATTUNE_FIELD(mfu_max),
    ATTUNE_FIELD(straggler_ratio),
    ATTUNE_FIELD(straggler_own_factor),
    ATTUNE_FIELD(gpu_clock_min),
    ATTUNE_FIELD(look_steps),
    ATTUNE_FIELD(look_total_steps),
    ATTUNE_FIELD(look_confidence),
    ATTUNE_FIELD(look_stop_below),
    ATTUNE_FIELD(look_rho_max),
    ATTUNE_FIELD(near_sigmas),
    ATTUNE_FIELD(step0_shift),
    ATTUNE_FIELD(alarm_placement),
    ATTUNE_FIELD(alarm_memory),
    ATTUNE_FIELD(alarm_batching),
    ATTUNE_FIELD(alarm_spread_factor),
    ATTUNE_FIELD(term_shift),
    ATTUNE_FIELD(term_shift_same),
    ATTUNE_FIELD(term_steps),
    ATTUNE_FIELD(trajectory_floor),
    ATTUNE_FIELD(trajectory_factor),
    ATTUNE_FIELD(level2_steps),
    ATTUNE_FIELD(final_blocks),
    ATTUNE_FIELD(final_blocks_clear),
    ATTUNE_FIELD(clear_bands),
    ATTUNE_FIELD(headroom),
    ATTUNE_FIELD(headroom_tight),
    ATTUNE_FIELD(max_falls),
    ATTUNE_FIELD(rehearsal_steps),
    ATTUNE_FIELD(rehearsal_share),
};
#undef ATTUNE_FIELD
static_assert(sizeof(Thresholds) == kFields.size() * sizeof(double), "a threshold is not listed");

}  // namespace

std::span<const ThresholdField> ThresholdFields() { return kFields; }

}  // namespace attune
