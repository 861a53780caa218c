// The agent: a language model chooses the next change. Each request is built from the campaign's
// state to a byte budget, and holds nothing else: the same state and answers give the same request,
// byte for byte (docs/agent.md). The model calls one tool: propose a change, inspect something
// read-only, or stop. It reaches no gate and no file.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/llm/client.h"
#include "attune/model/campaign.h"
#include "attune/propose/proposer.h"

namespace attune {

// A lever as the agent is told of it.
struct LeverOffer {
  struct Name {
    std::string name;       // flag or variable
    std::string values;     // "1..64", "alltoall|flex"; empty: a bare flag, on or off
    std::string otherwise;  // what holds when it is absent; empty: nothing
    bool follows = false;   // only together with another name of this lever
  };
  std::string id, cls;
  std::vector<Name> names;
  std::string why;  // of the recipe that declares it
};

// What the skill says of a lever.
struct CatalogNote {
  std::string lever;
  std::string text;
  std::string guide;  // what general guides say of it: all that the arm `public-guide` reads
};

// A read-only question, and who answers it. `of`: a run, campaign, lever or lesson id.
struct Question {
  std::string what;
  std::string of;
  Change candidate;  // of "estimate"
};
// Error: the question can't be answered; the message goes to the model.
using Answerer = std::function<Result<std::string>(const CampaignState&, const Question&)>;

// What lies on the agent's desk, made by whoever wires the parts. Read-only, the same through a
// campaign (its hash is Opened.skill_version).
struct AgentDesk {
  std::vector<LeverOffer> levers;
  std::string rules;  // skill/SKILL.md
  std::vector<CatalogNote> catalog;
  std::vector<std::string> lessons;  // one line each, with its id
  // Beyond what the state itself answers (run, diagnosis, trace, lever): log, campaign, catalog,
  // lesson, estimate. One that is missing is not offered.
  std::map<std::string, Answerer> answers;
  // What of the budget is kept for the final stage. Unset: not known.
  std::function<GpuMillis(const CampaignState&)> reserve;
};

// What the answers so far have used.
struct ModelTokens {
  std::int64_t in = 0, out = 0;
};
ModelTokens TokensOf(const CampaignState& state);
// The smallest of the ceilings in millionths of a dollar; nullopt: none.
std::optional<std::int64_t> LlmBudgetOf(const CampaignState& state);

// `client` outlives the proposer.
std::unique_ptr<Proposer> MakeAgentProposer(llm::Client& client, AgentDesk desk);

// The request that this state asks for: what `attune plan --show-prompt` prints. Error: the byte
// budget is too small for what must be in it.
Result<llm::Request> AgentRequest(const CampaignState& state, const AgentDesk& desk);

// Bytes of everything of a request that a model reads: both texts, and the tools' schemas.
std::size_t RequestBytes(const llm::Request& request);

}  // namespace attune
