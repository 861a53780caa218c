#include "parse_notes.h"

#include <fmt/format.h>

#include <string_view>

namespace attune::traces {
namespace {

struct Words {
  std::string_view name, sentence;
};

constexpr std::array<Words, static_cast<std::size_t>(Note::kCount)> kWords = {{
    {"truncated", "the file ends before the document does: figures cover what was read"},
    {"unclosed_array", "the event array has no closing bracket: the last events may be missing"},
    {"corrupt_json", "the document breaks off in text that is no JSON: nothing after it was read"},
    {"corrupt_gzip", "the compressed data is damaged: nothing after it was read"},
    {"grew_while_read", "the file changed while it was read"},
    {"trailing_bytes", "there is more text after the end of the document: not read"},
    {"byte_order_mark", "the text starts with a UTF-8 byte-order mark: skipped"},
    {"bad_utf8", "events with bytes that are no UTF-8: kept, shown with replacements"},
    {"control_character", "events with a raw control character in a string: kept"},
    {"bad_escape", "events with an escape that JSON does not know: kept, taken literally"},
    {"not_a_number", "NaN or infinity as a bare value: the value is not used"},
    {"numeric_string", "times written as strings: read as numbers"},
    {"duplicate_key", "events that name a key twice: the last value counts"},
    {"malformed_event", "elements of the event array that are no events: left out"},
    {"oversize_element", "elements larger than the window: left out"},
    {"bad_time", "events whose time is missing or no number: left out"},
    {"zero_time", "GPU events with time 0 and duration 0: left out"},
    {"negative_duration", "events with a negative duration: left out"},
    {"absurd_duration", "events longer than seven days: left out"},
    {"clipped_kernel", "GPU events that ran far into the next of their stream: cut to its start"},
    {"same_stream_overlap", "GPU events that start before their stream's previous one ends: kept"},
    {"missing_arguments",
     "GPU events without arguments: process and thread taken as device and "
     "stream, no launch known"},
    {"unknown_category", "events of a category not known here: listed, not counted as busy"},
    {"unknown_device", "events of an accelerator not known here: no GPU figures for it"},
    {"duration_pairs", "begin/end pairs (ph B and E): not read, profilers of PyTorch write X"},
    {"events_without_launch", "GPU events without a launch in the file: see the launched figures"},
    {"start_before_launch", "GPU events that start before their launch: clocks disagree"},
    {"launches_without_kernel",
     "launches without a GPU event: the profiler lost some, or the window "
     "ended; the first step is not reliable"},
    {"graph_trace", "whole-graph rows: kernels inside graphs are not visible"},
    {"missing_table", "tables that the export does not have: those figures are not available"},
    {"no_gpu_events", "no GPU events: nothing can be said about the GPU"},
    {"no_steps", "no step marks: the whole window is analysed"},
    {"rank_from_name", "the rank is not in the document: taken from the file name"},
    {"rank_unknown", "no rank in the document or the file name"},
    {"windowed", "more events than the window holds: figures cover a part of the file"},
    {"text_limit", "more text than is read of one file: nothing after that was read"},
    {"stacks_on", "Python stacks were recorded: host-side shares are inflated"},
}};

}  // namespace

std::vector<ParseNote> NoteBook::Sentences() const {
  std::vector<ParseNote> notes;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    if (e.count == 0) continue;
    std::string sentence(kWords[i].sentence);
    if (e.first_byte >= 0) sentence += fmt::format(" (first at byte {})", e.first_byte);
    notes.push_back({std::string(kWords[i].name), e.count, e.first_byte, std::move(sentence)});
  }
  return notes;
}

}  // namespace attune::traces
