// The document around the events. Its keys come in any order, and metadata stand before or after
// the event array, so nothing is concluded before the end.
#include "kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attune/base/text.h"
#include "json_number.h"
#include "json_window.h"
#include "kineto_event.h"

namespace attune::traces {
namespace {

constexpr std::size_t kMaxKeysShown = 8;

class Reader {
 public:
  Reader(ByteSource& source, const KinetoOptions& options, EventStore& store)
      : source_(source),
        options_(options),
        store_(store),
        window_(source, options.window_bytes, options.max_window_bytes),
        decoder_(options, store) {}

  Result<KinetoResult> Run() {
    ATTUNE_RETURN_IF_ERROR(Fetch());
    if (window_.size() == 0 && !failed_) {
      return Fail(ErrorCode::kInvalidInput, "the file is empty");
    }
    if (window_.Slice(0, std::min<std::size_t>(3, window_.size())) == "\xef\xbb\xbf") {
      store_.notes.Add(Note::kByteOrderMark, 0);
      pos_ = 3;
    }
    ATTUNE_TRY(const bool any, SkipSpace());
    if (!any) return Fail(ErrorCode::kInvalidInput, "the file holds nothing but white space");
    const char first = window_.At(pos_);
    if (first != '{' && first != '[') return Fail(NotJson());
    ++pos_;
    if (first == '{') {
      ATTUNE_RETURN_IF_ERROR(ReadObject());
    } else {
      result_.array_form = true;
      ATTUNE_RETURN_IF_ERROR(ReadArray());
      if (!stopped_) closed_ = true;
    }
    ATTUNE_RETURN_IF_ERROR(CheckKind());
    if (closed_) ATTUNE_RETURN_IF_ERROR(ReadTail());
    result_.whole = closed_ && !stopped_;
    result_.text_bytes = window_.Offset(window_.size());
    return result_;
  }

 private:
  // Moves the window on so that pos_ stays in it. After the source's end nothing changes.
  Status Fetch() {
    const std::size_t from = pos_;
    auto more = window_.Advance(from);
    pos_ = 0;
    if (!more) {
      if (more.error().code != ErrorCode::kCorrupt) return Fail(std::move(more.error()));
      failed_ = true;
      store_.notes.Add(Note::kCorruptGzip, window_.Offset(window_.size()));
    }
    return {};
  }

  // Whether there is a byte at pos_ after white space.
  Result<bool> SkipSpace() {
    for (;;) {
      pos_ = window_.SkipSpace(pos_);
      if (pos_ < window_.size()) return true;
      if (window_.AtEnd()) return false;
      ATTUNE_RETURN_IF_ERROR(Fetch());
    }
  }

  void Stop(Note note) {
    if (stopped_) return;
    stopped_ = true;
    result_.stopped_at = window_.Offset(note == Note::kCorruptJson ? pos_ : window_.size());
    store_.notes.Add(note, result_.stopped_at);
  }

  // The element at pos_ goes beyond the window. False: there is no more of it, or it was dropped.
  enum class Grown { kYes, kDropped, kEnd };
  Result<Grown> Grow() {
    if (pos_ > 0) {
      const bool was_end = window_.AtEnd();
      ATTUNE_RETURN_IF_ERROR(Fetch());
      if (!was_end) return Grown::kYes;
    }
    if (window_.AtEnd()) return Grown::kEnd;
    if (!window_.Full()) {
      ATTUNE_RETURN_IF_ERROR(Fetch());
      return Grown::kYes;
    }
    store_.notes.Add(Note::kOversizeElement, window_.Offset(pos_));
    auto dropped = window_.DropValue(pos_);
    pos_ = 0;
    if (!dropped) {
      if (dropped.error().code != ErrorCode::kCorrupt) return Fail(std::move(dropped.error()));
      failed_ = true;
      return Grown::kEnd;
    }
    return *dropped ? Grown::kDropped : Grown::kEnd;
  }

  Status ReadObject() {
    bool after_value = false;
    for (;;) {
      ATTUNE_TRY(const bool any, SkipSpace());
      if (!any) {
        Stop(Note::kTruncated);
        return {};
      }
      const char c = window_.At(pos_);
      if (c == '}') {
        ++pos_;
        closed_ = true;
        return {};
      }
      if (c == ',' && after_value) {
        ++pos_;
        after_value = false;
        continue;
      }
      if (c != '"' || after_value) {
        Stop(Note::kCorruptJson);
        return {};
      }
      ATTUNE_TRY(const bool going_on, ReadMember());
      if (!going_on) return {};
      after_value = true;
    }
  }

