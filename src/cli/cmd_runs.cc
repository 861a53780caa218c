// runs, show, logs: what was launched, one record, one log.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>

#include "attune/base/text.h"
#include "attune/launch/run_log.h"
#include "attune/os/files.h"
#include "attune/report/explain.h"
#include "campaign_lookup.h"
#include "commands.h"
#include "json_out.h"
#include "session.h"

namespace attune::cli {
namespace {

using Cell = std::string (*)(const RunRow&);

template <class T>
std::string Number(const std::optional<T>& value, double factor, const char* format) {
  return value ? fmt::format(fmt::runtime(format), factor * static_cast<double>(*value))
               : std::string();
}

struct Column {
  std::string_view name;
  Cell cell;
};
constexpr Column kColumns[] = {
    {"run", [](const RunRow& r) { return r.id.value; }},
    {"label", [](const RunRow& r) { return r.label; }},
    {"purpose", [](const RunRow& r) { return std::string(Word(r.purpose)); }},
    {"change", [](const RunRow& r) { return r.change; }},
    {"result",
     [](const RunRow& r) {
       return std::string(r.standing ? Word(*r.standing)
                          : r.end    ? Word(*r.end)
                                     : Word(r.launch_state));
     }},
    {"end", [](const RunRow& r) { return r.end ? std::string(Word(*r.end)) : std::string(); }},
    {"score", [](const RunRow& r) { return Number(r.score, 1, "{:.1f}"); }},
    {"gain_pct", [](const RunRow& r) { return Number(r.gain, 100, "{:+.2f}"); }},
    {"step_ms", [](const RunRow& r) { return Number(r.step_ms, 1, "{:.1f}"); }},
    {"mfu_pct", [](const RunRow& r) { return Number(r.mfu, 100, "{:.1f}"); }},
    {"peak_bytes", [](const RunRow& r) { return Number(r.max_reserved, 1, "{:.0f}"); }},
    {"gpu_h", [](const RunRow& r) { return ShowGpuHours(r.charged); }},
    {"steps", [](const RunRow& r) { return std::to_string(r.steps); }},
    {"node", [](const RunRow& r) { return r.node; }},
    {"class", [](const RunRow& r) { return r.failure_class; }},
    {"why", [](const RunRow& r) { return r.reason.empty() ? r.cause : r.reason; }},
};
constexpr std::string_view kDefaultColumns = "run,label,change,result,score,gain_pct,gpu_h,why";

Result<std::vector<const Column*>> PickColumns(const std::string& list) {
  std::vector<const Column*> picked;
  std::vector<std::string> names;
  for (const Column& column : kColumns) names.emplace_back(column.name);
  const std::string text = list.empty() ? std::string(kDefaultColumns) : list;
  for (const std::string_view name : Split(text, ',')) {
    const auto found = std::find_if(std::begin(kColumns), std::end(kColumns),
                                    [&](const Column& c) { return c.name == name; });
    if (found == std::end(kColumns)) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("--columns: no column '{}'", EscapeForDisplay(name, 60)),
                  "there are: " + Join(names, ", "));
    }
    picked.push_back(found);
  }
  return picked;
}

