// What a valid run measured, and the reference values of a calibration.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/ids.h"
#include "attune/model/run.h"

namespace attune {

enum class Validity { kValid, kRetry, kInvalid };  // retry: the environment's fault
std::string_view Word(Validity v);

struct Measurement {
  std::int64_t first_iteration = 0, last_iteration = 0;  // timed window, inclusive
  int steps = 0;
  bool short_window = false;         // ended by the early look
  double seconds = 0;                // of the window
  double tokens_per_s_per_slot = 0;  // the score: a mean, stalls count
  double median_step_ms = 0, p95_step_ms = 0, mad_step_ms = 0, cv = 0, half_drift = 0, drift = 0;
  double lag1 = 0;              // lag-1 correlation of step times
  double mean_over_median = 0;  // |mean / median step time - 1|
  // Variable rows: throughput over the baseline's on the same step indices (gates: ScoreOf).
  std::optional<double> same_steps_ratio;
  std::optional<double> mfu;
  std::optional<double> clock_ratio;  // arrival time / printed time over the window
  std::optional<MemorySeen> memory;
  std::optional<double> step0_loss;
  int cut_steps = 0;
};

// The baseline's reference values (control_plane.md section 1).
struct Calibration {
  std::vector<RunId> runs;
  double mean = 0;   // tokens/s/slot
  double sigma = 0;  // relative, sample (n-1), pooled or widened when n < 5
  double band = 0.03;
  bool quick = false;
  std::string how;  // "5 runs", "3 runs pooled with the prior" ...
  bool distinct_nodes = false;
  Millis startup{0};                  // median of runs 2..R
  double step_ms = 0;                 // median of the runs' medians
  double step_sd = 0, step_lag1 = 0;  // relative within-run sd and correlation
  int window_steps = 0;               // n_w
  GpuMillis launch_cost;              // mean charge of one calibration launch
  double short_window_bias = 0;       // |short/full - 1| of calibration's own runs
  // per iteration offset (0 = first printed): loss name -> mean and relative sd over the replicas
  struct Reference {
    double mean = 0, sd = 0;
    int n = 0;
    // Absolute sd over the replicas of e_n = d_n - d_0, d_n = loss_n / mean_n - 1 (trajectory, C6).
    double e_sd = 0;
  };
  std::vector<std::map<std::string, Reference>> losses;
  // The baseline's printed block, if any: the keys on which all calibration runs agree, and the
  // keys on which they do not, which say nothing about a candidate.
  std::map<std::string, std::string> argument_block;
  std::vector<std::string> varying_keys;
  std::optional<MemorySeen> memory;
  // The calibration's own stability values, largest over its runs: a later run's limit is never
  // below twice these.
  double own_mean_over_median = 0, own_cv = 0, own_half_drift = 0, own_drift = 0;
  // What every calibration run printed at this offset (0 = first printed iteration); a value is
  // absent where the runs did not print it or did not agree on it.
  struct StepReference {
    double step_ms = 0;  // mean over the runs
    std::optional<double> tokens;
    std::optional<double> learning_rate;
    std::optional<std::int64_t> global_batch, consumed_samples;

    bool operator==(const StepReference&) const = default;
  };
  std::vector<StepReference> steps;
  // How many allocations the runs had: those that share a held one are one. sigma and band are of
  // the means of the allocations. 0, in older records: as many as runs.
  int allocations = 0;
  // The same of runs that share a held allocation, for comparisons inside one: sigma pooled over
  // `within_runs` - 1 degrees of freedom. 0: none did.
  int within_runs = 0;
  double within_sigma = 0, within_band = 0;
  // Degrees of freedom that an early look counts on where sigma is pooled with the prior: the
  // prior's alone. 0: not pooled, or an older record; one fewer than the allocations.
  int pooled_freedom = 0;
};

}  // namespace attune
