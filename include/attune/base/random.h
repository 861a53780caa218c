// Seeded bits with our own mapping to ranges: standard distributions differ between libraries.
#pragma once

#include <cstdint>
#include <string>

namespace attune {

class Random {  // SplitMix64: small state, so it can be stored and resumed.
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next();
  // Uniform in [0, n), without modulo bias. n > 0.
  std::uint64_t Below(std::uint64_t n);
  double Unit();    // uniform in [0, 1)
  double Normal();  // mean 0, sd 1 (inverse normal of Unit, so one draw each)
  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_;
};

// Bits from the operating system, for tokens and ids only (never for anything replayed).
std::string RandomHex(int digits);

}  // namespace attune
