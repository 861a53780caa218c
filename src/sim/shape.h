// Counts that depend on the model's shape alone: layers of each kind, parameters, FLOPs.
#pragma once

#include <array>

#include "physics.h"

namespace attune::sim {

// Layers of each kind in the order they are stacked: `At(i)` for layer i of the decoder.
class LayerOrder {
 public:
  explicit LayerOrder(const ModelShape& shape) : shape_(shape) {}
  int size() const { return static_cast<int>(shape_.layers); }
  // Letters of the hybrid pattern: M, *, E, -; "|" and MTP parts are not counted.
  LayerKind At(int layer, std::size_t& cursor) const;

 private:
  const ModelShape& shape_;
};

// Parameters of one layer, by what shards them: attention and MLP by TP, experts by EP x ETP, the
// rest (router, norms) by nothing.
struct LayerParameters {
  double attention = 0;  // or the state-space mixer
  double mlp = 0;        // dense MLP or shared expert, latent projections
  double router = 0;
  double experts = 0;         // all routed experts
  double active_experts = 0;  // those a token meets
  double Dense() const { return attention + mlp + router; }
};
LayerParameters ParametersOf(const ModelShape& shape, LayerKind kind);

bool HasAttention(LayerKind kind);  // softmax attention
bool HasExperts(LayerKind kind);
double InnerWidth(const ModelShape& shape);  // of a state-space layer
// Tokens a query sees on average: causal half of the sequence, less under a window.
double AttendedTokens(const ModelShape& shape, double seq_len);

}  // namespace attune::sim
