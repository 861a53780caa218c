// Frameworks that print Python dictionaries: Hugging Face's Trainer, one a logging step and without
// a number, which its progress bar has; slime, "perf R: {...}" a rollout and "step N: {...}" a
// training step, which terminals and Ray wrap over lines. Line forms: log_formats, field map.
#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <utility>

#include "attune/base/text.h"
#include "dialect.h"
#include "printed_number.h"

namespace attune {
namespace {

constexpr double kBytesPerMb = 1024.0 * 1024.0;
constexpr std::size_t kMostRecord = std::size_t{64} << 10;  // a record that is longer is none

// The value behind 'key': in a printed dictionary, without the quotes it may have; empty when the
// key is not there.
std::string_view DictValue(std::string_view dict, std::string_view quoted_key) {
  const std::size_t at = dict.find(quoted_key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = dict.substr(at + quoted_key.size());
  if (!TakeLiteral(rest, ":")) return {};
  SkipSpaces(rest);
  std::string_view value = Trim(TakeUntil(rest, ",}"));
  if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'') {
    value = value.substr(1, value.size() - 2);
  }
  return value;
}

std::int64_t Megabytes(std::string_view value) {
  const std::optional<double> mb = ParseDouble(value);
  return mb && *mb >= 0 && *mb < 1e9 ? std::llround(*mb * kBytesPerMb) : 0;
}

// {'loss': 1.5214, 'grad_norm': 82.9, 'learning_rate': 1.4e-06, 'epoch': 0.01}
//   1%|          | 10/1752 [00:29<1:22:01,  2.83s/it]
class HfTrainer final : public Dialect {
 public:
  bool Quick(const LogLine&, const StepBook&, StepLine&) override { return false; }

  bool Read(const LogLine& line, const LineHits&, StepBook& book, StepLine& out) override {
    if (ReadBar(line.text, book)) return false;
    // A bar that was not ended by a carriage return stands in front of the dictionary.
    const std::size_t at = line.text.rfind("{'");
    if (at == std::string_view::npos || !line.text.ends_with('}') || !line.ended) return false;
    const std::string_view dict = line.text.substr(at);
    if (at > 0) (void)ReadBar(line.text.substr(0, at), book);
    if (dict.find("'eval_") != std::string_view::npos) {
      book.CutNext();
      return false;
    }
    const std::string_view loss = DictValue(dict, "'loss'");
    // The summary at the end has 'train_loss' and 'train_runtime'.
    if (loss.empty()) return false;
    StepLine found;
    const std::string_view grad = DictValue(dict, "'grad_norm'");
    if (!UseLoss(found, "loss", loss) || (!grad.empty() && !UseGradNorm(found, grad))) {
      ++book.notes()["odd_step_line"];
      return false;
    }
    // Logged each step, the dictionaries count themselves; a bar knows better.
    const std::int64_t next = book.last_iteration().value_or(0) + 1;
    found.step.iteration = std::max(next, bar_);
    found.step.learning_rate = ParseDouble(DictValue(dict, "'learning_rate'"));
    book.Saw({Megabytes(DictValue(dict, "'total_peak_memory_allocated_MB'")),
              Megabytes(DictValue(dict, "'total_peak_memory_reserved_MB'"))});
    out = std::move(found);
    return true;
  }

 private:
  // Bars with a name in front ("Map: 100%|") and bars of another length (evaluations) are not the
  // training's.
  bool ReadBar(std::string_view text, StepBook& book) {
    text = Trim(text);
    if (!TakeNumber(text) || !TakeLiteral(text, "%|")) return false;
    const std::size_t end = text.find("| ");
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 2);
    const std::optional<std::int64_t> n = TakeNumber(text);
    if (!n || !TakeLiteral(text, "/")) return false;
    const std::optional<std::int64_t> total = TakeNumber(text);
    if (!total || !TakeLiteral(text, " [")) return false;
    if (total_ == 0) total_ = *total;
    if (*total != total_ || *n <= bar_) return true;
    bar_ = *n;
    book.SawProgress({*n, SecondsAStep(text) * 1000});
    return true;
  }

