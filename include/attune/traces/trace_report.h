// What a profiler trace says about one training job: figures as plain values, in integer
// nanoseconds. Made by trace_reader.h; judged by diagnose.h.
//
// Interval figures are unions: two kernels at the same moment count once. Shares are of `span`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attune {

// Something odd in a file that was tolerated, or a limit of what it can tell.
struct ParseNote {
  std::string name;  // word of docs/formats/traces.md: "truncated", "bad_utf8" ...
  std::int64_t count = 0;
  std::int64_t first_byte = -1;  // in the inflated text; negative: no place
  std::string sentence;
};

// Time of the GPU in one stretch. Communication kernels are not compute; copies and memsets are
// memory. busy = union of the three; exposed = communication with neither compute nor memory.
struct Breakdown {
  std::int64_t span = 0, busy = 0, compute = 0, comm = 0, mem = 0;
  std::int64_t overlap = 0;  // communication and compute at once
  std::int64_t exposed = 0;
  std::int64_t idle() const { return span - busy; }
};

// Idle time by what ended it. Host wait: the next event was launched after the last one had ended.
// Communication wait: a collective ran on another stream for most of the gap. Kernel wait: shorter
// than 30 us, the cost of starting a kernel that was already queued. Other: the rest, such as
// waiting for an event of another stream.
struct IdleSplit {
  std::int64_t host_wait = 0, kernel_wait = 0, comm_wait = 0, other = 0;
  // Of all four, in gaps under 200 us: idle of many launches, not of one stall.
  std::int64_t in_short_gaps = 0;
  std::int64_t total() const { return host_wait + kernel_wait + comm_wait + other; }
};

struct GpuCounts {
  std::int64_t events = 0, compute = 0, comm = 0, mem = 0, zero_duration = 0;
};

// All GPU events of the file, without regard to steps.
struct WholeFile {
  GpuCounts counts;
  Breakdown time;
  // Of the events whose launch is in the file, as HTA and TraceLens report it.
  GpuCounts launched_counts;
  Breakdown launched_time;
  std::int64_t without_launch = 0, without_launch_time = 0;  // events; sum of their durations
  std::int64_t start_before_launch = 0;
  std::int64_t streams = 0;
  std::int64_t same_stream_overlaps = 0, worst_same_stream_overlap = 0;
  std::optional<std::int64_t> median_launch_delay;  // start of the kernel - start of its launch
  std::optional<std::int64_t> median_compute_kernel;
};

// One step, or the whole window when there are no steps. Its stretch of the GPU's time goes from
// its first launched event to the next step's first one, so that waiting between steps belongs to
// the step before, and the stretches add up.
struct StepFigures {
  std::string name;                 // "ProfilerStep#12"; "window" when there are no steps
  std::int64_t host = 0;            // duration of the mark itself
  std::int64_t begin = 0, end = 0;  // on the GPU, relative to the file's base time
  Breakdown time;
  IdleSplit idle;
  std::int64_t launches = 0, kernels = 0;
  std::int64_t data_loader = 0, host_sync = 0, host_syncs = 0, allocations = 0;
  std::int64_t allocation_time = 0;
  std::int64_t optimizer_kernels = 0;  // union of kernels launched by the optimizer
  std::int64_t pageable_exposed = 0;   // pageable copies while nothing computes
  std::int64_t profiler_overhead = 0;
  bool analysed = false;  // counts in the diagnosis: neither first nor last of three or more
};

struct StreamFigures {
  std::int64_t device = 0, stream = 0;
  std::int64_t events = 0, busy = 0;
  IdleSplit idle;  // between its first and last event
};

struct KernelRow {
  std::string name;  // as written, made fit for display
  std::string cls;   // "gemm", "attention", "communication", "memory" ...
  std::int64_t count = 0, total = 0, median = 0;
};

struct ClassRow {
  std::string cls;
  std::int64_t count = 0, total = 0;  // sum of durations
};

// Communication by what it is and who takes part. group "": not known.
struct CollectiveRow {
  std::string type;  // "allreduce", "allgather", "reduce_scatter", "all_to_all", "send_recv" ...
  std::string name;  // as the job names it: "_allgather_base"; empty without arguments
  std::string group, description;
  std::int64_t group_size = 0;  // 0: not known
  std::int64_t count = 0;
  std::int64_t count_in_file = 0, with_arguments_in_file = 0;
  std::int64_t bytes = 0;    // of the inputs, where known
  std::int64_t time = 0;     // union
  std::int64_t exposed = 0;  // of it, with neither compute nor memory
};

