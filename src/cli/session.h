// One process's work on one campaign: opens or takes up the campaign, wires the parts, runs the
// loop, and leaves the lease in order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "attune/base/result.h"
#include "attune/campaign/campaign.h"
#include "attune/recipe_io/recipe_io.h"
#include "attune/store/store.h"
#include "progress.h"
#include "proposers.h"
#include "recipe_edit.h"
#include "signals.h"

namespace attune::cli {

// Where the exchanges of a campaign are kept.
std::string ExchangeFolder(const std::string& state_folder, const CampaignId& campaign);

struct SessionFlags {
  std::optional<GpuMillis> session_budget;
  std::optional<Instant> deadline;
  Millis lock_wait{0};
  bool take_over = false;
  bool in_allocation = false;  // of Slurm, that this process runs in
  OnInterrupt on_interrupt = OnInterrupt::kDrain;
  ProgressStyle progress;
  std::string events, metrics;  // files that are kept up to date (session_files.h); may be empty
  bool exit_status = false;     // 10 when it ended without a gain
  OpenModel open_model;         // for an agent
  std::optional<Recipe> recipe_now;  // the file's: price, notify and limits are taken over
  bool approve_each = false;  // somebody at the terminal is asked before a candidate is launched
  std::optional<std::int64_t> llm_budget_usd_micros;  // --llm-budget
  std::function<Status(const CampaignId&)> on_begun;  // leased and about to go on
};

struct OpenFlags {
  std::optional<GpuMillis> budget;  // unset: the recipe's, else auto
  bool automatic = false;
  std::optional<Millis> run_limit;
  Policy policy;
  std::string world;  // --launcher sim: where its jobs run; empty: on a real launcher
  bool traces = false;  // of them: simulated runs are profiled too
  bool recalibrate = false;  // measure the baseline anew, whatever earlier campaigns know
  std::optional<RecipeSource> source;  // kept for resume where the store has a folder
};

// Where a run starts: the checkpoint folder and the iteration it stands at (control_plane.md 2b).
struct StartPoint {
  std::string checkpoint;  // absolute; empty: from random initialisation
  std::int64_t iteration = 0;
};
// measure.start_from, else --load; --ckpt-step overrules the tracker file. Error: a checkpoint
// folder without a readable tracker.
Result<StartPoint> FindStart(const Recipe& recipe);

// What stands in a folder, by names, sizes and times, at any depth; links are not followed.
struct FolderPrint {
  std::string hash;    // empty for an empty path
  std::string newest;  // the file written last, below the folder
};
Result<FolderPrint> PrintOf(const std::string& folder);

// How long a calibration is good for further campaigns (control_plane.md section 1).
inline constexpr Millis kCalibrationAge = std::chrono::hours(24 * 7);

// Hash of what the recipe runs besides its text: stack and the contents of `files`.
Result<std::string> StackFingerprint(const Recipe& recipe);

// A new campaign for a loaded recipe, not yet leased. With flags.world `loaded` is the rehearsed
// recipe (simulate.h), times are virtual, the id follows from recipe, world and seed, and nothing of
// the machine enters the record.
Result<CampaignId> OpenCampaign(Store& store, const LoadedRecipe& loaded, const OpenFlags& flags,
                                Clock& clock);

struct SessionEnd {
  int code = 0;
  std::string why;
  CampaignState state;
};
// Leases the campaign and runs it until Done. The lease is released unless the process was told to
// stop in a hurry (an error return leaves it to be taken over).
Result<SessionEnd> RunSession(Store& store, const CampaignId& id, const SessionFlags& flags,
                              Clock& clock);

// Folds a campaign's events; the recipe comes from its first event.
Result<CampaignState> LoadState(Store& store, const CampaignId& id);

}  // namespace attune::cli
