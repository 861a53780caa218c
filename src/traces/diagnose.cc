#include "attune/traces/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "attune/base/check.h"
#include "time_split.h"

namespace attune {
namespace {

// Set from the traces named as sources (HolisticTraceAnalysis, param, kineto and TraceLens
// samples): past them the thing named is what a person would see first in the timeline.
constexpr std::array kThresholds = {
    DiagnosisThreshold{"launch_bound", 0.15,
                       "idle that ends with a kernel launched too late, of the step; and a median "
                       "launch delay under 30 us",
                       "DDP sample: 42 % idle, 15 us; linear layers on a 2080 Ti: 63 %, 18 us"},
    DiagnosisThreshold{"small_kernels", 10,
                       "median compute kernel in us, below; and idle in gaps under 200 us of "
                       "15 % of the step",
                       "DDP sample: 8 us"},
    DiagnosisThreshold{"exposed_communication", 0.10,
                       "communication with neither compute nor copies, of the step; 25 % is a "
                       "bottleneck",
                       "ads128: 27.5 %; DeepSeek: 3.2 % with communication 88 % of the time"},
    DiagnosisThreshold{"low_overlap", 0.50,
                       "communication under compute, of all communication, below; and "
                       "communication of 15 % of the step",
                       "ads128: 15 %; DeepSeek: 96 %"},
    DiagnosisThreshold{"late_peer", 0.50,
                       "waiting for the last rank to enter, of the time in collectives",
                       "DLRM: 10 us on the last rank, 7.6 ms on the first"},
    DiagnosisThreshold{"straggler", 0.60,
                       "waiting caused by one rank, of all waiting; and a skew of 3 % of the step",
                       "DLRM: rank 7 first, others later"},
    DiagnosisThreshold{"pipeline_bubble", 0.10,
                       "idle and waiting for a neighbour stage, of the step; with a known pipeline "
                       "(p-1)/(m v + p-1) + 5 points",
                       "schedule arithmetic of 1F1B and interleaved pipelines"},
    DiagnosisThreshold{"rank_imbalance", 0.05, "(max - mean) / max of compute time over ranks",
                       "DLRM: 11 %"},
    DiagnosisThreshold{"memory_bound_kernels", 0.25,
                       "elementwise, normalisation, pooling, copy and cast kernels, of busy time",
                       "ResNet-50: 32 %"},
    DiagnosisThreshold{"small_gemms", 0.30,
                       "matrix products in kernels under 50 us, of all of them",
                       "proposed; no sample decides it"},
    DiagnosisThreshold{"fp32_gemms", 0.05,
                       "single-precision products off the tensor cores, of all matrix products",
                       "AlexNet: ampere_sgemm"},
    DiagnosisThreshold{"recompute", 0.15, "compute repeated for the backward pass, of all compute",
                       "ResNet on MI300X with checkpointing: 21 %"},
    DiagnosisThreshold{"optimizer", 0.08, "kernels launched in the optimizer's step, of the step",
                       "samples: 6 to 8 % of kernel time"},
    DiagnosisThreshold{"host_sync", 0.05,
                       "host blocked in synchronising calls, of the step; or more than 10 a step",
                       "proposed"},
    DiagnosisThreshold{"allocator", 1, "device allocations a step, after the first step",
                       "a warmed-up caching allocator makes none"},
    DiagnosisThreshold{"data_loader", 0.05, "main thread in the data loader, of the step",
                       "ResNet-50: 39.6 % without workers, 1.0 % with four"},
    DiagnosisThreshold{"pageable_copies", 0.02,
                       "copies from pageable memory while nothing computes, of the step",
                       "AlexNet: 55 ms"},
    DiagnosisThreshold{"profiler_overhead", 0.02,
                       "the profiler's own work, of the step; or Python stacks recorded",
                       "Flux: 88 % of events are stacks"},
};

constexpr double kIdleForSmallKernels = 0.15;
constexpr double kCommForOverlap = 0.15;
constexpr double kSkewForStraggler = 0.03;
constexpr double kBottleneckExposed = 0.25;
constexpr double kBubblePoints = 0.05;
constexpr std::int64_t kLaunchDelay = 30'000;
constexpr double kSyncsPerStep = 10;

double Ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}
std::string Percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

double ThresholdOf(std::string_view cls) {
  for (const DiagnosisThreshold& t : kThresholds) {
    if (t.cls == cls) return t.value;
  }
  ATTUNE_CHECK(false, "every class has a threshold");
}

// Sums of the analysed steps that are kept per step.
struct StepSums {
  std::int64_t steps = 0, host = 0, data_loader = 0, sync = 0, syncs = 0;
  std::int64_t optimizer = 0, pageable = 0, overhead = 0, allocations = 0, allocation_time = 0;
};

StepSums SumSteps(const RankTrace& t) {
  StepSums sums;
  for (std::size_t i = 0; i < t.steps.size(); ++i) {
    const StepFigures& s = t.steps[i];
    if (i > 0) {
      sums.allocations += s.allocations;
      sums.allocation_time += s.allocation_time;
    }
    if (!s.analysed) continue;
    ++sums.steps;
    sums.host += s.host;
    sums.data_loader += s.data_loader;
    sums.sync += s.host_sync;
    sums.syncs += s.host_syncs;
    sums.optimizer += s.optimizer_kernels;
    sums.pageable += s.pageable_exposed;
    sums.overhead += s.profiler_overhead;
  }
  return sums;
}

class Diagnoser {
 public:
  Diagnoser(const TraceSet& set, const DiagnoseOptions& options) : set_(set), options_(options) {}

