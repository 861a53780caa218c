// Frameworks that print a step on one line as keys with values: torchtitan, NeMo AutoModel's
// training recipe, verl, torchtune. None of them but verl prints a step time: it is the arrival
// stamps that tell it. Line forms: log_formats, field map.
#include <algorithm>
#include <cmath>
#include <string>

#include "attune/base/text.h"
#include "dialect.h"
#include "printed_number.h"

namespace attune {
namespace {

constexpr double kBytesPerGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kMostGiB = 1e5;

// "9.46" of "9.46GiB(64.99%)" or of "24.90 GiB".
std::optional<double> LeadingNumber(std::string_view s) {
  const std::size_t n = std::min(s.find_first_not_of("0123456789."), s.size());
  return ParseDouble(s.substr(0, n));
}

void SawGiB(StepBook& book, std::optional<double> allocated, std::optional<double> reserved) {
  const auto bytes = [](std::optional<double> gib) {
    return gib && *gib >= 0 && *gib < kMostGiB ? std::llround(*gib * kBytesPerGiB) : 0;
  };
  book.Saw({bytes(allocated), bytes(reserved)});
}

// All four read a line only when it has its newline: their last value has no end of its own.
class OneLine : public Dialect {
 public:
  bool Quick(const LogLine&, const StepBook&, StepLine&) final { return false; }
  bool Read(const LogLine& line, const LineHits&, StepBook& book, StepLine& out) final {
    StepLine found;
    if (!line.ended || !ReadStep(line, book, found)) {
      return false;
    }
    out = std::move(found);
    return true;
  }

