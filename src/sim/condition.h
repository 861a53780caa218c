// Conditions on a resolved job, as world files write them: "pp>=16", "dispatcher=flex".
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "attune/model/training_job.h"

namespace attune::sim {

// A numeric property of a job (a degree, a batch size) or a switch as 0 or 1; see Features().
using Feature = double (*)(const TrainingJob&);

struct FeatureRow {
  std::string_view name;
  Feature value;
  std::string_view doc;
};
std::span<const FeatureRow> Features();

struct Condition {
  enum class Op { kEqual, kUnequal, kLeast, kMost };
  const FeatureRow* feature = nullptr;  // one of Features()
  Op op = Op::kEqual;
  double value = 0;
};

// "tp>=2", "mbs=1", "uneven!=1". Error: what is not known or not a number.
Result<Condition> ParseCondition(std::string_view text);
std::string Show(const Condition& c);
bool Holds(const Condition& c, const TrainingJob& job);
bool HoldAll(std::span<const Condition> conditions, const TrainingJob& job);

}  // namespace attune::sim
