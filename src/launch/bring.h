// What a job left in a folder of its launch elsewhere, copied into the launch's mirror here:
// traces, which are looked for once a run is over and need no order of bytes as logs do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "attune/base/result.h"
#include "attune/model/run.h"

namespace attune::launch {

// One question to `attune-wrapper serve` there, and its answer.
using AskThere = std::function<Result<std::string>(const std::string& request)>;

// Regular files below `path`, each whole, in the order of their names, as long as all of them
// together are no more than `max_bytes`; what is in `mirror` with its size is not fetched again.
Status BringBelow(const AskThere& ask, const std::string& root, const Token& token,
                  const std::string& path, const std::string& mirror, std::int64_t max_bytes);

}  // namespace attune::launch
