#include "failure_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "attune/base/text.h"
#include "failure_detail.h"

namespace attune {
namespace {

using enum FailureClass;
using enum Strength;

constexpr std::size_t kEvidenceBytes = 400;
// Bounds for what one hostile log can make us keep.
constexpr std::size_t kMostSources = 1024;
constexpr std::size_t kMostRanks = 4096;
// A traceback is printed in one go; a frame further back belongs to something else.
constexpr std::int64_t kTraceReach = 2000;
constexpr std::int64_t kFrameReach = 40;
constexpr int kReportLines = 400;

// Functions in which Megatron-LM and Megatron-Bridge refuse a combination of arguments
// (log_formats, row config_rejected): argument validation, parallel set-up, layer partition,
// schedule construction.
constexpr std::string_view kRefusingFrames[] = {
    "validate_args",
    "validate",
    "_validate_args",
    "parse_args",
    "parse_and_validate_args",
    "__post_init__",
    "finalize",
    "core_transformer_config_from_args",
    "initialize_model_parallel",
    "get_num_layers_to_build",
    "get_transformer_layer_offset",
    "get_forward_backward_func",
    "get_pp_rank_microbatches",
    "get_schedule_table",
    "forward_backward_pipelining_with_interleaving",
    "forward_backward_pipelining_without_interleaving",
    "init_num_microbatches_calculator",
    "build_num_microbatches_calculator",
};

// Libraries without which this stack cannot do what the arguments ask for.
constexpr std::string_view kStackLibraries[] = {
    "deep_ep",
    "hybrid_ep",
    "transformer_engine",
    "apex",
    "flash_attn",
    "nvshmem",
    "mpi4py",
    "grouped_gemm",
    "mamba_ssm",
    "causal_conv1d",
    "flashinfer",
    "megatron",
    "amp_C",
    "nvidia_resiliency_ext",
    "fused_",
    "pydantic_core",
};

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

// "torch.cuda.OutOfMemoryError: text" at the start of a line -> "OutOfMemoryError"; empty: no
// exception's last line. "RuntimeError(...)" is a repr inside some other message.
std::string_view ExceptionName(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  std::size_t n = 0;
  while (n < text.size() && n < kLongest && IsNameByte(text[n])) {
    ++n;
  }
  const std::string_view name = text.substr(0, n);
  if (n < text.size() && text[n] != ':') {
    return {};
  }
  if (!name.ends_with("Error") && !name.ends_with("Exception")) {
    return {};
  }
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// Exceptions that only say that another process raised one.
bool IsWrapper(std::string_view exception) {
  return exception == "ChildFailedError" || exception == "RayTaskError" ||
         exception == "ProcessRaisedException" || exception == "ProcessExitedException" ||
         exception == "CalledProcessError";
}

// `File "x.py", line 561, in validate_args` -> "validate_args".
std::string_view FrameFunction(std::string_view text) {
  constexpr std::string_view kLine = "\", line ";
  const std::size_t at = text.rfind(kLine);
  if (at == std::string_view::npos) {
    return {};
  }
  std::string_view rest = text.substr(at + kLine.size());
  if (!TakeNumber(rest) || !TakeLiteral(rest, ", in ")) {
    return {};
  }
  std::size_t n = 0;
  while (n < rest.size() && n < 120 && (IsNameByte(rest[n]) || rest[n] == '<' || rest[n] == '>')) {
    ++n;
  }
  return rest.substr(0, n);
}

// The signed number behind `key` and any of " :=(" ; nullopt when there is none.
std::optional<int> SignedAfter(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(at + key.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" :=("), rest.size()));
  const bool negative = TakeLiteral(rest, "-");
  const std::optional<std::int64_t> n = TakeNumber(rest);
  if (!n || *n > 100'000) {
    return std::nullopt;
  }
  return static_cast<int>(negative ? -*n : *n);
}

// As a shell or Python reports an exit: 128+N and -N are signals.
std::optional<LineVerdict> VerdictForExit(int code) {
  if (code < 0) {
    return VerdictForSignal(-code);
  }
  if (code > 128 && code < 128 + 65) {
    return VerdictForSignal(code - 128);
  }
  if (code == 0) {
    return std::nullopt;
  }
  return LineVerdict{kUnknown, kHint, false};
}

// What a process prints because others of its job ran out of memory.
bool IsEchoOfOom(FailureClass c) {
  return c == kHang || c == kCrashSignal || c == kCudaError || c == kNetwork ||
         c == kPythonException || c == kUnknown;
}

}  // namespace

