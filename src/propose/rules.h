// The two searches behind the proposer "rules".
#pragma once

#include <memory>

#include "attune/propose/proposer.h"
#include "attune/skill/skill.h"

namespace attune {

// One-lever descent over the levers that a `framework: custom` recipe declares.
std::unique_ptr<Proposer> MakeDeclaredRules();
// Search over the catalog by the corrected estimate, for Megatron-LM.
std::unique_ptr<Proposer> MakeMegatronRules(Catalog catalog);

}  // namespace attune
