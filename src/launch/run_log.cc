#include "attune/launch/run_log.h"

#include "attune/os/files.h"
#include "run_folder.h"

namespace attune {

std::optional<std::vector<LogRange>> StderrRanges(const std::string& run_folder, int rank) {
  // An entry for each piece that was read: of a log at its cap no more than this.
  constexpr std::int64_t kMost = std::int64_t{256} << 20;
  const auto bytes = os::ReadFileBounded(run_folder + "/" + launch::RankFile("errs", rank), kMost);
  if (!bytes) return std::nullopt;
  std::vector<LogRange> out;
  for (const launch::ErrRange& r : launch::DecodeErrRanges(*bytes)) {
    if (!out.empty() && out.back().end == r.from) {
      out.back().end = r.end;
    } else {
      out.push_back({r.from, r.end});
    }
  }
  return out;
}

}  // namespace attune
