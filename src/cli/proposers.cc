#include "proposers.h"

#include <fmt/core.h>

#include "agent_desk.h"

namespace attune::cli {

Result<Mind> MakeMind(Store& store, const CampaignState& state, const OpenModel& open_model) {
  const Policy& policy = state.opened->policy;
  Mind mind;
  const bool reads_skill = policy.proposer == "rules" || policy.proposer == "agent";
  if (reads_skill) {
    ATTUNE_TRY(mind.skill, SkillOf(*state.opened));
  }
  if (policy.proposer == "rules") {
    mind.proposer = MakeRulesProposerWith(mind.skill.Get().catalog);
  } else if (policy.proposer == "random") {
    mind.proposer = MakeRandomProposer();
  } else if (policy.proposer == "scripted") {
    ATTUNE_TRY(mind.proposer, MakeScriptedProposer(policy.script));
  } else if (policy.proposer == "agent") {
    if (!open_model) {
      return Fail(ErrorCode::kInvalidInput, "this command asks no model; use attune run or resume");
    }
    ATTUNE_TRY(mind.client, open_model(state));
    mind.proposer =
        MakeAgentProposer(*mind.client, MakeDesk(&store, state, mind.skill.Get()));
  } else {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("tuner '{}' is not known to this version", policy.proposer),
                "this version has: rules, agent, random, scripted:FILE");
  }
  return mind;
}

}  // namespace attune::cli
