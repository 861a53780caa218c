// The section llm of the user's own configuration: which models there are, where, and where their
// keys come from. Keys themselves stand in no file of ours.
#pragma once

#include <span>

#include "attune/recipe_io/user_config.h"
#include "attune/recipe_io/section.h"

namespace attune {

std::span<const Key> LlmConfigKeys();
// What `llm` says wins over what stands in `out`; a profile of a known name is replaced whole.
void ReadLlmConfig(const Section& llm, LlmConfig& out);

}  // namespace attune
