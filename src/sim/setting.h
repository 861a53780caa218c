// What every term needs, worked out once an evaluation: sizes as doubles, peaks, groups.
#pragma once

#include <algorithm>

#include "links.h"
#include "physics.h"
#include "shape.h"

namespace attune::sim {

inline double D(std::int64_t n) { return static_cast<double>(n); }

struct Setting {
  Setting(const TrainingJob& job, const Machine& machine, const StackProfile& stack,
          const Coefficients& c, const Conditions& conditions);

  const TrainingJob& job;
  const ModelShape& shape;
  const Machine& machine;
  const StackProfile& stack;
  const Coefficients& c;
  const Conditions& conditions;

  double tp, cp, ep, etp, pp, dp, vp, expert_dp;
  double hidden;
  double seq;         // tokens of a row
  double tokens;      // of a micro-batch on a context-parallel rank
  double own_tokens;  // of them, those one tensor-parallel rank keeps under sequence parallelism
  double split;       // TP where sequence parallelism shards hidden-sized tensors, else 1
  bool quantized, block_scaled;  // FP8 or FP4 GEMMs; scaled in blocks
  double peak_bf16, peak_low;    // FLOP/s; peak_low is the precision's
  double gemm_bf16, gemm_low;    // share of the peak at infinite size
  double attention_rate;         // FLOP/s
  double hbm;                    // bytes a second
  double imbalance;              // slowest expert rank's tokens over the mean
  Group tp_group, cp_group, ep_group, etp_group, dp_group, expert_dp_group;

  // One plain GEMM on one rank, seconds.
  double Gemm(double m, double k, double n, bool low) const {
    return GemmTime(m, k, n, low && quantized, 1, 1);
  }
  // `count` GEMMs of the same size in one grouped call.
  double GroupedGemm(double count, double m, double k, double n) const {
    return GemmTime(m, k, n, quantized, count, quantized ? c.expert_gemm_fp8 : c.expert_gemm);
  }
  double Moved(double bytes) const { return bytes / hbm; }
  // Quantising `elements` inputs of a GEMM; nothing in BF16.
  double Quantize(double elements) const {
    if (!quantized) return 0;
    return Moved(elements * (block_scaled ? c.quantize_block_bytes : c.quantize_bytes));
  }
  double ExpertShare() const { return own_tokens * D(shape.topk) * imbalance; }

 private:
  double GemmTime(double m, double k, double n, bool low, double count, double share) const {
    if (m <= 0 || k <= 0 || n <= 0) return 0;
    const double peak = low ? peak_low : peak_bf16;
    const double q = peak / 989e12;
    const double eff = (low ? gemm_low : gemm_bf16) * share * m / (m + c.tile_m * q) * n /
                       (n + c.tile_n * q) * k / (k + c.tile_k * q);
    const double math = 2 * m * k * n / (peak * eff);
    const double width = low ? 1 : 2;
    const double bytes = width * (m * k + k * n) + 2 * m * n;
    return count * std::max(math, bytes / hbm);
  }
};

}  // namespace attune::sim
