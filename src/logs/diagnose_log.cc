#include "attune/logs/diagnose_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace attune {
namespace {

// control_plane section 3: the memory a shipped recipe may use, and below which the pre-filter lets
// everything pass.
constexpr double kMemoryTight = 0.92;
// Ours: with a quarter of the memory free a larger micro-batch or less recomputation is worth a
// try.
constexpr double kMemoryFree = 0.25;
// control_plane section 3, measurement validity: CV, halves, two clocks.
constexpr double kSpread = 0.05;
constexpr double kDrift = 0.02;
constexpr double kClockGap = 0.05;
// Ours: a step this far above the median is an event, not noise (at 5% CV it is ten sigma), and one
// hundredth of the time lost that way is worth a word.
constexpr double kStallFactor = 1.5;
constexpr double kStallShare = 0.01;
constexpr double kSlowFirst = 2.0;
constexpr std::size_t kFewestSteps = 8;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

double Mean(std::span<const double> x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

double Median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const std::size_t half = x.size() / 2;
  return x.size() % 2 == 1 ? x[half] : (x[half - 1] + x[half]) / 2;
}

double Deviation(std::span<const double> x, double mean) {
  double sum = 0;
  for (const double v : x) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / static_cast<double>(x.size() - 1));
}

bool IsSteady(const Step& s) { return s.printed_ms > 0 && !s.cut && !s.nan && s.skipped == 0; }

// Builds one entry: named when the metric is past the threshold.
Bottleneck Entry(std::string cls, double share, double metric, double threshold,
                 std::string evidence) {
  return {std::move(cls), share, metric, threshold, metric > threshold, std::move(evidence)};
}

void JudgeMemory(const LogEvidence& e, std::vector<Bottleneck>& out) {
  if (!e.memory || e.device_bytes <= 0) {
    return;
  }
  // What the allocator took is what the device has less of; allocated is the job's own part of it.
  const std::int64_t peak = std::max(e.memory->max_reserved, e.memory->max_allocated);
  if (peak <= 0) {
    return;
  }
  const double used = static_cast<double>(peak) / static_cast<double>(e.device_bytes);
  const std::string text =
      fmt::format("peak {:.1f} of {:.1f} GiB ({:.0f}%)", static_cast<double>(peak) / kGiB,
                  static_cast<double>(e.device_bytes) / kGiB, 100 * used);
  out.push_back(Entry("memory_tight", -1, used, kMemoryTight, text));
  out.push_back(Entry("memory_free", -1, 1 - used, kMemoryFree, text));
}

// Of the steps that are no stalls: one event is not to be told twice.
void JudgeSpread(std::vector<double> ms, double median, std::vector<Bottleneck>& out) {
  std::erase_if(ms, [median](double x) { return x > kStallFactor * median; });
  const double mean = Mean(ms);
  const double cv = Deviation(ms, mean) / mean;
  out.push_back(Entry("step_time_spread", std::max(0.0, (mean - median) / mean), cv, kSpread,
                      fmt::format("step time varies by {:.1f}% (mean {:.1f} ms, median {:.1f} ms)",
                                  100 * cv, mean, median)));
}

void JudgeStalls(std::span<const Step* const> steps, double median, std::vector<Bottleneck>& out) {
  double total = 0, lost = 0, worst = 0;
  std::int64_t worst_at = 0;
  int count = 0;
  for (const Step* s : steps) {
    total += s->printed_ms;
    if (s->printed_ms > kStallFactor * median) {
      ++count;
      lost += s->printed_ms - median;
      if (s->printed_ms > worst) {
        worst = s->printed_ms;
        worst_at = s->iteration;
      }
    }
  }
  std::string text = fmt::format("no step took over {} times the median", kStallFactor);
  if (count > 0) {
    text = fmt::format(
        "{} of {} steps took over {} times the median, the worst {:.1f} times (iteration {}); the "
        "log does not say why",
        count, steps.size(), kStallFactor, worst / median, worst_at);
  }
  out.push_back(Entry("stalls", lost / total, lost / total, kStallShare, std::move(text)));
}

void JudgeDrift(std::span<const double> ms, std::vector<Bottleneck>& out) {
  const std::size_t half = ms.size() / 2;
  const double first = Median({ms.begin(), ms.begin() + static_cast<std::ptrdiff_t>(half)});
  const double second = Median({ms.begin() + static_cast<std::ptrdiff_t>(half), ms.end()});
  const double slower = second / first - 1;
  out.push_back(Entry("drift", -1, slower, kDrift,
                      fmt::format("second half {:+.1f}% against the first", 100 * slower)));
}

