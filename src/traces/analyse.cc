#include "analyse.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "kernel_class.h"
#include "prepare.h"
#include "sweep.h"
#include "timeline.h"

namespace attune::traces {
namespace {

// A gap shorter than this, before a kernel that was already queued, is the cost of starting it.
// HTA's threshold for consecutive kernels (30, in microseconds as it is applied).
constexpr std::int64_t kKernelWait = 30'000;
constexpr std::int64_t kShortGap = 200'000;
constexpr std::int64_t kSmallKernel = 10'000;  // traces: "small kernels"
constexpr std::int64_t kSmallGemm = 50'000;
constexpr std::size_t kTopKernels = 20;

using Index = std::uint32_t;

// What a collective is, as the rows of the report tell them apart.
using CommKey = std::tuple<std::string, std::string, std::string, std::string, std::int64_t>;

class Analysis {
 public:
  explicit Analysis(EventStore& store) : store_(store) {}

  RankTrace Run() {
    const Prepared prepared = Prepare(store_);
    report_.whole_file.same_stream_overlaps = prepared.same_stream_overlaps;
    report_.whole_file.worst_same_stream_overlap = prepared.worst_same_stream_overlap;
    host_ = CollectHostTimes(store_);
    marks_ = FindSteps(store_);
    ClassifyNames();
    CountWholeFile();
    PlaceSteps();
    SweepTime();
    Streams();
    SumAnalysed();
    HostOfSteps();
    Kernels();
    Collectives();
    report_.host = AnalyseHost(store_, host_, marks_);
    Notes();
    report_.rank = store_.rank;
    report_.world_size = store_.world_size;
    report_.events = store_.events;
    report_.base_time = store_.base_time;
    report_.device = store_.device;
    report_.processors = store_.processors;
    for (auto& [category, row] : store_.unknown) {
      row.category = DisplayName(category, 80);
      report_.unknown.push_back(row);
    }
    return std::move(report_);
  }

 private:
  KernelClass ClassOf(const GpuEvent& g) const {
    return g.cls == EventClass::kMem ? KernelClass::kMemory : class_of_name_[g.name];
  }
  std::int64_t LaunchStart(const GpuEvent& g) const { return store_.launches[g.launch].start; }

  void ClassifyNames() {
    class_of_name_.assign(store_.names.size(), KernelClass::kCount);
    for (const GpuEvent& g : store_.gpu) {
      KernelClass& c = class_of_name_[g.name];
      if (c == KernelClass::kCount) c = ClassifyKernel(store_.names.Text(g.name));
    }
  }

  static void Count(const GpuEvent& g, GpuCounts& counts) {
    ++counts.events;
    if (g.end == g.start) ++counts.zero_duration;
    switch (g.cls) {
      case EventClass::kCompute:
        ++counts.compute;
        break;
      case EventClass::kComm:
        ++counts.comm;
        break;
      case EventClass::kMem:
        ++counts.mem;
        break;
    }
  }

  void CountWholeFile() {
    WholeFile& w = report_.whole_file;
    std::vector<std::int64_t> delays, kernels;
    std::int64_t last = 0, launched_first = 0, launched_last = 0;
    std::vector<char> stream_seen(store_.streams.size(), 0);
    for (const GpuEvent& g : store_.gpu) {
      if (w.counts.events == 0) last = g.end;
      last = std::max(last, g.end);
      Count(g, w.counts);
      stream_seen[g.stream] = 1;
      if (g.cls == EventClass::kCompute) kernels.push_back(g.end - g.start);
      if (g.launch == kNone) {
        ++w.without_launch;
        w.without_launch_time += g.end - g.start;
        continue;
      }
      if (w.launched_counts.events == 0) {
        launched_first = g.start;
        launched_last = g.end;
      }
      launched_last = std::max(launched_last, g.end);
      Count(g, w.launched_counts);
      const std::int64_t delay = g.start - LaunchStart(g);
      if (delay < 0) ++w.start_before_launch;
      delays.push_back(delay);
    }
    if (w.counts.events > 0) w.time.span = last - store_.gpu[0].start;
    w.launched_time.span = launched_last - launched_first;
    w.streams = std::count(stream_seen.begin(), stream_seen.end(), 1);
    if (!delays.empty()) w.median_launch_delay = Median(delays);
    if (!kernels.empty()) w.median_compute_kernel = Median(kernels);
    report_.kernels_in_comm_classes = w.counts.comm;
  }

