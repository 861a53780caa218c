// Uniform draws over declared levers and their values: the floor that every other proposer has to
// beat. The draw depends on (policy seed, number of proposals), so a restart draws the same.
#include "attune/base/random.h"

#include <fmt/core.h>

#include "attune/propose/proposer.h"
#include "declared.h"

namespace attune {
namespace {

constexpr int kRedraws = 40;

class RandomProposer final : public Proposer {
 public:
  std::string Name() const override { return "random"; }

  Result<ProposerReply> Propose(const CampaignState& s, const Vet& vet) override {
    const std::uint64_t seed = s.opened ? s.opened->policy.seed : 0;
    Random random(seed * 1'000'003 + s.proposals.size());
    std::vector<const DeclaredLever*> levers;
    for (const DeclaredLever& lever : s.recipe.declared) {
      if (IsOffered(s.recipe, lever) && lever.values.size() > 1) levers.push_back(&lever);
    }
    for (int i = 0; i < kRedraws && !levers.empty(); ++i) {
      const DeclaredLever& lever = *levers[random.Below(levers.size())];
      const std::string& value = lever.values[random.Below(lever.values.size())];
      const std::optional<Change> change = MoveTo(s.recipe, s.leader.user, lever, value);
      if (!change || ApplyEdits(s.leader.user, change->edits) == s.leader.user) continue;
      if (!vet(*change).admitted) continue;
      Proposal p;
      p.change = *change;
      p.label = MoveLabel(lever, value);
      p.hypothesis = "a uniform draw";
      p.bottleneck = "unknown";
      return p;
    }
    return StopWish{fmt::format("{} draws in a row gave nothing legal and new", kRedraws), {}};
  }
};

}  // namespace

std::unique_ptr<Proposer> MakeRandomProposer() { return std::make_unique<RandomProposer>(); }

}  // namespace attune
