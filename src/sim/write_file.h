// Files that simulated jobs leave, folders made as needed.
#pragma once

#include <string>

#include "attune/base/result.h"

namespace attune::sim {

Status WriteFile(const std::string& path, const std::string& text);

}  // namespace attune::sim
