// Any bytes as a log: the reader must end, keep its bounds, and give the same news however the
// bytes are cut. One entry for libFuzzer (ATTUNE_FUZZ) and for the replay that ctest runs.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/logs/log_parser.h"

namespace attune {
namespace {

LogSpec SpecOf(std::uint8_t choice) {
  const std::vector<std::string> dialects = LogDialects();
  const std::string& dialect = dialects[choice % dialects.size()];
  return {dialect, dialect == "custom"
                       ? R"(iter\w* *(?P<step>\d+).*loss: *(?P<loss>\S+)|(?P<ms>\d+) ms)"
                       : ""};
}

struct Read {
  std::vector<Step> steps;
  std::optional<std::map<std::string, std::string>> block;
  std::int64_t allocated = 0;
  FailureSign failure;
  std::vector<std::string> markers;
  std::map<std::string, std::int64_t> notes;
};

void Collect(LogParser& parser, Read& out) {
  LogNews news = parser.Take();
  for (Step& s : news.steps) out.steps.push_back(std::move(s));
  if (news.argument_block) out.block = std::move(news.argument_block);
  if (news.memory) {
    ATTUNE_CHECK(news.memory->max_allocated >= out.allocated, "memory is news only when it grew");
    out.allocated = news.memory->max_allocated;
  }
  if (news.failure) out.failure = std::move(*news.failure);
  for (std::string& m : news.markers) out.markers.push_back(std::move(m));
}

Read ReadInPieces(const LogSpec& spec, std::string_view log, std::size_t piece) {
  auto parser = MakeLogParser(spec);
  ATTUNE_CHECK(parser.has_value(), "the fuzzer's specs are good");
  Read out;
  while (!log.empty()) {
    (*parser)->Feed(log.substr(0, piece), -1);
    Collect(**parser, out);
    log.remove_prefix(std::min(piece, log.size()));
  }
  (*parser)->Finish();
  Collect(**parser, out);
  out.notes = (*parser)->Notes();
  return out;
}

void Check(const Read& r, std::string_view log) {
  for (const Step& s : r.steps) {
    ATTUNE_CHECK(s.iteration >= 0, "an iteration is not negative");
    ATTUNE_CHECK(s.printed_ms >= 0 && s.printed_ms <= 1e9, "a step time is bounded");
    ATTUNE_CHECK(s.losses.size() <= 64, "losses are bounded");
    for (const auto& [name, value] : s.losses) {
      ATTUNE_CHECK(value == value, "a loss that is no number is a NaN step, not a value");
    }
  }
  ATTUNE_CHECK(r.failure.line.size() <= 400, "evidence is bounded");
  ATTUNE_CHECK(IsValidUtf8(r.failure.line) && IsValidUtf8(r.failure.detail), "evidence is UTF-8");
  ATTUNE_CHECK(r.failure.cls.empty() || r.failure.line_number >= 1, "evidence has a place");
  ATTUNE_CHECK(r.steps.size() <= log.size() / 8 + 1, "steps come from bytes");
}

}  // namespace
}  // namespace attune

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune;
  if (size < 2) return 0;
  const LogSpec spec = SpecOf(data[0]);
  const std::size_t piece = 1 + data[1] % 61;
  const std::string_view log(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Read whole = ReadInPieces(spec, log, log.size() + 1);
  Check(whole, log);
  const Read cut = ReadInPieces(spec, log, piece);
  ATTUNE_CHECK(whole.steps == cut.steps, "steps depend on the cuts");
  ATTUNE_CHECK(whole.block == cut.block, "arguments depend on the cuts");
  ATTUNE_CHECK(whole.allocated == cut.allocated, "memory depends on the cuts");
  ATTUNE_CHECK(whole.failure == cut.failure, "the failure depends on the cuts");
  ATTUNE_CHECK(whole.markers == cut.markers, "markers depend on the cuts");
  ATTUNE_CHECK(whole.notes == cut.notes, "notes depend on the cuts");
  DetectDialect(log);
  return 0;
}
