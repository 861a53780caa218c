#include "attune/model/diagnosis.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace attune {
namespace {

constexpr std::size_t kParts = 5;
constexpr std::array<char, kParts> kAscii = {'#', 'm', 'x', '.', ' '};
constexpr std::array<std::string_view, kParts> kUnicode = {"█", "▓", "▒", "·", " "};
constexpr std::array<std::string_view, kParts - 1> kNames = {"compute", "copies alone",
                                                             "exposed communication", "host wait"};

using enum LeverClass;
constexpr LeverClass kLaunches[] = {kBatching, kKernel, kOverlap};
constexpr LeverClass kExposed[] = {kOverlap, kPlacement, kBatching};
constexpr LeverClass kBalance[] = {kPlacement, kBatching};
constexpr LeverClass kKernels[] = {kKernel, kBatching};
constexpr LeverClass kRecompute[] = {kMemory, kPlacement};
constexpr LeverClass kOptimizer[] = {kOverlap, kKernel, kPlacement};
constexpr LeverClass kHost[] = {kKernel, kEnv};
constexpr LeverClass kMemoryUse[] = {kMemory, kPlacement, kEnv};
constexpr LeverClass kRoom[] = {kMemory, kBatching};
constexpr LeverClass kInput[] = {kEnv, kPlacement};

struct Row {
  std::string_view bottleneck;
  std::span<const LeverClass> classes;
};
constexpr Row kRows[] = {
    {"launch_bound", kLaunches},   {"small_kernels", kLaunches},
    {"small_gemms", kBalance},     {"exposed_communication", kExposed},
    {"low_overlap", kExposed},     {"late_peer", kBalance},
    {"straggler", kBalance},       {"rank_imbalance", kBalance},
    {"pipeline_bubble", kBalance}, {"memory_bound_kernels", kKernels},
    {"fp32_gemms", kKernels},      {"recompute", kRecompute},
    {"optimizer", kOptimizer},     {"host_sync", kHost},
    {"allocator", kMemoryUse},     {"memory_tight", kMemoryUse},
    {"memory_free", kRoom},        {"data_loader", kInput},
    {"pageable_copies", kInput},
};

}  // namespace

std::string TimeBar(const TimeSplit& t, int cells, bool unicode) {
  const std::array<std::int64_t, kParts> parts = {t.compute, t.memory, t.exposed, t.host_wait,
                                                  t.other_idle};
  std::int64_t whole = 0;
  for (const std::int64_t part : parts) whole += part;
  std::string bar;
  std::int64_t sum = 0;
  int drawn = 0;
  for (std::size_t i = 0; i < kParts && whole > 0; ++i) {
    sum += parts[i];
    // Ends of the parts are rounded, so the bar has `cells` cells whatever the parts.
    const double end = static_cast<double>(sum) / static_cast<double>(whole) * cells;
    for (; drawn < static_cast<int>(std::lround(end)); ++drawn) {
      if (unicode) {
        bar += kUnicode[i];
      } else {
        bar += kAscii[i];
      }
    }
  }
  bar.append(static_cast<std::size_t>(std::max(0, cells - drawn)), ' ');
  return bar;
}

std::string TimeLegend(bool unicode) {
  std::string legend;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::string mark = unicode ? std::string(kUnicode[i]) : std::string(1, kAscii[i]);
    legend += fmt::format("{}{} {}", i == 0 ? "" : ", ", mark, kNames[i]);
  }
  return legend;
}

std::string RankName(std::int64_t rank) {
  return rank >= 0 ? fmt::format("rank {}", rank) : std::string("rank ?");
}

std::string ShowNanoseconds(std::int64_t ns) {
  const double us = static_cast<double>(ns) / 1000;
  if (us < 1000) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1000);
  return fmt::format("{:.2f} s", us / 1e6);
}

std::span<const LeverClass> LeverClassesFor(std::string_view bottleneck) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& r) { return r.bottleneck == bottleneck; });
  return row == std::end(kRows) ? std::span<const LeverClass>() : row->classes;
}

}  // namespace attune
