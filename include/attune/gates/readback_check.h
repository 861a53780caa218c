// C7: the job's own word on what it runs. The candidate's printed argument block against the
// baseline's printed block; every difference must be accounted for (control_plane.md section 5).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "attune/gates/thresholds.h"
#include "attune/model/arguments.h"
#include "attune/model/measurement.h"
#include "attune/model/training_job.h"
#include "attune/model/verdict.h"

namespace attune {

using ArgumentBlock = std::map<std::string, std::string>;  // key as printed -> value as printed

struct ReadbackInput {
  const ArgumentBlock* baseline = nullptr;   // null or empty: not printed
  const ArgumentBlock* candidate = nullptr;  // likewise
  // (a) the lever and its enablers, (b) instrumented keys: the value that must be printed. An empty
  // optional: the framework's default after an unset flag, which only it knows; any value passes
  // and is noted.
  std::map<std::string, std::optional<std::string>> intended;
  std::map<std::string, std::string> instrumented;
  // (c) what the framework derives, with the value that our rules compute for the candidate.
  std::map<std::string, std::string> derived;
  // (d) per launch: rank, run folder, ports. Any value.
  std::set<std::string> per_launch;
};
struct ReadbackVerdict {
  GateVerdict verdict;     // rules readback.unexplained, .value, .missing, .added, .ignored
  bool available = false;  // false: "not available", never passed; strength basic
};
// Refuses by name: a differing key that no class accounts for, a key on one side only, an accounted
// key with another value than intended, and an intended key that was not printed or still has the
// baseline's value.
ReadbackVerdict CheckReadback(const ReadbackInput& input, const Thresholds& limits);

// Learning rate, batch and consumed samples as the candidate's iteration lines print them, against
// the calibration's at the same offsets: equal. Rules readback.learning_rate, .global_batch,
// .consumed_samples.
GateVerdict CheckPrintedSteps(std::span<const Step> steps, const Calibration& calibration);

// ----- building the input

// "--micro-batch-size" -> "micro_batch_size": argparse's destination of a flag.
std::string BlockKey(std::string_view flag);
// Equal as the block prints them: same text, or both decimals of the same value; True and true,
// None and none are not mixed.
bool SameBlockValue(std::string_view a, std::string_view b);
// Every flag in which the two differ, with the value that the block must show: bare flag -> "True",
// one value -> itself, several -> "['a', 'b']". Unset: "False" for a bare flag of its own name,
// else empty. `key_of`: destinations that are not the flag's own name ("--no-x" forms), flag ->
// {key, value when present}; "" value: the argument's.
struct BlockDestination {
  std::string key, when_present;
};
std::map<std::string, std::optional<std::string>> IntendedKeys(
    const Effective& baseline, const Effective& candidate,
    const std::map<std::string, BlockDestination>& destinations);
// Keys that Megatron-LM derives, as its block prints them, with this job's values.
std::map<std::string, std::string> DerivedMegatronKeys(const TrainingJob& job);
// Keys that differ from launch to launch on any stack (rank, local_rank, master_port ...).
std::set<std::string> PerLaunchKeys();

}  // namespace attune
