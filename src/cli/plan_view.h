// What a campaign would do first and what it may cost, for `plan` and `run --dry-run`. The first
// launch is the one that Decide itself would intend, so the two cannot differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/gates/instrument.h"
#include "attune/model/campaign.h"
#include "attune/recipe_io/recipe_io.h"
#include "check_row.h"
#include "run_flags.h"
#include "wire.h"

namespace attune::cli {

struct Planned {
  CampaignState state;
  std::optional<LaunchIntended> first;
  std::string refusal;  // why there would be no first launch
  Instrumented measured;
  bool machines_asked = false;
  std::vector<CheckRow> asked;  // what the machines said, when they were asked
};

// Launches and writes nothing. `budget` unset: the recipe's, else auto.
Result<Planned> PlanFor(Wire& wire, const LoadedRecipe& loaded,
                        const std::optional<RunFlags::Budget>& budget,
                        std::optional<Millis> run_limit, bool recalibrate = false);

std::string PlanText(const Planned& planned, bool whole_command);
// Schema attune.plan/1. `outcome`: what a dry run says it would do; empty: none was asked.
std::string PlanJson(const Planned& planned, std::string_view outcome);

}  // namespace attune::cli
