// What Megatron-LM prints, byte for byte in form: start-up, argument block, iteration and memory
// lines, checkpoints, and the last words of a job that fails (docs/formats/failures.md names the
// classes that they are read as). The one log writer of both forms of a simulated job.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "attune/base/units.h"
#include "attune/model/arguments.h"
#include "attune/model/training_job.h"
#include "attune/sim/cluster.h"
#include "learning.h"
#include "truth.h"

namespace attune::sim {

std::string WorldSizeLine(const TrainingJob& job);
std::string ArgumentBlock(const Arguments& args, const TrainingJob& job,
                          std::span<const BlockFlag> flags);
std::string ModelLines(const TrainingJob& job, const Truth& truth, Instant now);
std::string TrainingLines(Instant now);

struct IterationFacts {
  std::int64_t iteration = 0, last = 0, consumed = 0, global_batch = 0;
  double ms = 0;
  double tflops = 0;  // 0: not printed
  Learned learned;
  bool nan = false;
};
std::string IterationLine(const IterationFacts& facts, Instant now);
// One line a stage that this job shows: its first data-parallel ranks.
std::string MemoryLines(const TrainingJob& job, const Truth& truth, std::int64_t iteration);
std::string SaveLines(std::int64_t iteration, const std::string& folder);
std::string EvaluationLines(std::int64_t iteration, double loss);
std::string ExitLine(std::int64_t iteration, Instant now);

// ----- last words
std::string OutOfMemory(int rank, double tried, double total, double allocated);
std::string Refused(const std::string& why);  // an assertion of validate_args
std::string DeepEpFailed(int rank);
std::string Watchdog(int rank, double minutes);
std::string NanFound(int rank);
std::string Segfault(const std::string& node);
std::string PreemptedLine(const std::string& job, const std::string& node, Instant now);
std::string NodeFailedLine(const std::string& node);

}  // namespace attune::sim
