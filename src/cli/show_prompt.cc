#include "show_prompt.h"

#include <fmt/core.h>

#include <filesystem>

#include "agent_desk.h"
#include "attune/base/text.h"
#include "attune/propose/policy.h"
#include "json_out.h"
#include "policy_flag.h"
#include "session.h"

namespace attune::cli {
namespace {

// The state on which the next request would be built; a campaign that has only been opened when
// there is none yet.
Result<CampaignState> StateFor(Wire& wire, Store* store, const LoadedRecipe& loaded) {
  if (store != nullptr) {
    const std::string absolute = std::filesystem::absolute(loaded.path).lexically_normal().string();
    std::optional<CampaignRow> row;
    if (!wire.flags().campaign.empty()) {
      ATTUNE_TRY(row, store->FindCampaign(wire.flags().campaign));
    } else {
      ATTUNE_TRY(row, store->NewestOfPath(absolute));
    }
    if (row) return LoadState(*store, row->id);
  }
  CampaignState state;
  state.recipe = loaded.recipe;
  Opened opened;
  opened.id = CampaignId{"c-00000000-plan"};
  opened.recipe_json = loaded.canonical_json;
  if (loaded.recipe.budget.gpu_hours) {
    opened.budget = FromGpuHours(*loaded.recipe.budget.gpu_hours);
  }
  return Apply(std::move(state), Event{1, wire.clock().Now(), std::move(opened)});
}

std::string Json(const CampaignState& state, const llm::Request& request) {
  JsonOut json("attune.prompt/1");
  json.Text("campaign", state.id.value);
  json.Text("policy", state.opened->policy.name);
  json.Int("bytes", static_cast<std::int64_t>(RequestBytes(request)));
  json.Text("system", request.system);
  json.Text("user", request.user);
  std::vector<std::string> tools;
  for (const llm::Tool& tool : request.tools) {
    JsonOut object("");
    object.Text("name", tool.name);
    object.Text("description", tool.description);
    object.Text("schema", tool.schema);
    tools.push_back(object.Take());
  }
  json.Objects("tools", tools);
  return json.Take() + "\n";
}

}  // namespace

Result<std::string> PromptText(Wire& wire, const LoadedRecipe& loaded, const std::string& policy,
                               const std::string& skill) {
  ATTUNE_TRY(const std::string folder, wire.StateFolder());
  Result<std::unique_ptr<Store>> store = Store::Open(folder, {.read_only = true});
  ATTUNE_TRY(CampaignState state, StateFor(wire, store ? store->get() : nullptr, loaded));
  if (!policy.empty() || state.opened->policy.proposer != "agent") {
    ATTUNE_TRY(const PolicyRecord* record, PolicyFor("agent", policy));
    ApplyRecord(*record, state.opened->policy);
  }
  // What would be read now; whether a campaign may go on with it is said when it is resumed.
  Opened asked = *state.opened;
  asked.skill_version.clear();
  if (!skill.empty()) asked.policy.skill = skill;
  ATTUNE_TRY(const SkillInUse in_use, SkillOf(asked));
  ATTUNE_TRY(
      const llm::Request request,
      AgentRequest(state, MakeDesk(store ? store->get() : nullptr, state, in_use.Get())));
  if (wire.flags().json) return Json(state, request);
  std::string text = "== system\n" + request.system + "== user\n" + request.user;
  for (const llm::Tool& tool : request.tools) {
    text += fmt::format("== tool {}: {}\n{}\n", tool.name, tool.description, tool.schema);
  }
  text += fmt::format("== {} bytes: system {}, user {}, tools {}; nothing was sent\n",
                      RequestBytes(request), request.system.size(), request.user.size(),
                      RequestBytes(request) - request.system.size() - request.user.size());
  return text;
}

}  // namespace attune::cli