std::string CsvCell(const std::string& text) {
  // A leading =, +, - or @ would be a formula for a spreadsheet.
  std::string safe = EscapeForDisplay(text, 2'000);
  const bool number = ParseDouble(text.starts_with('+') ? text.substr(1) : text).has_value();
  if (!number && !safe.empty() &&
      std::string_view("=+-@").find(safe[0]) != std::string_view::npos) {
    safe = "'" + safe;
  }
  if (safe.find_first_of(",\"") == std::string::npos) return safe;
  std::string out = "\"";
  for (const char c : safe) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string MarkdownCell(const std::string& text) {
  std::string out;
  for (const char c : EscapeForDisplay(text, 400)) {
    if (std::string_view("|<>`*_[]\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string Object(const RunRow& r) {
  JsonOut json("");
  json.Text("run", r.id.value);
  json.Text("label", r.label);
  json.Text("launch", r.launch.value);
  json.Text("purpose", Word(r.purpose));
  json.Text("proposal", r.proposal.value);
  json.Text("lever", r.lever);
  json.Text("change", r.change);
  json.Text("standing", r.standing ? Word(*r.standing) : std::string_view());
  json.Text("end", r.end ? Word(*r.end) : std::string_view());
  json.Text("failure_class", r.failure_class);
  json.Text("cause", r.cause);
  json.Text("evidence", r.evidence);
  json.Text("evidence_at", r.evidence_at);
  json.Text("reason", r.reason);
  json.Number("score", r.score);
  json.Number("gain_pct", r.gain ? std::optional<double>(100 * *r.gain) : std::nullopt);
  json.Number("step_ms", r.step_ms);
  json.Number("cv", r.cv);
  json.Number("mfu", r.mfu);
  json.Int("steps", r.steps);
  json.Int("charged_gpu_ms", r.charged.value);
  json.Int("held_ms", r.held.count());
  json.Int("startup_ms", r.startup.count());
  if (r.max_reserved) json.Int("max_reserved_bytes", *r.max_reserved);
  if (r.exit_code) json.Int("exit_code", *r.exit_code);
  if (r.signal) json.Int("signal", *r.signal);
  json.Text("node", r.node);
  json.Text("folder", r.folder);
  if (r.started_at) json.Text("started", Rfc3339(*r.started_at));
  if (r.ended_at) json.Text("ended", Rfc3339(*r.ended_at));
  json.Bool("leads", r.leads);
  return json.Take();
}

class Runs final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("CAMPAIGN", campaign_, "default: the newest", false);
    options.Flag("--failed", failed_, "only those that ran out of memory, hung or crashed");
    options.Text("--columns", columns_, "LIST", "separated by commas");
    options.Word("--format", format_, {"table", "csv", "md", "json"}, "of the output");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const std::vector<const Column*> columns, PickColumns(columns_));
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, campaign_));
    ATTUNE_TRY(const std::vector<RunRow> rows,
               reading.store->Runs(reading.campaign.id, {.failed_only = failed_, .newest = 0}));
    std::string out;
    if (wire.flags().json || format_ == "json") {
      JsonOut json("attune.runs/1");
      json.Text("campaign", reading.campaign.id.value);
      std::vector<std::string> objects;
      for (const RunRow& row : rows) objects.push_back(Object(row));
      json.Objects("runs", objects);
      out = json.Take() + "\n";
    } else if (format_ == "csv") {
      out = Delimited(columns, rows, ",", "", CsvCell);
    } else if (format_ == "md") {
      out = Delimited(columns, rows, " | ", "| ", MarkdownCell);
    } else {
      out = Table(columns, rows);
    }
    wire.terminal().Out(out);
    return kExitDone;
  }

 private:
  static std::string Delimited(const std::vector<const Column*>& columns,
                               const std::vector<RunRow>& rows, std::string_view between,
                               std::string_view edge, std::string (*cell)(const std::string&)) {
    std::string out(edge);
    std::vector<std::string> names;
    for (const Column* column : columns) names.emplace_back(column->name);
    out += Join(names, between) + "\n";
    if (!edge.empty()) {
      for (std::size_t i = 0; i < columns.size(); ++i) out += "|---";
      out += "|\n";
    }
    for (const RunRow& row : rows) {
      std::vector<std::string> cells;
      for (const Column* column : columns) cells.push_back(cell(column->cell(row)));
      out += std::string(edge) + Join(cells, between) + "\n";
    }
    return out;
  }

  static std::string Table(const std::vector<const Column*>& columns,
                           const std::vector<RunRow>& rows) {
    constexpr std::size_t kWidest = 48;
    std::vector<std::vector<std::string>> cells;
    std::vector<std::size_t> width;
    for (const Column* column : columns) width.push_back(column->name.size());
    for (const RunRow& row : rows) {
      std::vector<std::string> line;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        line.push_back(EscapeForDisplay(columns[i]->cell(row), kWidest));
        width[i] = std::max(width[i], line.back().size());
      }
      cells.push_back(std::move(line));
    }
    std::string out;
    const auto put = [&](std::size_t i, std::string text, bool last) {
      if (!last) text.resize(std::max(text.size(), width[i] + 2), ' ');
      out += text;
    };
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::string name(columns[i]->name);
      for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
      put(i, std::move(name), i + 1 == columns.size());
    }
    out += '\n';
    for (const std::vector<std::string>& line : cells) {
      for (std::size_t i = 0; i < line.size(); ++i) put(i, line[i], i + 1 == line.size());
      out += '\n';
    }
    return out;
  }

  std::string campaign_, columns_, format_;
  bool failed_ = false;
};

