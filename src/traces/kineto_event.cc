#include "kineto_event.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "attune/base/text.h"
#include "json_number.h"
#include "kernel_class.h"

namespace attune::traces {
namespace {

constexpr std::uint8_t kNotAsked = 0xff;
// A kernel that lasts a week is a broken clock (CUPTI has written 236 years).
constexpr std::int64_t kMaxDuration = std::int64_t{7} * 24 * 3600 * 1'000'000'000;

inline void Assign(RawValue& field, const RawValue& value, RawEvent& event) {
  if (field.present()) event.duplicate_key = true;
  field = value;
}

// Equal text of a length that is known already.
template <std::size_t N>
inline bool Is(const char* text, const char (&literal)[N]) {
  return std::memcmp(text, literal, N - 1) == 0;
}

inline void Record(RawEvent& e, std::string_view key, const RawValue& value) {
  const char* k = key.data();
  switch (key.size()) {
    case 2:
      if (Is(k, "ph")) {
        Assign(e.ph, value, e);
      } else if (Is(k, "ts")) {
        Assign(e.ts, value, e);
      }
      break;
    case 3:
      if (Is(k, "cat")) {
        Assign(e.cat, value, e);
      } else if (Is(k, "pid")) {
        Assign(e.pid, value, e);
      } else if (Is(k, "tid")) {
        Assign(e.tid, value, e);
      } else if (Is(k, "dur")) {
        Assign(e.dur, value, e);
      }
      break;
    case 4:
      if (Is(k, "name")) {
        Assign(e.name, value, e);
      } else if (Is(k, "args")) {
        Assign(e.args, value, e);
      }
      break;
    default:
      break;
  }
}

constexpr char kCheckpointFile[] = "torch/utils/checkpoint.py";

inline bool IsCheckpointFrame(std::string_view name) {
  return name.size() >= sizeof kCheckpointFile - 1 && Is(name.data(), kCheckpointFile);
}

// Half of a trace is flow arrows and instants, or Python frames: they are counted only, and the
// rest of such an event need not be looked at. Asked after each key.
inline bool NothingMoreMatters(const RawEvent& e, std::string_view key) {
  if (key.size() == 2) return e.ph.size == 1 && e.ph.data[0] != 'X';
  if (key.size() != 3 && key.size() != 4) return false;
  return e.cat.size == 15 && e.ph.size == 1 && e.name.present() &&
         Is(e.cat.data, "python_function") && !IsCheckpointFrame(e.name.text());
}

std::uint8_t& Slot(std::vector<std::uint8_t>& table, std::uint32_t id) {
  if (table.size() <= id) table.resize(std::max<std::size_t>(table.size() * 2, id + 64), kNotAsked);
  return table[id];
}

// "stream 7" in old files.
std::int64_t IdOf(const RawValue& value) {
  std::string_view s = value.text();
  if (const auto id = ParseSigned(s)) return *id;
  const std::size_t digits = s.find_last_not_of("0123456789");
  if (digits != std::string_view::npos) s.remove_prefix(digits + 1);
  return ParseSigned(s).value_or(-1);
}

std::int64_t BytesOf(std::string_view dtype) {
  struct Size {
    std::string_view word;
    std::int64_t bytes;
  };
  static constexpr Size kSizes[] = {{"Float", 4},
                                    {"Double", 8},
                                    {"Half", 2},
                                    {"BFloat16", 2},
                                    {"Int", 4},
                                    {"Long", 8},
                                    {"Short", 2},
                                    {"Char", 1},
                                    {"Byte", 1},
                                    {"Bool", 1},
                                    {"Float8_e4m3fn", 1},
                                    {"Float8_e5m2", 1},
                                    {"Float8_e4m3fnuz", 1},
                                    {"Float8_e5m2fnuz", 1},
                                    {"ComplexFloat", 8}};
  for (const Size& s : kSizes) {
    if (s.word == dtype) return s.bytes;
  }
  return 0;
}

// "[128, 1, 1]": the product; 0 when it is not three numbers.
std::int64_t Product(std::string_view list) {
  if (list.size() < 2) return 0;
  std::int64_t product = 1;
  int count = 0;
  list = list.substr(1, list.size() - 2);
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const auto n = ParseUnsigned(Trim(list.substr(0, comma)));
    if (!n || *n == 0 || *n > 0xffffffffull || product > (std::int64_t{1} << 31)) return 0;
    product *= static_cast<std::int64_t>(*n);
    ++count;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return count == 3 ? product : 0;
}

}  // namespace

enum class EventDecoder::Category : std::uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kOperator,
  kAnnotation,
  kRuntime,
  kPython,
  kOverhead,
  kIgnored,
  kUnknown,
  kUnknownDevice,
};

