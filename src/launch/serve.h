// The job's machine answers for the run folders that lie on it: one request (exchange.h), one
// answer.
#pragma once

#include <string>
#include <string_view>

#include "attune/base/result.h"

namespace attune::launch {

// `request` is one record of exchange.h. kNotFound: no such launch or file; kUnavailable: ask
// again.
Result<std::string> Serve(std::string_view request);

}  // namespace attune::launch
