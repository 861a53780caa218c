// The text of --pipeline-model-parallel-layout: E embedding, t decoder layer, m multi-token-
// prediction layer, L loss; "|" ends a stage, "x*3" and "(tt|)*29" repeat, "," means nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune {

struct PipelineLayout {
  std::vector<std::string>
      stages;         // symbols of each virtual stage, in pipeline order; may be empty
  std::string error;  // what is wrong with the text itself; empty: it was read whole
};

PipelineLayout ParsePipelineLayout(std::string_view text);

// What Megatron-LM asks of a layout over `pp` ranks for a model of `layers` and `mtp_layers`
// (constraint 35); empty when nothing is wrong.
std::string PipelineLayoutError(const PipelineLayout& layout, int pp, long long layers,
                                long long mtp_layers);

}  // namespace attune
