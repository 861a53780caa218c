// Finds why a run failed from its lines as they come: the first cause, not the last echo.
//
// Every line gives at most one sign: a class, a strength and a place. A sign's place is where its
// trouble began (a traceback counts from its first line, though its class stands in its last). Of
// all signs the earliest of the strongest kind is the cause, with these exceptions:
//  - out of memory is preferred to what its victims print (NCCL, watchdog, signals, exceptions);
//  - torchrun's report names the rank that failed first: that rank's own first error is the cause;
//  - a cancellation after anything else that ended badly is srun cleaning up;
//  - a sign that further steps outlive was no failure (NaN excepted).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "attune/logs/log_parser.h"
#include "failure_rules.h"
#include "line_text.h"

namespace attune {

class FailureWatch {
 public:
  // Steps that may still be printed after the first rank has failed: the last rank of a pipeline
  // is behind. This many are proof of life.
  static constexpr std::int64_t kOutlivingSteps = 3;

  void OnLine(const LogLine& line, const LineHits& hits);
  // A step was printed in `line`; `nan` by the missing-loss rule too.
  void OnStep(const LogLine& line, std::int64_t iteration, bool nan);

  // Lines that hold no literal matter too: inside torchrun's report.
  bool listening() const { return report_ != Report::kNone; }
  // The cause as it looks now. nullopt: none.
  const std::optional<FailureSign>& cause() const { return cause_; }
  std::int64_t outlived() const { return outlived_; }
  const std::map<std::string, std::int64_t>& benign() const { return benign_; }

 private:
  struct Sign {
    FailureClass cls = FailureClass::kUnknown;
    Strength strength = Strength::kFirm;
    std::int64_t place = 0;  // line number where the trouble began
    std::int64_t steps = 0;  // seen until then
    FailureSign shown;
  };
  struct Trace {  // the traceback that one source is printing
    bool open = false;
    std::int64_t begin = 0, last = 0;   // line numbers
    std::array<std::string, 2> frames;  // innermost first
  };
  enum class Report { kNone, kOthers, kRoot };  // where in torchrun's report we are

  bool InReport(const LogLine& line, const LineHits& hits);
  bool OnTrace(const LogLine& line, const LineHits& hits);
  void OnConclusion(const LogLine& line, std::string_view exception,
                    const std::optional<LineVerdict>& verdict);
  std::optional<LineVerdict> VerdictOf(const LogLine& line, const LineHits& hits) const;
  bool FramesRefuseConfig(std::int64_t source, std::int64_t line_number) const;
  Trace* TraceOf(std::int64_t source);
  Trace* OpenTrace(const LogLine& line);
  std::optional<Sign>& SlotOf(FailureClass cls, Strength strength);
  void Add(const LogLine& line, LineVerdict verdict, std::int64_t place, std::string detail);
  bool Outlived(const Sign& sign) const;
  void Choose();

  std::int64_t steps_ = 0;
  int nan_in_a_row_ = 0;
  // The earliest of each class and strength: all that a choice can need, whatever the log prints.
  std::array<std::array<std::optional<Sign>, kStrengths>, kFailureClasses> signs_;
  std::map<int, Sign> by_rank_;
  std::map<std::int64_t, Trace> traces_;
  Report report_ = Report::kNone;
  int report_lines_ = 0;
  std::optional<int> root_rank_;
  std::optional<Sign> root_;  // what the report itself says of the root rank
  bool reading_root_ = false;
  std::optional<FailureSign> cause_;
  std::int64_t outlived_ = 0;
  std::map<std::string, std::int64_t> benign_;
};

}  // namespace attune
