// Profiler traces, from files to figures. Formats: PyTorch's profiler (Kineto JSON, as an object or
// a bare array, plain or gzip of several members) and Nsight Systems' SQLite export.
//
// Memory is bounded by the window, not by the file: the text passes through a buffer of half a
// megabyte (8 at most, when one element needs it), and of the events compact records are kept up to
// max_record_bytes. A file with more is read again for as many of its steps as fit, and says so
// ("windowed").
//
// Foreign text: what is odd is tolerated only with a note (RankTrace.notes), a truncated or damaged
// file never passes for whole, and files of other kinds are refused by name.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/traces/trace_report.h"

namespace attune {

struct TraceOptions {
  // Marks that are steps besides ProfilerStep#N; "{n}" stands for a number: "train iteration {n}".
  std::string step_pattern;
  std::size_t max_record_bytes = std::size_t{120} * 1024 * 1024;
  // Most of a file's text, inflated, that is read; 0: all. What is cut off this way is not whole.
  std::int64_t max_text_bytes = 0;
  // Files of a folder that are read; the rest is named in the remarks.
  std::size_t max_files = 1024;
  int threads = 0;  // files read at a time; 0: as many as the machine has processors, at most 4
};

// One file. Follows a symbolic link; a pipe or a device is refused, never waited for. Error:
// kNotFound, kDenied, kInvalidInput (not a trace; the message says what it is), kUnavailable.
Result<RankTrace> ReadTraceFile(const std::string& path, const TraceOptions& options = {});

// Whether a name is one that traces have: .json, .json.gz, .sqlite, .trace. Folders are searched by
// it.
bool LooksLikeTrace(const std::string& path);
// Whether a file could be a trace, by its first bytes: JSON or an SQLite database, also compressed.
// False for what cannot be opened.
bool IsTraceFile(const std::string& path);

// Files, and folders with the trace files in them; of a folder without any, those of its
// sub-folders, three levels down (a run's folder). A file reached under two names is read once.
// Files that cannot be read are named in the remarks. Error: nothing could be read, or a path does
// not exist.
Result<TraceSet> ReadTraces(const std::vector<std::string>& paths,
                            const TraceOptions& options = {});

// The traces that a run left, on its own folder: found, and kept within bounds.
struct RunTraces {
  std::string folder;              // where they lie
  std::vector<std::string> files;  // paths of regular files, the ones to read
  std::vector<std::string> notes;  // what was left out or removed: sentences
};
// Trace files below `root`/`below`, three levels down. No link is followed, so nothing outside is
// ever found or removed. A file whose name tells another rank than `ranks` is removed. Beyond
// kMaxRunTraces the rest is left out.
inline constexpr std::size_t kMaxRunTraces = 64;
RunTraces FindRunTraces(const std::string& root, const std::string& below,
                        const std::vector<int>& ranks);
// Afterwards: removes the largest until the rest fits into max_bytes, and says so in the notes.
void CapRunTraces(RunTraces& traces, const std::string& root, std::int64_t max_bytes);

// The rank that a file name tells: rank-34., rank0_, worker3., _rank_0. Negative: none.
std::int64_t RankFromName(const std::string& path);

}  // namespace attune
