#include "setting.h"

#include <cmath>

namespace attune::sim {
namespace {

double GemmShare(Architecture a, const Coefficients& c) {
  switch (a) {
    case Architecture::kAmpere:
      return c.gemm_ampere;
    case Architecture::kHopper:
      return c.gemm_hopper;
    case Architecture::kBlackwell:
      return c.gemm_blackwell;
    case Architecture::kInstinct:
      return c.gemm_instinct;
  }
  return c.gemm_hopper;
}

// Matrix units at full rate are limited by power: a board with fewer watts a FLOP than the best of
// its generation runs at a lower clock.
double PowerFactor(const Machine& m, const Coefficients& c) {
  double reference = 700 / 989.4e12;  // H100
  if (m.architecture == Architecture::kAmpere) reference = 400 / 312e12;
  if (m.architecture == Architecture::kBlackwell) reference = 1400 / 2500e12;  // GB300
  if (m.architecture == Architecture::kInstinct) reference = 1400 / 2516e12;   // MI355X
  if (m.gpu.power <= 0 || m.gpu.bf16_flops <= 0) return 1;
  const double share = m.gpu.power / m.gpu.bf16_flops / reference;
  return std::min(1.0, std::pow(share, c.power_exponent));
}

double GemmShareFp8(Architecture a, const Coefficients& c) {
  if (a == Architecture::kInstinct) return c.gemm_fp8_instinct;
  return a == Architecture::kBlackwell ? c.gemm_fp8_blackwell : c.gemm_fp8_hopper;
}

double AttentionShare(Architecture a, StackProfile::Attention kernels, const Coefficients& c) {
  if (a == Architecture::kHopper && kernels == StackProfile::Attention::kFlash2) {
    return c.attention_flash2_hopper;
  }
  if (a == Architecture::kHopper && kernels == StackProfile::Attention::kTriton) {
    return c.attention_triton_hopper;
  }
  switch (a) {
    case Architecture::kAmpere:
      return c.attention_ampere;
    case Architecture::kHopper:
      return c.attention_hopper;
    case Architecture::kBlackwell:
      return c.attention_blackwell;
    case Architecture::kInstinct:
      return c.attention_instinct;
  }
  return c.attention_hopper;
}

// Dropless natural routing: the fewer experts a rank averages over, the worse its slowest one.
double Imbalance(const Setting& s) {
  if (s.shape.experts <= 0) return 1;
  if (s.conditions.imbalance) return *s.conditions.imbalance;
  if (s.job.switches.forced_balance || s.job.switches.moe_pad_to_capacity) return 1;
  return 1 + s.c.imbalance_natural * (1 - 1 / s.ep);
}

}  // namespace

Setting::Setting(const TrainingJob& j, const Machine& m, const StackProfile& st,
                 const Coefficients& coefficients, const Conditions& cond)
    : job(j),
      shape(j.shape),
      machine(m),
      stack(st),
      c(coefficients),
      conditions(cond),
      tp(j.layout.tp),
      cp(j.layout.cp),
      ep(j.layout.ep),
      etp(j.shape.experts > 0 ? j.layout.etp : 1),
      pp(j.layout.pp),
      dp(j.layout.dp),
      vp(std::max(1, j.layout.vp)),
      expert_dp(std::max(1, j.layout.expert_dp)),
      hidden(D(j.shape.hidden)),
      seq(D(j.batch.seq_len)),
      tokens(D(j.batch.mbs) * seq / cp) {
  own_tokens = tokens / tp;
  split = j.layout.sequence_parallel ? tp : 1;
  const std::string& p = j.switches.precision;
  const bool fp4 = p.find("fp4:") != std::string::npos;
  const bool fp8 = p.find("fp8:") != std::string::npos;
  quantized = (fp4 && m.gpu.fp4_flops > 0) || ((fp8 || fp4) && m.gpu.fp8_flops > 0);
  block_scaled =
      fp4 || p.find("mxfp8") != std::string::npos || p.find("blockwise") != std::string::npos;
  peak_bf16 = m.gpu.bf16_flops;
  gemm_bf16 = GemmShare(m.architecture, c);
  peak_low = peak_bf16;
  gemm_low = gemm_bf16;
  if (fp4 && m.gpu.fp4_flops > 0) {
    peak_low = m.gpu.fp4_flops;
    gemm_low = c.gemm_fp4;
  } else if (quantized) {
    peak_low = m.gpu.fp8_flops;
    gemm_low = GemmShareFp8(m.architecture, c);
    if (p.find("rowwise") != std::string::npos) gemm_low *= c.gemm_rowwise;
  }
  const double power = PowerFactor(m, c);
  gemm_bf16 *= power;
  gemm_low *= power;
  attention_rate = power * peak_bf16 * AttentionShare(m.architecture, st.attention, c);
  hbm = m.gpu.memory_bandwidth * c.hbm_efficiency;
  imbalance = Imbalance(*this);
  tp_group = MakeGroup(m, c, tp, 1);
  cp_group = MakeGroup(m, c, cp, tp);
  etp_group = MakeGroup(m, c, etp, 1);
  ep_group = MakeGroup(m, c, ep, etp);
  dp_group = MakeGroup(m, c, dp * cp, tp);
  expert_dp_group = MakeGroup(m, c, expert_dp, etp * ep);
}

}  // namespace attune::sim