  // The step during which something was launched; -1 before the first.
  std::ptrdiff_t StepAt(std::int64_t host_time) const {
    const auto after =
        std::upper_bound(marks_.begin(), marks_.end(), host_time,
                         [](std::int64_t t, const StepMark& m) { return t < m.start; });
    return after - marks_.begin() - 1;
  }

  void PlaceSteps() {
    report_.steps_marked = !marks_.empty();
    std::vector<StepFigures>& steps = report_.steps;
    for (const StepMark& m : marks_) {
      StepFigures s;
      s.name = m.name;
      s.host = m.end - m.start;
      steps.push_back(std::move(s));
    }
    if (!store_.gpu.empty()) {
      if (marks_.empty() || !PlaceByLaunch()) PlaceWhole();
    }
    // The last step's end on the GPU is often cut off, and the first one holds start-up work.
    const bool inner_only = steps.size() >= 3;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      steps[i].analysed = !inner_only || (i > 0 && i + 1 < steps.size());
      if (!steps[i].analysed) continue;
      if (first_analysed_ > i) first_analysed_ = i;
      last_analysed_ = i;
    }
    if (!steps.empty()) {
      begin_ = steps[first_analysed_].begin;
      end_ = steps[last_analysed_].end;
    }
  }

  bool PlaceByLaunch() {
    constexpr std::int64_t kUnset = std::numeric_limits<std::int64_t>::max();
    std::vector<StepFigures>& steps = report_.steps;
    std::vector<std::int64_t> first(steps.size(), kUnset);
    std::int64_t last_end = 0;
    std::ptrdiff_t last_step = -1;
    for (const GpuEvent& g : store_.gpu) {
      if (g.launch == kNone) continue;
      const std::ptrdiff_t step = StepAt(LaunchStart(g));
      if (step < 0) continue;
      auto& f = first[static_cast<std::size_t>(step)];
      f = std::min(f, g.start);
      if (step > last_step) {
        last_step = step;
        last_end = g.end;
      } else if (step == last_step) {
        last_end = std::max(last_end, g.end);
      }
    }
    if (last_step < 0) return false;
    std::int64_t next = last_end;
    for (std::size_t i = steps.size(); i-- > 0;) {
      steps[i].end = next;
      steps[i].begin = std::min(first[i] == kUnset ? next : first[i], next);
      next = steps[i].begin;
    }
    return true;
  }

  // Without launches in steps: the whole timeline is one stretch.
  void PlaceWhole() {
    StepFigures s;
    s.name = "window";
    s.begin = store_.gpu[0].start;
    s.end = s.begin + report_.whole_file.time.span;
    report_.steps = {s};
    marks_.clear();
    report_.steps_marked = false;
  }

  // First step that ends after `at`, or the number of steps.
  std::size_t StepEndingAfter(std::int64_t at) const {
    const auto& steps = report_.steps;
    const auto it =
        std::upper_bound(steps.begin(), steps.end(), at,
                         [](std::int64_t t, const StepFigures& s) { return t < s.end; });
    return static_cast<std::size_t>(it - steps.begin());
  }

  std::uint32_t CommRow(const GpuEvent& g) {
    const CommArguments& c = store_.comms[g.extra];
    const CommKey key{c.type, c.name, c.group, c.description, c.group_size};
    const auto [it, fresh] = comm_rows_.try_emplace(key, comm_rows_.size());
    if (fresh) {
      comm_running_.push_back(0);
      comm_sums_.emplace_back();
    }
    return static_cast<std::uint32_t>(it->second);
  }

  void Change(const GpuEvent& g, Index index, int by) {
    running_.Change(g.cls, by);
    if (g.launch != kNone) launched_running_.Change(g.cls, by);
    if (flags_[index].optimizer) optimizer_running_ += by;
    if (pageable_[g.name] != 0) pageable_running_ += by;
    if (g.cls == EventClass::kComm && g.extra != kNone) {
      comm_running_[comm_of_[g.extra]] += by;
    }
  }

