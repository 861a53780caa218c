// Seeded smooth functions over the space of jobs: what a world does to a term of the step beyond
// its formula. A sum of cosines of the job's place (log2 of its degrees, its switches), so that
// neighbours are alike and no formula of the model can be refitted into it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "attune/model/training_job.h"

namespace attune::sim {

inline constexpr std::size_t kPlaceSize = 16;
using Place = std::array<double, kPlaceSize>;

// Where a job stands: doublings of tp pp ep etp cp dp vp mbs, then switches as 0 or 1.
Place PlaceOf(const TrainingJob& job);

// Mean 0, standard deviation 1 over places far apart; the same for the same (seed, which). `reach`:
// how many doublings apart two places differ freely.
class Wave {
 public:
  Wave(std::uint64_t seed, std::uint64_t which, double reach);
  double At(const Place& place) const;

 private:
  static constexpr std::size_t kWaves = 6;
  std::array<Place, kWaves> slope_;
  std::array<double, kWaves> phase_;
};

// One number a key and seed, uniform bits: what a launch, a run, a job draws from.
std::uint64_t Mix(std::uint64_t seed, std::uint64_t value);
std::uint64_t MixText(std::uint64_t seed, std::string_view text);

}  // namespace attune::sim
