// How the next change is chosen. A proposer sees the campaign's record and a function that answers
// whether a change is legal; it can't reach, configure or skip a gate.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "attune/base/result.h"
#include "attune/model/campaign.h"
#include "attune/model/proposal.h"

namespace attune {

// The answer a live proposal would get (argument classes, defects, legality, duplicates), for free.
using Vet = std::function<GateVerdict(const Change&)>;

class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual std::string Name() const = 0;
  // Deterministic in (state, vet, its own seed): asked again after a crash it gives the same reply.
  // Error: the proposer can't answer now (model unreachable): the campaign pauses.
  virtual Result<ProposerReply> Propose(const CampaignState& state, const Vet& vet) = 0;
};

// One-lever descent over the declared levers with what is known so far; needs no model.
std::unique_ptr<Proposer> MakeRulesProposer();
// Uniform over declared or knob values, seeded by (policy seed, number of proposals so far).
std::unique_ptr<Proposer> MakeRandomProposer();
// Replies from a file, one JSON object or raw text a line (docs/formats/proposals.md). For tests
// and for replaying a person's plan.
Result<std::unique_ptr<Proposer>> MakeScriptedProposer(const std::string& path);

// The strict reader of one reply's raw text: whole input, no duplicate keys, no unknown keys,
// bounded. The one entry point for live replies, scripts and the hostile corpus.
ProposerReply ParseProposal(std::string_view raw);

}  // namespace attune
