#include "machines.h"

#include "tables.h"

namespace attune::sim {
namespace {

Architecture ArchitectureOf(const GpuSpec& gpu) {
  if (gpu.name.starts_with("MI")) return Architecture::kInstinct;
  if (gpu.fp4_flops > 0) return Architecture::kBlackwell;
  return gpu.fp8_flops > 0 ? Architecture::kHopper : Architecture::kAmpere;
}

std::optional<StackProfile> Find(std::string_view framework, std::string_view version) {
  for (const StackRow& row : StackRows()) {
    if (row.framework != framework || row.version != version) continue;
    StackProfile s;
    s.framework = std::string(framework);
    s.version = std::string(version);
    s.factor = row.factor;
    s.flash_attention = row.flash;
    s.attention = row.attention;
    s.fused_experts = row.fused_experts;
    s.early_probs = row.early_probs;
    s.compiled = row.compiled;
    s.expandable_segments = row.segments;
    s.multi_token_prediction = row.multi_token_prediction;
    s.network = std::string(row.network);
    s.hang_cp_with_virtual_stages = row.hang_cp_with_virtual_stages;
    s.slow_cp_above = row.slow_cp_above;
    s.slow_step_s = row.slow_step_s;
    return s;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Machine> FindMachine(std::string_view gpu, std::string_view network) {
  const GpuSpec* const spec = FindGpu(gpu);
  if (spec == nullptr) return std::nullopt;
  for (const NetworkRow& row : NetworkRows()) {
    if (row.name != network) continue;
    Machine m;
    m.gpu = *spec;
    m.architecture = ArchitectureOf(*spec);
    m.network.name = std::string(row.name);
    m.network.nvlink_rate = spec->nvlink_bandwidth;
    m.network.nvlink_domain = spec->nvlink_domain;
    m.network.nic_rate = spec->network_bandwidth;
    m.network.nics_per_node = spec->nvlink_domain;
    m.network.efficiency = row.efficiency;
    m.network.alltoall_efficiency = row.alltoall;
    m.network.gpu_initiated = row.gpu_initiated;
    return m;
  }
  return std::nullopt;
}

std::optional<StackProfile> FrameworkStack(std::string_view framework) {
  return Find(framework, "*");
}

std::optional<StackProfile> FindStack(std::string_view framework, std::string_view version) {
  if (std::optional<StackProfile> exact = Find(framework, version)) return exact;
  return FrameworkStack(framework);
}

}  // namespace attune::sim
