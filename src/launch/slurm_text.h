// What Slurm's client programs print, read strictly. Fixed columns that we ask for, never the
// default output or JSON (docs/decisions/0018-slurm-by-name-and-fixed-columns.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"

namespace attune::launch {

// One job as squeue or sacct tells it. Times in seconds since 1970, 0: not known.
struct SlurmJob {
  std::string id;  // without array or step suffix
  std::string name;
  std::string state;  // one upper-case word
  std::string reason;
  std::int64_t submitted = 0, started = 0, ended = 0;
  int restarts = 0;
  std::optional<int> code, signal;  // of the batch script
  std::optional<int> gpus;          // allocated, where the cluster counts them
  std::string nodes;                // empty: none were given to it
  std::string batch_host;
  std::optional<std::int64_t> cancelled_by;  // user id; sacct alone says it

  bool operator==(const SlurmJob&) const = default;
};

// Words of squeue's -O for ParseQueue, in its order. Columns are wide enough for every value that
// Slurm itself bounds, and what is cut all the same is refused.
std::string QueueFormat();
// Lines that are no job of that format are counted in `bad` and left out: one strange job must not
// hide the others.
struct ParsedJobs {
  std::vector<SlurmJob> jobs;
  int bad = 0;
};
ParsedJobs ParseQueue(std::string_view text);

std::string AccountingFormat();  // of sacct -P -n -X -D -o
ParsedJobs ParseAccounting(std::string_view text);

// "4711" or "4711;cluster", as sbatch --parsable prints it; lines before it (a site's own wrapper)
// are passed over.
std::optional<std::string> ParseSubmitted(std::string_view out);
// True when sbatch says that the job was refused for good: nothing was queued and nothing will be.
// Anything else it fails with may hide a job that runs.
bool IsRefusal(int exit_code, std::string_view err);

// Seconds of "KillWait = 30 sec" in the output of scontrol show config.
std::optional<std::int64_t> ConfigSeconds(std::string_view config, std::string_view key);
std::optional<std::string> ConfigText(std::string_view config, std::string_view key);

}  // namespace attune::launch
