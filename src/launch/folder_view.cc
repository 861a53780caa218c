#include "folder_view.h"

#include <algorithm>

#include "attune/os/files.h"
#include "ranks.h"

namespace attune::launch {
namespace {

constexpr std::int64_t kLogBytesACall = 4 << 20;
constexpr std::int64_t kStampBytesACall = 1 << 20;

template <class T>
bool ReadOnce(std::optional<T>& into, const std::string& path,
              std::optional<T> (*decode)(std::string_view)) {
  if (into) {
    return false;
  }
  if (const auto bytes = ReadRecordFile(path)) {
    into = decode(*bytes);
  }
  return into.has_value();
}

}  // namespace

FolderView::FolderView(std::string launch_folder, Plan plan, int attempt)
    : folder_(AttemptFolder(launch_folder, attempt)), plan_(std::move(plan)) {
  for (const Stage& stage : plan_.spec.stages) {
    StageView view;
    view.stage = &stage;
    view.folder = folder_ + "/" + stage.run.value;
    view.logs.resize(static_cast<std::size_t>(LogsOf(stage)));
    stages_.push_back(std::move(view));
  }
}

bool FolderView::Refresh() {
  bool news = ReadOnce(start_, folder_ + "/start", DecodeStart);
  // The attempt's exit first: when it is there, all that follows is final.
  news = ReadOnce(exit_, folder_ + "/exit", DecodeExit) || news;
  if (!exit_) {
    if (const auto bytes = ReadRecordFile(folder_ + "/beat")) {
      if (const auto beat = DecodeBeat(*bytes)) {
        beat_ = beat;  // no news by itself: an idle job need not wake anybody
      }
    }
    const bool stop = os::Exists(folder_ + "/stop");
    news = news || stop != stop_asked_;
    stop_asked_ = stop;
  }
  for (StageView& view : stages_) {
    news = ReadOnce(view.start, view.folder + "/start", DecodeStart) || news;
    news = ReadOnce(view.exit, view.folder + "/exit", DecodeExit) || news;
  }
  records_changed_ = news;
  for (StageView& view : stages_) {
    for (int rank = 0; rank < static_cast<int>(view.logs.size()); ++rank) {
      news = ReadLog(view, rank) || news;
    }
  }
  return news;
}

std::int64_t FolderView::fresh_lines() const {
  std::int64_t lines = 0;
  for (const StageView& view : stages_) {
    for (const LogChunk& chunk : view.fresh) {
      lines += std::count(chunk.bytes.begin(), chunk.bytes.end(), '\n');
    }
  }
  return lines;
}

std::int64_t FolderView::fresh_bytes() const {
  std::int64_t bytes = 0;
  for (const StageView& view : stages_) {
    for (const LogChunk& chunk : view.fresh) {
      bytes += static_cast<std::int64_t>(chunk.bytes.size());
    }
  }
  return bytes;
}

// Bytes up to the last stamp, cut where the arrival time changes. What no stamp covers is handed
// out without a time once nothing can stamp it any more.
bool FolderView::ReadLog(StageView& view, int rank) {
  RankLog& log = view.logs[static_cast<std::size_t>(rank)];
  if (log.complete || (!view.start && !view.exit)) {
    return false;
  }
  const bool was_over = view.exit || exit_ || over_;
  const std::string stamps_path = view.folder + "/" + RankFile("stamps", rank);
  if (const auto bytes = os::ReadRange(stamps_path, log.stamps_read, kStampBytesACall)) {
    for (const Stamp& s : DecodeStamps(*bytes)) {
      log.stamps_read += kStampBytes;
      if (s.end > log.given) {
        log.stamps.push_back(s);
      }
    }
  }
  std::int64_t size = kLogBytesACall;  // a launcher may refresh twice before it hands out
  for (const LogChunk& chunk : view.fresh) {
    size -= static_cast<std::int64_t>(chunk.bytes.size());
  }
  if (size <= 0) {
    return true;
  }
  if (!was_over) {
    size = std::min(size, log.stamps.empty() ? 0 : log.stamps.back().end - log.given);
  }
  const auto bytes =
      size == 0 ? Result<std::string>(std::string())
                : os::ReadRange(view.folder + "/" + RankFile("out", rank), log.given, size);
  if (!bytes || bytes->empty()) {
    log.complete = was_over;
    return log.complete;
  }
  std::size_t used = 0;
  std::size_t stamp = 0;
  const auto give = [&](std::size_t n, std::int64_t ms) {
    // Neighbours with one time are one chunk: fewer, larger pieces for the parser.
    if (!view.fresh.empty() && view.fresh.back().rank == rank &&
        view.fresh.back().arrival_ms == ms) {
      view.fresh.back().bytes.append(*bytes, used, n);
    } else {
      view.fresh.push_back({rank, ms, bytes->substr(used, n)});
    }
    used += n;
    log.given += static_cast<std::int64_t>(n);
  };
  while (used < bytes->size() && stamp < log.stamps.size()) {
    const Stamp& s = log.stamps[stamp];
    const auto wanted = static_cast<std::size_t>(s.end - log.given);
    give(std::min(wanted, bytes->size() - used), s.ms);
    if (log.given == s.end) {
      ++stamp;
    }
  }
  log.stamps.erase(log.stamps.begin(), log.stamps.begin() + static_cast<std::ptrdiff_t>(stamp));
  if (used < bytes->size()) {
    give(bytes->size() - used, -1);
  }
  return true;
}

bool FolderView::LogsComplete() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const StageView& view) {
    return (!view.start && !view.exit) ||
           std::all_of(view.logs.begin(), view.logs.end(),
                       [](const RankLog& log) { return log.complete; });
  });
}