  Diagnosis Run() {
    for (const RankTrace& t : set_.ranks) {
      if (t.HasGpu()) {
        OfGpu(t);
      } else {
        OfHost(t);
      }
    }
    AcrossRanksRows();
    std::stable_sort(rows_.begin(), rows_.end(), [](const Bottleneck& a, const Bottleneck& b) {
      if (a.named != b.named) return a.named;
      return a.share > b.share;
    });
    Diagnosis d;
    d.source = "trace";
    d.bottlenecks = std::move(rows_);
    d.summary = Summary(d);
    for (const RankTrace& t : set_.ranks) d.times.push_back(TimesOf(t));
    return d;
  }

 private:
  // Keeps the worst rank's row of a class. Worst: named before not named, then the larger share.
  void Add(std::string_view cls, bool named, double metric, double share, std::string evidence) {
    Bottleneck row{std::string(cls), share, metric, ThresholdOf(cls), named, std::move(evidence)};
    const auto same = std::find_if(rows_.begin(), rows_.end(),
                                   [cls](const Bottleneck& b) { return b.cls == cls; });
    if (same == rows_.end()) {
      rows_.push_back(std::move(row));
    } else if (std::pair(row.named, row.share) > std::pair(same->named, same->share)) {
      *same = std::move(row);
    }
  }

  std::string OnRank(const RankTrace& t) const {
    if (set_.ranks.size() < 2) return {};
    return t.rank >= 0 ? fmt::format("rank {}: ", t.rank) : t.path + ": ";
  }

  static TimeSplit TimesOf(const RankTrace& t) {
    TimeSplit split = traces::SplitOf(t.analysed, t.analysed_idle);
    if (!t.HasGpu()) {
      split = {};
      split.span = t.host.span;
      split.host_operators = t.host.operators;
    }
    split.rank = t.rank;
    if (t.steps_marked) {
      split.steps = std::count_if(t.steps.begin(), t.steps.end(),
                                  [](const StepFigures& s) { return s.analysed; });
    }
    return split;
  }

  void OfGpu(const RankTrace& t) {
    const std::int64_t span = t.analysed.span;
    if (span <= 0) return;
    Launches(t, span);
    Communication(t, span);
    Pipeline(t, span);
    Kernels(t, span);
    HostSide(t, span);
  }