  // "00:29<1:22:01,  2.83s/it]" or "...,  7.50it/s]"; 0: not known.
  static double SecondsAStep(std::string_view text) {
    const std::size_t comma = text.rfind(',');
    if (comma == std::string_view::npos) return 0;
    std::string_view rate = text.substr(comma + 1);
    SkipSpaces(rate);
    const std::string_view digits = rate.substr(0, rate.find_first_not_of("0123456789."));
    const std::optional<double> value = ParseDouble(digits);
    rate.remove_prefix(digits.size());
    if (!value || *value <= 0 || *value > 1e6) return 0;
    if (rate.starts_with("s/it")) return *value;
    return rate.starts_with("it/s") ? 1 / *value : 0;
  }

  std::int64_t bar_ = 0, total_ = 0;
};

// "... - perf 2: {'perf/step_time': 14.18, ...}" and "... - step 4: {'train/loss': 0.1, ...}". A
// rollout is the step that is timed: the losses are those of its last training step. Records are
// collected until they close; one that is cut off still is a step, without a time.
class Slime final : public Dialect {
 public:
  bool Quick(const LogLine&, const StepBook&, StepLine&) override { return false; }

  bool Read(const LogLine& line, const LineHits&, StepBook& book, StepLine& out) override {
    std::string_view text = line.text;
    if (const std::size_t at = RecordAt(text); at != std::string_view::npos) {
      Close(book);  // the record before was cut off
      text.remove_prefix(at);
      perf_ = text.starts_with("perf ");
      text.remove_prefix(5);
      number_ = *TakeNumber(text);
      open_ = true;
      record_.clear();
    } else {
      text = line.whole;
    }
    if (open_ && record_.size() + text.size() > kMostRecord) {
      open_ = false;
      ++book.notes()["odd_step_line"];
    }
    if (open_) record_ += text;
    if (open_ && Trim(record_).ends_with('}')) Close(book);
    return TakeReady(out);
  }

  bool AtEnd(StepBook& book, StepLine& out) override {
    Close(book);
    // A training step whose rollout did not end.
    if (losses_) ready_.push_back(*std::exchange(losses_, std::nullopt));
    return TakeReady(out);
  }

 private:
  // Where "perf N: {" or "step N: {" begins.
  static std::size_t RecordAt(std::string_view text) {
    for (const std::string_view word : {"perf ", "step "}) {
      for (std::size_t at = text.find(word); at != std::string_view::npos;
           at = text.find(word, at + 1)) {
        std::string_view rest = text.substr(at + word.size());
        if ((at == 0 || text[at - 1] == ' ') && TakeNumber(rest) && TakeLiteral(rest, ": {")) {
          return at;
        }
      }
    }
    return std::string_view::npos;
  }

  // Uses the open record, if any.
  void Close(StepBook& book) {
    if (!std::exchange(open_, false)) return;
    StepLine found;
    if (!perf_) {
      const std::string_view loss = DictValue(record_, "'train/loss'");
      const std::string_view grad = DictValue(record_, "'train/grad_norm'");
      found.step.iteration = number_;
      if (loss.empty() || !UseLoss(found, "train/loss", loss) ||
          (!grad.empty() && !UseGradNorm(found, grad))) {
        ++book.notes()["odd_step_line"];
        return;
      }
      losses_ = std::move(found);
      return;
    }
    found = std::exchange(losses_, std::nullopt).value_or(StepLine{});
    found.step.iteration = number_;
    const std::optional<double> seconds = ParseDouble(DictValue(record_, "'perf/step_time'"));
    // As precise as other frameworks print it.
    if (seconds && *seconds > 0 && *seconds < 1e6) {
      found.step.printed_ms = std::round(*seconds * 1e4) / 10;
    }
    ready_.push_back(std::move(found));
  }

  bool TakeReady(StepLine& out) {
    if (ready_.empty()) return false;
    out = std::move(ready_.front());
    ready_.pop_front();
    return true;
  }

  bool open_ = false, perf_ = false;
  std::int64_t number_ = 0;
  std::string record_;
  std::optional<StepLine> losses_;  // of the training step seen last
  std::deque<StepLine> ready_;      // steps that are found; a line gives at most one
};

}  // namespace

std::unique_ptr<Dialect> MakeHfTrainer() { return std::make_unique<HfTrainer>(); }
std::unique_ptr<Dialect> MakeSlime() { return std::make_unique<Slime>(); }

}  // namespace attune
