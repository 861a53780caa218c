#include <string>

#include "attune/base/text.h"
#include "attune/logs/log_parser.h"
#include "dialect.h"

namespace attune {
namespace {

constexpr std::size_t kLook = std::size_t{256} << 10;

// Steps that a dialect's reader finds.
std::size_t CountSteps(std::string_view word, std::string_view bytes) {
  const auto parser = MakeLogParser({std::string(word), {}});
  (*parser)->Feed(bytes, -1);
  (*parser)->Finish();
  return (*parser)->Take().steps.size();
}

}  // namespace

std::string DetectDialect(std::string_view first_bytes) {
  first_bytes = first_bytes.substr(0, kLook);
  bool megatron = false, bridge = false;
  for (const std::string_view line : SplitLines(first_bytes)) {
    const LineHits hits = ScanLine(line);
    megatron = megatron || (hits.Has(Mark::kIteration) && hits.Has(Mark::kElapsed)) ||
               hits.Has(Mark::kBeforeStep);
    // Bridge alone prints the step time once more on a line of its own.
    bridge = bridge || hits.Has(Mark::kBridgeLoop) || Trim(line).starts_with("Step Time : ");
  }
  // Megatron's own lines decide: its forks print those of other engines beside them.
  if (megatron || bridge) {
    return bridge ? "megatron-bridge" : "megatron-lm";
  }
  std::string_view best;
  std::size_t most = 0;
  for (const DialectWord& d : kDialects) {
    const std::size_t steps = CountSteps(d.word, first_bytes);
    if (steps > most) {
      most = steps;
      best = d.word;
    }
  }
  if (best.empty() && first_bytes.find(" arguments -----") != std::string_view::npos) {
    return "megatron-lm";
  }
  return std::string(best);
}

}  // namespace attune
