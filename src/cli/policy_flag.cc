#include "policy_flag.h"

#include <fmt/core.h>

#include "attune/base/text.h"

namespace attune::cli {

Result<const PolicyRecord*> PolicyFor(const std::string& tuner, const std::string& policy) {
  if (policy.empty()) {
    if (const PolicyRecord* record = DefaultPolicy(tuner)) return record;
    return Fail(ErrorCode::kInvalidInput, fmt::format("--tuner: no tuner '{}'", tuner));
  }
  const PolicyRecord* record = FindPolicy(policy);
  if (record == nullptr) {
    std::vector<std::string> names;
    for (const PolicyRecord& r : PolicyRecords()) names.emplace_back(r.name);
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("--policy: no policy '{}'", EscapeForDisplay(policy, 60)),
                "there are: " + Join(names, ", "));
  }
  if (!tuner.empty() && tuner != record->proposer) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("--policy {} is of the tuner {}, not {}",
                                                      record->name, record->proposer, tuner));
  }
  return record;
}

}  // namespace attune::cli
