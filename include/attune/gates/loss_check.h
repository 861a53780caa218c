// Levels 2 and 3 of the correctness gate: the loss terms (C4) and the loss's path (C6) over the
// steps that the run and the calibration share (control_plane.md section 5).
#pragma once

#include <span>
#include <string>

#include "attune/gates/thresholds.h"
#include "attune/model/measurement.h"
#include "attune/model/verdict.h"

namespace attune {

// C4: every loss term that the baseline logs is logged, finite, not zero, and within 20% of it (5%
// when the micro-batch composition is unchanged) at steps 0 to 2. Rules loss.term_missing,
// .term_zero, .term_shift, .too_few_steps.
GateVerdict CheckLossTerms(std::span<const Step> steps, const Calibration& calibration,
                           bool same_composition, const Thresholds& limits);

// C6: e_n = d_n - d_0, d_n = loss_n / mean baseline loss_n - 1; refuses when any |e_n| > max(1%,
// 12 x replica sd of e_n), or a loss is missing or not finite, or fewer steps than `steps_needed`
// are there. Judged up to the last step that every calibration run has. Rules loss.trajectory,
// .missing, .not_finite, .too_few_steps.
GateVerdict CheckTrajectory(std::span<const Step> steps, const Calibration& calibration,
                            int steps_needed, const Thresholds& limits);

// Level 2, for a candidate that would lead: C4 and C6 over at least 8 steps.
// Level 3, for final runs: over every step the calibration has. A final run that ended sooner is
// judged over the steps it has, with the note loss.fewer_steps: what is absent has not passed, but
// it is no fault of the recipe either. Callers let final runs go on to losses.size() steps.
enum class LossLevel { kLeading, kFinal };
GateVerdict CheckLosses(std::span<const Step> steps, const Calibration& calibration,
                        bool same_composition, LossLevel level, const Thresholds& limits);

}  // namespace attune
