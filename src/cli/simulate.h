// A campaign on the simulated cluster: how it is opened, and how it is taken up so that a killed
// one goes on as if nothing had happened.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/clock.h"
#include "attune/launch/launcher.h"
#include "attune/model/campaign.h"
#include "attune/recipe_io/recipe_io.h"
#include "attune/sim/cluster.h"
#include "attune/store/store.h"
#include "session.h"

namespace attune::cli {

inline constexpr std::string_view kDefaultWorld = "default:0";
inline constexpr Millis kSimulatedSlice = std::chrono::hours(1);

// The recipe as it is rehearsed: whatever its launcher, now the simulated one. Files, checkpoints
// and scripts that exist only on the cluster are not looked at.
void Rehearse(LoadedRecipe& loaded);

// How a world is named in a campaign's record: files by their absolute path.
std::string WorldName(const std::string& world);

// What stands for the stack of a campaign in this world, as it is now.
Result<std::string> SimulatedStack(const std::string& world);

// OpenCampaign for flags.world.
Result<CampaignId> OpenSimulated(Store& store, const LoadedRecipe& loaded, const OpenFlags& flags);
// The same in a world that is at hand (flags.world only names it).
Result<CampaignId> OpenSimulated(Store& store, const LoadedRecipe& loaded, const OpenFlags& flags,
                                 const sim::WorldRef& world);

class Simulation {
 public:
  Simulation(sim::ClusterSetup setup, Instant now, std::vector<sim::PastLaunch> past)
      : setup_(std::move(setup)), past_(std::move(past)), clock_(now) {}
  Clock& clock() { return clock_; }
  Result<std::unique_ptr<Launcher>> MakeLauncher() {
    return sim::MakeSimLauncher(setup_, clock_, past_);
  }

 private:
  sim::ClusterSetup setup_;
  std::vector<sim::PastLaunch> past_;
  sim::VirtualClock clock_;
};

// Null for a campaign on a real launcher. kUnavailable: its world is no longer what it was.
Result<std::unique_ptr<Simulation>> TakeUpSimulation(Store& store, const CampaignState& state);

// What simulated jobs need of a recipe.
sim::ClusterSetup SetupOf(const Recipe& recipe, sim::WorldRef world, std::uint64_t seed);

}  // namespace attune::cli