  void Stretch(std::int64_t begin, std::int64_t end) {
    AddStretch(running_, end - begin, report_.whole_file.time);
    AddStretch(launched_running_, end - begin, report_.whole_file.launched_time);
    auto& steps = report_.steps;
    for (; at_step_ < steps.size() && steps[at_step_].end <= begin; ++at_step_) {
    }
    for (std::size_t i = at_step_; i < steps.size() && steps[i].begin < end; ++i) {
      StepFigures& s = steps[i];
      const std::int64_t length = std::min(end, s.end) - std::max(begin, s.begin);
      if (length <= 0) continue;
      AddStretch(running_, length, s.time);
      if (optimizer_running_ > 0) s.optimizer_kernels += length;
      if (pageable_running_ > 0 && !running_.compute()) s.pageable_exposed += length;
      if (!s.analysed || !running_.comm()) continue;
      const bool exposed = !running_.compute() && !running_.mem();
      for (std::size_t row = 0; row < comm_running_.size(); ++row) {
        if (comm_running_[row] == 0) continue;
        comm_sums_[row].time += length;
        if (exposed) comm_sums_[row].exposed += length;
      }
    }
  }

  void SweepTime() {
    flags_.resize(store_.gpu.size());
    pageable_.assign(store_.names.size(), 0);
    comm_of_.assign(store_.comms.size(), 0);
    for (Index i = 0; i < store_.gpu.size(); ++i) {
      const GpuEvent& g = store_.gpu[i];
      flags_[i] = FlagsOf(g, store_, host_);
      if (g.cls == EventClass::kMem && IsPageableCopy(store_.names.Text(g.name))) {
        pageable_[g.name] = 1;
      }
      if (g.cls == EventClass::kComm && g.extra != kNone) comm_of_[g.extra] = CommRow(g);
    }
    Sweep(
        store_.gpu, [this](const GpuEvent& g, Index i) { Change(g, i, 1); },
        [this](const GpuEvent& g, Index i) { Change(g, i, -1); },
        [this](std::int64_t begin, std::int64_t end) { Stretch(begin, end); });
    for (StepFigures& s : report_.steps) s.time.span = s.end - s.begin;
  }

  // What a gap before `g` was spent on.
  void AddGap(std::int64_t from, const GpuEvent& g, const std::vector<Interval>& comm,
              IdleSplit& split) const {
    const std::int64_t gap = g.start - from;
    if (gap < kShortGap) split.in_short_gaps += gap;
    if (g.launch != kNone && LaunchStart(g) > from) {
      split.host_wait += gap;
    } else if (2 * LengthWithin(comm, from, g.start) > gap) {
      split.comm_wait += gap;
    } else if (gap < kKernelWait) {
      split.kernel_wait += gap;
    } else {
      split.other += gap;
    }
  }

