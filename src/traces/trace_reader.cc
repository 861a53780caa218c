#include "attune/traces/trace_reader.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>

#include "across_ranks.h"
#include "analyse.h"
#include "attune/base/text.h"
#include "byte_source.h"
#include "kineto.h"
#include "nsys.h"
#include "read_with_events.h"

namespace attune {
namespace {

using traces::EventStore;
using traces::Note;
using traces::TimeWindow;

// Each reading takes a fifth of the time range less, so this ends far below it.
constexpr int kMaxReadings = 12;
constexpr int kFolderDepth = 3;

std::string_view BaseName(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1);
}

// One reading with one window. The store's records have outgrown it when Overflowed().
Result<RankTrace> ReadOnce(const std::string& path, const TraceOptions& options,
                           EventStore& store) {
  ATTUNE_TRY(traces::OpenedFile file, traces::OpenFile(path));
  RankTrace trace;
  trace.path = path;
  if (file.sqlite) {
    ATTUNE_RETURN_IF_ERROR(traces::ReadNsys(path, {options.step_pattern}, store));
    trace.format = TraceFormat::kNsightSystems;
  } else {
    traces::KinetoOptions kineto;
    kineto.step_pattern = options.step_pattern;
    bool cut = false;
    if (options.max_text_bytes > 0) {
      file.source = traces::Limit(std::move(file.source), options.max_text_bytes, &cut);
    }
    auto read = traces::ReadKineto(*file.source, kineto, store);
    if (cut) store.notes.Add(Note::kTextLimit);
    if (!read) return Fail(path, std::move(read.error()));
    trace.format = read->array_form ? TraceFormat::kKinetoArray : TraceFormat::kKineto;
    trace.whole = read->whole && !cut;
    trace.text_bytes = read->text_bytes;
    trace.stopped_at = read->stopped_at;
  }
  if (file.source->Changed()) {
    store.notes.Add(Note::kGrewWhileRead);
    // What was read may be a mixture of two states of the file.
    trace.whole = false;
  }
  return trace;
}

void NameRank(const std::string& path, EventStore& store) {
  if (store.rank >= 0) return;
  store.rank = RankFromName(path);
  store.notes.Add(store.rank >= 0 ? Note::kRankFromName : Note::kRankUnknown);
}

struct FoundFile {
  std::string path;
  traces::FileIdentity identity;
};

Result<traces::FileIdentity> Identify(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) {
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                path + ": " + std::strerror(errno));
  }
  return traces::FileIdentity{static_cast<std::uint64_t>(st.st_dev),
                              static_cast<std::uint64_t>(st.st_ino),
                              S_ISDIR(st.st_mode) ? -1 : static_cast<std::int64_t>(st.st_size)};
}

struct Listing {
  std::vector<std::string> files, folders;
};

Listing List(const std::string& folder, std::vector<std::string>& remarks) {
  Listing listing;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) {
    remarks.push_back(folder + ": " + std::strerror(errno));
    return listing;
  }
  while (const dirent* entry = readdir(dir)) {
    const std::string path = folder + "/" + entry->d_name;
    struct stat st {};
    if (entry->d_name[0] == '.' || lstat(path.c_str(), &st) != 0) continue;
    // A link to a folder is not entered: it may lead back here.
    if (S_ISDIR(st.st_mode)) listing.folders.push_back(path);
    // A dangling link or a pipe is nothing to read.
    if (stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    if (LooksLikeTrace(path)) listing.files.push_back(path);
  }
  closedir(dir);
  std::sort(listing.files.begin(), listing.files.end());
  std::sort(listing.folders.begin(), listing.folders.end());
  return listing;
}

// The folder's own files; where it has none, those of its sub-folders.
std::vector<std::string> FilesOf(const std::string& folder, int depth,
                                 std::vector<std::string>& remarks) {
  Listing listing = List(folder, remarks);
  if (!listing.files.empty() || depth == 0) return listing.files;
  for (const std::string& sub : listing.folders) {
    for (std::string& file : FilesOf(sub, depth - 1, remarks)) {
      listing.files.push_back(std::move(file));
    }
  }
  return listing.files;
}

Result<std::vector<FoundFile>> FindFiles(const std::vector<std::string>& paths,
                                         const TraceOptions& options,
                                         std::vector<std::string>& remarks) {
  std::vector<FoundFile> found;
  std::set<traces::FileIdentity> seen;
  const auto add = [&](const std::string& path) -> Status {
    ATTUNE_TRY(const traces::FileIdentity id, Identify(path));
    if (!seen.insert(id).second) {
      remarks.push_back(path + ": the same file under another name: read once");
      return {};
    }
    if (found.size() < options.max_files) {
      found.push_back({path, id});
    } else {
      remarks.push_back(path + ": not read, because more than " +
                        std::to_string(options.max_files) + " files were given");
    }
    return {};
  };
  for (const std::string& path : paths) {
    ATTUNE_TRY(const traces::FileIdentity id, Identify(path));
    if (id.bytes >= 0) {
      ATTUNE_RETURN_IF_ERROR(add(path));
      continue;
    }
    for (const std::string& file : FilesOf(path, kFolderDepth, remarks))
      ATTUNE_RETURN_IF_ERROR(add(file));
  }
  return found;
}

