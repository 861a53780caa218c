// May the agent end the search? control_plane.md section 3: it says stop and, for each bottleneck
// class, a tried lever or a reason; after at least 5 launches or 3 launches in a row that did not
// win.
#pragma once

#include <string>
#include <vector>

#include "attune/model/campaign.h"
#include "attune/propose/proposer.h"

namespace attune {

inline constexpr int kStopAfterLaunches = 5;
inline constexpr int kStopAfterNonWins = 3;

// The classes that the diagnoses of the leader and of the latest run name.
std::vector<std::string> NamedClasses(const CampaignState& s);
// Judged launches of the search since the last win.
int NonWinsInARow(const CampaignState& s);
// Empty: it may. Else why not, for the agent. A declared space in which the gates admit no further
// move ends at any time.
std::string WhyNotStop(const CampaignState& s, const Vet& vet, const StopWish& wish);

}  // namespace attune
