// What the estimate said of a run before it was launched: computed again from the record, by the
// runs that had ended until then.
#pragma once

#include <optional>
#include <span>

#include "attune/model/campaign.h"
#include "attune/report/explain.h"

namespace attune::cli {

// Nothing for a run that is not of a megatron-lm recipe, or whose job can't be projected.
// `events` are all of the campaign, from the first.
std::optional<RunProjection> ProjectionOf(const CampaignState& state, std::span<const Event> events,
                                          const RunId& run);

}  // namespace attune::cli
