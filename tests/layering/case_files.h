// A file under tests/cases or tests/data that no test reads only looks like a test.
#pragma once

#include <string>
#include <vector>

#include "source_tree.h"

namespace attune::layering {

// The files under tests/cases and tests/data that no program, script or build file under tests/
// reads. A file is read where one of them names its path, or names its folder (from tests/ on) and,
// in the same text, the ending of its name: what a runner that lists a folder has to say.
std::vector<std::string> UnreadCaseFiles(const SourceTree& tree);

}  // namespace attune::layering