  void Streams() {
    std::vector<Interval> comm;
    for (const GpuEvent& g : store_.gpu) {
      if (g.cls == EventClass::kComm) comm.push_back({g.start, g.end});
    }
    comm = Union(std::move(comm));
    std::vector<StreamFigures> streams(store_.streams.size());
    std::vector<std::int64_t> last(store_.streams.size());
    std::int64_t last_of_all = 0;
    bool any = false;
    for (const GpuEvent& g : store_.gpu) {
      StreamFigures& s = streams[g.stream];
      std::int64_t& end = last[g.stream];
      if (s.events == 0) end = g.start;
      if (g.start > end) AddGap(end, g, comm, s.idle);
      s.busy += std::max<std::int64_t>(0, g.end - std::max(g.start, end));
      end = std::max(end, g.end);
      ++s.events;
      if (any && g.start > last_of_all) {
        const std::size_t step = StepEndingAfter(last_of_all);
        if (step < report_.steps.size() && report_.steps[step].begin <= last_of_all) {
          AddGap(last_of_all, g, comm, report_.steps[step].idle);
        }
      }
      last_of_all = any ? std::max(last_of_all, g.end) : g.end;
      any = true;
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].events == 0) continue;
      streams[i].device = store_.streams[i].device;
      streams[i].stream = store_.streams[i].stream;
      report_.streams.push_back(streams[i]);
    }
    std::sort(report_.streams.begin(), report_.streams.end(),
              [](const StreamFigures& a, const StreamFigures& b) {
                return std::tie(a.device, a.stream) < std::tie(b.device, b.stream);
              });
  }

  bool InAnalysed(const GpuEvent& g) const { return g.start >= begin_ && g.start < end_; }

  void SumAnalysed() {
    for (const StepFigures& s : report_.steps) {
      if (!s.analysed) continue;
      Breakdown& t = report_.analysed;
      t.span += s.time.span;
      t.busy += s.time.busy;
      t.compute += s.time.compute;
      t.comm += s.time.comm;
      t.mem += s.time.mem;
      t.overlap += s.time.overlap;
      t.exposed += s.time.exposed;
      IdleSplit& i = report_.analysed_idle;
      i.host_wait += s.idle.host_wait;
      i.kernel_wait += s.idle.kernel_wait;
      i.comm_wait += s.idle.comm_wait;
      i.other += s.idle.other;
      i.in_short_gaps += s.idle.in_short_gaps;
    }
    Sums& sums = report_.sums;
    std::vector<std::int64_t> kernels, delays;
    std::vector<char> graph_seen(store_.launches.size(), 0);
    for (Index i = 0; i < store_.gpu.size(); ++i) {
      const GpuEvent& g = store_.gpu[i];
      if (!InAnalysed(g)) continue;
      const std::int64_t duration = g.end - g.start;
      if (g.launch != kNone) {
        delays.push_back(g.start - LaunchStart(g));
        if (store_.launches[g.launch].kind == LaunchKind::kGraph) {
          ++sums.graph_kernels;
          if (graph_seen[g.launch] == 0) ++sums.graph_launches;
          graph_seen[g.launch] = 1;
        }
      }
      if (g.cls != EventClass::kCompute) continue;
      kernels.push_back(duration);
      sums.compute_kernels += duration;
      if (flags_[i].recompute) sums.recompute += duration;
      if (duration < kSmallKernel) ++sums.small_kernels;
      AddClassSums(g, duration, sums);
    }
    sums.kernel_count = static_cast<std::int64_t>(kernels.size());
    sums.median_kernel = Median(kernels);
    if (!delays.empty()) sums.median_launch_delay = Median(delays);
  }

  void AddClassSums(const GpuEvent& g, std::int64_t duration, Sums& sums) const {
    switch (ClassOf(g)) {
      case KernelClass::kGemm:
        sums.gemm += duration;
        if (duration < kSmallGemm) sums.small_gemm += duration;
        if (IsFp32Gemm(store_.names.Text(g.name))) sums.fp32_gemm += duration;
        if (store_.processors > 0 && g.extra != kNone && g.extra > 0 &&
            static_cast<std::int64_t>(g.extra) < store_.processors) {
          sums.undersized_gemm += duration;
        }
        break;
      case KernelClass::kElementwise:
      case KernelClass::kNormalisation:
      case KernelClass::kCopy:
      case KernelClass::kPool:
      case KernelClass::kQuantise:
        sums.memory_bound += duration;
        break;
      case KernelClass::kTriton:
        // Fused pointwise and reduction kernels read and write memory; templates are products.
        if (store_.names.Text(g.name).find("triton_tem") == std::string_view::npos) {
          sums.memory_bound += duration;
        }
        break;
      case KernelClass::kCommunication:
      case KernelClass::kAttention:
      case KernelClass::kMoe:
      case KernelClass::kConvolution:
      case KernelClass::kSoftmax:
      case KernelClass::kOptimizer:
      case KernelClass::kEmbedding:
      case KernelClass::kReduce:
      case KernelClass::kSort:
      case KernelClass::kOther:
      case KernelClass::kMemory:
      case KernelClass::kCount:
        break;
    }
  }

  // From one mark to the next: what happens between steps belongs to the step before.
  void HostOfSteps() {
    for (std::size_t i = 0; i < report_.steps.size(); ++i) {
      StepFigures& s = report_.steps[i];
      std::int64_t from = std::numeric_limits<std::int64_t>::min();
      std::int64_t to = std::numeric_limits<std::int64_t>::max();
      if (i < marks_.size()) {
        from = marks_[i].start;
        to = i + 1 < marks_.size() ? marks_[i + 1].start : marks_[i].end;
      }
      s.data_loader = LengthWithin(host_.data_loader, from, to);
      s.host_sync = LengthWithin(host_.sync, from, to);
      s.host_syncs = CountWithin(host_.sync, from, to);
      s.allocation_time = LengthWithin(host_.allocation, from, to);
      s.allocations =
          std::lower_bound(host_.allocation_starts.begin(), host_.allocation_starts.end(), to) -
          std::lower_bound(host_.allocation_starts.begin(), host_.allocation_starts.end(), from);
      s.profiler_overhead = LengthWithin(host_.overhead, from, to);
    }
    for (const Launch& l : store_.launches) {
      if (!l.joined) continue;
      const std::ptrdiff_t step = marks_.empty() ? 0 : StepAt(l.start);
      if (step >= 0 && static_cast<std::size_t>(step) < report_.steps.size()) {
        ++report_.steps[static_cast<std::size_t>(step)].launches;
      }
    }
    for (const GpuEvent& g : store_.gpu) {
      const std::size_t step = StepEndingAfter(g.start);
      if (step < report_.steps.size() && report_.steps[step].begin <= g.start &&
          g.cls != EventClass::kMem) {
        ++report_.steps[step].kernels;
      }
    }
  }

  void Kernels() {
    struct Total {
      std::int64_t count = 0, total = 0;
      EventClass cls = EventClass::kCompute;
    };
    std::vector<Total> names(store_.names.size());
    std::array<ClassRow, static_cast<std::size_t>(KernelClass::kCount)> classes;
    for (const GpuEvent& g : store_.gpu) {
      Total& t = names[g.name];
      ++t.count;
      t.total += g.end - g.start;
      t.cls = g.cls;
      if (!InAnalysed(g)) continue;
      ClassRow& row = classes[static_cast<std::size_t>(ClassOf(g))];
      ++row.count;
      row.total += g.end - g.start;
    }
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (classes[c].count == 0) continue;
      classes[c].cls = Word(static_cast<KernelClass>(c));
      report_.classes.push_back(std::move(classes[c]));
    }
    std::stable_sort(report_.classes.begin(), report_.classes.end(),
                     [](const ClassRow& a, const ClassRow& b) { return a.total > b.total; });

    std::vector<std::uint32_t> order;
    for (std::uint32_t id = 0; id < names.size(); ++id) {
      if (names[id].count > 0) order.push_back(id);
    }
    const std::size_t shown = std::min(order.size(), kTopKernels);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown),
                      order.end(), [&](std::uint32_t a, std::uint32_t b) {
                        if (names[a].total != names[b].total)
                          return names[a].total > names[b].total;
                        return store_.names.Text(a) < store_.names.Text(b);
                      });
    order.resize(shown);
    std::map<std::uint32_t, std::vector<std::int64_t>> durations;
    for (const std::uint32_t id : order) durations[id] = {};
    for (const GpuEvent& g : store_.gpu) {
      const auto it = durations.find(g.name);
      if (it != durations.end()) it->second.push_back(g.end - g.start);
    }
    for (const std::uint32_t id : order) {
      const KernelClass c =
          names[id].cls == EventClass::kMem ? KernelClass::kMemory : class_of_name_[id];
      report_.top.push_back({DisplayName(store_.names.Text(id)), std::string(Word(c)),
                             names[id].count, names[id].total, Median(durations[id])});
    }
  }

  void Collectives() {
    std::vector<CollectiveRow> rows(comm_rows_.size());
    for (const auto& [key, index] : comm_rows_) {
      CollectiveRow& row = rows[index];
      row.type = DisplayName(std::get<0>(key), 60);
      row.name = DisplayName(std::get<1>(key), 60);
      row.group = DisplayName(std::get<2>(key), 60);
      row.description = DisplayName(std::get<3>(key), 60);
      row.group_size = std::get<4>(key);
      row.time = comm_sums_[index].time;
      row.exposed = comm_sums_[index].exposed;
    }
    std::map<std::string, int> order;
    for (const GpuEvent& g : store_.gpu) {
      if (g.cls != EventClass::kComm || g.extra == kNone) continue;
      const CommArguments& c = store_.comms[g.extra];
      CollectiveRow& row = rows[comm_of_[g.extra]];
      ++row.count_in_file;
      if (c.known) ++row.with_arguments_in_file;
      if (InAnalysed(g)) {
        ++row.count;
        row.bytes += c.bytes;
      }
      AddCollectiveEvent(g, c, order);
    }
    report_.collectives = std::move(rows);
    std::sort(report_.collectives.begin(), report_.collectives.end(),
              [](const CollectiveRow& a, const CollectiveRow& b) {
                if (a.exposed != b.exposed) return a.exposed > b.exposed;
                if (a.time != b.time) return a.time > b.time;
                return std::tie(a.type, a.name, a.group, a.description, a.group_size) <
                       std::tie(b.type, b.name, b.group, b.description, b.group_size);
              });
  }

  // Order is counted within the step of the launch, so that ranks whose windows begin at different
  // places still match. One launched before the window has no counterpart that could be known.
  void AddCollectiveEvent(const GpuEvent& g, const CommArguments& c,
                          std::map<std::string, int>& order) {
    std::string key;
    if (!marks_.empty()) {
      if (g.launch == kNone) return;
      const std::ptrdiff_t step = StepAt(LaunchStart(g));
      if (step < 0) return;
      key = marks_[static_cast<std::size_t>(step)].name + "/";
    }
    key +=
        DisplayName(c.type, 60) + "/" + DisplayName(c.group, 60) + "/" + DisplayName(c.ranks, 512);
    const int number = order[key]++;
    report_.collective_events.push_back({key + "/" + std::to_string(number), c.type, c.group,
                                         store_.base_time + g.start, store_.base_time + g.end,
                                         IsPointToPoint(c.type)});
  }

  void Notes() {
    NoteBook& notes = store_.notes;
    const WholeFile& w = report_.whole_file;
    if (w.counts.events == 0) notes.Add(Note::kNoGpuEvents);
    if (marks_.empty()) notes.Add(Note::kNoSteps);
    if (w.without_launch > 0) notes.Add(Note::kEventsWithoutLaunch, -1, w.without_launch);
    if (w.start_before_launch > 0) notes.Add(Note::kStartBeforeLaunch, -1, w.start_before_launch);
    std::int64_t lost = 0;
    for (const Launch& l : store_.launches) {
      if (!l.joined && l.kind != LaunchKind::kOther) ++lost;
    }
    if (lost > 0 && w.counts.events > 0) notes.Add(Note::kLaunchesWithoutKernel, -1, lost);
    if (store_.stacks || store_.python_events > 0) {
      notes.Add(Note::kStacksOn, -1, std::max<std::int64_t>(1, store_.python_events));
    }
  }

  EventStore& store_;
  RankTrace report_;
  HostTimes host_;
  std::vector<StepMark> marks_;
  std::vector<KernelClass> class_of_name_;
  std::vector<EventFlags> flags_;
  std::vector<char> pageable_;          // by name
  std::vector<std::uint32_t> comm_of_;  // row of each entry of store_.comms
  std::map<CommKey, std::size_t> comm_rows_;
  struct CommSums {
    std::int64_t time = 0, exposed = 0;
  };
  std::vector<CommSums> comm_sums_;
  std::vector<int> comm_running_;
  Running running_, launched_running_;
  int optimizer_running_ = 0, pageable_running_ = 0;
  std::size_t at_step_ = 0, first_analysed_ = std::size_t(-1), last_analysed_ = 0;
  std::int64_t begin_ = 0, end_ = 0;  // of the analysed steps on the GPU
};

}  // namespace

RankTrace Analyse(EventStore& store) { return Analysis(store).Run(); }

}  // namespace attune::traces
