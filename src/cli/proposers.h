// Who proposes in a session, with everything it stands on.
#pragma once

#include <functional>
#include <memory>

#include "agent_desk.h"
#include "attune/base/result.h"
#include "attune/llm/client.h"
#include "attune/model/campaign.h"
#include "attune/propose/proposer.h"
#include "attune/store/store.h"

namespace attune::cli {

// Makes the client of an agent from flags and the user's configuration; called only for an agent,
// so that nobody else needs a model or a key.
using OpenModel = std::function<Result<std::unique_ptr<llm::Client>>(const CampaignState&)>;

struct Mind {
  SkillInUse skill;                     // outlives the proposer
  std::unique_ptr<llm::Client> client;  // of an agent; outlives it too
  std::unique_ptr<Proposer> proposer;
};
// `store` outlives it.
Result<Mind> MakeMind(Store& store, const CampaignState& state, const OpenModel& open_model);

}  // namespace attune::cli
