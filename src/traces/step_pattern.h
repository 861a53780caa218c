// Which marks are steps: "{n}" in a pattern stands for digits, the rest for itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune::traces {

class StepPattern {
 public:
  // Empty: matches nothing. Without "{n}" the whole text must be equal.
  explicit StepPattern(std::string_view pattern);
  bool Matches(std::string_view name) const;
  bool empty() const { return empty_; }

 private:
  bool empty_, has_number_ = false;
  std::string before_, after_;
};

// Marks that training frameworks write: "iteration 5", "step 5", "train_step 5" ...
const std::vector<StepPattern>& UsualStepPatterns();

}  // namespace attune::traces
