// The tables of src/sim/data as typed rows: networks and stack profiles.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "physics.h"

namespace attune::sim {

// A GPU of attune/model/gpu_spec.h in its usual node on a network of data/networks.tsv; nullopt
// when either is unknown.
std::optional<Machine> FindMachine(std::string_view gpu, std::string_view network = "infiniband");
// Rows of data/stacks.tsv: the version's, else the framework's ("*"), else nullopt.
std::optional<StackProfile> FindStack(std::string_view framework, std::string_view version);
// The framework's own row ("*"), whatever the version.
std::optional<StackProfile> FrameworkStack(std::string_view framework);

}  // namespace attune::sim
