// --tuner and --policy: a policy record by its name.
#pragma once

#include <string>

#include "attune/base/result.h"
#include "attune/propose/policy.h"

namespace attune::cli {

// `tuner` alone is that tuner's default record. kInvalidInput: no such record, or one of another
// tuner.
Result<const PolicyRecord*> PolicyFor(const std::string& tuner, const std::string& policy);

}  // namespace attune::cli
