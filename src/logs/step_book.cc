#include "step_book.h"

#include <algorithm>
#include <utility>

namespace attune {

bool StepBook::Add(Step step) {
  Recent now{step.iteration, std::nullopt};
  if (!step.losses.empty()) {
    now.loss = step.losses.begin()->second;
  }
  if (last_ && step.iteration <= *last_) {
    const std::size_t known = std::min(kRecent, static_cast<std::size_t>(count_));
    // The same number with another loss is the same step of a second run, unless it is the one
    // just printed: ranks may print their own losses.
    const bool again =
        step.iteration == *last_ ||
        std::any_of(
            recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(known),
            [&now](const Recent& r) { return r.iteration == now.iteration && r.loss == now.loss; });
    if (again) {
      ++notes_["duplicate_step"];
      return false;
    }
    ++notes_["step_went_back"];
  }
  step.cut = step.cut || cut_next_ || cutting_;
  cut_next_ = false;
  recent_[static_cast<std::size_t>(count_) % kRecent] = now;
  ++count_;
  last_ = step.iteration;
  steps_.push_back(std::move(step));
  return true;
}

void StepBook::Saw(const MemorySeen& memory) {
  if (memory.max_allocated > memory_.max_allocated || memory.max_reserved > memory_.max_reserved) {
    memory_.max_allocated = std::max(memory_.max_allocated, memory.max_allocated);
    memory_.max_reserved = std::max(memory_.max_reserved, memory.max_reserved);
    memory_grew_ = true;
  }
}

std::optional<MemorySeen> StepBook::TakeMemory() {
  if (!std::exchange(memory_grew_, false)) {
    return std::nullopt;
  }
  return memory_;
}

}  // namespace attune