  // pos_: the opening quote of a key.
  Result<bool> ReadMember() {
    std::string key;
    for (;;) {
      const std::size_t key_end = window_.StringEnd(pos_ + 1);
      std::size_t value = kMore;
      if (key_end != kMore) {
        const std::size_t colon = window_.SkipSpace(key_end + 1);
        if (colon < window_.size()) {
          if (window_.At(colon) != ':') {
            Stop(Note::kCorruptJson);
            return false;
          }
          value = window_.SkipSpace(colon + 1);
        }
      }
      if (value != kMore && value < window_.size()) {
        key = window_.Slice(pos_ + 1, key_end);
        pos_ = value;
        break;
      }
      ATTUNE_TRY(const Grown grown, Grow());
      if (grown == Grown::kYes) continue;
      Stop(grown == Grown::kEnd ? Note::kTruncated : Note::kCorruptJson);
      return false;
    }
    NoteKey(key);
    if (key == "traceEvents" && window_.At(pos_) == '[') {
      seen_events_ = true;
      ++pos_;
      ATTUNE_RETURN_IF_ERROR(ReadArray());
      return !stopped_;
    }
    if (key == "rocprofiler-sdk-tool") {
      return Fail(ErrorCode::kInvalidInput,
                  "rocprofv3 output (rocprofiler-sdk-tool), not a PyTorch profiler trace",
                  "profile with torch.profiler and export_chrome_trace");
    }
    for (;;) {
      const std::size_t end = window_.ValueEnd(pos_);
      if (end == pos_) {
        Stop(Note::kCorruptJson);
        return false;
      }
      if (end != kMore) {
        if (window_.HasOdd(pos_, end)) {
          NoteOddBytes(window_.Slice(pos_, end), window_.Offset(pos_), store_.notes);
        }
        Metadata(key, end);
        pos_ = end;
        return true;
      }
      ATTUNE_TRY(const Grown grown, Grow());
      if (grown == Grown::kDropped) return true;
      if (grown == Grown::kEnd) {
        Stop(Note::kTruncated);
        return false;
      }
    }
  }

  // pos_: just after the opening bracket. Ends after the closing one, or stopped_.
  Status ReadArray() {
    bool after_value = false;
    for (;;) {
      ATTUNE_TRY(const bool any, SkipSpace());
      if (!any) {
        // Chrome lets a bare array end without its bracket; whether events are missing is unknown.
        Stop(result_.array_form && after_value && !failed_ && !source_.EndedEarly()
                 ? Note::kUnclosedArray
                 : Note::kTruncated);
        return {};
      }
      const char c = window_.At(pos_);
      if (c == ']') {
        ++pos_;
        return {};
      }
      if (c == ',' && after_value) {
        ++pos_;
        after_value = false;
        continue;
      }
      if (after_value) {
        Stop(Note::kCorruptJson);
        return {};
      }
      if (result_.array_form && !seen_events_ && c != '{') {
        return Fail(NotEvents(c));
      }
      ATTUNE_TRY(const bool going_on, ReadElement());
      if (!going_on) return {};
      after_value = true;
    }
  }

  Result<bool> ReadElement() {
    for (;;) {
      RawEvent event;
      const bool object = window_.At(pos_) == '{';
      std::size_t end = object ? ParseEvent(window_, pos_, event) : window_.ValueEnd(pos_);
      const bool bad = end == kBadEvent || !object;
      if (end == kBadEvent) end = window_.ContainerEnd(pos_);
      if (end == pos_) {
        Stop(Note::kCorruptJson);
        return false;
      }
      if (end != kMore) {
        ++store_.events;
        const std::int64_t at = window_.Offset(pos_);
        if (window_.HasOdd(pos_, end)) {
          NoteOddBytes(window_.Slice(pos_, end), at, store_.notes);
        }
        if (bad) {
          store_.notes.Add(Note::kMalformedEvent, at);
        } else {
          if (event.ph.present()) seen_events_ = true;
          if (options_.decode) decoder_.Decode(window_, event, at);
        }
        pos_ = end;
        return true;
      }
      ATTUNE_TRY(const Grown grown, Grow());
      if (grown == Grown::kDropped) return true;
      if (grown == Grown::kEnd) {
        Stop(Note::kTruncated);
        return false;
      }
    }
  }

  void Metadata(std::string_view key, std::size_t end) {
    const std::string_view value = window_.Slice(pos_, end);
    if (key == "baseTimeNanoseconds") {
      const std::string_view digits =
          value.size() > 2 && value[0] == '"' ? value.substr(1, value.size() - 2) : value;
      store_.base_time = ParseSigned(digits).value_or(0);
    } else if (key == "distributedInfo" && value[0] == '{') {
      ForEachMember(window_, pos_, [this](std::string_view k, const RawValue& v, std::size_t) {
        const auto n = ParseSigned(v.text());
        if (!n || *n < 0) return;
        if (k == "rank") store_.rank = *n;
        if (k == "world_size") store_.world_size = *n;
      });
    } else if (key == "deviceProperties" && value[0] == '[') {
      Device();
    } else if (key == "with_stack") {
      store_.stacks = value == "1" || value == "true";
    }
  }