struct EventDecoder::Arguments {
  RawValue correlation, stream, device, external_id, grid;
  RawValue collective, elements, group_size, dtype, group, description, ranks;
  bool read = false;
};

std::size_t ParseEvent(const JsonWindow& window, std::size_t begin, RawEvent& event) {
  std::size_t i = window.SkipSpace(begin + 1);
  if (window.At(i) == '}') return i + 1;
  for (;;) {
    if (window.At(i) != '"') {
      if (i >= window.size()) return kMore;
      return window.At(i) == '}' ? i + 1 : kBadEvent;
    }
    const std::size_t key_end = window.StringEnd(i + 1);
    if (key_end == kMore) return kMore;
    const std::string_view key = window.Slice(i + 1, key_end);
    i = window.SkipSpace(key_end + 1);
    if (window.At(i) != ':') return i >= window.size() ? kMore : kBadEvent;
    i = window.SkipSpace(i + 1);
    const std::size_t end = window.ValueEnd(i);
    if (end == kMore) return kMore;
    if (end == i) return kBadEvent;
    const char kind = window.At(i);
    RawValue value{window.data() + i, static_cast<std::uint32_t>(end - i), kind};
    if (kind == '"') {
      ++value.data;
      value.size -= 2;
    }
    Record(event, key, value);
    if (NothingMoreMatters(event, key)) return window.ContainerEnd(begin);
    i = window.SkipSpace(end);
    const char next = window.At(i);
    if (next == '}') return i + 1;
    if (next != ',') return i >= window.size() ? kMore : kBadEvent;
    i = window.SkipSpace(i + 1);
  }
}

void NoteOddBytes(std::string_view text, std::int64_t at, NoteBook& notes) {
  bool in_string = false, escape = false, control = false, bad_escape = false, high = false;
  bool not_a_number = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) high = true;
    if (escape) {
      escape = false;
      if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) bad_escape = true;
      continue;
    }
    if (c == '\\') {
      escape = true;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      if (byte < 0x20) control = true;
    } else if (c == 'N' || c == 'I' || c == 'i') {
      not_a_number = true;
    }
  }
  if (control) notes.Add(Note::kControlCharacter, at);
  if (bad_escape) notes.Add(Note::kBadEscape, at);
  if (not_a_number) notes.Add(Note::kNotANumber, at);
  if (high && !IsValidUtf8(text)) notes.Add(Note::kBadUtf8, at);
}

EventDecoder::EventDecoder(const KinetoOptions& options, EventStore& store)
    : store_(store), pattern_(options.step_pattern) {}