class Show final : public Command {
 public:
  void Declare(Options& options) override { options.Positional("RUN", run_, "a run id or label"); }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, ""));
    ATTUNE_TRY(const RunRow r, reading.store->FindRun(reading.campaign.id, run_));
    ATTUNE_TRY(const std::optional<Diagnosis> diagnosis,
               reading.store->DiagnosisOf(reading.campaign.id, r.id));
    std::vector<BottleneckLevers> levers;
    if (diagnosis) {
      ATTUNE_TRY(const CampaignState state, LoadState(*reading.store, reading.campaign.id));
      const SkillInUse skill = SkillToShow(wire, state);
      levers = LeversAgainst(*diagnosis, state.recipe, skill.Get().catalog);
    }
    if (wire.flags().json) {
      std::string object = Object(r);
      if (diagnosis) {
        object.back() = ',';
        object += "\"diagnosis\":" + DiagnosisJson(*diagnosis, levers) + "}";
      }
      wire.terminal().Out("{\"schema\":\"attune.run/1\"," + object.substr(1) + "\n");
      return kExitDone;
    }
    std::string text;
    const auto line = [&](std::string_view key, const std::string& value) {
      if (!value.empty()) {
        text += fmt::format("{:<12} {}\n", key, EscapeForDisplay(value, 2'000));
      }
    };
    line("run", fmt::format("{} {}", r.id.value, r.label));
    line("campaign", reading.campaign.id.value);
    line("policy", fmt::format("{} ({})", reading.campaign.policy, reading.campaign.proposer));
    line("purpose", std::string(Word(r.purpose)));
    line("change", r.change);
    line("standing", r.standing ? std::string(Word(*r.standing)) : std::string());
    line("reason", r.reason);
    line("end", r.end ? std::string(Word(*r.end)) : std::string(Word(r.launch_state)));
    line("cause", r.cause);
    line("evidence", r.evidence);
    line("at", r.evidence_at);
    line("tok/s/GPU", Number(r.score, 1, "{:.2f}"));
    line("gain", r.gain ? fmt::format("{:+.2f}% of the leader at that moment", 100 * *r.gain) : "");
    line("step", r.step_ms
                     ? fmt::format("{:.1f} ms, cv {:.1f}%", *r.step_ms, 100 * r.cv.value_or(0))
                     : std::string());
    line("peak memory", r.max_reserved ? ShowBytes(*r.max_reserved) : std::string());
    line("steps", std::to_string(r.steps));
    line("held", ShowDuration(r.held));
    line("start-up", ShowDuration(r.startup));
    line("charged", ShowGpuHours(r.charged) + " GPU-h (of its launch)");
    line("started", r.started_at ? Rfc3339(*r.started_at) : std::string());
    line("ended", r.ended_at ? Rfc3339(*r.ended_at) : std::string());
    line("node", r.node);
    line("folder", r.folder);
    if (diagnosis) {
      line("diagnosis", fmt::format("from {}: {}", diagnosis->source, diagnosis->summary));
      text += DiagnosisText(*diagnosis, levers, std::string(13, ' '));
    }
    wire.terminal().Out(text);
    return kExitDone;
  }

 private:
  std::string run_;
};

