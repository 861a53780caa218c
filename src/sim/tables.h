// Rows of data/*.tsv as they are made constexpr at build time (data/embed.cc).
#pragma once

#include <span>
#include <string_view>

#include "physics.h"

namespace attune::sim {

struct NetworkRow {
  std::string_view name;
  double efficiency, alltoall;
  bool gpu_initiated;
};
struct StackRow {
  std::string_view framework, version;
  double factor;
  std::string_view network;
  bool flash;
  StackProfile::Attention attention;
  bool fused_experts, early_probs, compiled, segments, multi_token_prediction;
  int hang_cp_with_virtual_stages, slow_cp_above;
  double slow_step_s;
};
std::span<const NetworkRow> NetworkRows();
std::span<const StackRow> StackRows();

}  // namespace attune::sim
