// One element of the event array: its fields as slices of the window, then as records of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "event_store.h"
#include "json_window.h"
#include "kernel_class.h"
#include "kineto.h"
#include "step_pattern.h"

namespace attune::traces {

// A value as it stands in the text; of a string, what is between the quotes.
struct RawValue {
  const char* data = nullptr;
  std::uint32_t size = 0;
  char kind = 0;  // first character: " { [ or that of a scalar; 0: absent
  bool present() const { return kind != 0; }
  std::string_view text() const {
    return data == nullptr ? std::string_view() : std::string_view(data, size);
  }
};

struct RawEvent {
  RawValue ph, cat, name, pid, tid, ts, dur, args;
  bool duplicate_key = false;
};

// The object at `begin`. Just after its closing bracket; kMore: it goes on beyond the window;
// kBadEvent: it is no JSON object.
inline constexpr std::size_t kBadEvent = static_cast<std::size_t>(-2);
std::size_t ParseEvent(const JsonWindow& window, std::size_t begin, RawEvent& event);

// Members of a complete object whose text lies in the window: visit(key, value). False: no JSON.
template <class Visit>
bool ForEachMember(const JsonWindow& window, std::size_t begin, const Visit& visit);

class EventDecoder {
 public:
  EventDecoder(const KinetoOptions& options, EventStore& store);
  // `at`: place of the event in the text, for notes.
  void Decode(const JsonWindow& window, const RawEvent& event, std::int64_t at);

 private:
  enum class Category : std::uint8_t;
  struct Arguments;

  static Category CategoryOf(const RawEvent& event);
  bool Times(const RawEvent& event, std::int64_t at, std::int64_t& start, std::int64_t& end);
  void Gpu(const JsonWindow& window, const RawEvent& event, Category category, std::int64_t at);
  void Runtime(const JsonWindow& window, const RawEvent& event, std::int64_t at);
  void Host(const JsonWindow& window, const RawEvent& event, Category category, std::int64_t at);
  void Python(const RawEvent& event, std::int64_t at);
  void Unknown(const RawEvent& event, Category category, std::int64_t at);
  void CommOperator(const JsonWindow& window, const RawEvent& event);
  Arguments ReadArguments(const JsonWindow& window, const RawEvent& event, bool collective) const;
  std::uint16_t Thread(const RawEvent& event) {
    return store_.Thread(event.pid.text(), event.tid.text());
  }
  HostKind KindOfHost(std::uint32_t name);

  EventStore& store_;
  StepPattern pattern_;
  // By name id; 0xff: not asked yet.
  std::vector<std::uint8_t> gpu_class_, host_kind_;
  std::vector<RuntimeCall> runtime_;
  std::vector<char> runtime_known_;
};

// Counts what is odd in the text of one event: bad UTF-8, control characters, escapes, NaN.
void NoteOddBytes(std::string_view text, std::int64_t at, NoteBook& notes);

template <class Visit>
bool ForEachMember(const JsonWindow& window, std::size_t begin, const Visit& visit) {
  std::size_t i = window.SkipSpace(begin + 1);
  if (window.At(i) == '}') return true;
  for (;;) {
    if (window.At(i) != '"') return window.At(i) == '}';
    const std::size_t key_end = window.StringEnd(i + 1);
    if (key_end == kMore) return false;
    const std::string_view key = window.Slice(i + 1, key_end);
    i = window.SkipSpace(key_end + 1);
    if (window.At(i) != ':') return false;
    i = window.SkipSpace(i + 1);
    const std::size_t end = window.ValueEnd(i);
    if (end == kMore || end == i) return false;
    const char kind = window.At(i);
    RawValue value{window.data() + i, static_cast<std::uint32_t>(end - i), kind};
    if (kind == '"') {
      ++value.data;
      value.size -= 2;
    }
    visit(key, value, i);
    i = window.SkipSpace(end);
    if (window.At(i) == '}') return true;
    if (window.At(i) != ',') return false;
    i = window.SkipSpace(i + 1);
  }
}

}  // namespace attune::traces
