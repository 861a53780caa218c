// What lies on the agent's desk (propose/agent.h): levers, rules, and who answers its questions.
#pragma once

#include <memory>
#include <string>

#include "attune/propose/agent.h"
#include "attune/skill/skill.h"
#include "attune/store/store.h"

namespace attune::cli {

// Store and skill outlive the desk; store nullptr: there is no database to ask (a prompt before any
// campaign).
AgentDesk MakeDesk(Store* store, const CampaignState& state, const Skill& skill);

// The skill of a campaign: its policy's folder, else the built-in one. kInvalidInput: it is no
// longer what the campaign began with.
struct SkillInUse {
  std::unique_ptr<const Skill> own;  // read from a folder; null: the built-in one
  const Skill& Get() const { return own ? *own : BuiltInSkill(); }
};
Result<SkillInUse> SkillOf(const Opened& opened);
// A folder's skill, checked against the gates' table: it can't name a lever that is none.
Result<Skill> ReadSkill(const std::string& folder);

}  // namespace attune::cli