  void Launches(const RankTrace& t, std::int64_t span) {
    const double host_wait = Ratio(t.analysed_idle.host_wait, span);
    const double idle = Ratio(t.analysed.idle(), span);
    const std::int64_t delay = t.sums.median_launch_delay;
    const std::int64_t gpu_work = t.sums.kernel_count;
    const bool graphs = gpu_work > 0 && 2 * t.sums.graph_kernels >= gpu_work;
    const bool launch_bound =
        host_wait >= ThresholdOf("launch_bound") && delay >= 0 && delay < kLaunchDelay && !graphs;
    std::string evidence = OnRank(t);
    evidence +=
        delay < 0 ? fmt::format("idle {} of the step; no launches are in the trace", Percent(idle))
                  : fmt::format(
                        "idle {} of the step, {} of it ends with a kernel launched late; "
                        "median launch delay {}",
                        Percent(idle), Percent(Ratio(t.analysed_idle.host_wait, t.analysed.idle())),
                        ShowNanoseconds(delay));
    if (graphs) {
      evidence += fmt::format("; {} kernels come from {} graph launches", t.sums.graph_kernels,
                              t.sums.graph_launches);
    }
    Add("launch_bound", launch_bound, host_wait, host_wait, evidence);

    const double median_us = static_cast<double>(t.sums.median_kernel) / 1000;
    // One long gap a step (a stalled data loader) is not what small kernels do.
    const double short_gaps = Ratio(t.analysed_idle.in_short_gaps, span);
    Add("small_kernels",
        gpu_work > 0 && median_us < ThresholdOf("small_kernels") &&
            short_gaps >= kIdleForSmallKernels && !graphs,
        median_us, short_gaps,
        OnRank(t) + fmt::format("half of {} compute kernels last {} or less, {} are under 10 us; "
                                "short gaps between kernels take {} of the step",
                                gpu_work, ShowNanoseconds(t.sums.median_kernel),
                                Percent(Ratio(t.sums.small_kernels, gpu_work)),
                                Percent(short_gaps)));
  }

  void Communication(const RankTrace& t, std::int64_t span) {
    const double exposed = Ratio(t.analysed.exposed, span);
    const double comm = Ratio(t.analysed.comm, span);
    std::string evidence = OnRank(t);
    if (t.kernels_in_comm_classes == 0) {
      evidence += "no communication kernels";
    } else {
      evidence += fmt::format("communication runs {} of the step, {} of the step exposed",
                              Percent(comm), Percent(exposed));
      if (exposed >= kBottleneckExposed) evidence += " (a bottleneck)";
      int shown = 0;
      for (const CollectiveRow& row : t.collectives) {
        if (row.exposed == 0 || shown == 3) break;
        evidence += fmt::format("{} {}{} {}", shown == 0 ? ":" : ",", row.type, GroupWords(row),
                                Percent(Ratio(row.exposed, span)));
        ++shown;
      }
    }
    Add("exposed_communication", exposed >= ThresholdOf("exposed_communication"), exposed, exposed,
        evidence);
    if (t.analysed.comm == 0) return;
    const double overlap = Ratio(t.analysed.overlap, t.analysed.comm);
    Add("low_overlap", overlap < ThresholdOf("low_overlap") && comm >= kCommForOverlap, overlap,
        exposed,
        OnRank(t) + fmt::format("{} of communication time runs under compute", Percent(overlap)));
  }

  static std::string GroupWords(const CollectiveRow& row) {
    if (!row.description.empty() && row.description != "undefined") {
      return " in " + row.description;
    }
    return row.group.empty() ? "" : " in group " + row.group;
  }

  static bool IsPipelineRow(const CollectiveRow& row) {
    if (row.type == "send" || row.type == "recv") return true;
    const std::string& d = row.description;
    return row.type == "send_recv" &&
           (d.find("PIPELINE") != std::string::npos || d.find("pipeline") != std::string::npos ||
            d.find("mesh_pp") != std::string::npos || d == "pp");
  }

  void Pipeline(const RankTrace& t, std::int64_t span) {
    std::int64_t waiting = 0;
    bool any = options_.pipeline && options_.pipeline->stages > 1;
    for (const CollectiveRow& row : t.collectives) {
      if (!IsPipelineRow(row)) continue;
      any = true;
      waiting += row.exposed;
    }
    if (!any) return;
    const double bubble = Ratio(t.analysed.idle() + std::min(waiting, t.analysed.exposed), span);
    double threshold = ThresholdOf("pipeline_bubble");
    std::string ideal;
    if (options_.pipeline) {
      const PipelineShape& p = *options_.pipeline;
      const double stages = std::max(1, p.stages) - 1;
      const double work = static_cast<double>(std::max(1, p.microbatches)) *
                              static_cast<double>(std::max(1, p.virtual_stages)) +
                          stages;
      threshold = stages / work + kBubblePoints;
      ideal = fmt::format("; the schedule alone costs {}", Percent(stages / work));
    }
    Add("pipeline_bubble", bubble > threshold, bubble, bubble,
        OnRank(t) + fmt::format("idle {} and waiting for a neighbour {} of the step{}",
                                Percent(Ratio(t.analysed.idle(), span)),
                                Percent(Ratio(waiting, span)), ideal));
    for (Bottleneck& b : rows_) {
      if (b.cls == "pipeline_bubble") b.threshold = threshold;
    }
  }

