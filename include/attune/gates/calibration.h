// The calibration: from the baseline's repeated runs to mean, band and every reference value that
// later gates compare with (control_plane.md section 1).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attune/gates/thresholds.h"
#include "attune/model/measurement.h"
#include "attune/model/recipe.h"

namespace attune {

// One valid baseline run. Spans and pointers are borrowed for the call.
struct CalibrationRun {
  RunId id;
  Measurement measurement;                       // over the full window
  std::optional<Measurement> short_measurement;  // of the same steps, as an early look sees them
  std::span<const Step> steps;
  const std::map<std::string, std::string>* argument_block = nullptr;
  std::optional<MemorySeen> memory;
  std::string nodes;  // node list of its launch, as the launcher names it; empty: not known
  std::string allocation = {};  // held one that its launch was a step of; empty: one of its own
  Millis startup{0};            // start to first step
  GpuMillis charge;             // of its launch
};

// Runs to plan for. 5 where five launches (or the recipe's own number) cost at most a fifth of the
// budget; else 2, which NeedMoreCalibration may raise to 3. A recipe that asks for fewer gets them.
// budget unset ("auto", which is derived from the launch cost): 5 launches are then 17% of it.
int PlannedCalibrationRuns(const MeasureSpec& spec, GpuMillis launch_cost,
                           std::optional<GpuMillis> budget, const Thresholds& limits);
// True when `scores` (valid runs so far) are fewer than `planned`, or when two were planned for
// want of budget (`by_budget`) and they differ by more than 2%: then a third is run.
bool NeedMoreCalibration(std::span<const double> scores, int planned, bool by_budget,
                         const Thresholds& limits);

// The baseline's ended calibration runs in order, to tell a bad run from an unstable cluster.
struct CalibrationAttempt {
  bool valid = false;
  std::string cause;  // of an invalid one: rule of its first refusal, or how it ended
};
// Two invalid in a row with one cause, or more than 2 of 7. Empty: go on. Else one sentence.
std::string UnstableCluster(std::span<const CalibrationAttempt> attempts, const Thresholds& limits);

// Sigma and band alone: relative, from the valid runs' scores.
struct Noise {
  double mean = 0, sigma = 0, band = 0;
  bool quick = false;
  std::string how;  // "5 runs"; "3 runs, pooled with the prior sigma 1.29%"; ...
  int pooled_freedom = 0;  // Calibration::pooled_freedom
};
// R >= 5 (or any R of a `custom` recipe): the sample's sigma. R < 5: a known framework is pooled
// with the prior, sigma^2 = (4 x 1.29%^2 + (R-1) s^2) / (4 + R-1); for custom the factor 3 is
// widened. R = 1 is "quick": band 3.88%. A recipe can only raise floor and factor.
Noise NoiseOf(std::span<const double> scores, const MeasureSpec& spec, Framework framework,
              const Thresholds& limits);

// runs: valid ones in order, at least one. Runs that share a held allocation are one allocation of
// the R that sigma and band count, with their mean; what they differ by among each other is the
// noise within (Calibration::within_sigma). `variable_rows`: StepReference.tokens is filled.
Calibration Calibrate(std::span<const CalibrationRun> runs, const MeasureSpec& spec,
                      Framework framework, const Thresholds& limits);

// The calibration as a comparison inside one held allocation uses it: the spread between
// allocations is no part of it. Where no two of its runs shared one it is the calibration as it is,
// whose sigma bounds that from above.
Calibration WithinAllocation(Calibration calibration);

// A stored calibration is good for another campaign when one fresh run lies inside its band, either
// way (the 7 days are the caller's: gates have no clock).
bool ProbeConfirms(double probe_score, const Calibration& calibration);

// max(3%, 3 sigma): the plain rule, without what a recipe or few runs add.
double BandOf(double sigma, const Thresholds& limits);

// The default budget: 30 unprofiled launches, rounded up to 10 GPU-hours (control_plane.md 2).
GpuMillis AutoBudget(GpuMillis unprofiled_launch, const Thresholds& limits);

// Runs of candidate and of leader that would bring a mean's 3 sigma down to `band_wanted`, for the
// message "the noise is too high": ceil((sigma_factor x sigma / band_wanted)^2).
int RunsForBand(double sigma, double band_wanted, const Thresholds& limits);

}  // namespace attune
