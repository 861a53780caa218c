// Sizes of one layer that both time and memory need.
#pragma once

#include <algorithm>

#include "attune/model/training_job.h"

namespace attune::estimate {

inline double D(std::int64_t n) { return static_cast<double>(n); }

struct AttentionSizes {
  double q = 0, kv = 0;                      // columns of query, and of key and value together
  double qk = 0, v = 0;                      // per head
  double out = 0;                            // rows of the output projection
  double q_rank = 0, kv_rank = 0, rope = 0;  // latent attention
};

inline AttentionSizes SizesOf(const ModelShape& s) {
  AttentionSizes a;
  const double heads = D(s.heads);
  if (s.mla) {
    a.qk = D(s.qk_head_dim + s.qk_rope_dim);
    a.v = D(s.v_head_dim);
    a.q = heads * a.qk;
    a.kv = heads * D(s.qk_head_dim + s.v_head_dim);
    a.out = heads * a.v;
    a.q_rank = D(s.q_lora_rank);
    a.kv_rank = D(s.kv_lora_rank);
    a.rope = D(s.qk_rope_dim);
  } else {
    a.qk = a.v = D(s.head_dim);
    a.q = a.out = heads * a.qk;
    a.kv = 2 * D(s.kv_groups) * a.qk;
  }
  return a;
}

// Columns of a Mamba-2 mixer's input projection, and its inner width. Where the shape states no
// sizes: one and a half times the hidden width, and states of 128 in 8 groups.
struct MixerSizes {
  double inner = 0, in = 0;
};
inline MixerSizes MixerOf(const ModelShape& s) {
  MixerSizes m;
  m.inner = s.ssm_heads > 0 ? D(s.ssm_heads) * D(s.ssm_head_dim) : 1.5 * D(s.hidden);
  const double heads = s.ssm_heads > 0 ? D(s.ssm_heads) : m.inner / 64;
  const double states =
      s.ssm_state > 0 ? D(s.ssm_state) * D(std::max<std::int64_t>(1, s.ssm_groups)) : 8 * 128;
  m.in = 2 * m.inner + 2 * states + heads;
  return m;
}

inline double TokensOf(const TrainingJob& job) {  // of one microbatch, on one context-parallel rank
  return D(job.batch.mbs) * D(job.batch.seq_len) / std::max(1, job.layout.cp);
}

// Matrices of an MLP: gate, up and down, or up and down.
inline double MlpMatrices(const ModelShape& s) { return s.gated_mlp ? 3 : 2; }

}  // namespace attune::estimate
