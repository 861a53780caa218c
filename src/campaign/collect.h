// What an ended run tells of itself: its log, and the traces of its profile where it left any.
#pragma once

#include "attune/launch/launcher.h"
#include "attune/model/campaign.h"

namespace attune {

// Never fails: a trace that cannot be read, or is not there, is a note. Bounded in files, bytes and
// text (traces/trace_reader.h). Removes traces that the recipe's `profile` does not keep.
Diagnosis DiagnoseRun(const CampaignState& s, const RunRecord& run, Launcher& launcher);

// The folder below the launch's own that a run's traces lie in.
std::string TracesBelow(const Recipe& recipe, const RunId& run);

}  // namespace attune