EventDecoder::Category EventDecoder::CategoryOf(const RawEvent& event) {
  const std::string_view c = event.cat.text();
  if (!event.cat.present()) {
    // The legacy form of torch.autograd.profiler.
    return event.pid.text() == "CPU functions" ? Category::kOperator : Category::kUnknown;
  }
  const char* t = c.data();
  switch (c.size()) {
    case 5:
      if (Is(t, "Trace")) return Category::kIgnored;
      break;
    case 6:
      if (Is(t, "cpu_op")) return Category::kOperator;
      if (Is(t, "kernel") || Is(t, "Kernel")) return Category::kKernel;
      if (Is(t, "Memcpy")) return Category::kMemcpy;
      if (Is(t, "Memset")) return Category::kMemset;
      break;
    case 7:
      if (Is(t, "Runtime")) return Category::kRuntime;
      break;
    case 8:
      if (Is(t, "Operator")) return Category::kOperator;
      if (Is(t, "overhead")) return Category::kOverhead;
      break;
    case 9:
      if (Is(t, "cuda_sync")) return Category::kIgnored;
      break;
    case 10:
      if (Is(t, "gpu_memcpy")) return Category::kMemcpy;
      if (Is(t, "gpu_memset")) return Category::kMemset;
      break;
    case 11:
      if (Is(t, "cuda_driver") || Is(t, "xpu_runtime") || Is(t, "hip_runtime")) {
        return Category::kRuntime;
      }
      break;
    case 12:
      if (Is(t, "cuda_runtime")) return Category::kRuntime;
      break;
    case 15:
      if (Is(t, "python_function")) return Category::kPython;
      if (Is(t, "user_annotation")) return Category::kAnnotation;
      if (Is(t, "collective_comm")) return Category::kIgnored;
      break;
    case 19:
      if (Is(t, "gpu_user_annotation") || Is(t, "cuda_profiler_range")) return Category::kIgnored;
      if (Is(t, "privateuse1_runtime")) return Category::kRuntime;
      break;
    case 20:
      if (Is(t, "external_correlation")) return Category::kIgnored;
      break;
    default:
      break;
  }
  if (c.rfind("mtia_", 0) == 0 || c.rfind("hpu_", 0) == 0 || c.rfind("privateuse1_", 0) == 0) {
    return Category::kUnknownDevice;
  }
  return Category::kUnknown;
}

bool EventDecoder::Times(const RawEvent& event, std::int64_t at, std::int64_t& start,
                         std::int64_t& end) {
  const auto ts = MicrosToNanos(event.ts.text());
  std::optional<std::int64_t> dur = 0;
  if (event.dur.present()) dur = MicrosToNanos(event.dur.text());
  if (!event.ts.present() || !ts || !dur) {
    store_.notes.Add(Note::kBadTime, at);
    return false;
  }
  if (event.ts.kind == '"' || event.dur.kind == '"') store_.notes.Add(Note::kNumericString, at);
  if (*dur < 0) {
    store_.notes.Add(Note::kNegativeDuration, at);
    return false;
  }
  if (*dur > kMaxDuration) {
    store_.notes.Add(Note::kAbsurdDuration, at);
    return false;
  }
  if (*ts > std::numeric_limits<std::int64_t>::max() / 2 ||
      *ts < std::numeric_limits<std::int64_t>::min() / 2) {
    store_.notes.Add(Note::kBadTime, at);
    return false;
  }
  start = *ts;
  end = *ts + *dur;
  return true;
}

EventDecoder::Arguments EventDecoder::ReadArguments(const JsonWindow& window, const RawEvent& event,
                                                    bool collective) const {
  Arguments a;
  if (event.args.kind != '{') return a;
  const auto begin = static_cast<std::size_t>(event.args.data - window.data());
  a.read = ForEachMember(
      window, begin, [&a, collective](std::string_view key, const RawValue& value, std::size_t) {
        const char* k = key.data();
        switch (key.size()) {
          case 4:
            if (Is(k, "grid")) a.grid = value;
            break;
          case 5:
            if (collective && Is(k, "dtype")) a.dtype = value;
            break;
          case 6:
            if (Is(k, "stream")) a.stream = value;
            if (Is(k, "device")) a.device = value;
            break;
          case 10:
            if (collective && Is(k, "Group size")) a.group_size = value;
            break;
          case 11:
            if (Is(k, "correlation")) a.correlation = value;
            if (Is(k, "External id") || Is(k, "external id")) a.external_id = value;
            break;
          case 13:
            if (collective && Is(k, "In msg nelems")) a.elements = value;
            break;
          case 15:
            if (collective && Is(k, "Collective name")) a.collective = value;
            break;
          case 18:
            if (collective && Is(k, "Process Group Name")) a.group = value;
            break;
          case 19:
            if (collective && Is(k, "Process Group Ranks")) a.ranks = value;
            break;
          case 25:
            if (collective && Is(k, "Process Group Description")) a.description = value;
            break;
          default:
            break;
        }
      });
  return a;
}

