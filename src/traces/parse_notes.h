// What was odd in a trace: counted by name, with the place of the first and a sentence for people.
// Foreign text is tolerated only together with a note.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attune/traces/trace_report.h"

namespace attune::traces {

// The words and sentences are in parse_notes.cc, in this order.
enum class Note : std::uint8_t {
  kTruncated,
  kUnclosedArray,
  kCorruptJson,
  kCorruptGzip,
  kGrewWhileRead,
  kTrailingBytes,
  kByteOrderMark,
  kBadUtf8,
  kControlCharacter,
  kBadEscape,
  kNotANumber,
  kNumericString,
  kDuplicateKey,
  kMalformedEvent,
  kOversizeElement,
  kBadTime,
  kZeroTime,
  kNegativeDuration,
  kAbsurdDuration,
  kClippedKernel,
  kSameStreamOverlap,
  kMissingArguments,
  kUnknownCategory,
  kUnknownDevice,
  kDurationPairs,
  kEventsWithoutLaunch,
  kStartBeforeLaunch,
  kLaunchesWithoutKernel,
  kGraphTrace,
  kMissingTable,
  kNoGpuEvents,
  kNoSteps,
  kRankFromName,
  kRankUnknown,
  kWindowed,
  kTextLimit,
  kStacksOn,
  kCount
};

class NoteBook {
 public:
  // byte: offset in the (inflated) text, negative when there is no place.
  void Add(Note note, std::int64_t byte = -1, std::int64_t count = 1) {
    Entry& e = entries_[static_cast<std::size_t>(note)];
    e.count += count;
    if (byte >= 0 && (e.first_byte < 0 || byte < e.first_byte)) e.first_byte = byte;
  }
  std::int64_t Count(Note note) const { return entries_[static_cast<std::size_t>(note)].count; }
  std::vector<ParseNote> Sentences() const;

 private:
  struct Entry {
    std::int64_t count = 0, first_byte = -1;
  };
  std::array<Entry, static_cast<std::size_t>(Note::kCount)> entries_{};
};

}  // namespace attune::traces
