#include <unistd.h>

#include <algorithm>
#include <array>

#include "attune/os/process.h"

namespace attune::os {

Environment OwnEnvironment() {
  Environment env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (const auto eq = text.find('='); eq != std::string_view::npos && eq > 0) {
      env.emplace(std::string(text.substr(0, eq)), std::string(text.substr(eq + 1)));
    }
  }
  return env;
}

Environment WithoutScheduler(Environment env) {
  static constexpr std::array<std::string_view, 9> kPrefixes = {
      "SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SRUN_", "PMI_", "PMIX_", "PMI2_"};
  std::erase_if(env, [](const auto& entry) {
    return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                       [&](std::string_view p) { return entry.first.starts_with(p); });
  });
  return env;
}

Environment NodeEnvironment(const Environment& env) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"};
  Environment out;
  for (const auto& [name, value] : env) {
    if (name.starts_with("LC_") || std::find(kNames.begin(), kNames.end(), name) != kNames.end()) {
      out.emplace(name, value);
    }
  }
  return out;
}

}  // namespace attune::os
