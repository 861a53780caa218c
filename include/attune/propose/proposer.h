// How the next change is chosen. A proposer sees the campaign's record and a function that answers
// whether a change is legal; it can't reach, configure or skip a gate.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"
#include "attune/model/campaign.h"
#include "attune/model/proposal.h"
#include "attune/skill/skill.h"

namespace attune {

// The answer a live proposal would get (argument classes, defects, legality, duplicates), for free.
using Vet = std::function<GateVerdict(const Change&)>;
using Pulse = std::function<bool()>;

// One step towards a reply: facts to commit first, and the reply when it is there. A proposer that
// asks a model takes several steps a decision, because each request is committed before it is sent.
struct ProposerStep {
  std::vector<Fact> facts;
  std::optional<ProposerReply> reply;
  std::string refused_as = {};  // of a BadReply: its reason code; empty: "schema"
  std::string llm_call = {};    // that made the reply
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual std::string Name() const = 0;
  // What the campaign calls. Of most proposers one step is the whole reply. `pulse`: called often
  // while a step waits for the world; false: give up, the step says so in its facts.
  virtual Result<ProposerStep> Step(const CampaignState& state, const Vet& vet, const Pulse& pulse);
  // Deterministic in (state, vet, its own seed): asked again after a crash it gives the same reply.
  // Error: the proposer can't answer now (model unreachable): the campaign pauses.
  virtual Result<ProposerReply> Propose(const CampaignState& state, const Vet& vet) = 0;
};

// Needs no model. For a known framework: the moves of the catalog, ranked by an estimate that the
// campaign's runs correct. For `framework: custom`: one-lever descent over the declared levers.
std::unique_ptr<Proposer> MakeRulesProposer();  // with the built-in catalog
std::unique_ptr<Proposer> MakeRulesProposerWith(const Catalog& catalog);
// Uniform over declared or knob values, seeded by (policy seed, number of proposals so far).
std::unique_ptr<Proposer> MakeRandomProposer();
// Replies from a file, one JSON object or raw text a line (docs/formats/proposals.md). For tests
// and for replaying a person's plan.
Result<std::unique_ptr<Proposer>> MakeScriptedProposer(const std::string& path);

// The strict reader of one reply's raw text: whole input, no duplicate keys, no unknown keys,
// bounded. The one entry point for live replies, scripts and the hostile corpus. `demanded`: keys
// that must be there beside the gates' own two (the agent's schema demands more).
ProposerReply ParseProposal(std::string_view raw, std::span<const std::string_view> demanded = {});

}  // namespace attune
