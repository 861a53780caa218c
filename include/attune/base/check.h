// A broken invariant of our own code: prints where and why, then aborts. Outside input never
// reaches it.
#pragma once

namespace attune {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* why);
}  // namespace attune

#define ATTUNE_CHECK(condition, why)                                \
  do {                                                              \
    if (!(condition)) {                                             \
      ::attune::CheckFailed(__FILE__, __LINE__, #condition, (why)); \
    }                                                               \
  } while (false)