void FailureWatch::OnLine(const LogLine& line, const LineHits& hits) {
  if (report_ != Report::kNone && InReport(line, hits)) {
    return;
  }
  if (hits.set.empty()) {
    return;
  }
  if (const std::string_view benign = MatchBenign(hits); !benign.empty()) {
    ++benign_["healthy_" + std::string(benign)];
    return;
  }
  if (hits.Has(Mark::kChildFailed) || hits.Has(Mark::kRootCause)) {
    report_ = hits.Has(Mark::kRootCause) ? Report::kRoot : Report::kOthers;
    report_lines_ = 0;
  }
  if (OnTrace(line, hits)) {
    return;
  }
  const std::optional<LineVerdict> verdict = VerdictOf(line, hits);
  if (hits.Has(Mark::kError) || hits.Has(Mark::kExcept)) {
    const std::string_view name = ExceptionName(line.text);
    // "Error: text" is how many tools speak; it ends a traceback or it is none.
    const bool bare = name == "Error" || name == "Exception";
    if (!name.empty() && (!bare || OpenTrace(line) != nullptr)) {
      OnConclusion(line, name, verdict);
      return;
    }
  }
  if (verdict) {
    Add(line, *verdict, line.number, FailureDetail(verdict->cls, line));
  }
}

// torchrun's report: one block a failed rank, the root cause last. Of the others only native
// crashes are remembered, and weakly: most of them died because the first one did.
bool FailureWatch::InReport(const LogLine& line, const LineHits& hits) {
  if (++report_lines_ > kReportLines) {
    report_ = Report::kNone;
    return false;
  }
  if (hits.Has(Mark::kRootCause)) {
    report_ = Report::kRoot;
    reading_root_ = true;
    return true;
  }
  const bool root = report_ == Report::kRoot;
  if (root && line.text.starts_with("=====")) {
    report_ = Report::kNone;
    return true;
  }
  if (root && line.text.starts_with("rank ")) {
    root_rank_ = SignedAfter(line.text, "rank");
    Choose();
    return true;
  }
  const bool exits = hits.Has(Mark::kExitCode) && line.text.starts_with("exitcode");
  const bool signalled = hits.Has(Mark::kReceivedBy) && line.text.starts_with("traceback");
  if (exits || signalled) {
    const std::optional<int> n = SignedAfter(line.text, exits ? "exitcode" : "Signal ");
    std::optional<LineVerdict> verdict;
    if (n) {
      verdict = exits ? VerdictForExit(*n) : VerdictForSignal(*n);
    }
    if (verdict && verdict->cls == kUnknown) {
      // torchrun starts Python programs: exit code 1 without a traceback is still an exception
      // whose text went elsewhere.
      verdict = LineVerdict{kPythonException, kProvisional, false};
    }
    if (verdict && (root || verdict->cls != kPythonException)) {
      if (root && !root_) {
        root_ = Sign{verdict->cls, verdict->strength, line.number, steps_, {}};
      }
      verdict->strength = root ? verdict->strength : kProvisional;
      Add(line, *verdict, line.number,
          root && root_rank_ ? fmt::format("rank {} failed first", *root_rank_) : std::string());
    }
    return true;
  }
  // Everything else in the report is layout, unless something new begins.
  return !hits.Has(Mark::kTraceback) && !MatchSignature(hits);
}

// A traceback counts from its first line. Provisional until its last line says what it is about.
bool FailureWatch::OnTrace(const LogLine& line, const LineHits& hits) {
  if (hits.Has(Mark::kTraceback)) {
    if (Trace* trace = TraceOf(line.source)) {
      // "During handling of the above exception" : the chain began with the first.
      if (!trace->open || line.number - trace->last > kTraceReach) {
        *trace = Trace{true, line.number, line.number, {}};
      }
      trace->last = line.number;
    }
    Add(line, {kPythonException, kProvisional, false}, line.number, FailureDetail(kUnknown, line));
    return true;
  }
  if (hits.Has(Mark::kFrame)) {
    const std::string_view function = FrameFunction(line.text);
    if (Trace* trace = function.empty() ? nullptr : TraceOf(line.source)) {
      trace->frames[1] = std::move(trace->frames[0]);
      trace->frames[0] = std::string(function);
      trace->last = line.number;
      return true;
    }
  }
  return false;
}

