// One lever at a time (control_plane.md section 3): other levers ride along only where the first is
// illegal or does not fit alone. The agent is held to it here; the gates read no record and no
// estimate.
#pragma once

#include <string>

#include "attune/propose/agent.h"

namespace attune {

// A minor lever: it was launched alone and gained, inside the band.
bool IsMinor(const CampaignState& s, const std::string& lever);

// Why the enablers are not needed; empty: they are, or there are none. They are when the change of
// the primary lever alone is refused, failed when it was launched, is projected not to fit or was
// turned back for that, or when the evidence names a failed launch of that lever; or when each
// lever of the change gained inside the band alone (a stack of minor levers).
std::string WhyNotTogether(const CampaignState& s, const AgentDesk& desk, const Vet& vet,
                           const Proposal& proposal);

}  // namespace attune
