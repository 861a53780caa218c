#pragma once

namespace attune::cli {

inline constexpr const char* kVersion = ATTUNE_VERSION;  // of the build: CMakeLists.txt

}  // namespace attune::cli
