// Who may include whom, in one place: the two tables in layers.cc. docs/contributing.md explains
// them.
#pragma once

#include <string>
#include <vector>

#include "source_tree.h"

namespace attune::layering {

// Each complaint names the file, the line where there is one, and the rule. Empty: all rules hold.
using Complaints = std::vector<std::string>;

Complaints CheckLayers(const SourceTree& tree);          // part to part
Complaints CheckForeignHeaders(const SourceTree& tree);  // standard and third-party headers
Complaints CheckForbiddenCalls(const SourceTree& tree);  // what no header can tell
// A header is in include/ if and only if another part needs it.
Complaints CheckPublicHeaders(const SourceTree& tree);
// Parts link what they include, and every source file is built.
Complaints CheckBuildFiles(const SourceTree& tree);

}  // namespace attune::layering
