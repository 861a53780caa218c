// Rows of published training throughput (format of facts/published_throughput.csv) as jobs for the
// step model. Used by the corpus kind `throughput` and by the fit of the coefficients.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/base/result.h"
#include "machines.h"
#include "physics.h"

namespace attune::corpus {

struct ThroughputRow {
  // Inputs: what an answer depends on.
  std::string input;   // canonical text of the input columns
  std::string design;  // the same without the stack version
  std::string framework, version, model, gpu;
  std::string precision, task;
  bool states_layout = false;
  bool states_recompute = false;
  std::string not_modelled;  // why there is no job; empty: there is one
  TrainingJob job;
  sim::Machine machine;
  sim::Conditions conditions;
  // Expected: never looked at for an answer.
  std::string id, group, outcome;
  std::string bad_result;  // what is wrong with a result; there is no published rate then
  std::optional<double>
      published;  // tokens/s/GPU, converted where only FLOPs or a step time is given
};

// Error: not a CSV, a column of the inputs missing, a column nobody knows, a row of another length.
// A field that is no number where one belongs concerns its row: not modelled, or without a result.
Result<std::vector<ThroughputRow>> ReadThroughputRows(const std::string& path);

// The stack profile a row runs under: its version's row, or its framework's own.
sim::StackProfile StackOf(const ThroughputRow& row, bool by_version);

}  // namespace attune::corpus
