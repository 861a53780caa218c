// What a launch of a job would show, from the job alone: peak memory and step time by simple
// formulas, corrected by what this campaign has measured. Pure. It knows nothing of the simulator
// and shares no formula with it: its error is part of every record.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "attune/model/training_job.h"

namespace attune {

// Where the time of one step goes, in seconds; the parts add up to the step.
struct StepParts {
  double compute = 0;    // matrix products, attention, memory-bound kernels
  double recompute = 0;  // of these, what is computed twice
  double host = 0;       // GPUs waiting for the host to launch kernels
  double tp = 0, ep = 0, cp = 0, pp = 0, dp = 0;  // exposed communication by group
  double bubble = 0;                              // pipeline fill and drain, and unequal stages
  double optimizer = 0;  // update, transfers of an offloaded one, fixed cost of a step

  double Sum() const {
    return compute + recompute + host + tp + ep + cp + pp + dp + bubble + optimizer;
  }
};

struct Estimate {
  double step_seconds = 0;
  double step_sd = 0;  // of its logarithm: 0.1 is about 10%
  double tokens_per_second_per_gpu = 0;
  StepParts parts;
  double peak_bytes = 0;  // of the fullest GPU, framework and NCCL included
  double peak_sd = 0;     // of its logarithm
  double weights_bytes = 0, activation_bytes = 0, other_bytes = 0;  // of that GPU; they add up
  double device_bytes = 0;
  int fullest_stage = 0;

  double MemoryShare() const { return peak_bytes / device_bytes; }
  // Chance that it does not fit, of a normal error in the logarithm.
  double OutOfMemoryChance() const;
};

// One ended run: what was measured, or that it ran out of memory.
struct Measured {
  TrainingJob job;
  std::optional<double> step_seconds;  // mean of the timed window
  std::optional<double> peak_bytes;    // highest of all ranks, allocated
  bool out_of_memory = false;
  // Of the step, from a profiler trace: communication under no compute, and GPUs idle because the
  // host launches too late.
  std::optional<double> exposed_communication, host_bound;
  std::optional<double> device_bytes = {};  // what the job said the GPU has
};

// A formula with a factor for each of its terms, fitted to runs: a constant, and a smooth part over
// layouts and switches (a Gaussian process), since what a formula misses differs between them. What
// the factors can't explain is a smooth rest.
struct FittedTerms {
  std::vector<double> log_factor;  // of each term, the constant part; empty: zeros
  struct Run {
    std::vector<double> place;  // of its job, in the space of layouts and switches
    std::vector<double> slope;  // d log(value) / d log(factor) there
    double weight = 0;
    bool whole = true;  // of all of the value, not of a part: the smooth rest belongs to it
  };
  std::vector<Run> runs;
  std::vector<double> cholesky;  // of the runs' covariance: lower triangle, row by row
};

// What a campaign's runs say about the formulas. Default: the formulas as they are.
struct Correction {
  FittedTerms step, peak;
  // Of the device, where a run told it: a part of it may be taken by others, or it is not the one
  // of the data sheet.
  std::optional<double> device_bytes;
  int runs = 0;
  // Median of |predicted / measured - 1| over the measured steps: by the bare formulas, and by what
  // the runs before each had taught. Absent without runs.
  std::optional<double> raw_error, corrected_error;

  // "launch", "tp", "ep" ...: the terms of the step time that have a factor.
  static std::span<const std::string_view> Terms();
  double Factor(std::string_view term) const;  // 1 when not corrected or no term
};

// Nothing when the job's GPU is not in the table, or its sizes give no work.
std::optional<Estimate> Project(const TrainingJob& job, const Correction& correction = {});
// The means alone, without parts and standard deviations: for ranking thousands of jobs.
struct QuickEstimate {
  double step_seconds = 0, peak_bytes = 0, device_bytes = 0;
};
std::optional<QuickEstimate> ProjectQuickly(const TrainingJob& job, const Correction& correction);
// Runs in the order in which they ended; those whose GPU is unknown are left out.
Correction Fit(std::span<const Measured> runs);
// What Fit says of the peak memory; step times stay as the formulas have them. For who asks only
// whether a job fits: fitting the steps costs many times as much.
Correction FitMemory(std::span<const Measured> runs);

// How near two jobs are in layout and switches: 1 for the same, towards 0 for very different ones.
double LayoutLikeness(const TrainingJob& a, const TrainingJob& b);

}  // namespace attune
