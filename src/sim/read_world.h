#pragma once

#include <string>

#include "attune/base/result.h"
#include "world.h"

namespace attune::sim {

// A world file (docs/formats/world.md). kInvalidInput with file:line:column, kNotFound,
// kNewerFormat.
Result<World> ReadWorld(const std::string& path);
// "FAMILY:SEED": drawn. kInvalidInput: no such family.
Result<World> DrawWorld(std::string_view family, std::uint64_t seed);
// One line a family, for help and errors.
std::string FamilyNames();

}  // namespace attune::sim