  void Kernels(const RankTrace& t, std::int64_t span) {
    const Sums& s = t.sums;
    const double memory = Ratio(s.memory_bound, t.analysed.busy);
    Add("memory_bound_kernels", memory >= ThresholdOf("memory_bound_kernels"), memory,
        Ratio(s.memory_bound, span),
        OnRank(t) + fmt::format("elementwise, normalisation, pooling, copy and cast kernels take "
                                "{} of busy time",
                                Percent(memory)));
    if (s.gemm > 0) {
      const double small = Ratio(s.small_gemm, s.gemm);
      std::string evidence =
          OnRank(t) +
          fmt::format("{} of matrix-product time is in kernels under 50 us", Percent(small));
      if (s.undersized_gemm > 0) {
        evidence += fmt::format("; {} in grids smaller than the GPU's {} processors",
                                Percent(Ratio(s.undersized_gemm, s.gemm)), t.processors);
      }
      Add("small_gemms", small > ThresholdOf("small_gemms"), small, Ratio(s.small_gemm, span),
          evidence);
      const double fp32 = Ratio(s.fp32_gemm, s.gemm);
      Add("fp32_gemms", fp32 > ThresholdOf("fp32_gemms"), fp32, Ratio(s.fp32_gemm, span),
          OnRank(t) + fmt::format("{} of matrix-product time is single precision off the tensor "
                                  "cores, which is a fault unless the job is a float32 one",
                                  Percent(fp32)));
    }
    const double recompute = Ratio(s.recompute, s.compute_kernels);
    Add("recompute", recompute >= ThresholdOf("recompute"), recompute, Ratio(s.recompute, span),
        OnRank(t) +
            fmt::format("{} of compute is repeated for the backward pass", Percent(recompute)));
  }

  void HostSide(const RankTrace& t, std::int64_t span) {
    const StepSums s = SumSteps(t);
    const double optimizer = Ratio(s.optimizer, span);
    Add("optimizer", optimizer >= ThresholdOf("optimizer"), optimizer, optimizer,
        OnRank(t) +
            fmt::format("kernels of the optimizer's step run {} of the step", Percent(optimizer)));
    const double sync = Ratio(s.sync, span);
    const double per_step =
        s.steps > 0 ? static_cast<double>(s.syncs) / static_cast<double>(s.steps) : 0;
    Add("host_sync",
        sync >= ThresholdOf("host_sync") || (t.steps_marked && per_step > kSyncsPerStep), sync,
        std::min(1.0, sync),
        OnRank(t) + fmt::format("the main thread waits for the GPU {:.1f} times a step, {} of it",
                                per_step, Percent(sync)));
    const std::size_t later = t.steps.size() > 1 ? t.steps.size() - 1 : 0;
    const double allocations =
        later > 0 ? static_cast<double>(s.allocations) / static_cast<double>(later) : 0;
    Add("allocator", s.allocations > 0 && later > 0, allocations, Ratio(s.allocation_time, span),
        OnRank(t) + fmt::format("{} device allocations or frees after the first step, {}",
                                s.allocations, ShowNanoseconds(s.allocation_time)));
    const std::int64_t host = t.steps_marked ? s.host : t.host.span;
    const std::int64_t loader = t.steps_marked ? s.data_loader : t.host.data_loader;
    AddDataLoader(t, loader, host);
    const double pageable = Ratio(s.pageable, span);
    Add("pageable_copies", pageable >= ThresholdOf("pageable_copies"), pageable, pageable,
        OnRank(t) + fmt::format("copies from pageable memory take {} of the step while nothing "
                                "computes",
                                Percent(pageable)));
    const double overhead = Ratio(s.overhead, span);
    std::string evidence =
        OnRank(t) + fmt::format("the profiler's own work takes {} of the step", Percent(overhead));
    const bool stacks = t.host.python_events > 0;
    if (stacks) {
      evidence += fmt::format("; {} Python stack events: host-side shares are inflated",
                              t.host.python_events);
    }
    Add("profiler_overhead", overhead >= ThresholdOf("profiler_overhead") || stacks, overhead,
        std::min(1.0, overhead), evidence);
  }

