// An agent whose requests and replies go through the real client and its wire format.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "attune/campaign/campaign.h"
#include "attune/llm/profile.h"
#include "attune/propose/agent.h"
#include "fakes/fake_http.h"

namespace attune::testing {

// One tool call of OpenAI Chat Completions.
inline std::string ReplyWith(const std::string& tool, const std::string& arguments) {
  const nlohmann::json call = {{"id", "call_1"},
                               {"type", "function"},
                               {"function", {{"name", tool}, {"arguments", arguments}}}};
  return nlohmann::json(
             {{"id", "chat_1"},
              {"object", "chat.completion"},
              {"model", "wire"},
              {"choices",
               {{{"index", 0},
                 {"finish_reason", "tool_calls"},
                 {"message",
                  {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}}}}}},
              {"usage", {{"prompt_tokens", 9000}, {"completion_tokens", 90}}}})
      .dump();
}

// The agent over the real client and an HTTP server in memory. Exchanges are kept in `folder`.
class WireAgent final : public Proposer {
 public:
  WireAgent(fakes::FakeHttp* http, Clock* clock, const Recipe& recipe, const std::string& folder) {
    llm::Profile profile;
    profile.endpoint = "http://127.0.0.1:1/v1";
    profile.model = "wire";
    profile.auth = llm::Auth::kNone;
    llm::ClientOptions options;
    options.models = {profile};
    options.folder = folder;
    client_ = std::move(*llm::MakeClient(std::move(options), *http, *clock));
    AgentDesk desk;
    desk.levers = LeverOffersOf(recipe);
    agent_ = MakeAgentProposer(*client_, std::move(desk));
  }
  std::string Name() const override { return agent_->Name(); }
  Result<ProposerStep> Step(const CampaignState& s, const Vet& vet, const Pulse& pulse) override {
    return agent_->Step(s, vet, pulse);
  }
  Result<ProposerReply> Propose(const CampaignState& s, const Vet& vet) override {
    return agent_->Propose(s, vet);
  }

 private:
  std::unique_ptr<llm::Client> client_;
  std::unique_ptr<Proposer> agent_;
};

}  // namespace attune::testing