 private:
  virtual bool ReadStep(const LogLine& line, StepBook& book, StepLine& out) = 0;
};

// "step: 14  loss: 3.24405  grad_norm: 0.8319  memory: 9.46GiB(64.99%)  tps: 7,282  tflops: ..."
class Torchtitan final : public OneLine {
  bool ReadStep(const LogLine& line, StepBook& book, StepLine& out) override {
    const std::size_t at = line.text.find("step: ");
    if (at == std::string_view::npos) {
      return false;
    }
    std::string_view text = line.text.substr(at);
    const std::string_view loss = ValueOf(text, "loss:");
    if (loss.empty() || text.find("tps:") == std::string_view::npos) {
      return false;
    }
    const std::string_view grad = ValueOf(text, "grad_norm:");
    const std::string_view memory = ValueOf(text, "memory:");
    TakeLiteral(text, "step: ");
    SkipSpaces(text);
    const std::optional<std::int64_t> n = TakeNumber(text);
    if (!n || !UseLoss(out, "loss", loss) || (!grad.empty() && !UseGradNorm(out, grad))) {
      ++book.notes()["odd_step_line"];
      return false;
    }
    out.step.iteration = *n;
    SawGiB(book, std::nullopt, LeadingNumber(memory));
    return true;
  }
};

// "step 9 | epoch 0 | loss 0.6974 | grad_norm 1.5436 | lr 1.00e-05 | mem 24.90 GiB | tps 11278.56
// (1409.82/gpu) | num_label_tokens 21541"; older ones print "mem: ".
class AutoModel final : public OneLine {
  bool ReadStep(const LogLine& line, StepBook& book, StepLine& out) override {
    const std::size_t at = line.text.find("step ");
    if (at == std::string_view::npos || line.text.find("| epoch ") == std::string_view::npos) {
      return false;
    }
    std::string_view text = line.text.substr(at);
    const std::string_view loss = ValueOf(text, "loss ");
    const std::string_view grad = ValueOf(text, "grad_norm ");
    const std::string_view lr = ValueOf(text, "lr ");
    const std::string_view tokens = ValueOf(text, "num_label_tokens ");
    std::string_view memory = ValueOf(text, "mem ");
    memory = memory.empty() ? ValueOf(text, "mem: ") : memory;
    TakeLiteral(text, "step ");
    SkipSpaces(text);
    const std::optional<std::int64_t> n = TakeNumber(text);
    if (!n || loss.empty() || !UseLoss(out, "loss", loss) ||
        (!grad.empty() && !UseGradNorm(out, grad))) {
      ++book.notes()["odd_step_line"];
      return false;
    }
    out.step.iteration = *n;
    out.step.learning_rate = ParseDouble(lr);
    out.step.tokens = ParseDouble(tokens);
    SawGiB(book, LeadingNumber(memory), std::nullopt);
    return true;
  }
};

// "step:2 - actor/pg_loss:0.001 - timing_s/step:96.551 - ...". A line without a training loss (step
// 0) reports a validation.
class Verl final : public OneLine {
  bool ReadStep(const LogLine& line, StepBook& book, StepLine& out) override {
    std::string_view text = line.text;
    if (!TakeLiteral(text, "step:")) {
      return false;
    }
    const std::optional<std::int64_t> n = TakeNumber(text);
    if (!n || !TakeLiteral(text, " - ")) {
      return false;
    }
    bool trained = false;
    std::optional<double> allocated, reserved;
    while (!text.empty()) {
      const std::size_t end = text.find(" - ");
      const std::string_view item = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 3);
      const std::size_t colon = item.rfind(':');
      if (colon == std::string_view::npos) {
        continue;
      }
      const std::string_view key = item.substr(0, colon);
      const std::string_view value = Trim(item.substr(colon + 1));
      bool good = true;
      if (key == "actor/pg_loss" || key == "train/loss") {
        trained = true;
        good = UseLoss(out, key, value);
      } else if (key == "actor/grad_norm" || key == "train/grad_norm") {
        good = UseGradNorm(out, value);
      } else if (key == "timing_s/step") {
        const std::optional<double> s = ParseDouble(value);
        good = s && *s > 0 && *s < 1e6;
        out.step.printed_ms = good ? *s * 1000 : 0;
      } else if (key == "perf/max_memory_allocated_gb") {
        allocated = ParseDouble(value);
      } else if (key == "perf/max_memory_reserved_gb") {
        reserved = ParseDouble(value);
      }
      if (!good) {
        ++book.notes()["odd_step_line"];
        return false;
      }
    }
    out.step.iteration = *n;
    SawGiB(book, allocated, reserved);
    return trained;
  }
};

// "Step 1 | loss:2.0853 lr:2e-05 tokens_per_second_per_gpu:57.8 peak_memory_reserved:12.5"
class Torchtune final : public OneLine {
  bool ReadStep(const LogLine& line, StepBook& book, StepLine& out) override {
    std::string_view text = line.text;
    if (!TakeLiteral(text, "Step ")) {
      return false;
    }
    const std::optional<std::int64_t> n = TakeNumber(text);
    const std::string_view loss = ValueOf(text, "loss:");
    if (!n || !TakeLiteral(text, " | ") || loss.empty()) {
      return false;
    }
    const std::string_view grad = ValueOf(text, "grad_norm:");
    if (!UseLoss(out, "loss", loss) || (!grad.empty() && !UseGradNorm(out, grad))) {
      ++book.notes()["odd_step_line"];
      return false;
    }
    out.step.iteration = *n;
    out.step.learning_rate = ParseDouble(ValueOf(text, "lr:"));
    SawGiB(book, LeadingNumber(ValueOf(text, "peak_memory_alloc:")),
           LeadingNumber(ValueOf(text, "peak_memory_reserved:")));
    return true;
  }
};

}  // namespace

std::unique_ptr<Dialect> MakeTorchtitan() { return std::make_unique<Torchtitan>(); }
std::unique_ptr<Dialect> MakeAutoModel() { return std::make_unique<AutoModel>(); }
std::unique_ptr<Dialect> MakeVerl() { return std::make_unique<Verl>(); }
std::unique_ptr<Dialect> MakeTorchtune() { return std::make_unique<Torchtune>(); }

}  // namespace attune
