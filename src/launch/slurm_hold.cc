#include "attune/launch/slurm_hold.h"

#include <algorithm>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "slurm_client.h"
#include "slurm_fate.h"
#include "slurm_place.h"
#include "slurm_script.h"
#include "slurm_text.h"

namespace attune {
namespace {

using launch::SlurmJob;
using launch::SlurmPhase;

std::string Script(const HoldSpec& spec) {
  std::string out =
      "#!/bin/sh\n"
      "# Made by attune: this job holds the nodes, and every launch is a step of it.\n"
      "cd " +
      ShellQuote(spec.workdir) + " || exit 2\nset --";
  for (const std::string& word : spec.argv) {
    out += " \\\n  " + ShellQuote(word);
  }
  return out + "\nexec \"$@\"\n";
}

// The job of the name that is not over. Ids are handed out again, names of ours are not.
Result<std::optional<SlurmJob>> Held(launch::SlurmClient& client, const std::string& name) {
  ATTUNE_TRY(const std::vector<SlurmJob> jobs, client.Queue({name}));
  const auto it = std::find_if(jobs.begin(), jobs.end(), [&](const SlurmJob& job) {
    return job.name == name && launch::PhaseOf(job.state) != SlurmPhase::kFinal;
  });
  return it == jobs.end() ? std::optional<SlurmJob>() : *it;
}

tl::unexpected<Error> NotKnown(const std::string& name, const std::string& why) {
  return Fail(ErrorCode::kUnavailable, "whether Slurm has the job is not known: " + why,
              "squeue --name=" + name + " shows it; asked again, attune looks first");
}

}  // namespace

Result<std::string> AskForAllocation(const SlurmOptions& options, const HoldSpec& spec) {
  const auto place = launch::MakeSlurmPlace(options);
  launch::SlurmClient client(place->programs(), options.environment, options.command_limit);
  ATTUNE_TRY(const std::optional<SlurmJob> before, Held(client, spec.name));
  if (before) {
    return Fail(ErrorCode::kUnavailable,
                "job " + before->id + " is asked for already: " + before->state +
                    (before->reason.empty() ? "" : " (" + before->reason + ")"),
                "scancel " + before->id + " gives it up");
  }
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(spec.folder));
  const std::string script = spec.folder + "/hold.sh";
  ATTUNE_RETURN_IF_ERROR(os::WriteFileAtomic(script, Script(spec)));
  LaunchSpec job;
  job.token = Token(spec.name);
  job.limit = spec.time - launch::kWrapperTail;  // which --time adds for a wrapper's records
  job.exclude = spec.exclude;
  std::vector<std::string> argv = launch::SbatchArgv(options, job, spec.folder, script);
  // A node that fails takes a launch with it and not the session: attune finds out which one it is,
  // and goes on with the others or ends the job.
  argv.insert(argv.end() - 1, "--no-kill");
  const auto answer = client.Submit(argv);
  if (!answer) {
    return answer.error().code == ErrorCode::kNotFound ? Result<std::string>(Fail(answer.error()))
                                                       : NotKnown(spec.name, answer.error().message);
  }
  const std::string err = EscapeForDisplay(Trim(answer->err), 600);
  if (launch::IsRefusal(answer->exit_code, answer->err)) {
    return Fail(ErrorCode::kInvalidInput, "sbatch refused it: " + err);
  }
  // What sbatch says may be another's id: the queue decides, by name.
  const auto after = Held(client, spec.name);
  if (!after || !*after) {
    return NotKnown(spec.name, after ? "sbatch ended with code " +
                                           std::to_string(answer->exit_code) + ": " + err
                                     : after.error().message);
  }
  return (*after)->id;
}

}  // namespace attune
