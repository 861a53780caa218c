// Which sizes of a layout a job admits: divisibility, as Megatron-LM checks it at start-up. The
// gates judge again what is proposed; this keeps the search from asking for what they refuse.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "attune/model/training_job.h"
#include "space.h"

namespace attune::rules {

std::vector<int> Divisors(std::int64_t n, int at_most);

// First and last stage layers for an uneven split, or {0, 0} for the even one; the most level
// first.
std::vector<std::pair<int, int>> SplitsOf(const TrainingJob& job, int pp, int vp);

// Whether the sizes divide world, experts, heads, sequence and batch; the split is not looked at.
bool Divides(const TrainingJob& job, const Sizes& sizes);
// The job with the sizes, and what follows from them, worked out; nothing when they do not divide
// or break a rule of the framework.
std::optional<TrainingJob> WithSizes(const TrainingJob& job, const Sizes& sizes,
                                     bool p2p_overlap_allowed);

}  // namespace attune::rules
