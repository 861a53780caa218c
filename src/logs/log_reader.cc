// From bytes to news: lines, then for each line its dialect, the argument dump, the failure watch.
#include <algorithm>
#include <cstring>
#include <string>

#include "argument_block.h"
#include "attune/base/text.h"
#include "attune/logs/log_parser.h"
#include "dialect.h"
#include "failure_watch.h"
#include "line_assembler.h"

namespace attune {
namespace {

// Eight bytes a time; the standard algorithm's early exit keeps compilers from doing this.
bool AllAscii(std::string_view s) {
  std::uint64_t bits = 0;
  while (s.size() >= sizeof bits) {
    std::uint64_t word = 0;
    std::memcpy(&word, s.data(), sizeof word);
    bits |= word;
    s.remove_prefix(sizeof word);
  }
  for (const char c : s) {
    bits |= static_cast<unsigned char>(c);
  }
  return (bits & 0x8080808080808080U) == 0;
}

struct MarkerRule {
  Mark mark;
  std::string_view marker;
};
constexpr MarkerRule kMarkers[] = {
    {Mark::kWorldSize, "world"},     {Mark::kBuilding, "model"},
    {Mark::kParameters, "model"},    {Mark::kTraining, "training"},
    {Mark::kBeforeStep, "training"}, {Mark::kBridgeLoop, "training"},
    {Mark::kExiting, "exiting"},     {Mark::kAfterTraining, "exiting"},
};

class LogReader final : public LogParser {
 public:
  explicit LogReader(std::unique_ptr<Dialect> dialect)
      : dialect_(std::move(dialect)),
        lines_([this](const LineAssembler::Piece& piece) { OnPiece(piece); }) {}

  void Feed(std::string_view bytes, std::int64_t arrival_ms) override {
    arrival_ms_ = arrival_ms;
    lines_.Feed(bytes);
  }
  void Finish() override {
    lines_.Finish();
    // What only the end of the log completes has its place there.
    LogLine end;
    end.number = last_line_;
    for (StepLine step; dialect_->AtEnd(book_, step); step = {}) OnStep(end, std::move(step));
  }

  LogNews Take() override {
    LogNews news;
    news.steps = book_.TakeSteps();
    news.argument_block = block_.TakeComplete();
    news.memory = book_.TakeMemory();
    news.progress = book_.TakeProgress();
    const std::optional<FailureSign>& cause = watch_.cause();
    const FailureSign now = cause.value_or(FailureSign{});
    if (now != told_) {
      news.failure = now;
      told_ = now;
    }
    news.markers = std::exchange(markers_, {});
    news.last_grad_norm = std::exchange(grad_norm_, {});
    return news;
  }

  std::map<std::string, std::int64_t> Notes() const override {
    std::map<std::string, std::int64_t> notes = book_.notes();
    notes.insert(watch_.benign().begin(), watch_.benign().end());
    notes["bad_utf8"] = bad_utf8_;
    notes["long_line"] = lines_.long_lines();
    notes["unfinished_line"] = unfinished_;
    notes["odd_argument_line"] = block_.odd_lines();
    notes["repeated_argument"] = block_.repeated_keys();
    notes["outlived_sign"] = watch_.outlived();
    notes["unfinished_arguments"] = block_.reading() ? 1 : 0;
    std::erase_if(notes, [](const auto& note) { return note.second == 0; });
    return notes;
  }

 private:
  void OnPiece(const LineAssembler::Piece& piece) {
    LogLine line;
    line.whole = piece.text;
    if (std::memchr(piece.text.data(), '\x1b', piece.text.size()) != nullptr) {
      plain_ = StripAnsi(piece.text);
      line.whole = plain_;
    }
    // The cut of a long line may go through a character.
    if (!AllAscii(line.whole) && !piece.cut && piece.ended && !IsValidUtf8(line.whole)) {
      ++bad_utf8_;
    }
    const Prefix prefix = StripPrefixes(line.whole);
    if (prefix.rest.empty()) {
      return;
    }
    line.text = prefix.rest;
    line.source = prefix.source;
    line.rank = prefix.rank;
    line.number = last_line_ = piece.number;
    line.arrival_ms = arrival_ms_;
    line.ended = piece.ended;
    OnLine(line);
  }

  void OnLine(const LogLine& line) {
    StepLine step;
    if (dialect_->Quick(line, book_, step)) {
      OnStep(line, std::move(step));
      return;
    }
    if (block_.reading() && block_.Read(line)) {
      if (!block_.reading()) {
        Mark("arguments");
      }
      return;
    }
    const LineHits hits = ScanLine(line.text);
    if (dialect_->Read(line, hits, book_, step)) {
      OnStep(line, std::move(step));
      return;
    }
    if (!line.ended) {
      ++unfinished_;
    }
    if (hits.set.empty() && !watch_.listening()) {
      return;
    }
    if (hits.Has(attune::Mark::kArguments) && block_.Begin(line)) {
      return;
    }
    for (const MarkerRule& rule : kMarkers) {
      if (hits.Has(rule.mark)) {
        Mark(rule.marker);
      }
    }
    watch_.OnLine(line, hits);
  }

  void OnStep(const LogLine& line, StepLine found) {
    found.step.arrival_ms = line.arrival_ms;
    const std::int64_t iteration = found.step.iteration;
    const bool nan = found.step.nan;
    if (!found.grad_norm.empty()) {
      grad_norm_ = std::move(found.grad_norm);
    }
    if (book_.Add(std::move(found.step))) {
      watch_.OnStep(line, iteration, nan);
    }
  }

  // Once each, in the order of the log.
  void Mark(std::string_view marker) {
    if (std::find(marked_.begin(), marked_.end(), marker) == marked_.end()) {
      marked_.emplace_back(marker);
      markers_.emplace_back(marker);
    }
  }

  std::unique_ptr<Dialect> dialect_;
  LineAssembler lines_;
  StepBook book_;
  ArgumentBlock block_;
  FailureWatch watch_;
  FailureSign told_;
  std::string grad_norm_, plain_;
  std::vector<std::string> marked_, markers_;
  std::int64_t arrival_ms_ = -1, last_line_ = 1, bad_utf8_ = 0, unfinished_ = 0;
};

}  // namespace

Result<std::unique_ptr<LogParser>> MakeLogParser(const LogSpec& spec) {
  if (spec.dialect == "custom") {
    ATTUNE_TRY(auto custom, MakeCustom(spec.pattern));
    return std::make_unique<LogReader>(std::move(custom));
  }
  for (const DialectWord& d : kDialects) {
    if (d.word == spec.dialect) {
      return std::make_unique<LogReader>(d.make());
    }
  }
  return Fail(ErrorCode::kInvalidInput,
              "unknown log dialect '" + EscapeForDisplay(spec.dialect, 60) + "'",
              "known: " + Join(LogDialects(), ", "));
}

std::vector<std::string> LogDialects() {
  std::vector<std::string> words;
  for (const DialectWord& d : kDialects) {
    words.emplace_back(d.word);
  }
  words.emplace_back("custom");
  return words;
}

}  // namespace attune
