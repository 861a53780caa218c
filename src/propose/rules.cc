#include "rules.h"

namespace attune {
namespace {

class RulesProposer final : public Proposer {
 public:
  explicit RulesProposer(const Catalog& catalog)
      : declared_(MakeDeclaredRules()), megatron_(MakeMegatronRules(catalog)) {}

  std::string Name() const override { return "rules"; }

  Result<ProposerReply> Propose(const CampaignState& s, const Vet& vet) override {
    const bool known = s.recipe.framework == Framework::kMegatronLm;
    return (known ? megatron_ : declared_)->Propose(s, vet);
  }

 private:
  std::unique_ptr<Proposer> declared_, megatron_;
};

}  // namespace

std::unique_ptr<Proposer> MakeRulesProposer() { return MakeRulesProposerWith(BuiltInCatalog()); }

std::unique_ptr<Proposer> MakeRulesProposerWith(const Catalog& catalog) {
  return std::make_unique<RulesProposer>(catalog);
}

}  // namespace attune
