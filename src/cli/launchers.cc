#include "launchers.h"

#include <fmt/core.h>

#include <filesystem>

#include "attune/launch/local.h"
#include "attune/launch/slurm.h"
#include "attune/os/files.h"

namespace attune::cli {
namespace {

// Between two looks at a job that prints nothing new: steps take far longer, and each look costs.
constexpr Millis kPoll{200};

std::unique_ptr<Launcher> MakeLocal(const CampaignState& state, Clock& clock) {
  LocalOptions options;
  options.run_root = state.opened->run_root;
  options.clock = &clock;
  options.poll = kPoll;
  return MakeLocalLauncher(options);
}

std::unique_ptr<Launcher> MakeSsh(const CampaignState& state, const std::string& state_folder,
                                  Clock& clock) {
  SshOptions options = SshOptionsOf(state.recipe, state_folder, clock);
  options.run_root = state.opened->run_root;
  return MakeSshLauncher(std::move(options));
}

constexpr std::int64_t kMaxTemplate = 1 << 20;
constexpr Millis kMinute{60'000};

Result<std::unique_ptr<Launcher>> MakeSlurm(const CampaignState& state,
                                            const std::string& state_folder, Clock& clock,
                                            bool in_allocation) {
  const Recipe& recipe = state.recipe;
  SlurmOptions options = SlurmOptionsOf(recipe, state_folder, clock);
  options.run_root = state.opened->run_root;
  // As it was when the campaign opened and its holds were computed.
  options.kill_wait = state.opened->release_margin - SlurmReleaseMargin(Millis{0}, Millis{0});
  if (const std::string& file = recipe.launcher.batch_template; !file.empty()) {
    const std::string path = (std::filesystem::path(recipe.folder) / file).string();
    ATTUNE_TRY(options.script_template, os::ReadFileBounded(path, kMaxTemplate));
  }
  if (in_allocation) {
    ATTUNE_TRY(Allocation allocation, FindAllocation(options));
    return MakeAllocationLauncher(std::move(options), std::move(allocation));
  }
  return MakeSlurmLauncher(std::move(options));
}

}  // namespace

std::string RunRootOf(const Recipe& recipe, const std::string& state_folder) {
  if (!recipe.launcher.run_root.empty()) return recipe.launcher.run_root;
  // Beside the mirror and never the same folder: a home may be shared with the hosts.
  return state_folder + (recipe.launcher.kind == "ssh" ? "/on-hosts" : "/runs");
}

SshOptions SshOptionsOf(const Recipe& recipe, const std::string& state_folder, Clock& clock) {
  SshOptions options;
  options.hosts = recipe.launcher.hosts;
  options.run_root = RunRootOf(recipe, state_folder);
  options.mirror_root = state_folder + "/runs";
  options.most_poll = recipe.launcher.poll;
  options.clock = &clock;
  return options;
}

SlurmOptions SlurmOptionsOf(const Recipe& recipe, const std::string& state_folder, Clock& clock) {
  SlurmOptions options = attune::SlurmOptionsOf(recipe);
  options.run_root = RunRootOf(recipe, state_folder);
  options.mirror_root = state_folder + "/runs";
  options.clock = &clock;
  return options;
}

LaunchTerms TermsOf(const Recipe& recipe, const std::string& state_folder, Clock& clock) {
  LaunchTerms terms;
  if (recipe.launcher.kind == "slurm") {
    const SlurmTerms slurm = AskSlurmTerms(SlurmOptionsOf(recipe, state_folder, clock));
    terms.release_margin = SlurmReleaseMargin(slurm.kill_wait, slurm.over_time);
    terms.limit_step = kMinute;
  }
  return terms;
}

Result<std::unique_ptr<Launcher>> MakeLauncher(const CampaignState& state,
                                               const std::string& state_folder, Clock& clock,
                                               bool in_allocation) {
  const std::string& kind = state.recipe.launcher.kind;
  if (in_allocation && (kind != "slurm" || !state.recipe.launcher.login.empty())) {
    return Fail(ErrorCode::kInvalidInput,
                "--in-allocation goes with launcher.kind slurm, without launcher.login");
  }
  if (kind == "local") return MakeLocal(state, clock);
  if (kind == "ssh") return MakeSsh(state, state_folder, clock);
  if (kind == "slurm") return MakeSlurm(state, state_folder, clock, in_allocation);
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("launcher.kind '{}' is not known to this version", kind),
              "this version has: local, ssh, slurm");
}

}  // namespace attune::cli
