// Slurm's client programs: argv in, values out. Every call has a time limit of its own and an
// environment without a surrounding allocation's variables.
#pragma once

#include <string>
#include <vector>

#include "attune/os/process.h"
#include "slurm_text.h"

namespace attune::launch {

class SlurmClient {
 public:
  SlurmClient(os::ProcessRunner& runner, const std::optional<os::Environment>& environment,
              Millis limit);

  // Jobs with one of these names, finished ones too while slurmctld remembers them. An Error is no
  // news: nothing may be concluded from it.
  Result<std::vector<SlurmJob>> Queue(const std::vector<std::string>& names);
  // The same from the accounting, every attempt; empty where there is none. Never an error: sacct
  // is a help where it works and is needed nowhere.
  std::vector<SlurmJob> Accounting(const std::vector<std::string>& names, std::int64_t since_s);
  // Whether sacct is worth asking, as far as is known.
  bool HasAccounting() const { return !no_accounting_; }
  // "alice (uid 1000)", as the machine of Slurm's programs knows her; else "uid 1000".
  std::string UserName(std::int64_t uid);
  // sbatch; kTimeout and other errors as the runner has them.
  Result<os::CommandResult> Submit(const std::vector<std::string>& argv);
  enum class Force { kNo, kKill };
  // Only what still has that name. rc 0 proves nothing: look at the queue afterwards.
  Status Cancel(const std::string& name, const std::vector<std::string>& ids, Force force);
  // Nodes of the list that do not work now.
  std::vector<std::string> DownNodes(const std::string& nodes);
  Result<std::string> Config();
  Result<os::CommandResult> Call(std::vector<std::string> argv, std::string input = {});

 private:
  os::ProcessRunner& runner_;
  os::Environment env_;
  Millis limit_;
  bool no_accounting_ = false;
};

// The environment of Slurm's programs: `env` without what an allocation or a user's formatting
// leaks into it. SLURM_CONF stays: it says which cluster is meant.
os::Environment ClientEnvironment(const os::Environment& env);

}  // namespace attune::launch
