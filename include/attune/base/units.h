// Units are types: GPU-time and wall time cannot be mixed by accident. Money and time that reach
// the store are integers (milliseconds, GPU-milliseconds), so sums are exact.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "attune/base/result.h"

namespace attune {

using Millis = std::chrono::milliseconds;

// GPUs x milliseconds. The unit in which budgets are held and charged.
struct GpuMillis {
  std::int64_t value = 0;

  auto operator<=>(const GpuMillis&) const = default;
  GpuMillis& operator+=(GpuMillis o) {
    value += o.value;
    return *this;
  }
  GpuMillis& operator-=(GpuMillis o) {
    value -= o.value;
    return *this;
  }
  friend GpuMillis operator+(GpuMillis a, GpuMillis b) { return {a.value + b.value}; }
  friend GpuMillis operator-(GpuMillis a, GpuMillis b) { return {a.value - b.value}; }

  double Hours() const { return static_cast<double>(value) / 3'600'000.0; }
};

// Rounds up to whole GPU-milliseconds: a budget never loses a fraction to the holder. Not above
// 2^62, so that a sum of two cannot overflow.
GpuMillis FromGpuHours(double hours);

constexpr GpuMillis ChargeFor(int slots, Millis held) { return {slots * held.count()}; }

// UTC, milliseconds since the epoch. Only `now` parameters and Event.at carry time into the core.
struct Instant {
  std::int64_t ms = 0;

  auto operator<=>(const Instant&) const = default;
  friend Instant operator+(Instant a, Millis d) { return {a.ms + d.count()}; }
  friend Instant operator-(Instant a, Millis d) { return {a.ms - d.count()}; }
  friend Millis operator-(Instant a, Instant b) { return Millis{a.ms - b.ms}; }
  static constexpr Instant Never() { return {std::numeric_limits<std::int64_t>::max()}; }
};

// "2026-11-30T20:00:00Z" (milliseconds only when not zero). The format has the years 0000 to 9999:
// earlier and later instants (Never) are shown as its first and last one.
std::string Rfc3339(Instant t);
// With "Z" or an offset; fractions up to nanoseconds, of which milliseconds are kept.
Result<Instant> ParseRfc3339(std::string_view text);
// "90s", "8m", "2h", "250ms", "1h30m". Zero and negative are errors, and above a hundred years.
Result<Millis> ParseDuration(std::string_view text);
std::string ShowDuration(Millis d);  // "4m12s", "250ms"; whole seconds from one second on
// "80GiB", "512MiB", "1000" -> bytes. "GB" is refused: some read 10^9 and some 2^30.
Result<std::int64_t> ParseSize(std::string_view text);
std::string ShowGpuHours(GpuMillis g);  // "7.86"; below one hour 4 decimals: "0.0213"; zero is "0"

}  // namespace attune
