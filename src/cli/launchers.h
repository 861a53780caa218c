// Which launcher a campaign's jobs go through, by launcher.kind of its recipe.
#pragma once

#include <memory>
#include <string>

#include "attune/base/clock.h"
#include "attune/base/result.h"
#include "attune/launch/launcher.h"
#include "attune/launch/slurm.h"
#include "attune/launch/ssh.h"
#include "attune/model/campaign.h"

namespace attune::cli {

// kInvalidInput: a kind that this version does not have. `clock` outlives the launcher.
// `in_allocation`: launches become steps of the allocation that this process runs in.
Result<std::unique_ptr<Launcher>> MakeLauncher(const CampaignState& state,
                                               const std::string& state_folder, Clock& clock,
                                               bool in_allocation);

// Where the run folders of a new campaign lie: on this machine, on the hosts, or where the login
// node and its cluster share them.
std::string RunRootOf(const Recipe& recipe, const std::string& state_folder);

// With what the machine adds to attune::SlurmOptionsOf: run root, mirror, clock.
SlurmOptions SlurmOptionsOf(const Recipe& recipe, const std::string& state_folder, Clock& clock);
SshOptions SshOptionsOf(const Recipe& recipe, const std::string& state_folder, Clock& clock);

// What a campaign's holds are computed from: stored when it opens (Opened).
struct LaunchTerms {
  Millis release_margin{15'000};
  Millis limit_step{1};
};
LaunchTerms TermsOf(const Recipe& recipe, const std::string& state_folder, Clock& clock);

}  // namespace attune::cli