void FailureWatch::OnConclusion(const LogLine& line, std::string_view exception,
                                const std::optional<LineVerdict>& verdict) {
  Trace* const trace = OpenTrace(line);
  const bool open = trace != nullptr;
  const std::int64_t place = open ? trace->begin : line.number;

  LineVerdict v{kPythonException, open ? kFirm : kProvisional, false};
  if (IsWrapper(exception)) {
    v.strength = exception == "ChildFailedError" ? kHint : kProvisional;
    // The wrapper's own traceback says nothing either.
    std::optional<Sign>& begun = SlotOf(kPythonException, kProvisional);
    if (open && begun && begun->place == place) {
      begun.reset();
    }
  }
  const bool may_refuse = exception == "AssertionError" || exception == "ValueError" ||
                          exception == "RuntimeError" || exception == "NotImplementedError";
  const bool refused = may_refuse && steps_ == 0 && FramesRefuseConfig(line.source, line.number);
  if (verdict && verdict->strength == kFirm &&
      (!refused || verdict->cls < kConfigRejected || verdict->cls == kNan)) {
    v = *verdict;
  } else if (refused) {
    v = {kConfigRejected, kFirm, true};
  } else if (exception == "ImportError" || exception == "ModuleNotFoundError" ||
             line.text.find("not installed") != std::string_view::npos) {
    const bool ours = line.text.find("not installed") != std::string_view::npos ||
                      std::any_of(std::begin(kStackLibraries), std::end(kStackLibraries),
                                  [&line](std::string_view library) {
                                    return line.text.find(library) != std::string_view::npos;
                                  });
    if (ours) {
      v = {kInitFailure, v.strength, open};
    }
  } else if (verdict && !IsWrapper(exception)) {
    v = *verdict;
  }
  Add(line, v, place, FailureDetail(v.cls, line));
  if (open) {
    *trace = Trace{};
  }
}

std::optional<LineVerdict> FailureWatch::VerdictOf(const LogLine& line,
                                                   const LineHits& hits) const {
  // Signals first: "Caught signal 7 (Bus error" is a crash, "Bus error" alone the machine's.
  if (hits.Has(Mark::kCaughtSignal)) {
    const std::optional<int> n = SignedAfter(line.text, "Caught signal ");
    return n ? VerdictForSignal(*n) : std::nullopt;
  }
  if (hits.Has(Mark::kReceivedBy)) {
    const std::optional<int> n = SignedAfter(line.text, "Signal ");
    return n ? VerdictForSignal(*n) : std::nullopt;
  }
  if (hits.Has(Mark::kExited)) {
    const std::optional<int> n = SignedAfter(line.text, "xited with exit code");
    return n ? VerdictForExit(*n) : std::nullopt;
  }
  if (const std::optional<LineVerdict> verdict = MatchSignature(hits)) {
    return verdict;
  }
  if (hits.Has(Mark::kExitCode)) {
    const std::optional<int> n = SignedAfter(line.text, "exitcode");
    return n ? VerdictForExit(*n) : std::nullopt;
  }
  return std::nullopt;
}

bool FailureWatch::FramesRefuseConfig(std::int64_t source, std::int64_t line_number) const {
  // Frames of a source whose first lines lost their prefix are filed under "no prefix".
  for (const std::int64_t s : {source, std::int64_t{0}}) {
    const auto found = traces_.find(s);
    if (found == traces_.end() || line_number - found->second.last > kFrameReach) {
      continue;
    }
    for (const std::string& frame : found->second.frames) {
      if (std::find(std::begin(kRefusingFrames), std::end(kRefusingFrames), frame) !=
          std::end(kRefusingFrames)) {
        return true;
      }
    }
  }
  return false;
}

std::optional<FailureWatch::Sign>& FailureWatch::SlotOf(FailureClass cls, Strength strength) {
  return signs_[static_cast<std::size_t>(cls)][static_cast<std::size_t>(strength)];
}

FailureWatch::Trace* FailureWatch::OpenTrace(const LogLine& line) {
  const auto found = traces_.find(line.source);
  if (found == traces_.end() || !found->second.open ||
      line.number - found->second.last > kTraceReach) {
    return nullptr;
  }
  return &found->second;
}

FailureWatch::Trace* FailureWatch::TraceOf(std::int64_t source) {
  if (traces_.size() >= kMostSources && traces_.count(source) == 0) {
    return nullptr;
  }
  return &traces_[source];
}