namespace {

constexpr std::size_t kMaxText = 512;  // of a group's name or list of ranks

CommArguments ToComm(const RawValue& collective, const RawValue& elements,
                     const RawValue& group_size, const RawValue& dtype, const RawValue& group,
                     const RawValue& description, const RawValue& ranks,
                     const RawValue& external_id) {
  CommArguments c;
  const auto bounded = [](const RawValue& v) { return std::string(v.text().substr(0, kMaxText)); };
  if (collective.present()) {
    c.known = true;
    c.name = bounded(collective);
    c.type = CollectiveFromArgument(collective.text());
    if (c.type.empty()) c.type = c.name;
  }
  c.group = bounded(group);
  c.description = bounded(description);
  c.ranks = bounded(ranks);
  c.group_size = std::max<std::int64_t>(0, ParseSigned(group_size.text()).value_or(0));
  const auto count = ParseSigned(elements.text());
  const std::int64_t size = BytesOf(dtype.text());
  if (count && size > 0 && *count > 0 && *count < (std::int64_t{1} << 50)) c.bytes = *count * size;
  if (const auto id = ParseUnsigned(external_id.text())) {
    c.external_id = *id;
    c.has_external_id = true;
  }
  return c;
}

}  // namespace

void EventDecoder::Gpu(const JsonWindow& window, const RawEvent& event, Category category,
                       std::int64_t at) {
  GpuEvent g;
  if (!Times(event, at, g.start, g.end)) return;
  if (g.start == 0 && g.end == 0) {
    store_.notes.Add(Note::kZeroTime, at);
    return;
  }
  g.name = store_.names.Intern(event.name.text());
  if (category == Category::kKernel) {
    std::uint8_t& cls = Slot(gpu_class_, g.name);
    if (cls == kNotAsked) cls = static_cast<std::uint8_t>(ClassifyKernel(event.name.text()));
    const bool comm = cls == static_cast<std::uint8_t>(KernelClass::kCommunication);
    g.cls = comm ? EventClass::kComm : EventClass::kCompute;
  } else {
    g.cls = EventClass::kMem;
  }
  const Arguments a = ReadArguments(window, event, g.cls == EventClass::kComm);
  if (!a.read || (!a.stream.present() && !a.correlation.present())) {
    store_.notes.Add(Note::kMissingArguments, at);
  }
  const StreamId id{IdOf(a.device.present() ? a.device : event.pid),
                    IdOf(a.stream.present() ? a.stream : event.tid)};
  g.stream = store_.Stream(id);
  if (const auto correlation = ParseUnsigned(a.correlation.text())) {
    g.correlation = *correlation;
    g.has_correlation = true;
  }
  if (g.cls == EventClass::kComm) {
    g.extra = store_.AddComm(ToComm(a.collective, a.elements, a.group_size, a.dtype, a.group,
                                    a.description, a.ranks, a.external_id));
  } else if (a.grid.kind == '[') {
    g.extra = static_cast<std::uint32_t>(
        std::min<std::int64_t>(Product(a.grid.text()), std::int64_t{kNone} - 1));
  }
  store_.AddGpu(g);
}

void EventDecoder::Runtime(const JsonWindow& window, const RawEvent& event, std::int64_t at) {
  const std::uint32_t name = store_.names.Intern(event.name.text());
  if (runtime_.size() <= name) {
    const std::size_t size = std::max<std::size_t>(runtime_.size() * 2, name + 64);
    runtime_.resize(size);
    runtime_known_.resize(size, 0);
  }
  if (runtime_known_[name] == 0) {
    runtime_[name] = ClassifyRuntime(event.name.text());
    runtime_known_[name] = 1;
  }
  const RuntimeCall& call = runtime_[name];
  if (call.never_launches && call.kind == HostKind::kNothing) return;
  std::int64_t start = 0, end = 0;
  if (!Times(event, at, start, end)) return;
  const std::uint16_t thread = Thread(event);
  if (call.kind != HostKind::kNothing) store_.AddHost({start, end, name, thread, call.kind});
  if (call.never_launches) return;
  const Arguments a = ReadArguments(window, event, false);
  if (const auto correlation = ParseUnsigned(a.correlation.text())) {
    store_.AddLaunch({*correlation, start, thread, call.launch, false});
  }
}

