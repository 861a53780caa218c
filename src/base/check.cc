#include "attune/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace attune {

void CheckFailed(const char* file, int line, const char* condition, const char* why) {
  // stdio, not the log: whatever is broken may be what the log needs.
  std::fprintf(stderr, "attune: internal error at %s:%d: %s (%s)\n", file, line, why, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace attune