class Logs final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positional("RUN", run_, "a run id or label");
    options.Flag("-f,--follow", follow_, "go on as it grows, until the run has ended");
    options.Int("--rank", rank_, 0, "of a job whose ranks attune starts");
    options.Int("--tail", tail_, 1, "only the last N KiB");
    options.Flag("--stderr", stderr_, "only what came through stderr");
  }

  Result<int> Run(Wire& wire) override {
    ATTUNE_TRY(const Reading reading, OpenForReading(wire, ""));
    ATTUNE_TRY(const RunRow run, reading.store->FindRun(reading.campaign.id, run_));
    if (run.folder.empty()) {
      return Fail(ErrorCode::kNotFound, run.id.value + " has not started; it has no log");
    }
    if (run.folder.front() != '/') {
      return Fail(ErrorCode::kNotFound, run.id.value + " was simulated; its log is not kept",
                  fmt::format("attune show {} tells what it said", run.id.value));
    }
    const int rank = static_cast<int>(std::min<std::int64_t>(rank_.value_or(0), 1'000'000));
    const std::string path = run.folder + (rank > 0 ? fmt::format("/out.{}", rank) : "/out");
    if (run.end && !os::Exists(run.folder)) {
      return Fail(
          ErrorCode::kNotFound,
          fmt::format("the folder of {} is not there any more: {}", run.id.value, run.folder),
          fmt::format("attune db gc removes those of old campaigns; attune show {} tells "
                      "what is kept",
                      run.id.value));
    }
    ATTUNE_TRY(const os::FileFacts facts, os::StatFile(path));
    if (stderr_ && !StderrRanges(run.folder, rank)) {
      return Fail(
          ErrorCode::kNotFound,
          fmt::format("{} was run by an attune that did not tell stderr apart", run.id.value),
          fmt::format("attune logs {} prints both, as they came", run.id.value));
    }
    std::int64_t at = tail_ ? std::max<std::int64_t>(facts.size - *tail_ * 1'024, 0) : 0;
    if (wire.flags().json) {
      JsonOut json("attune.log/1");
      json.Text("run", run.id.value);
      json.Text("path", path);
      json.Int("bytes", facts.size);
      wire.terminal().Out(json.Take() + "\n");
      return kExitDone;
    }
    for (;;) {
      // Asked before the bytes are read: what it wrote until then is all there is.
      ATTUNE_TRY(const RunRow now, reading.store->FindRun(reading.campaign.id, run.id.value));
      ATTUNE_RETURN_IF_ERROR(stderr_ ? PrintStderr(wire.terminal(), run.folder, rank, path, at)
                                     : Print(wire.terminal(), path, at, kEnd));
      if (!follow_ || now.end) return kExitDone;
      wire.clock().SleepUntil(wire.clock().Now() + kFollowPause);
    }
  }

 private:
  static constexpr std::int64_t kPiece = 1 << 20;
  static constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  static constexpr std::size_t kLongestWait = 1 << 16;  // of a line for its end
  static constexpr Millis kFollowPause{500};

  // What stands in the file from `at` on and before `end`; `at` moves behind it. The job's bytes
  // are made safe for a terminal, where a line that goes on waits for its end; they are as they are
  // where something else reads them.
  Status Print(Terminal& terminal, const std::string& path, std::int64_t& at, std::int64_t end) {
    while (at < end) {
      ATTUNE_TRY(const std::string bytes, os::ReadRange(path, at, std::min(kPiece, end - at)));
      if (bytes.empty()) return {};
      at += static_cast<std::int64_t>(bytes.size());
      if (!terminal.out_is_terminal()) {
        terminal.Out(bytes);
        continue;
      }
      open_ += bytes;
      const bool waits = follow_ && open_.size() < kLongestWait;
      const std::size_t whole = waits ? open_.rfind('\n') + 1 : open_.size();
      for (const std::string_view text : SplitLines(std::string_view(open_).substr(0, whole))) {
        terminal.Out(EscapeForDisplay(text, 4'000) + "\n");
      }
      open_.erase(0, whole);
    }
    return {};
  }

  // The parts of it that are stderr's.
  Status PrintStderr(Terminal& terminal, const std::string& folder, int rank,
                     const std::string& path, std::int64_t& at) {
    for (const LogRange& range : StderrRanges(folder, rank).value_or(std::vector<LogRange>())) {
      at = std::max(at, range.from);
      ATTUNE_RETURN_IF_ERROR(Print(terminal, path, at, range.end));
    }
    return {};
  }

  std::string open_;  // of a line that is not whole yet
  bool follow_ = false, stderr_ = false;
  std::string run_;
  std::optional<std::int64_t> rank_, tail_;
};

}  // namespace

std::unique_ptr<Command> MakeRuns() { return std::make_unique<Runs>(); }
std::unique_ptr<Command> MakeShow() { return std::make_unique<Show>(); }
std::unique_ptr<Command> MakeLogs() { return std::make_unique<Logs>(); }

}  // namespace attune::cli
