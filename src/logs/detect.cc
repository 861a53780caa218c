#include <array>
#include <string>

#include "attune/base/text.h"
#include "attune/logs/log_parser.h"
#include "failure_rules.h"

namespace attune {

std::string DetectDialect(std::string_view first_bytes) {
  constexpr std::size_t kLook = std::size_t{256} << 10;
  bool megatron = false, bridge = false;
  for (const std::string_view line : SplitLines(first_bytes.substr(0, kLook))) {
    const LineHits hits = ScanLine(line);
    megatron = megatron || (hits.Has(Mark::kIteration) && hits.Has(Mark::kElapsed)) ||
               hits.Has(Mark::kArguments) || hits.Has(Mark::kBeforeStep);
    // Bridge alone prints the step time once more on a line of its own.
    bridge = bridge || hits.Has(Mark::kBridgeLoop) || Trim(line).starts_with("Step Time : ");
  }
  if (bridge) {
    return "megatron-bridge";
  }
  return megatron ? "megatron-lm" : "";
}

}  // namespace attune
