// The bundle of an ended campaign: recipe, difference, command, evidence, raw logs of the final
// runs (control_plane.md section 4.4).
#pragma once

#include <string>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/campaign.h"

namespace attune::cli {

// Writes <state_dir>/shipped/<bundle>/ by rename, once, and for a gain the tuned recipe beside the
// user's own (never over a file that attune did not make). The same state gives the same bytes, so
// a call after a crash changes nothing.
Result<Shipped> WriteBundle(const CampaignState& state, const std::string& state_dir);

// "recipe.yaml" -> "recipe.tuned.yaml", in the same folder.
std::string TunedPath(const std::string& recipe_path);
// Where a stored path of Shipped lies: a rehearsal's record names it below the state folder.
std::string ShippedPlace(const std::string& state_dir, const std::string& path);
// argv as a shell line that a person may paste: `cd FOLDER && env A=1 prog args`.
std::string CommandLine(const Recipe& recipe, const Effective& user);
// The same of a run: its environment, its argv (RenderCommand, instrumented).
std::string ShellLine(const Recipe& recipe, const Env& env, const std::vector<std::string>& argv);
// Of a recipe with launcher.script: what a shell makes of it in the job's folder.
std::string ScriptLine(const Recipe& recipe, const Env& env, const std::vector<std::string>& argv);

}  // namespace attune::cli