// Sums over the analysed steps that the diagnosis needs beside the step figures.
struct Sums {
  std::int64_t compute_kernels = 0;                      // sum of durations
  std::int64_t recompute = 0;                            // of them, repeated for the backward pass
  std::int64_t small_kernels = 0;                        // number of compute kernels under 10 us
  std::int64_t kernel_count = 0;                         // of compute kernels
  std::int64_t median_kernel = 0;                        // duration of compute kernels
  std::int64_t median_launch_delay = -1;                 // negative: no launches known
  std::int64_t gemm = 0, small_gemm = 0, fp32_gemm = 0;  // small: under 50 us
  std::int64_t undersized_gemm = 0;                      // fewer blocks than the GPU has processors
  std::int64_t memory_bound = 0;  // elementwise, normalisation, copies, casts: sum of durations
  std::int64_t graph_kernels = 0, graph_launches = 0;
};

// The host's side when there are no GPU events, or beside them.
struct HostFigures {
  std::int64_t threads = 0;
  std::int64_t python_events = 0, events = 0;
  std::int64_t span = 0;       // of the analysed steps, or of the host's operators
  std::int64_t operators = 0;  // union of operators of the main thread
  std::int64_t optimizer = 0;  // union of optimizer marks
  std::int64_t data_loader = 0;
  std::vector<KernelRow> top;     // operators by own time; only without GPU events
  std::vector<ClassRow> classes;  // the same by class
};

struct UnknownCategory {
  std::string category;
  std::int64_t count = 0, total = 0;
};

// One collective of one rank, for comparison across ranks.
struct CollectiveEvent {
  std::string
      key;  // type, group and its order within the step: equal on every rank that takes part
  std::string type, group;
  std::int64_t start = 0, end = 0;  // since the epoch where the file says so
  bool point_to_point = false;
};

enum class TraceFormat { kKineto, kKinetoArray, kNsightSystems };

struct RankTrace {
  std::string path;
  TraceFormat format = TraceFormat::kKineto;
  bool whole = true;  // false: truncated or damaged; `events` were read
  std::int64_t rank = -1, world_size = -1;
  std::int64_t stopped_at = -1;  // byte of the text where reading ended when not whole
  std::int64_t events = 0;       // elements of the event array, or rows
  std::int64_t text_bytes = 0;   // inflated
  std::int64_t base_time = 0;    // nanoseconds since the epoch that times are relative to
  std::string device;            // "Tesla V100-SXM2-32GB"; empty: not known
  std::int64_t processors = 0;   // of the GPU (SMs, CUs); 0: not known
  bool steps_marked = false;
  WholeFile whole_file;
  std::vector<StepFigures> steps;  // never empty when there are GPU events or steps
  Breakdown analysed;              // over the analysed steps together
  IdleSplit analysed_idle;
  Sums sums;
  std::vector<StreamFigures> streams;
  std::vector<ClassRow> classes;           // over the analysed steps, by total
  std::vector<KernelRow> top;              // over the whole file, by total
  std::vector<CollectiveRow> collectives;  // over the analysed steps, by exposed time
  std::vector<UnknownCategory> unknown;
  HostFigures host;
  std::vector<CollectiveEvent> collective_events;
  std::vector<ParseNote> notes;
  std::int64_t kernels_in_comm_classes = 0;  // communication kernels found in the whole file

  bool HasGpu() const { return whole_file.counts.events > 0; }
};

// How the ranks that take part in one collective entered it. They leave together, so the rank that
// spends least time in it entered last, and its time is the transfer.
struct MatchedCollective {
  std::string key, type, group;
  int ranks = 0;
  std::int64_t last_rank = -1;
  std::int64_t transfer = 0;  // shortest duration
  std::int64_t longest = 0;   // longest duration: skew = longest - transfer
  std::int64_t longest_rank = -1;
  std::int64_t waiting = 0;     // sum over ranks of duration - transfer
  std::int64_t end_spread = 0;  // how far the ends lie apart on the ranks' clocks
};

struct RankLateness {
  std::int64_t rank = -1;
  int last_in = 0;          // collectives it entered last
  std::int64_t caused = 0;  // waiting of the others in them
  std::int64_t waited = 0;  // its own waiting in all collectives
};

struct AcrossRanks {
  std::vector<MatchedCollective> collectives;  // in the order of their first start
  std::vector<RankLateness> lateness;          // by waiting caused
  std::int64_t waiting = 0, comm = 0;          // sums over ranks and matched collectives
  std::int64_t largest_skew = 0;
  // (max - mean) / max of compute time over the ranks; empty with one rank.
  std::optional<double> compute_imbalance;
  std::int64_t slowest_rank = -1;
  std::string why_empty;  // a sentence when nothing could be matched
};

struct TraceSet {
  std::vector<RankTrace> ranks;  // by rank, then by path
  AcrossRanks across;
  // Files that were left out and why, ranks claimed twice, and the like: sentences.
  std::vector<std::string> remarks;
};

}  // namespace attune