  void AddDataLoader(const RankTrace& t, std::int64_t loader, std::int64_t host) {
    const double share = Ratio(loader, host);
    Add("data_loader", share >= ThresholdOf("data_loader"), share, share,
        OnRank(t) + fmt::format("the main thread spends {} of {} in the data loader ({})",
                                ShowNanoseconds(loader), ShowNanoseconds(host), Percent(share)));
  }

  void OfHost(const RankTrace& t) {
    if (t.host.span <= 0) return;
    const double optimizer = Ratio(t.host.optimizer, t.host.span);
    Add("optimizer", optimizer >= ThresholdOf("optimizer"), optimizer, optimizer,
        OnRank(t) + fmt::format("the optimizer's step takes {} of the step on the host",
                                Percent(optimizer)));
    AddDataLoader(t, t.host.data_loader, t.host.span);
  }

  void AcrossRanksRows() {
    const AcrossRanks& a = set_.across;
    std::int64_t span = 0, count = 0;
    for (const RankTrace& t : set_.ranks) {
      if (t.analysed.span <= 0) continue;
      span += t.analysed.span;
      ++count;
    }
    if (count < 2) return;
    span /= count;
    if (!a.collectives.empty()) {
      const double waiting = Ratio(a.waiting, a.comm);
      Add("late_peer", waiting > ThresholdOf("late_peer"), waiting, Ratio(a.waiting / count, span),
          fmt::format("{} of the time in {} matched collectives is waiting for the last rank to "
                      "enter: imbalance, not bandwidth",
                      Percent(waiting), a.collectives.size()));
      const RankLateness& worst = a.lateness.front();
      const double caused = Ratio(worst.caused, a.waiting);
      const double skew = Ratio(a.largest_skew, span);
      Add("straggler", caused >= ThresholdOf("straggler") && skew >= kSkewForStraggler, caused,
          Ratio(worst.caused / count, span), StragglerWords(a, caused));
    }
    if (a.compute_imbalance) {
      Add("rank_imbalance", *a.compute_imbalance >= ThresholdOf("rank_imbalance"),
          *a.compute_imbalance, Ratio(SlowestExcess(), span),
          fmt::format("rank {} computes most; the mean is {} below it", a.slowest_rank,
                      Percent(*a.compute_imbalance)));
    }
  }

  std::int64_t SlowestExcess() const {
    std::int64_t max = 0;
    for (const RankTrace& t : set_.ranks) max = std::max(max, t.analysed.compute);
    return static_cast<std::int64_t>(static_cast<double>(max) *
                                     set_.across.compute_imbalance.value_or(0));
  }

  static std::string StragglerWords(const AcrossRanks& a, double caused) {
    const RankLateness& worst = a.lateness.front();
    std::string words =
        fmt::format("rank {} is last in {} of {} collectives and causes {} of the waiting",
                    worst.rank, worst.last_in, a.collectives.size(), Percent(caused));
    for (std::size_t i = 1; i < std::min<std::size_t>(3, a.lateness.size()); ++i) {
      if (a.lateness[i].caused == 0) break;
      words += fmt::format(", rank {} {}", a.lateness[i].rank,
                           Percent(Ratio(a.lateness[i].caused, a.waiting)));
    }
    const auto largest = std::max_element(a.collectives.begin(), a.collectives.end(),
                                          [](const auto& x, const auto& y) {
                                            return x.longest - x.transfer < y.longest - y.transfer;
                                          });
    words += fmt::format("; largest skew: {} in a {}, {} inside on rank {}, {} on rank {}",
                         ShowNanoseconds(largest->longest - largest->transfer), largest->type,
                         ShowNanoseconds(largest->transfer), largest->last_rank,
                         ShowNanoseconds(largest->longest), largest->longest_rank);
    return words;
  }

