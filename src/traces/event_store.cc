#include "event_store.h"

#include <algorithm>

namespace attune::traces {
namespace {

// Operators are kept for traces without a GPU only, and a window of them is enough.
constexpr std::size_t kMaxOperators = 1'000'000;
constexpr std::size_t kMaxStreams = 4096;  // more is no GPU that exists
constexpr std::size_t kMaxThreads = 60'000;
constexpr std::size_t kMaxUnknown = 256;
constexpr std::size_t kMaxSteps = 1'000'000;

}  // namespace

std::size_t EventStore::Bytes() const {
  return gpu.size() * sizeof(GpuEvent) + launches.size() * sizeof(Launch) +
         host.size() * sizeof(HostSpan) + comm_bytes_ + names.bytes();
}

void EventStore::CheckBytes() {
  if (overflowed_ || Bytes() <= max_bytes_) return;
  overflowed_ = true;
  needed_ = Bytes();
  gpu.Clear();
  launches.Clear();
  std::size_t kept = 0;
  for (const HostSpan& s : host) {
    if (s.kind == HostKind::kStep) host[kept++] = s;
  }
  host.Truncate(kept);
  comms.clear();
  comm_operators.clear();
}

void EventStore::AddGpu(const GpuEvent& e) {
  if (e.start < window_.begin || e.start >= window_.end) return;
  first_ = std::min(first_, e.start);
  last_ = std::max(last_, e.start);
  if (overflowed_) {
    needed_ += sizeof(GpuEvent);
    return;
  }
  if (gpu.empty() && operators_ > 0) {
    std::size_t kept = 0;
    for (const HostSpan& s : host) {
      if (s.kind != HostKind::kOperator) host[kept++] = s;
    }
    host.Truncate(kept);
    operators_ = 0;
  }
  gpu.Add(e);
  if (gpu.size() % 1024 == 0) CheckBytes();
}

std::uint32_t EventStore::AddComm(CommArguments args) {
  if (overflowed_) return kNone;
  comm_bytes_ += sizeof args + args.ranks.size();
  comms.push_back(std::move(args));
  return static_cast<std::uint32_t>(comms.size() - 1);
}

void EventStore::AddCommOperator(std::uint64_t external_id, CommArguments args) {
  if (overflowed_) return;
  comm_bytes_ += sizeof args + args.ranks.size() + sizeof external_id;
  comm_operators.emplace_back(external_id, std::move(args));
}

void EventStore::AddLaunch(const Launch& l) {
  // Launches run ahead of the GPU: those of the window's first events lie before it.
  const bool unbounded = window_.begin == TimeWindow{}.begin;
  const std::int64_t ahead = unbounded ? 0 : (window_.end - window_.begin) / 4;
  if ((!unbounded && l.start < window_.begin - ahead) || l.start >= window_.end) return;
  if (overflowed_) {
    needed_ += sizeof(Launch);
    return;
  }
  launches.Add(l);
  if (launches.size() % 1024 == 0) CheckBytes();
}

void EventStore::AddHost(const HostSpan& s) {
  if (s.start >= window_.end || s.end < window_.begin) return;
  if (s.kind == HostKind::kStep) {
    if (host.size() < kMaxSteps || !overflowed_) host.Add(s);
    return;
  }
  if (s.kind == HostKind::kOperator) {
    if (!gpu.empty() || overflowed_ || operators_ >= kMaxOperators) return;
    ++operators_;
  }
  if (overflowed_) {
    needed_ += sizeof(HostSpan);
    return;
  }
  host.Add(s);
  if (host.size() % 1024 == 0) CheckBytes();
}

void EventStore::AddUnknown(std::string_view category, std::int64_t duration) {
  auto it = unknown.find(category);
  if (it == unknown.end()) {
    if (unknown.size() >= kMaxUnknown) category = "(more categories)";
    it = unknown.try_emplace(std::string(category)).first;
    it->second.category = category;
  }
  ++it->second.count;
  it->second.total += duration;
}

std::uint16_t EventStore::Stream(StreamId id) {
  if (last_stream_ < streams.size() && streams[last_stream_] == id) return last_stream_;
  const auto it = std::find(streams.begin(), streams.end(), id);
  if (it != streams.end()) {
    last_stream_ = static_cast<std::uint16_t>(it - streams.begin());
  } else if (streams.size() < kMaxStreams) {
    streams.push_back(id);
    last_stream_ = static_cast<std::uint16_t>(streams.size() - 1);
  } else {
    last_stream_ = kMaxStreams - 1;
  }
  return last_stream_;
}

std::uint16_t EventStore::Thread(std::string_view pid, std::string_view tid) {
  if (!threads_.empty()) {
    const std::string& last = threads_[last_thread_];
    if (last.size() == pid.size() + 1 + tid.size() && last.compare(0, pid.size(), pid) == 0 &&
        last.compare(pid.size() + 1, tid.size(), tid) == 0) {
      return last_thread_;
    }
  }
  thread_key_.assign(pid).append(1, '\n').append(tid);
  const auto it = thread_ids_.find(thread_key_);
  if (it != thread_ids_.end()) {
    last_thread_ = it->second;
  } else if (threads_.size() < kMaxThreads) {
    threads_.push_back(thread_key_);
    last_thread_ = static_cast<std::uint16_t>(threads_.size() - 1);
    thread_ids_.emplace(thread_key_, last_thread_);
  } else {
    last_thread_ = kMaxThreads - 1;
  }
  return last_thread_;
}

void EventStore::MarkAutogradThread(std::uint16_t thread) {
  if (autograd_.size() <= thread) autograd_.resize(std::size_t{thread} + 1);
  autograd_[thread] = 1;
}

TimeWindow EventStore::SmallerWindow() const {
  // Four fifths, because events are not spread evenly.
  const double share = 0.8 * static_cast<double>(max_bytes_) /
                       static_cast<double>(std::max<std::size_t>(needed_, 1));
  std::vector<std::int64_t> starts;
  for (const HostSpan& s : host) starts.push_back(s.start);
  std::sort(starts.begin(), starts.end());
  // Whole steps from the second on, when two or more of them fit with a neighbour on each side.
  const auto fit =
      static_cast<std::size_t>(share * static_cast<double>(starts.empty() ? 0 : starts.size()));
  if (fit >= 4) return {starts[1], starts[fit]};
  const double range = static_cast<double>(last_ - first_);
  return {first_, first_ + std::max<std::int64_t>(1, static_cast<std::int64_t>(range * share))};
}

}  // namespace attune::traces
