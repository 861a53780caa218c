#include "draw_step.h"

#include <algorithm>
#include <fstream>

#include "attune/traces/diagnose.h"

namespace attune::cli {

Status DrawStep(const std::string& file, const TraceSet& set, const TraceOptions& options,
                std::string_view step) {
  const auto gpu = std::find_if(set.ranks.begin(), set.ranks.end(),
                                [](const RankTrace& t) { return t.HasGpu(); });
  const RankTrace& rank = gpu == set.ranks.end() ? set.ranks.front() : *gpu;
  ATTUNE_TRY(const std::string svg, StepSvg(rank.path, options, step));
  std::ofstream out(file, std::ios::binary);
  out << svg;
  out.close();
  if (!out) return Fail(ErrorCode::kDenied, "--svg: " + file + " cannot be written");
  return {};
}

}  // namespace attune::cli
