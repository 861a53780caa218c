#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "attune/launch/local.h"

namespace attune {

Result<std::string> FindWrapper() {
  if (const char* named = getenv("ATTUNE_WRAPPER"); named != nullptr && *named != '\0') {
    if (access(named, X_OK) != 0) {
      return Fail(ErrorCode::kNotFound,
                  std::string("ATTUNE_WRAPPER names ") + named + ", which can't be executed");
    }
    return std::string(named);
  }
  char self[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  std::string folder(self, n > 0 ? static_cast<std::size_t>(n) : 0);
  folder.erase(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
  for (const char* below : {"/", "/../libexec/attune/", "/../bin/"}) {
    const std::string path = folder + below + "attune-wrapper";
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return Fail(ErrorCode::kNotFound, "attune-wrapper is not beside attune in " + folder,
              "install it there, or name it in ATTUNE_WRAPPER");
}

}  // namespace attune
