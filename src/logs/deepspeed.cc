// DeepSpeed's engine prints one step on two lines ("step=40, skipped=2, ..." and "0/40,
// SamplesPerSec=..., MaxMemAllocated=9.02GB") or on one of them only; its pipeline engine prints
// "steps: 10 loss: 2.5 iter time (s): 0.51". Skipped steps are a running total in the first form;
// in the second only the OVERFLOW lines before it tell of them.
#include <algorithm>
#include <cmath>
#include <string>

#include "attune/base/text.h"
#include "dialect.h"
#include "printed_number.h"

namespace attune {
namespace {

constexpr double kBytesPerGb = 1024.0 * 1024.0 * 1024.0;  // DeepSpeed's GB

class DeepSpeed final : public Dialect {
 public:
  bool Quick(const LogLine&, const StepBook&, StepLine&) override { return false; }

  bool Read(const LogLine& line, const LineHits&, StepBook& book, StepLine& out) override {
    if (!line.ended) {
      return false;
    }
    const std::string_view text = line.text;
    if (text.find("OVERFLOW!") != std::string_view::npos) {
      ++overflows_;
      return false;
    }
    StepLine found;
    const std::optional<std::int64_t> n = NumberOf(text, book, found);
    if (!n) {
      return false;
    }
    if (merging_ && *merging_ == *n) {
      return false;  // the other line of the same step
    }
    // A second run begins its total anew.
    if (book.last_iteration() && *n < *book.last_iteration()) {
      total_skipped_ = 0;
    }
    merging_ = n;
    found.step.iteration = *n;
    if (const std::string_view total = ValueOf(text, "skipped="); !total.empty()) {
      const std::int64_t skipped = ParseInt(total).value_or(total_skipped_);
      found.step.skipped =
          static_cast<int>(std::clamp<std::int64_t>(skipped - total_skipped_, 0, 1'000'000));
      total_skipped_ = skipped;
    } else {
      found.step.skipped = overflows_;
    }
    overflows_ = 0;
    out = std::move(found);
    return true;
  }

 private:
  static std::optional<std::int64_t> NumberOf(std::string_view text, StepBook& book,
                                              StepLine& out) {
    // The timer's line first: it holds no "step=".
    if (const std::size_t at = text.find("SamplesPerSec="); at != std::string_view::npos) {
      if (const std::string_view memory = ValueOf(text, "MaxMemAllocated="); !memory.empty()) {
        const std::optional<double> gb =
            ParseDouble(memory.substr(0, memory.find_first_not_of("0123456789.")));
        if (gb && *gb >= 0 && *gb < 1e5) {
          book.Saw({std::llround(*gb * kBytesPerGb), 0});
        }
      }
      // "... [timer.py:189:stop] 0/40, SamplesPerSec": micro-step within the step, then the step.
      const std::size_t comma = text.rfind(", ", at);
      const std::size_t slash = text.rfind('/', comma);
      if (comma == std::string_view::npos || slash == std::string_view::npos) {
        return std::nullopt;
      }
      return ParseInt(text.substr(slash + 1, comma - slash - 1));
    }
    if (const std::string_view n = ValueOf(text, "steps:"); !n.empty()) {
      const std::string_view seconds = ValueOf(text, "iter time (s):");
      const std::optional<double> s = ParseDouble(seconds);
      if (!s || *s <= 0 || *s > 1e6 || !UseLoss(out, "loss", ValueOf(text, "loss:"))) {
        return std::nullopt;
      }
      out.step.printed_ms = *s * 1000;
      return ParseInt(n);
    }
    if (text.find("lr=") == std::string_view::npos) {
      return std::nullopt;
    }
    std::string_view n = ValueOf(text, "step=");
    n = n.empty() ? ValueOf(text, "global_step=") : n;
    return ParseInt(n);
  }

  std::optional<std::int64_t> merging_;
  std::int64_t total_skipped_ = 0;
  int overflows_ = 0;
};

}  // namespace

std::unique_ptr<Dialect> MakeDeepSpeed() { return std::make_unique<DeepSpeed>(); }

}  // namespace attune