  // The first device stands for all: a job's GPUs are alike.
  void Device() {
    const std::size_t first = window_.SkipSpace(pos_ + 1);
    if (window_.At(first) != '{') return;
    ForEachMember(window_, first, [this](std::string_view k, const RawValue& v, std::size_t) {
      if (k == "name") store_.device = EscapeForDisplay(v.text(), 120);
      if (k == "numSms") store_.processors = ParseSigned(v.text()).value_or(0);
    });
  }

  void NoteKey(const std::string& key) {
    static constexpr std::string_view kOurs[] = {"schemaVersion",       "deviceProperties",
                                                 "distributedInfo",     "displayTimeUnit",
                                                 "baseTimeNanoseconds", "traceName"};
    if (std::find(std::begin(kOurs), std::end(kOurs), key) != std::end(kOurs)) kineto_key_ = true;
    if (keys_.size() < 64) keys_.push_back(key);
  }

  bool HasKey(std::string_view key) const {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  }

  // What the document turned out to be, when it is not a trace.
  Status CheckKind() {
    if (seen_events_) return {};
    if (result_.array_form) {
      if (store_.events == 0 && closed_) return {};
      if (stopped_ && store_.events == 0) return {};
      return Fail(ErrorCode::kInvalidInput,
                  "a JSON array of objects without \"ph\", not a profiler trace");
    }
    if (HasKey("nodes") && HasKey("schema")) {
      return Fail(ErrorCode::kInvalidInput,
                  "a Chakra execution trace (keys schema, nodes), not a profiler trace",
                  "it holds no GPU times; export the profiler's own trace beside it");
    }
    if (HasKey("device_traces") || HasKey("segments")) {
      return Fail(ErrorCode::kInvalidInput, "a PyTorch memory snapshot, not a profiler trace");
    }
    if (stopped_ && (kineto_key_ || keys_.empty())) return {};
    std::string shown;
    for (std::size_t i = 0; i < std::min(keys_.size(), kMaxKeysShown); ++i) {
      shown += (i == 0 ? "" : ", ") + EscapeForDisplay(keys_[i], 40);
    }
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("a JSON object without traceEvents (keys: {})",
                            shown.empty() ? "none" : shown));
  }

  Error NotEvents(char first) const {
    if (first == '[') {
      // [ns, action, [key], bytes, category]
      return {ErrorCode::kInvalidInput,
              "a raw memory timeline of export_memory_timeline, not a profiler trace",
              {}};
    }
    return {ErrorCode::kInvalidInput, "a JSON array of values, not a profiler trace", {}};
  }

  Error NotJson() const {
    const std::string_view start = window_.Slice(pos_, std::min(window_.size(), pos_ + 64));
    if (start.rfind("PK\x03\x04", 0) == 0) {
      return {ErrorCode::kInvalidInput, "a zip archive, not a trace", "unpack it first"};
    }
    if (start.rfind("\x80\x02", 0) == 0 || start.rfind("\x80\x04", 0) == 0 ||
        start.rfind("\x80\x05", 0) == 0) {
      return {ErrorCode::kInvalidInput,
              "a Python pickle (a memory snapshot?), not a profiler trace",
              {}};
    }
    if (start.rfind("\x28\xb5\x2f\xfd", 0) == 0) {
      return {ErrorCode::kInvalidInput, "zstd-compressed data", "decompress it with zstd -d first"};
    }
    return {ErrorCode::kInvalidInput,
            "not JSON: it starts with \"" + EscapeForDisplay(start, 48) + "\"",
            "a trace of torch.profiler (.json, .json.gz) or an SQLite export of nsys is expected"};
  }

  // White space and zero padding may follow.
  Status ReadTail() {
    for (;;) {
      ATTUNE_TRY(const bool any, SkipSpace());
      if (!any) break;
      if (window_.At(pos_) != '\0') {
        store_.notes.Add(Note::kTrailingBytes, window_.Offset(pos_));
        // Read on, so that the checksum of compressed data is looked at.
        pos_ = window_.size();
        continue;
      }
      ++pos_;
    }
    if (failed_ || source_.EndedEarly()) {
      // The document is complete but its container is not.
      Stop(Note::kTruncated);
    }
    if (source_.HadTrailingBytes()) store_.notes.Add(Note::kTrailingBytes);
    return {};
  }

  ByteSource& source_;
  const KinetoOptions& options_;
  EventStore& store_;
  JsonWindow window_;
  EventDecoder decoder_;
  KinetoResult result_;
  std::size_t pos_ = 0;
  bool stopped_ = false, closed_ = false, failed_ = false;
  bool seen_events_ = false, kineto_key_ = false;
  std::vector<std::string> keys_;
};

}  // namespace

Result<KinetoResult> ReadKineto(ByteSource& source, const KinetoOptions& options,
                                EventStore& store) {
  return Reader(source, options, store).Run();
}

}  // namespace attune::traces
