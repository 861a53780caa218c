// What a reader keeps of a trace: compact records of the events that matter for time, the same for
// every format. Readers add, in any order; Analyse (analyse.h) sorts and counts.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/traces/trace_report.h"
#include "name_table.h"
#include "parse_notes.h"
#include "pod_vector.h"

namespace attune::traces {

enum class EventClass : std::uint8_t { kCompute, kComm, kMem };

inline constexpr std::uint32_t kNone = 0xffffffff;

// 40 bytes: a trace of 3 GB holds about 1.5 million of them.
struct GpuEvent {
  std::int64_t start = 0, end = 0;
  std::uint64_t correlation = 0;
  std::uint32_t name = 0;
  std::uint32_t extra = kNone;   // communication: index in comms; kernels: blocks of the grid
  std::uint32_t launch = kNone;  // index in launches, once joined
  std::uint16_t stream = 0;
  EventClass cls = EventClass::kCompute;
  bool has_correlation = false;
};

enum class LaunchKind : std::uint8_t { kKernel, kGraph, kCopy, kOther };

struct Launch {
  std::uint64_t correlation = 0;
  std::int64_t start = 0;
  std::uint16_t thread = 0;
  LaunchKind kind = LaunchKind::kKernel;
  bool joined = false;
};

// Stretches of host time that explain something. kOperator is kept only as long as no GPU event
// has been seen: with one, operators tell nothing that the GPU does not.
enum class HostKind : std::uint8_t {
  kNothing,
  kStep,
  kOptimizer,
  kDataLoader,
  kSyncOperator,    // aten::item and its like: the host waits for the GPU in them
  kSyncCall,        // cudaStreamSynchronize ...
  kDeviceSyncCall,  // cudaDeviceSynchronize: the profiler itself ends the window with one
  kAllocation,      // cudaMalloc, cudaFree ...
  kCheckpoint,      // a checkpoint's backward: a forward pass again, then perhaps its backward
  kAutograd,        // one function of a backward pass
  kForwardOperator,
  kOverhead,  // the profiler's own
  kOperator,
};

struct HostSpan {
  std::int64_t start = 0, end = 0;
  std::uint32_t name = 0;
  std::uint16_t thread = 0;
  HostKind kind = HostKind::kNothing;
};

// Arguments of a collective, from its kernel or from the operator that launched it.
struct CommArguments {
  std::string type, name, group, description;  // name: of the collective, as the job says it
  std::string ranks;                           // the list as text: equal lists are one group
  std::int64_t group_size = 0, bytes = 0;
  bool known = false;
  std::uint64_t external_id = 0;
  bool has_external_id = false;
};

struct StreamId {
  std::int64_t device = 0, stream = 0;
  bool operator==(const StreamId&) const = default;
};

// Events outside are not kept. Everything by default.
struct TimeWindow {
  std::int64_t begin = std::numeric_limits<std::int64_t>::min();
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};

class EventStore {
 public:
  explicit EventStore(std::size_t max_bytes, TimeWindow window = {})
      : max_bytes_(max_bytes), window_(window) {}

  void AddGpu(const GpuEvent& e);
  // Args of a communication kernel; the index goes to GpuEvent.extra.
  std::uint32_t AddComm(CommArguments args);
  void AddLaunch(const Launch& l);
  void AddHost(const HostSpan& s);
  void AddUnknown(std::string_view category, std::int64_t duration);
  // Arguments by External id, for kernels that carry none themselves.
  void AddCommOperator(std::uint64_t external_id, CommArguments args);

  std::uint16_t Stream(StreamId id);
  // pid and tid as they stand in the file.
  std::uint16_t Thread(std::string_view pid, std::string_view tid);
  void MarkAutogradThread(std::uint16_t thread);
  bool IsAutogradThread(std::uint16_t thread) const {
    return thread < autograd_.size() && autograd_[thread] != 0;
  }
  std::size_t ThreadCount() const { return threads_.size(); }

  // True once the records have outgrown max_bytes: from then on only steps, counts and the time
  // range are kept, which is what choosing a smaller window needs.
  bool Overflowed() const { return overflowed_; }
  // The window to read again with.
  TimeWindow SmallerWindow() const;
  TimeWindow window() const { return window_; }

  NameTable names;
  NoteBook notes;
  PodVector<GpuEvent> gpu;
  PodVector<Launch> launches;
  PodVector<HostSpan> host;
  std::vector<StreamId> streams;
  std::vector<CommArguments> comms;
  std::vector<std::pair<std::uint64_t, CommArguments>> comm_operators;
  std::map<std::string, UnknownCategory, std::less<>> unknown;

  std::int64_t events = 0, python_events = 0, host_events = 0;
  std::int64_t rank = -1, world_size = -1, base_time = 0;
  std::string device;
  std::int64_t processors = 0;
  bool stacks = false, unknown_device = false;

 private:
  std::size_t Bytes() const;
  void CheckBytes();

  std::size_t max_bytes_;
  TimeWindow window_;
  bool overflowed_ = false;
  std::size_t comm_bytes_ = 0;
  std::size_t operators_ = 0;
  std::size_t needed_ = 0;  // bytes that all records would take
  std::int64_t first_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ = std::numeric_limits<std::int64_t>::min();
  std::vector<std::string> threads_;  // "pid\ntid"
  std::map<std::string, std::uint16_t, std::less<>> thread_ids_;
  std::vector<char> autograd_;
  std::string thread_key_;
  std::uint16_t last_thread_ = 0;
  std::uint16_t last_stream_ = 0;
};

}  // namespace attune::traces