int ThreadCount(const TraceOptions& options, std::size_t files) {
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  const auto wanted =
      options.threads > 0 ? options.threads : static_cast<int>(std::min(processors, 4u));
  return std::max(1, std::min(wanted, static_cast<int>(files)));
}

}  // namespace

Result<RankTrace> traces::ReadWithEvents(
    const std::string& path, const TraceOptions& options,
    const std::function<void(const EventStore&, const RankTrace&)>& look) {
  TimeWindow window;
  for (int reading = 0;; ++reading) {
    EventStore store(options.max_record_bytes, window);
    ATTUNE_TRY(RankTrace trace, ReadOnce(path, options, store));
    if (store.Overflowed() && reading < kMaxReadings) {
      window = store.SmallerWindow();
      continue;
    }
    if (reading > 0) store.notes.Add(Note::kWindowed);
    NameRank(path, store);
    RankTrace figures = traces::Analyse(store);
    figures.path = std::move(trace.path);
    figures.format = trace.format;
    figures.whole = trace.whole;
    figures.text_bytes = trace.text_bytes;
    figures.stopped_at = trace.stopped_at;
    figures.notes = store.notes.Sentences();
    look(store, figures);
    return figures;
  }
}

Result<RankTrace> ReadTraceFile(const std::string& path, const TraceOptions& options) {
  return traces::ReadWithEvents(path, options, [](const EventStore&, const RankTrace&) {});
}

bool LooksLikeTrace(const std::string& path) {
  const std::string_view name = BaseName(path);
  const auto ends = [name](std::string_view suffix) {
    return name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
  };
  return ends(".json") || ends(".json.gz") || ends(".sqlite") || ends(".trace") ||
         ends(".trace.gz");
}

bool IsTraceFile(const std::string& path) {
  const auto file = traces::OpenFile(path);
  if (!file) return false;
  if (file->sqlite) return true;
  std::string head(4096, '\0');
  const auto got = file->source->Read(head.data(), head.size());
  if (!got) return file->compressed;
  head.resize(*got);
  std::string_view text = head;
  if (text.rfind("\xef\xbb\xbf", 0) == 0) text.remove_prefix(3);
  text = Trim(text);
  // A log line can start with a bracket too: "[2026-11-30 ...]", "[rank0]: ...".
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return false;
  const std::string_view rest = Trim(text.substr(1));
  if (rest.empty()) return true;
  return text[0] == '{' ? rest[0] == '"' || rest[0] == '}'
                        : rest[0] == '{' || rest[0] == '[' || rest[0] == ']';
}

std::int64_t RankFromName(const std::string& path) {
  const std::string_view name = BaseName(path);
  for (const std::string_view word : {"rank", "worker"}) {
    for (std::size_t at = name.find(word); at != std::string_view::npos;
         at = name.find(word, at + 1)) {
      std::size_t digits = at + word.size();
      if (digits < name.size() && (name[digits] == '-' || name[digits] == '_')) ++digits;
      std::size_t end = digits;
      while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
      if (end == digits || end - digits > 9) continue;
      return *ParseInt(std::to_string(std::stoll(std::string(name.substr(digits, end - digits)))));
    }
  }
  return -1;
}

Result<TraceSet> ReadTraces(const std::vector<std::string>& paths, const TraceOptions& options) {
  TraceSet set;
  ATTUNE_TRY(const std::vector<FoundFile> files, FindFiles(paths, options, set.remarks));
  if (files.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                "no trace files found" + (paths.empty() ? "" : " in " + paths.front()),
                "expected are .json, .json.gz or .sqlite files");
  }
  std::vector<std::optional<Result<RankTrace>>> read(files.size());
  std::atomic<std::size_t> next{0};
  const int threads = ThreadCount(options, files.size());
  TraceOptions each = options;
  each.max_record_bytes = options.max_record_bytes / static_cast<std::size_t>(threads);
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      read[i] = ReadTraceFile(files[i].path, each);
    }
  };
  std::vector<std::thread> pool;
  try {
    for (int i = 1; i < threads; ++i) pool.emplace_back(work);
  } catch (const std::system_error&) {
    // No thread to be had: this one does the work.
  }
  work();
  for (std::thread& t : pool) t.join();

  std::optional<Error> first_error;
  for (auto& result : read) {
    if (*result) {
      set.ranks.push_back(std::move(**result));
      continue;
    }
    if (!first_error) first_error = result->error();
    set.remarks.push_back(result->error().message);
  }
  if (set.ranks.empty()) return Fail(std::move(*first_error));
  std::sort(set.ranks.begin(), set.ranks.end(), [](const RankTrace& a, const RankTrace& b) {
    return std::tie(a.rank, a.path) < std::tie(b.rank, b.path);
  });
  set.across = traces::CompareRanks(set.ranks, set.remarks);
  return set;
}

}  // namespace attune
