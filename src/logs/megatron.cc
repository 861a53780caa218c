// Megatron-LM's and Megatron-Bridge's iteration and memory lines (training.py: training_log), and
// those of their forks. Fields come and go between versions, so a line is split on "|" and each
// field on its last ": ".
#include <cmath>
#include <string>

#include "attune/base/text.h"
#include "dialect.h"
#include "printed_number.h"

namespace attune {
namespace {

constexpr double kLongestStepMs = 1e9;  // eleven days
constexpr std::size_t kMostLosses = 32;
constexpr std::size_t kLongestKey = 64;
constexpr double kBytesPerMb = 1024.0 * 1024.0;  // Megatron's report_memory

// Losses that are added to the main one. A line that prints only these lacks its main loss.
bool IsSideLoss(std::string_view key) {
  return key.ends_with("balancing_loss") || key.ends_with("z_loss") || key.starts_with("mtp_");
}

struct Field {
  std::string_view key, value;
};

// "lm loss: 4.47E+00"; false when there is no ": ". From the end, where the value is short; a
// string's rfind would compare at every place.
bool SplitField(std::string_view field, Field& out) {
  for (std::size_t i = field.size(); i-- > 1;) {
    if (field[i] == ' ' && field[i - 1] == ':') {
      out = {Trim(field.substr(0, i - 1)), Trim(field.substr(i + 1))};
      return true;
    }
  }
  return false;
}

struct Iteration {
  StepLine line;
  bool has_elapsed = false, has_main_loss = false, has_skipped = false, not_finite = false;
  std::optional<std::int64_t> nan_count;
};

// False: a value that this field cannot have, so the line is not what it seems.
bool UseField(const Field& f, Iteration& it) {
  Step& step = it.line.step;
  if (f.key == "elapsed time per iteration (ms)") {
    const std::optional<double> ms = ParseDouble(f.value);
    if (it.has_elapsed || !ms || *ms <= 0 || *ms > kLongestStepMs) {
      return false;
    }
    it.has_elapsed = true;
    step.printed_ms = *ms;
  } else if (f.key.ends_with("loss")) {
    if (f.key.size() > kLongestKey || step.losses.size() >= kMostLosses) {
      return false;
    }
    it.has_main_loss = it.has_main_loss || !IsSideLoss(f.key);
    if (IsNotFinite(f.value)) {
      it.not_finite = true;
    } else if (const std::optional<double> loss = ParseDouble(f.value)) {
      step.losses.emplace(f.key, *loss);
    } else {
      return false;
    }
  } else if (f.key == "grad norm") {
    step.grad_norm = ParseDouble(f.value);
    it.not_finite = it.not_finite || IsNotFinite(f.value);
    if (!step.grad_norm && !IsNotFinite(f.value)) {
      return false;
    }
    it.line.grad_norm = std::string(f.value);
  } else if (f.key == "learning rate") {
    step.learning_rate = ParseDouble(f.value);
  } else if (f.key == "global batch size") {
    step.global_batch = ParseInt(f.value);
  } else if (f.key == "consumed samples") {
    step.consumed_samples = ParseInt(f.value);
  } else if (f.key == "number of skipped iterations") {
    const std::optional<std::int64_t> n = ParseInt(f.value);
    if (!n || *n < 0 || *n > 1'000'000) {
      return false;
    }
    it.has_skipped = true;
    step.skipped = static_cast<int>(*n);
  } else if (f.key == "number of nan iterations") {
    const std::optional<std::int64_t> n = ParseInt(f.value);
    if (!n || *n < 0) {
      return false;
    }
    it.nan_count = n;
  }
  return true;
}

// " 12/ 50 |" behind the word "iteration".
bool TakeNumbers(std::string_view& rest, std::int64_t& iteration) {
  SkipSpaces(rest);
  const std::optional<std::int64_t> n = TakeNumber(rest);
  SkipSpaces(rest);
  if (!n || !TakeLiteral(rest, "/")) {
    return false;
  }
  SkipSpaces(rest);
  if (!TakeNumber(rest)) {
    return false;
  }
  SkipSpaces(rest);
  iteration = *n;
  return TakeLiteral(rest, "|");
}

// `ended`: the line's newline was seen.
bool ReadIteration(std::string_view text, bool ended, const StepBook& book, StepLine& out) {
  Iteration it;
  if (!TakeLiteral(text, "iteration") || !TakeNumbers(text, it.line.step.iteration)) {
    return false;
  }
  // Every line ends with " |": one that doesn't was cut, by the end of the log or by another rank.
  text = text.substr(0, text.find_last_not_of(" \t") + 1);
  if (!text.ends_with('|')) {
    return false;
  }
  text.remove_suffix(1);
  while (!text.empty()) {
    const std::size_t bar = text.find('|');
    Field field;
    if (SplitField(text.substr(0, bar), field) && !UseField(field, it)) {
      return false;
    }
    text.remove_prefix(bar == std::string_view::npos ? text.size() : bar + 1);
  }
  // The nan counter is the last field that matters: without the newline it alone tells that the
  // line is whole.
  if (!it.has_elapsed || (!ended && !it.nan_count)) {
    return false;
  }
  // A loss is printed only when its mean is >= 0, which NaN is not: then the field is missing, and
  // the nan counter stays 0 unless the step was skipped too. With every iteration of the interval
  // skipped there is nothing to print, and nothing wrong (log_formats, details 2).
  Step& step = it.line.step;
  const std::optional<std::int64_t> last = book.last_iteration();
  const std::int64_t interval = last && *last < step.iteration ? step.iteration - *last : 0;
  const bool advanced = step.skipped == 0 || (interval > 0 && step.skipped < interval);
  step.nan = it.not_finite || it.nan_count.value_or(0) > 0 ||
             (it.has_skipped && !it.has_main_loss && advanced);
  out = std::move(it.line);
  return true;
}

// "[Rank 0] (after 10 iterations) memory (MB) | allocated: 1.5 | max allocated: 2 | ..."
std::optional<MemorySeen> ReadMemory(std::string_view text) {
  std::string_view rest = text;
  if (!TakeLiteral(rest, "[Rank ") || !TakeNumber(rest) || !TakeLiteral(rest, "]")) {
    return std::nullopt;
  }
  rest = text.substr(std::min(text.find('|'), text.size()));
  MemorySeen seen;
  for (const std::string_view part : Split(rest, '|')) {
    Field f;
    if (!SplitField(part, f)) {
      continue;
    }
    const std::optional<double> mb = ParseDouble(f.value);
    if (!mb || *mb < 0 || *mb > 1e8) {
      return std::nullopt;
    }
    const auto bytes = static_cast<std::int64_t>(std::llround(*mb * kBytesPerMb));
    if (f.key == "max allocated") {
      seen.max_allocated = bytes;
    } else if (f.key == "max reserved") {
      seen.max_reserved = bytes;
    }
  }
  return seen;
}

class Megatron final : public Dialect {
 public:
  bool Quick(const LogLine& line, const StepBook& book, StepLine& out) override {
    return line.text.starts_with("iteration") && ReadIteration(line.text, line.ended, book, out);
  }

