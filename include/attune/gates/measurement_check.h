// Is this run a measurement, and of what? (control_plane.md section 3, "Measurement validity".)
// Live and afterwards by one rule: the timed window is that of the shortest prefix of the steps in
// which warm-up is over and the window is long enough, so more steps never move it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attune/gates/thresholds.h"
#include "attune/model/measurement.h"
#include "attune/model/recipe.h"
#include "attune/model/verdict.h"

namespace attune {

// What the wrapper saw of one GPU over the window. All of it optional: missing data are not judged.
struct GpuSeen {
  std::string id;                   // "node3:5"
  std::string peers;                // pipeline stage and role; compared only within
  std::optional<double> clock_mhz;  // mean over the window
  std::optional<double> step_ms;    // its own compute time a step
  bool hardware_slowdown = false, thermal = false, power_brake = false;
  bool foreign_process = false;
};

// Borrowed for the call.
struct MeasureInput {
  std::span<const Step> steps;               // all steps of the run so far, as printed
  const MeasureSpec* spec = nullptr;         // required
  const Calibration* calibration = nullptr;  // null while calibrating
  int slots = 1;                             // divisor of tokens/s/GPU: frozen, never the ranks
  std::int64_t global_batch = 0;             // the workload's: sequences a step
  std::int64_t seq_length = 0;
  bool variable_rows = false;
  std::optional<std::int64_t> start_iteration;  // s: the first printed iteration must be s + 1
  bool short_window = false;                    // ended by the early look: judge its shorter window
  std::optional<MemorySeen> memory;
  // Sanity, each where known.
  std::optional<double> flops_per_token;        // of the model, forward and backward
  std::optional<double> peak_flops;             // per slot, at the recipe's own GEMM precision
  std::optional<double> roofline_tokens_per_s;  // per slot
  std::span<const GpuSeen> gpus;
  std::optional<double> calibration_straggler;  // largest peer ratio of the calibration runs
};

// Where a running job stands. Also the answer to "when may it be stopped".
struct WindowNeed {
  bool settled = false;  // three steps in a row close to the median of the last third
  int warmup = 0;        // steps before the window, when settled
  int timed_steps = 0;   // in the window so far (cut steps are not in it)
  double timed_seconds = 0;
  bool look = false;      // long enough for the early look
  bool full = false;      // long enough; stop the job
  int steps_missing = 0;  // estimate at the present pace; 0 when full
  int look_missing = 0;   // the same until the early look; 0 when it may be taken
};
WindowNeed LookAtWindow(const MeasureInput& input, const Thresholds& limits);

// Steps to ask a launch for: warm-up, settling slack and a window of the wanted length at
// `step_ms` (the baseline's, or the candidate's expected one). Zero slack for slow steps, whose
// windows are as long as the budget bears.
int StepsWanted(const MeasureSpec& spec, double step_ms, const Thresholds& limits);
// Steps of a window at this step time: 20 (10 when the baseline's step takes over 30 s), or the
// recipe's number, and as many as min_seconds takes.
int WindowSteps(const MeasureSpec& spec, double step_ms, const Thresholds& limits);

struct MeasuredRun {
  Validity validity = Validity::kInvalid;
  std::optional<Measurement> measurement;  // also of an invalid run, when there is a window
  std::vector<Finding> findings;           // refusals first; notes name what was not judged
  std::string reason;                      // one line; empty when valid
};
// kRetry: instability and what the environment did (at most one retry, the caller's count);
// kInvalid: the recipe's own fault. Rules: measure.sequence, .wrong_start, .skipped, .nan, .tokens,
// .global_batch, .samples, .no_clock, .two_clocks, .window, .not_settled, .mean_median, .cv,
// .half_drift, .drift, .mfu, .roofline, .straggler, .clock, .throttled, .foreign_process.
MeasuredRun Measure(const MeasureInput& input, const Thresholds& limits);

// The number that is compared: tokens/s/slot; with variable rows the calibration mean times the
// ratio over the same step indices.
double ScoreOf(const Measurement& measurement, const Calibration& calibration);

}  // namespace attune