std::vector<StageObservation> FolderView::TakeStages(Millis now_mono, bool same_boot) {
  std::vector<StageObservation> out;
  for (StageView& view : stages_) {
    StageObservation s;
    s.run = view.stage->run;
    s.folder = view.folder;
    s.started = view.start.has_value();
    if (view.start) {
      s.node = view.start->host;
      s.started_wall_ms = view.start->wall_ms;
      s.last_beat_wall_ms =
          beat_ && beat_->run == s.run.value ? beat_->wall_ms : view.start->wall_ms;
      if (same_boot) {
        s.held = std::max(Millis{0}, now_mono - view.start->mono);
      } else if (beat_) {
        s.held = std::max(Millis{0}, beat_->mono - view.start->mono);
      }
    }
    const bool complete = std::all_of(view.logs.begin(), view.logs.end(),
                                      [](const RankLog& log) { return log.complete; });
    if (view.exit) {
      const ExitRecord& exit = *view.exit;
      s.held = exit.held;
      // A stage whose turn never came because its launch was over did not end: it never was.
      const bool skipped = exit.ending == Ending::kSkipped;
      const bool stopped_before = skipped && exit.detail == Word(Ending::kStopped);
      s.ended = skipped ? stopped_before : complete;
      s.exit_code = exit.code;
      s.signal = exit.signal;
      s.stopped_on_request = exit.ending == Ending::kStopped || stopped_before;
      s.limit_hit = exit.ending == Ending::kLimit;
    }
    s.log = std::move(view.fresh);
    view.fresh.clear();
    out.push_back(std::move(s));
  }
  return out;
}

void Conclude(const FolderView& view, const std::optional<LostRecord>& lost, Observation& o) {
  const int slots = view.plan().spec.slots;
  if (!view.exit()) {
    o.charged = ChargeFor(slots, lost ? lost->held : Millis{0});
    o.source = ChargeSource::kLastBeat;
    o.end_hint = RunEnd::kLost;
    o.detail = lost && lost->survivors
                   ? "its wrapper was killed; the processes it left were ended by attune"
                   : "its wrapper was killed and left no exit record";
    return;
  }
  const ExitRecord& exit = *view.exit();
  o.charged = ChargeFor(slots, exit.held);
  o.source = ChargeSource::kWrapper;
  o.detail = exit.detail;
  if (exit.survivors > 0) {
    o.detail = std::to_string(exit.survivors) + " processes could not be killed";
  }
  const bool any_started = std::any_of(o.stages.begin(), o.stages.end(),
                                       [](const StageObservation& s) { return s.started; });
  if (exit.ending == Ending::kTerminated) {
    o.end_hint = RunEnd::kCancelledOutside;
    o.detail = "somebody else sent its wrapper a signal";
  } else if (exit.ending == Ending::kBroken && !any_started) {
    o.end_hint = RunEnd::kNeverStarted;
  }
}

}  // namespace attune::launch