  bool Read(const LogLine& line, const LineHits& hits, StepBook& book, StepLine& out) override {
    if (hits.Has(Mark::kMemory)) {
      if (const std::optional<MemorySeen> seen = ReadMemory(line.text)) {
        book.Saw(*seen);
      } else {
        ++book.notes()["odd_memory_line"];
      }
    }
    if (hits.Has(Mark::kSaving) || hits.Has(Mark::kSaved) || hits.Has(Mark::kEvaluating) ||
        hits.Has(Mark::kTraceDone)) {
      book.CutNext();
    }
    if (hits.Has(Mark::kCaptureStart) || hits.Has(Mark::kCaptureEnd)) {
      book.CutWhile(hits.Has(Mark::kCaptureStart));
    }
    if (hits.Has(Mark::kIteration) && hits.Has(Mark::kElapsed)) {
      return ReadInside(line, book, out);
    }
    return false;
  }

 private:
  // The iteration line behind something that is no prefix we know: a progress bar's rest, another
  // rank's words without their newline.
  static bool ReadInside(const LogLine& line, StepBook& book, StepLine& out) {
    constexpr std::string_view kWord = "iteration";
    const std::size_t at = line.text.find(kWord);
    if (at != 0 && ReadIteration(line.text.substr(at), line.ended, book, out)) {
      return true;
    }
    ++book.notes()["odd_iteration_line"];
    return false;
  }
};

}  // namespace

std::unique_ptr<Dialect> MakeMegatron() { return std::make_unique<Megatron>(); }

}  // namespace attune
