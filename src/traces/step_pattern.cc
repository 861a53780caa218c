#include "step_pattern.h"

namespace attune::traces {

StepPattern::StepPattern(std::string_view pattern) : empty_(pattern.empty()) {
  const std::size_t at = pattern.find("{n}");
  has_number_ = at != std::string_view::npos;
  before_ = pattern.substr(0, at);
  if (has_number_) after_ = pattern.substr(at + 3);
}

bool StepPattern::Matches(std::string_view name) const {
  if (empty_) return false;
  if (!has_number_) return name == before_;
  if (name.size() <= before_.size() + after_.size() || name.substr(0, before_.size()) != before_ ||
      name.substr(name.size() - after_.size()) != after_) {
    return false;
  }
  const std::string_view digits =
      name.substr(before_.size(), name.size() - before_.size() - after_.size());
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

const std::vector<StepPattern>& UsualStepPatterns() {
  static const std::vector<StepPattern> patterns = {
      StepPattern("ProfilerStep#{n}"), StepPattern("iteration {n}"),  StepPattern("Iteration {n}"),
      StepPattern("iteration{n}"),     StepPattern("step {n}"),       StepPattern("Step {n}"),
      StepPattern("train_step {n}"),   StepPattern("train step {n}"), StepPattern("iter {n}"),
      StepPattern("step_{n}"),         StepPattern("iteration_{n}")};
  return patterns;
}

}  // namespace attune::traces
