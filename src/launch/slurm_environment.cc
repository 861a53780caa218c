// Apart from the rest of slurm_client.h, because attune-wrapper has it too and links no library.
#include "slurm_client.h"

namespace attune::launch {

os::Environment ClientEnvironment(const os::Environment& env) {
  os::Environment out = os::WithoutScheduler(env);
  if (const auto conf = env.find("SLURM_CONF"); conf != env.end()) {
    out["SLURM_CONF"] = conf->second;
  }
  out["LC_ALL"] = "C.UTF-8";
  out["SLURM_TIME_FORMAT"] = "%s";
  return out;
}

}  // namespace attune::launch
