// What a simulated job learns: losses and gradient norm a step, as a function of the data, the
// arguments that set what is learned, the layout's rounding, and the defects it meets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attune/model/arguments.h"
#include "attune/model/training_job.h"
#include "world.h"

namespace attune::sim {

struct Learned {
  double loss = 0;
  double balance = 0;  // 0: not printed
  double mtp = 0;      // 0: not printed
  double grad_norm = 0;
  double learning_rate = 0;
};

class Learning {
 public:
  // `run`: seed of this run's own rounding; `start`: iterations done before it.
  Learning(const Training& training, const Arguments& args, const TrainingJob& job,
           std::span<const Defect* const> defects, std::uint64_t run, std::int64_t start);
  // Iteration numbers count from 1, as printed.
  Learned At(std::int64_t iteration) const;

 private:
  double Rate(std::int64_t iteration) const;

  const Training* training_;
  std::uint64_t data_ = 0, run_ = 0;
  std::int64_t start_ = 0;
  double loss_factor_ = 1, drift_ = 0;
  double balance_ = 0, mtp_ = 0, grad_ = 1;
  double lr_ = 0, min_lr_ = 0, warmup_ = 0, decay_ = 0;
  std::string decay_style_;
};

// Defects of the stacks that the paper used, in every world (its Tables B1 and B2): the gates know
// them, so a candidate that meets one is a gate that failed.
std::span<const Defect> PublishedDefects();

}  // namespace attune::sim
