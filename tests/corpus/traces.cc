// Kind `traces`: folders of profiler traces with MANIFEST.tsv (what each file shows) and
// expected_hta.json (independent figures, key `ours`). The answer is one line of key=value pairs,
// named as there. Figures count as equal within 0.05 points and 1 us. Files without figures are
// judged by what their manifest row asks for.
#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "attune/base/text.h"
#include "attune/traces/trace_reader.h"
#include "corpus.h"

namespace attune::corpus {
namespace {

using Json = nlohmann::json;

constexpr double kMicros = 1.0, kPoints = 0.05;

double Us(std::int64_t ns) { return static_cast<double>(ns) / 1000.0; }
double Percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string ShowUs(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }
std::string ShowRank(std::int64_t n) { return n < 0 ? "-" : std::to_string(n); }

bool HasNote(const RankTrace& t, std::string_view name) {
  return std::any_of(t.notes.begin(), t.notes.end(),
                     [name](const ParseNote& n) { return n.name == name; });
}

// The rank that the document states; from a file's name only with a note.
std::int64_t StatedRank(const RankTrace& t) { return HasNote(t, "rank_from_name") ? -1 : t.rank; }

std::string ShowBreakdown(const GpuCounts& c, const Breakdown& b) {
  std::string overlap = "-";
  if (b.comm > 0) overlap = fmt::format("{:.3f}", Percent(b.overlap, b.comm));
  return fmt::format(
      "gpu_events={} compute={} comm={} mem={} span_us={} busy_us={} idle_us={} compute_us={} "
      "comm_us={} mem_us={} comm_comp_overlap_us={} exposed_comm_us={} idle_pct={:.3f} "
      "compute_pct={:.3f} comm_comp_overlap_pct={}",
      c.events, c.compute, c.comm, c.mem, ShowUs(b.span), ShowUs(b.busy), ShowUs(b.idle()),
      ShowUs(b.compute), ShowUs(b.comm), ShowUs(b.mem), ShowUs(b.overlap), ShowUs(b.exposed),
      Percent(b.idle(), b.span), Percent(b.compute, b.span), overlap);
}

std::string Answer(const RankTrace& t) {
  const WholeFile& w = t.whole_file;
  std::string a = fmt::format("whole={} events={} rank={} world_size={}",
                              t.whole ? "yes" : fmt::format("no,stopped_at={}", t.stopped_at),
                              t.events, ShowRank(StatedRank(t)), ShowRank(t.world_size));
  for (const StepFigures& s : t.steps) {
    if (t.steps_marked) a += fmt::format(" {}={:.3f}ms", s.name, Us(s.host) / 1000);
  }
  a += fmt::format(" zero_dur_gpu_events={}", w.counts.zero_duration);
  if (w.counts.events > 0) {
    a += " " + ShowBreakdown(w.counts, w.time);
    a += fmt::format(
        " streams={} same_stream_overlaps={} worst_same_stream_overlap_us={} "
        "gpu_events_without_launch={} gpu_start_before_launch={}",
        w.streams, w.same_stream_overlaps, ShowUs(w.worst_same_stream_overlap), w.without_launch,
        w.start_before_launch);
    if (w.median_launch_delay) {
      a += " launch_delay_us_median=" + ShowUs(*w.median_launch_delay);
    }
    if (w.median_compute_kernel) {
      a += " compute_kernel_us_median=" + ShowUs(*w.median_compute_kernel);
    }
    if (w.without_launch > 0) {
      a += " launched_only: " + ShowBreakdown(w.launched_counts, w.launched_time);
    }
  } else {
    a += " gpu_events=0";
  }
  for (const CollectiveRow& c : t.collectives) {
    a += fmt::format(" collective[{}/{}/{}]={}", c.type, c.name, c.group, c.count_in_file);
  }
  for (const UnknownCategory& u : t.unknown) {
    a += fmt::format(" unknown[{}]={}:{}us", u.category, u.count, ShowUs(u.total));
  }
  a += " notes:";
  for (const ParseNote& n : t.notes) a += fmt::format(" {}={}", n.name, n.count);
  return a;
}

// Compares what the figures of `expected` say; adds what differs.
class Comparison {
 public:
  void Near(const Json& expected, const char* key, double got, double tolerance) {
    if (!expected.contains(key) || !expected[key].is_number()) return;
    const double want = expected[key].get<double>();
    if (std::abs(want - got) > tolerance + 1e-9) {
      wrong_ += fmt::format("{}{} {} instead of {}", wrong_.empty() ? "" : "; ", key, got, want);
    }
  }
  void Equal(const Json& expected, const char* key, std::int64_t got) {
    Near(expected, key, static_cast<double>(got), 0);
  }
  void Require(bool condition, const std::string& what) {
    if (!condition) wrong_ += (wrong_.empty() ? "" : "; ") + what;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  std::string wrong_;
};

void CompareBreakdown(const Json& e, const GpuCounts& c, const Breakdown& b, Comparison& cmp) {
  cmp.Equal(e, "gpu_events", c.events);
  if (e.contains("counts")) {
    cmp.Equal(e["counts"], "compute", c.compute);
    cmp.Equal(e["counts"], "comm", c.comm);
    cmp.Equal(e["counts"], "mem", c.mem);
  }
  cmp.Near(e, "span_us", Us(b.span), kMicros);
  cmp.Near(e, "busy_us", Us(b.busy), kMicros);
  cmp.Near(e, "idle_us", Us(b.idle()), kMicros);
  cmp.Near(e, "compute_us", Us(b.compute), kMicros);
  cmp.Near(e, "comm_us", Us(b.comm), kMicros);
  cmp.Near(e, "mem_us", Us(b.mem), kMicros);
  cmp.Near(e, "comm_comp_overlap_us", Us(b.overlap), kMicros);
  cmp.Near(e, "exposed_comm_us", Us(b.exposed), kMicros);
  cmp.Near(e, "idle_pct", Percent(b.idle(), b.span), kPoints);
  cmp.Near(e, "compute_pct", Percent(b.compute, b.span), kPoints);
  cmp.Near(e, "comm_comp_overlap_pct", Percent(b.overlap, b.comm), kPoints);
}

void CompareTop(const Json& e, const RankTrace& t, Comparison& cmp) {
  if (!e.contains("top_kernels")) return;
  for (const Json& row : e["top_kernels"]) {
    const auto name = row["name"].get<std::string>();
    const bool found = std::any_of(t.top.begin(), t.top.end(), [&](const KernelRow& k) {
      const std::size_t shown = std::min(name.size(), k.name.size() > 3 ? k.name.size() - 3 : 0);
      return k.count == row["count"].get<std::int64_t>() &&
             std::abs(Us(k.total) - row["sum_us"].get<double>()) <= kMicros &&
             (k.name == name || k.name.compare(0, shown, name, 0, shown) == 0);
    });
    // The tenth of the list and ours may be different ones of equal time.
    if (!found && &row != &e["top_kernels"].back()) cmp.Require(false, "top kernel " + name);
  }
}

void CompareCollectives(const Json& e, const RankTrace& t, Comparison& cmp) {
  if (!e.contains("collectives")) return;
  std::map<std::string, std::int64_t> want, got;
  for (const Json& row : e["collectives"]) {
    want[row["name"].get<std::string>()] += row["count"].get<std::int64_t>();
  }
  for (const CollectiveRow& row : t.collectives) {
    if (row.with_arguments_in_file > 0) got[row.name] += row.with_arguments_in_file;
  }
  cmp.Require(got == want, "collectives differ");
}

void CompareSteps(const Json& e, const RankTrace& t, Comparison& cmp) {
  if (!e.contains("profiler_steps_ms")) return;
  const Json& steps = e["profiler_steps_ms"];
  std::map<std::string, double> got;
  if (t.steps_marked) {
    for (const StepFigures& s : t.steps) got[s.name] = Us(s.host);
  }
  for (const auto& [name, ms] : steps.items()) {
    if (!got.contains(name)) {
      // Marks without a single launch in them: the window stands for them.
      cmp.Require(!t.steps_marked && t.HasGpu(), name + " is missing");
      continue;
    }
    cmp.Require(std::abs(got[name] - ms.get<double>() * 1000) <= kMicros, name + " differs");
  }
}

std::string CompareFigures(const Json& e, const RankTrace& t) {
  Comparison cmp;
  const WholeFile& w = t.whole_file;
  cmp.Require(t.whole, "not whole");
  cmp.Equal(e, "events", t.events);
  if (e.contains("rank") && !e["rank"].is_null()) cmp.Equal(e, "rank", StatedRank(t));
  if (e.contains("rank") && e["rank"].is_null()) {
    cmp.Require(StatedRank(t) < 0, "a rank where the document has none");
  }
  cmp.Equal(e, "world_size", t.world_size);
  cmp.Equal(e, "zero_dur_gpu_events", w.counts.zero_duration);
  CompareBreakdown(e, w.counts, w.time, cmp);
  if (e.contains("launched_only")) {
    CompareBreakdown(e["launched_only"], w.launched_counts, w.launched_time, cmp);
  }
  cmp.Equal(e, "streams", w.streams);
  cmp.Equal(e, "same_stream_overlaps", w.same_stream_overlaps);
  cmp.Near(e, "worst_same_stream_overlap_us", Us(w.worst_same_stream_overlap), kMicros);
  cmp.Equal(e, "gpu_events_without_launch", w.without_launch);
  cmp.Equal(e, "gpu_start_before_launch", w.start_before_launch);
  if (w.median_launch_delay) {
    cmp.Near(e, "launch_delay_us_median", Us(*w.median_launch_delay), kMicros);
  }
  if (w.median_compute_kernel) {
    cmp.Near(e, "compute_kernel_us_median", Us(*w.median_compute_kernel), kMicros);
  }
  CompareTop(e, t, cmp);
  CompareCollectives(e, t, cmp);
  CompareSteps(e, t, cmp);
  return cmp.wrong();
}

struct ManifestRow {
  std::string file, origin, shows;
};

Result<std::vector<ManifestRow>> ReadManifest(const std::string& path) {
  ATTUNE_TRY(const std::string text, ReadFile(path));
  std::vector<ManifestRow> rows;
  for (const std::string_view line : SplitLines(text)) {
    const auto cells = Split(line, '\t');
    if (cells.size() < 6 || cells[0] == "file") continue;
    rows.push_back({std::string(cells[0]), std::string(cells[1]), std::string(cells[5])});
  }
  return rows;
}

bool Says(const ManifestRow& row, std::string_view words) {
  return row.shows.find(words) != std::string::npos;
}

// What a manifest row asks for in words, of a file that was read.
std::string CheckWords(const ManifestRow& row, const RankTrace& t, const Json& base) {
  struct Wish {
    std::string_view words, note;
  };
  static constexpr Wish kWishes[] = {
      {"invalid UTF-8", "bad_utf8"},
      {"control character", "control_character"},
      {"byte-order mark", "byte_order_mark"},
      {"NaN", "not_a_number"},
      {"as strings", "numeric_string"},
      {"ts 0", "zero_time"},
      {"clip to the next start", "clipped_kernel"},
      {"category nobody knows", "unknown_category"},
      {"no args", "missing_arguments"},
      {"nothing to analyse", "no_gpu_events"},
      {"unknown device", "unknown_device"},
      {"no GPU data", "no_gpu_events"},
  };
  Comparison cmp;
  for (const Wish& wish : kWishes) {
    // A word about the origin's file is no wish about overhead rows and the like.
    if (Says(row, wish.words) && !Says(row, "overhead events have no args")) {
      cmp.Require(HasNote(t, wish.note), fmt::format("no note {}", wish.note));
    }
  }
  const WholeFile& w = t.whole_file;
  if (Says(row, "totals unchanged") && base.is_object()) {
    CompareBreakdown(base, w.counts, w.time, cmp);
  }
  if (Says(row, "same busy/idle as the base") && base.is_object()) {
    CompareBreakdown(base, w.counts, w.time, cmp);
  }
  if (Says(row, "stay near the base value") && base.is_object()) {
    // Cut to the next start of its stream: busy is no more than the base and the gap it was in.
    cmp.Near(base, "compute_pct", Percent(w.time.compute, w.time.span), 0.5);
  }
  if (Says(row, "drop and count them")) {
    cmp.Require(w.time.span < std::int64_t{3600} * 1'000'000'000, "span of years");
  }
  if (Says(row, "rank must be 5")) cmp.Require(t.rank == 5, "rank is not 5");
  if (Says(row, "list the category with its time")) {
    cmp.Require(t.unknown.size() == 1 && t.unknown[0].count > 0 && t.unknown[0].total > 0,
                "category not listed");
  }
  const bool cut = row.file.find("truncated") != std::string::npos;
  cmp.Require(t.whole != cut, cut ? "truncated but passes for whole" : "not whole");
  if (cut) {
    cmp.Require(HasNote(t, "truncated"), "no note truncated");
    cmp.Require(t.events > 0, "no event of a truncated file was read");
  }
  return cmp.wrong();
}

bool MustBeRefused(const ManifestRow& row) {
  return Says(row, "NOT a Kineto") || Says(row, "NOT Kineto") || Says(row, "zero bytes");
}

// "hta_simple_add.json.gz" of "derived from hta_simple_add.json.gz by ...".
std::string BaseOf(const ManifestRow& row) {
  constexpr std::string_view kFrom = "derived from ";
  if (row.origin.rfind(kFrom, 0) != 0) return {};
  const std::string_view rest = std::string_view(row.origin).substr(kFrom.size());
  return std::string(rest.substr(0, rest.find(' ')));
}

// The figures that expected_hta.json has for a file; null where it has none.
Json OursOf(const Json& traces, const std::string& file) {
  if (!traces.contains(file) || !traces[file].contains("ours")) return Json();
  const Json& ours = traces[file]["ours"];
  return ours.is_object() ? ours : Json();
}

void Judge(const ManifestRow& manifest, const Json& traces, const Result<RankTrace>& read,
           Row& row) {
  row.expected = manifest.shows;
  std::string wrong;
  const Json ours = OursOf(traces, manifest.file);
  const bool refuse = MustBeRefused(manifest) || ours.contains("not_kineto");
  if (refuse) {
    wrong = read ? "read although it is no Kineto trace" : "";
  } else if (!read) {
    wrong = "refused";
  } else if (!ours.empty()) {
    wrong = CompareFigures(ours, *read);
  } else {
    wrong = CheckWords(manifest, *read, OursOf(traces, BaseOf(manifest)));
  }
  row.outcome = wrong.empty() ? Outcome::kPassed : Outcome::kFailed;
  if (!wrong.empty()) row.expected = wrong;
}

std::vector<std::string> TraceFiles(const std::string& folder) {
  std::vector<std::string> files;
  if (DIR* dir = opendir(folder.c_str()); dir != nullptr) {
    while (const dirent* entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if (name[0] == '.' || name == "expected_hta.json") continue;
      for (const std::string_view suffix : {".json", ".json.gz", ".raw.gz", ".sqlite"}) {
        if (std::string_view(name).ends_with(suffix)) files.push_back(name);
      }
    }
    closedir(dir);
  }
  std::sort(files.begin(), files.end());
  return files;
}

Row ReadOne(const std::string& folder, const std::string& file, Result<RankTrace>& read) {
  Row row;
  row.id = file;
  const std::string path = folder + "/" + file;
  const auto bytes = ReadFile(path);
  row.input = bytes ? Sha256Hex(*bytes) : "unreadable";
  read = ReadTraceFile(path);
  std::string why;
  if (!read) {
    why = read.error().message;
    if (why.rfind(path + ": ", 0) == 0) why.erase(0, path.size() + 2);
  }
  row.answer = read ? Answer(*read) : "refused: " + why;
  return row;
}

Result<std::vector<Row>> ReadFolder(const std::string& folder) {
  std::vector<Row> rows;
  const auto manifest = ReadManifest(folder + "/MANIFEST.tsv");
  Json traces;
  if (const auto text = ReadFile(folder + "/expected_hta.json")) {
    const Json all = Json::parse(*text, nullptr, false);
    if (all.contains("traces")) traces = all["traces"];
  }
  std::map<std::string, ManifestRow> by_file;
  if (manifest) {
    for (const ManifestRow& m : *manifest) by_file[m.file] = m;
  }
  for (const std::string& file : TraceFiles(folder)) {
    Result<RankTrace> read = Fail(ErrorCode::kInternal, "not read");
    Row row = ReadOne(folder, file, read);
    const auto m = by_file.find(file);
    if (m == by_file.end()) {
      row.why = "no row in MANIFEST.tsv";
    } else {
      Judge(m->second, traces, read, row);
      by_file.erase(m);
    }
    rows.push_back(std::move(row));
  }
  for (const auto& [file, m] : by_file) {
    Row row;
    row.id = file;
    row.input = "missing";
    row.answer = "missing";
    row.why = "named in MANIFEST.tsv but not there";
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Result<std::vector<Row>> ReadTraceFolders(const std::vector<std::string>& paths) {
  std::vector<Row> rows;
  for (const std::string& path : paths) {
    ATTUNE_TRY(std::vector<Row> more, ReadFolder(path));
    if (more.empty()) return Fail(ErrorCode::kNotFound, "no trace files in " + path);
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace attune::corpus
