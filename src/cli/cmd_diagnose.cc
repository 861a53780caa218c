// diagnose: where the time of a step goes, from profiler traces and logs, with no campaign.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "attune/base/text.h"
#include "attune/logs/diagnose_log.h"
#include "attune/logs/log_parser.h"
#include "attune/traces/diagnose.h"
#include "attune/traces/trace_reader.h"
#include "commands.h"
#include "draw_step.h"
#include "json_out.h"

namespace attune::cli {
namespace {

constexpr std::size_t kPiece = 1 << 16;
constexpr std::size_t kDialectBytes = 256 << 10;
constexpr int kPlainWidth = 100;

struct LogFindings {
  std::string path, dialect;
  std::size_t steps = 0;
  Diagnosis diagnosis;
  std::optional<FailureSign> failure;
};

bool IsFolder(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

Result<LogFindings> ReadLog(const std::string& path, const std::string& dialect) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return Fail(ErrorCode::kNotFound, path + ": does not exist");
  // Opening a pipe would wait for its writer.
  if (!S_ISREG(st.st_mode)) return Fail(ErrorCode::kInvalidInput, path + ": is no regular file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return Fail(ErrorCode::kDenied, path + ": cannot be opened");
  std::string head(kDialectBytes, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));

  LogFindings found;
  found.path = path;
  found.dialect = dialect.empty() ? DetectDialect(head) : dialect;
  if (found.dialect.empty()) {
    return Fail(ErrorCode::kInvalidInput, path + ": neither a trace nor a log that attune knows",
                "name its dialect with --framework");
  }
  ATTUNE_TRY(const auto parser, MakeLogParser({found.dialect, ""}));
  std::vector<Step> steps;
  LogEvidence evidence;
  const auto take = [&] {
    LogNews news = parser->Take();
    std::move(news.steps.begin(), news.steps.end(), std::back_inserter(steps));
    if (news.memory) evidence.memory = news.memory;
    if (news.failure) {
      found.failure = news.failure->cls.empty() ? std::nullopt : std::move(news.failure);
    }
  };
  parser->Feed(head, -1);
  take();
  std::string piece(kPiece, '\0');
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    parser->Feed(std::string_view(piece).substr(0, static_cast<std::size_t>(in.gcount())), -1);
    take();
  }
  parser->Finish();
  take();
  evidence.steps = steps;
  if (found.failure) {
    evidence.failure_class = found.failure->cls;
    evidence.failure_evidence = found.failure->line;
  }
  found.steps = steps.size();
  found.diagnosis = DiagnoseLog(evidence);
  return found;
}

class Diagnose final : public Command {
 public:
  void Declare(Options& options) override {
    options.Positionals("PATH", paths_, "traces, logs, or folders with traces", 1);
    options.Word("--framework", dialect_, LogDialects(), "how logs are written; else found out");
    options.Text("--steps", steps_, "PATTERN",
                 "marks that are steps, {n} for the number: 'train step {n}'");
    options.Text("--svg", svg_, "FILE", "draw the streams of one step of the first trace");
    options.Text("--step", step_, "NAME", "which: ProfilerStep#12; else the one of median length");
    options.Text("--pipeline", pipeline_, "P,M[,V]",
                 "stages, micro-batches and virtual stages, to judge the bubble");
  }

  Result<int> Run(Wire& wire) override {
    DiagnoseOptions diagnose;
    ATTUNE_RETURN_IF_ERROR(ReadPipeline(diagnose));
    std::vector<std::string> traces;
    std::vector<LogFindings> logs;
    for (const std::string& path : paths_) {
      if (IsFolder(path) || (dialect_.empty() && IsTraceFile(path))) {
        traces.push_back(path);
        continue;
      }
      ATTUNE_TRY(LogFindings found, ReadLog(path, dialect_));
      logs.push_back(std::move(found));
    }
    std::optional<TraceSet> set;
    Diagnosis diagnosis;
    if (!traces.empty()) {
      TraceOptions options;
      options.step_pattern = steps_;
      ATTUNE_TRY(set, ReadTraces(traces, options));
      diagnosis = DiagnoseTraces(*set, diagnose);
    }
    if (!svg_.empty()) ATTUNE_RETURN_IF_ERROR(Draw(set));
    Terminal& terminal = wire.terminal();
    if (!svg_.empty()) terminal.Note("drawn: " + svg_);
    if (wire.flags().json) {
      terminal.Out(Json(set, diagnosis, logs) + "\n");
      return kExitDone;
    }
    if (set) terminal.Out(TracesText(*set, diagnosis, Width(terminal), terminal.out_is_terminal()));
    for (const LogFindings& log : logs) terminal.Out((set ? "\n" : "") + Text(log));
    return kExitDone;
  }

