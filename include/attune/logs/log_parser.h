// Training logs, read as they grow. Foreign text: cut at any byte, with junk, ANSI colour, carriage
// returns and bad UTF-8 in it. A parser never fails: what it can't use it counts in its notes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/recipe.h"
#include "attune/model/run.h"

namespace attune {

// The first cause, not the last echo.
struct FailureSign {
  std::string cls;   // word of docs/formats/failures.md: oom_gpu, hang, config_rejected ...
  std::string line;  // the deciding line, bounded to 400 bytes, escaped
  std::int64_t line_number = 0;
  std::string detail;  // "rank 3: tried 2.10 GiB, 0.4 GiB free"
  bool fatal = false;  // the run can't recover: fail fast

  bool operator==(const FailureSign&) const = default;
};

// What a progress bar shows, for dialects whose step lines carry neither number nor time.
struct ProgressSeen {
  std::int64_t number = 0;  // of the step that is done
  double ms = 0;            // a step, smoothed by the bar; 0: not shown
};

struct LogNews {
  std::vector<Step> steps;
  std::optional<std::map<std::string, std::string>> argument_block;  // once, when complete
  std::optional<MemorySeen> memory;                                  // when it grew
  // When a (better) sign is found. An empty cls takes the last one back: further steps outlived it.
  std::optional<FailureSign> failure;
  // Phases, once each: "world", "arguments", "model", "training", "exiting".
  std::vector<std::string> markers;
  std::vector<ProgressSeen> progress;
  std::string last_grad_norm;  // as printed, "nan" too; empty: none since the last Take
};

// One parser reads one stream (a rank's file, or what all ranks print together).
class LogParser {
 public:
  virtual ~LogParser() = default;
  // arrival_ms: of these bytes, since the stage's start; -1 unknown. A line has the stamp of the
  // bytes that end it.
  virtual void Feed(std::string_view bytes, std::int64_t arrival_ms) = 0;
  // The last line may lack its newline: now it counts as whole if it is complete by the grammar.
  virtual void Finish() = 0;
  // News since the last Take.
  virtual LogNews Take() = 0;
  // Problems by name, counted: "bad_utf8" 3, "duplicate_step" 1 (docs/formats/logs.md says what
  // each means). Names that begin with "healthy_" count lines that look bad and are not.
  virtual std::map<std::string, std::int64_t> Notes() const = 0;
};

// Error: an unknown dialect; a pattern that RE2 refuses, that has a group of a name we don't know,
// or that lacks the groups `step` and `loss` or `ms`.
Result<std::unique_ptr<LogParser>> MakeLogParser(const LogSpec& spec);
std::vector<std::string> LogDialects();  // words for LogSpec.dialect

// The dialect that the first bytes of a log (some hundred KiB) are in; empty: none that we know.
std::string DetectDialect(std::string_view first_bytes);

// How a run ended: one table over failure class, exit code, signal and the scheduler's word
// (control_plane.md section 0, launchers.md section 3). `asked`: we asked it to stop.
// steps_seen, steps_wanted: a clean exit with too few steps is a crash.
struct EndEvidence {
  std::optional<FailureSign> failure;
  std::optional<int> exit_code, signal;
  std::optional<RunEnd> scheduler;  // Observation.end_hint
  bool asked = false, limit_hit = false, hang_judged = false;
  // We asked because of `failure` itself (StopWhy::kFatalLine). Otherwise what ranks print while
  // they are being stopped (broken connections, signals) is not held against the run.
  bool asked_for_failure = false;
  int steps_seen = 0, steps_wanted = 0;
  bool progressing = false;  // at the limit: steps went on (too_slow), else hung
  std::string log_name;      // for "file:line"
};
EndDetail RunEndFor(const EndEvidence& evidence);
// The machine's fault and not the recipe's (a full disk, a port in use, a broken GPU): the run
// counts as crashed, its standing is `environment`.
bool IsInfra(std::string_view failure_class);

}  // namespace attune