HostKind EventDecoder::KindOfHost(std::uint32_t name) {
  std::uint8_t& kind = Slot(host_kind_, name);
  if (kind == kNotAsked) {
    const std::string_view text = store_.names.Text(name);
    HostKind k = ClassifyOperator(text);
    if (k == HostKind::kNothing && pattern_.Matches(text)) k = HostKind::kStep;
    kind = static_cast<std::uint8_t>(k);
  }
  return static_cast<HostKind>(kind);
}

void EventDecoder::Host(const JsonWindow& window, const RawEvent& event, Category category,
                        std::int64_t at) {
  const std::string_view text = event.name.text();
  const std::uint32_t name = store_.names.Intern(text);
  HostKind kind = category == Category::kOverhead ? HostKind::kOverhead : KindOfHost(name);
  ++store_.host_events;
  if (kind == HostKind::kNothing) {
    if (text == "record_param_comms") CommOperator(window, event);
    if (category != Category::kOperator || !store_.gpu.empty()) return;
    kind = HostKind::kOperator;
  }
  std::int64_t start = 0, end = 0;
  if (!Times(event, at, start, end)) return;
  const std::uint16_t thread = Thread(event);
  if (kind == HostKind::kAutograd) store_.MarkAutogradThread(thread);
  store_.AddHost({start, end, name, thread, kind});
  // Forward operators and synchronising ones are operators too.
  const bool also = kind == HostKind::kSyncOperator || kind == HostKind::kForwardOperator ||
                    kind == HostKind::kCheckpoint || kind == HostKind::kAutograd;
  if (also && category == Category::kOperator && store_.gpu.empty()) {
    store_.AddHost({start, end, name, thread, HostKind::kOperator});
  }
}

void EventDecoder::Python(const RawEvent& event, std::int64_t at) {
  ++store_.python_events;
  const std::string_view text = event.name.text();
  if (!IsCheckpointFrame(text)) return;
  if (text.find("unpack_hook") == std::string_view::npos &&
      text.find(": backward") == std::string_view::npos) {
    return;
  }
  std::int64_t start = 0, end = 0;
  if (!Times(event, at, start, end)) return;
  store_.AddHost({start, end, store_.names.Intern(text), Thread(event), HostKind::kCheckpoint});
}

void EventDecoder::Unknown(const RawEvent& event, Category category, std::int64_t at) {
  std::int64_t start = 0, end = 0;
  if (category == Category::kUnknownDevice) {
    store_.unknown_device = true;
    store_.notes.Add(Note::kUnknownDevice, at);
  } else {
    store_.notes.Add(Note::kUnknownCategory, at);
  }
  const std::int64_t duration = Times(event, at, start, end) ? end - start : 0;
  store_.AddUnknown(event.cat.present() ? event.cat.text() : "(none)", duration);
}

void EventDecoder::CommOperator(const JsonWindow& window, const RawEvent& event) {
  const Arguments a = ReadArguments(window, event, true);
  CommArguments args = ToComm(a.collective, a.elements, a.group_size, a.dtype, a.group,
                              a.description, a.ranks, a.external_id);
  if (args.known && args.has_external_id) {
    const std::uint64_t id = args.external_id;
    store_.AddCommOperator(id, std::move(args));
  }
}

void EventDecoder::Decode(const JsonWindow& window, const RawEvent& event, std::int64_t at) {
  if (event.duplicate_key) store_.notes.Add(Note::kDuplicateKey, at);
  const std::string_view ph = event.ph.text();
  if (ph.size() != 1 || ph[0] != 'X') {
    if (ph == "B" || ph == "E") store_.notes.Add(Note::kDurationPairs, at);
    return;
  }
  const Category category = CategoryOf(event);
  switch (category) {
    case Category::kKernel:
    case Category::kMemcpy:
    case Category::kMemset:
      return Gpu(window, event, category, at);
    case Category::kRuntime:
      return Runtime(window, event, at);
    case Category::kOperator:
    case Category::kAnnotation:
    case Category::kOverhead:
      return Host(window, event, category, at);
    case Category::kPython:
      return Python(event, at);
    case Category::kUnknown:
    case Category::kUnknownDevice:
      return Unknown(event, category, at);
    case Category::kIgnored:
      return;
  }
}

}  // namespace attune::traces