void JudgeFirstStep(const LogEvidence& e, double median, std::vector<Bottleneck>& out) {
  const Step& first = e.steps.front();
  if (first.printed_ms <= 0) {
    return;
  }
  double total = 0, excess = 0;
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    const double ms = std::max(0.0, e.steps[i].printed_ms);
    total += ms;
    if (i < static_cast<std::size_t>(std::max(0, e.warmup_steps))) {
      excess += std::max(0.0, ms - median);
    }
  }
  out.push_back(Entry(
      "slow_first_steps", excess / total, first.printed_ms / median, kSlowFirst,
      fmt::format("the first step took {:.1f} ms, {:.1f} times the median; paid once a launch, "
                  "outside the measured window",
                  first.printed_ms, first.printed_ms / median)));
}

// Lines that arrive further apart than the steps they report: time that the job does not time.
void JudgeGap(std::span<const Step> steps, int warmup, std::vector<Bottleneck>& out) {
  double printed = 0, arrived = 0;
  std::size_t pairs = 0;
  for (std::size_t i = static_cast<std::size_t>(std::max(1, warmup)); i < steps.size(); ++i) {
    const Step& a = steps[i - 1];
    const Step& b = steps[i];
    if (!IsSteady(b) || a.arrival_ms < 0 || b.arrival_ms < a.arrival_ms ||
        b.iteration <= a.iteration) {
      continue;
    }
    // A line may stand for several iterations; their time is printed as a mean.
    printed += b.printed_ms * static_cast<double>(b.iteration - a.iteration);
    arrived += static_cast<double>(b.arrival_ms - a.arrival_ms);
    ++pairs;
  }
  if (pairs < kFewestSteps || arrived <= 0) {
    return;
  }
  const double gap = std::max(0.0, 1 - printed / arrived);
  out.push_back(
      Entry("untimed_gap", gap, gap, kClockGap,
            fmt::format("lines arrive every {:.1f} ms and report {:.1f} ms: {:.1f}% of the time "
                        "lies outside what the job times",
                        arrived / static_cast<double>(pairs), printed / static_cast<double>(pairs),
                        100 * gap)));
}

void JudgeSkipped(std::span<const Step> steps, std::vector<Bottleneck>& out) {
  std::int64_t skipped = 0;
  for (const Step& s : steps) skipped += s.skipped;
  const std::int64_t span =
      std::max<std::int64_t>(steps.back().iteration - steps.front().iteration + 1,
                             static_cast<std::int64_t>(steps.size()));
  const double share = std::min(1.0, static_cast<double>(skipped) / static_cast<double>(span));
  out.push_back(Entry("skipped_steps", share, share, 0,
                      fmt::format("{} of about {} iterations were skipped", skipped, span)));
}

std::string Summary(const LogEvidence& e, const std::vector<Bottleneck>& found, std::size_t steady,
                    std::optional<double> median) {
  std::string text =
      median ? fmt::format("{} steps in the log, {} of them steady at a median of {:.1f} ms.",
                           e.steps.size(), steady, *median)
             : fmt::format("{} steps in the log: too few steady ones to judge their times.",
                           e.steps.size());
  bool any = false;
  for (const Bottleneck& b : found) {
    if (b.named) {
      text += fmt::format(" {}: {}.", b.cls, b.evidence);
      any = true;
    }
  }
  if (!any) {
    text += " Nothing stands out.";
  }
  return text;
}

}  // namespace

Diagnosis DiagnoseLog(const LogEvidence& e) {
  Diagnosis d;
  d.source = "log";
  if (!e.failure_class.empty()) {
    d.bottlenecks.push_back({e.failure_class, -1, 1, 0, true, e.failure_evidence});
  }
  JudgeMemory(e, d.bottlenecks);

  std::vector<const Step*> steady;
  std::vector<double> ms;
  for (std::size_t i = static_cast<std::size_t>(std::max(0, e.warmup_steps)); i < e.steps.size();
       ++i) {
    if (IsSteady(e.steps[i])) {
      steady.push_back(&e.steps[i]);
      ms.push_back(e.steps[i].printed_ms);
    }
  }
  std::optional<double> median;
  if (ms.size() >= kFewestSteps) {
    median = Median(ms);
    JudgeSpread(ms, *median, d.bottlenecks);
    JudgeStalls(steady, *median, d.bottlenecks);
    JudgeDrift(ms, d.bottlenecks);
    JudgeFirstStep(e, *median, d.bottlenecks);
  }
  JudgeGap(e.steps, e.warmup_steps, d.bottlenecks);
  if (!e.steps.empty()) {
    JudgeSkipped(e.steps, d.bottlenecks);
  }
  std::stable_sort(d.bottlenecks.begin(), d.bottlenecks.end(),
                   [](const Bottleneck& a, const Bottleneck& b) {
                     return a.named != b.named ? a.named : a.share > b.share;
                   });
  d.summary = Summary(e, d.bottlenecks, ms.size(), median);
  return d;
}

}  // namespace attune