 private:
  Status ReadPipeline(DiagnoseOptions& options) const {
    if (pipeline_.empty()) return {};
    std::vector<std::int64_t> numbers;
    for (const std::string_view part : Split(pipeline_, ',')) {
      const auto n = ParseInt(part);
      if (!n || *n < 1 || *n > 1'000'000) {
        return Fail(
            ErrorCode::kInvalidInput,
            "--pipeline: '" + EscapeForDisplay(part) + "' is no number of stages or micro-batches",
            "for 4 stages and 16 micro-batches: --pipeline 4,16");
      }
      numbers.push_back(*n);
    }
    if (numbers.size() < 2 || numbers.size() > 3) {
      return Fail(ErrorCode::kInvalidInput, "--pipeline: two or three numbers are expected",
                  "for 4 stages and 16 micro-batches: --pipeline 4,16");
    }
    options.pipeline = PipelineShape{static_cast<int>(numbers[0]), static_cast<int>(numbers[1]),
                                     numbers.size() == 3 ? static_cast<int>(numbers[2]) : 1};
    return {};
  }

  Status Draw(const std::optional<TraceSet>& set) const {
    if (!set) return Fail(ErrorCode::kInvalidInput, "--svg: there is no trace to draw");
    TraceOptions options;
    options.step_pattern = steps_;
    return DrawStep(svg_, *set, options, step_);
  }

  static int Width(const Terminal& terminal) {
    winsize size{};
    if (terminal.out_is_terminal() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 0) {
      return std::clamp<int>(size.ws_col, 60, 200);
    }
    return kPlainWidth;
  }

  static std::string Text(const LogFindings& log) {
    std::string text = fmt::format("{}: a log of {}, {} steps. {}\n", EscapeForDisplay(log.path),
                                   log.dialect, log.steps, log.diagnosis.summary);
    if (log.failure) {
      text += fmt::format("failure: {} at line {}: {}\n", log.failure->cls,
                          log.failure->line_number, log.failure->line);
    }
    for (const Bottleneck& b : log.diagnosis.bottlenecks) {
      const std::string share = b.share < 0 ? "    -  " : fmt::format("{:5.1f} %", 100 * b.share);
      text += fmt::format("{} {} {:<22} {}\n", b.named ? '>' : ' ', share, b.cls, b.evidence);
    }
    return text;
  }

  static std::string Json(const std::optional<TraceSet>& set, const Diagnosis& diagnosis,
                          const std::vector<LogFindings>& logs) {
    JsonOut json("attune.diagnose/1");
    if (set) {
      const std::string traces = TracesJson(*set, diagnosis);
      json.Raw("traces", Trim(traces));
    } else {
      json.Null("traces");
    }
    std::vector<std::string> objects;
    for (const LogFindings& log : logs) {
      JsonOut one("");
      one.Text("file", log.path);
      one.Text("dialect", log.dialect);
      one.Int("steps", static_cast<std::int64_t>(log.steps));
      one.Text("summary", log.diagnosis.summary);
      if (log.failure) {
        one.Text("failure", log.failure->cls);
        one.Text("failure_line", log.failure->line);
      }
      std::vector<std::string> rows;
      for (const Bottleneck& b : log.diagnosis.bottlenecks) {
        JsonOut row("");
        row.Text("class", b.cls);
        row.Bool("named", b.named);
        row.Number("share", b.share);
        row.Number("metric", b.metric);
        row.Number("threshold", b.threshold);
        row.Text("evidence", b.evidence);
        rows.push_back(row.Take());
      }
      one.Objects("bottlenecks", rows);
      objects.push_back(one.Take());
    }
    json.Objects("logs", objects);
    return json.Take();
  }

  std::vector<std::string> paths_;
  std::string dialect_, steps_, pipeline_, svg_, step_;
};

}  // namespace

std::unique_ptr<Command> MakeDiagnose() { return std::make_unique<Diagnose>(); }

}  // namespace attune::cli
