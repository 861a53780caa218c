// What several ranks tell together.
#pragma once

#include <string>
#include <vector>

#include "attune/traces/trace_report.h"

namespace attune::traces {

// Two files that claim one rank are not compared; a remark names them.
AcrossRanks CompareRanks(const std::vector<RankTrace>& ranks, std::vector<std::string>& remarks);

}  // namespace attune::traces