void FailureWatch::Add(const LogLine& line, LineVerdict verdict, std::int64_t place,
                       std::string detail) {
  Sign sign{verdict.cls, verdict.strength, place, steps_, {}};
  sign.shown.cls = std::string(Word(verdict.cls));
  sign.shown.line = EscapeForDisplay(Trim(line.whole), kEvidenceBytes);
  sign.shown.line_number = line.number;
  sign.shown.detail = std::move(detail);
  sign.shown.fatal = verdict.fatal;
  if (line.rank && (by_rank_.size() < kMostRanks || by_rank_.count(*line.rank) != 0)) {
    const auto [at, fresh] = by_rank_.try_emplace(*line.rank, sign);
    // The exception's last line stands for its traceback's first.
    if (!fresh && (sign.place < at->second.place ||
                   (sign.place == at->second.place && sign.strength > at->second.strength))) {
      at->second = sign;
    }
  }
  std::optional<Sign>& slot = SlotOf(sign.cls, sign.strength);
  if (!slot || Outlived(*slot) || sign.place < slot->place) {
    slot = std::move(sign);
    Choose();
  } else if (sign.shown.fatal && !slot->shown.fatal) {
    slot->shown.fatal = true;
    Choose();
  }
}

void FailureWatch::OnStep(const LogLine& line, std::int64_t iteration, bool nan) {
  ++steps_;
  nan_in_a_row_ = nan ? nan_in_a_row_ + 1 : 0;
  if (nan) {
    // One NaN step voids a run; two in a row don't heal.
    Add(line, {kNan, kFirm, nan_in_a_row_ > 1}, line.number,
        fmt::format("iteration {}", iteration));
  }
  if (cause_ && cause_->cls != Word(kNan)) {
    Choose();
  }
}

bool FailureWatch::Outlived(const Sign& sign) const {
  return sign.cls != kNan && steps_ - sign.steps >= kOutlivingSteps;
}

void FailureWatch::Choose() {
  std::array<std::vector<const Sign*>, kStrengths> by_strength;
  for (const auto& row : signs_) {
    for (const std::optional<Sign>& sign : row) {
      if (sign && !Outlived(*sign)) {
        by_strength[static_cast<std::size_t>(sign->strength)].push_back(&*sign);
      }
    }
  }
  // Signs of one place (a traceback's first and last line) stay in the order of the table.
  const auto earlier = [](const Sign* a, const Sign* b) { return a->place < b->place; };
  for (auto& signs : by_strength) {
    std::stable_sort(signs.begin(), signs.end(), earlier);
  }
  const auto first = [&by_strength](Strength s) -> const Sign* {
    const auto& signs = by_strength[static_cast<std::size_t>(s)];
    return signs.empty() ? nullptr : signs.front();
  };
  const auto first_oom = [&by_strength](Strength s) -> const Sign* {
    for (const Sign* sign : by_strength[static_cast<std::size_t>(s)]) {
      if (sign->cls == kOomGpu || sign->cls == kOomHost) return sign;
    }
    return nullptr;
  };

  const Sign* cause = nullptr;
  for (const Strength s : {kFirm, kProvisional, kWarning, kHint}) {
    cause = first(s);
    if (const Sign* oom = first_oom(s); oom != nullptr && IsEchoOfOom(cause->cls)) {
      cause = oom;
    }
    if (cause != nullptr) break;
  }
  if (root_rank_ && cause != nullptr && cause->cls != kOomGpu && cause->cls != kOomHost) {
    const auto own = by_rank_.find(*root_rank_);
    if (own != by_rank_.end() && own->second.strength == kFirm && !Outlived(own->second)) {
      cause = &own->second;
    } else if (root_ && root_->strength == kFirm && IsEchoOfOom(cause->cls)) {
      // The root rank printed nothing: a native crash, named by the report alone.
      for (const Sign* sign : by_strength[static_cast<std::size_t>(kFirm)]) {
        if (sign->place == root_->place) cause = sign;
      }
    }
  }
  if (cause != nullptr && cause->cls == kCancelled) {
    for (const Strength s : {kProvisional, kHint}) {
      if (const Sign* before = first(s); before != nullptr && before->place < cause->place) {
        cause = before;
        break;
      }
    }
  }
  if (cause == nullptr && cause_ && !cause_->cls.empty()) {
    ++outlived_;
  }
  cause_ = cause == nullptr ? std::nullopt : std::optional(cause->shown);
}

}  // namespace attune
