// What the log alone says about where a run's time and memory went, as a Diagnosis with source
// "log". A log tells that steps are slow or uneven, not why: causes inside a step (exposed
// communication, bubbles, launch overhead, data loading) are left to traces and are never named
// here. docs/formats/logs.md lists the classes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "attune/model/diagnosis.h"
#include "attune/model/run.h"

namespace attune {

struct LogEvidence {
  std::span<const Step> steps;  // in the order of the log
  std::optional<MemorySeen> memory;
  std::int64_t device_bytes = 0;  // memory of one GPU; 0: not known, then memory is not judged
  int warmup_steps = 5;           // of the recipe's `measure`
  std::string failure_class;      // FailureSign.cls or EndDetail.failure_class; empty: none
  std::string failure_evidence;   // its line
};

// Every class that the evidence can judge stands in the answer, named or not, with its metric and
// threshold. Timing classes need at least 8 steady steps.
Diagnosis DiagnoseLog(const LogEvidence& evidence);

}  // namespace attune