  std::string Summary(const Diagnosis& d) const {
    std::string text;
    for (const RankTrace& t : set_.ranks) {
      if (!t.whole) {
        text += fmt::format("{} is not whole: {} events were read before it breaks off. ",
                            t.path.substr(t.path.rfind('/') + 1), t.events);
      }
    }
    const auto gpu = std::find_if(set_.ranks.begin(), set_.ranks.end(),
                                  [](const RankTrace& t) { return t.HasGpu(); });
    if (gpu == set_.ranks.end()) {
      text += HostSummary();
    } else {
      text += GpuSummary(*gpu);
    }
    std::vector<const Bottleneck*> named;
    for (const Bottleneck& b : d.bottlenecks) {
      if (b.named) named.push_back(&b);
    }
    if (named.empty()) return text + "Nothing is past its threshold.";
    text += named.size() == 1 ? "Named: "
                              : fmt::format("{} things are named, largest first: ", named.size());
    for (std::size_t i = 0; i < named.size(); ++i) {
      text += fmt::format("{}{} ({})", i == 0 ? "" : "; ", named[i]->cls, named[i]->evidence);
    }
    return text + ".";
  }

  std::string HostSummary() const {
    if (set_.ranks.empty()) return {};
    const RankTrace& t = set_.ranks.front();
    if (t.host.span <= 0) {
      return t.unknown.empty()
                 ? "There are no GPU events and no host operators: nothing to analyse. "
                 : "There are only events of kinds not known here: nothing to "
                   "analyse. ";
    }
    std::string text = fmt::format(
        "No GPU events: these are times of the host alone. {} analysed, operators of the main "
        "thread run {} of it",
        ShowNanoseconds(t.host.span), Percent(Ratio(t.host.operators, t.host.span)));
    int shown = 0;
    for (const ClassRow& c : t.host.classes) {
      if (shown++ == 3) break;
      text += fmt::format(", {} {}", c.cls, Percent(Ratio(c.total, t.host.span)));
    }
    return text + ". ";
  }

  std::string GpuSummary(const RankTrace& t) const {
    std::int64_t analysed = 0;
    for (const StepFigures& s : t.steps) analysed += s.analysed ? 1 : 0;
    const std::int64_t span = t.analysed.span;
    std::string text;
    if (set_.ranks.size() > 1) text += fmt::format("{} ranks; of the first: ", set_.ranks.size());
    if (t.steps_marked) {
      text += fmt::format("{} of {} steps analysed, {} each on the GPU", analysed, t.steps.size(),
                          ShowNanoseconds(analysed > 0 ? span / analysed : 0));
    } else {
      text += fmt::format("no step marks, the whole window of {} analysed", ShowNanoseconds(span));
    }
    text += fmt::format(
        ": busy {}, compute {}, exposed communication {}, idle {} (host wait {}, kernel wait {}, "
        "other {}). ",
        Percent(Ratio(t.analysed.busy, span)), Percent(Ratio(t.analysed.compute, span)),
        Percent(Ratio(t.analysed.exposed, span)), Percent(Ratio(t.analysed.idle(), span)),
        Percent(Ratio(t.analysed_idle.host_wait, span)),
        Percent(Ratio(t.analysed_idle.kernel_wait, span)),
        Percent(Ratio(t.analysed_idle.comm_wait + t.analysed_idle.other, span)));
    if (t.whole_file.without_launch > 0) {
      text += fmt::format("GPU events without a launch in the window: {}, {}. ",
                          t.whole_file.without_launch,
                          ShowNanoseconds(t.whole_file.without_launch_time));
    }
    return text;
  }

  const TraceSet& set_;
  const DiagnoseOptions& options_;
  std::vector<Bottleneck> rows_;
};

}  // namespace

std::span<const DiagnosisThreshold> Thresholds() { return kThresholds; }

Diagnosis DiagnoseTraces(const TraceSet& traces, const DiagnoseOptions& options) {
  return Diagnoser(traces, options).Run();
}

}  // namespace attune
