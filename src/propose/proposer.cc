#include "attune/propose/proposer.h"

#include <utility>

namespace attune {

Result<ProposerStep> Proposer::Step(const CampaignState& state, const Vet& vet, const Pulse&) {
  ATTUNE_TRY(ProposerReply reply, Propose(state, vet));
  ProposerStep step;
  step.reply = std::move(reply);
  return step;
}

}  // namespace attune
