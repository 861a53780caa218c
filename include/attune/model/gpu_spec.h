// Datasheet figures of GPUs: what a card says, not what a program reaches. The one table of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace attune {

struct GpuSpec {
  std::string_view name;  // as `workload.gpu` spells it
  double bf16_flops = 0;  // dense, a second
  double fp8_flops = 0;   // dense; 0: not supported
  double fp4_flops = 0;   // dense; 0: not supported
  std::int64_t memory_bytes = 0;
  double memory_bandwidth = 0;   // bytes a second
  double nvlink_bandwidth = 0;   // bytes a second and direction of one GPU
  int nvlink_domain = 8;         // GPUs that reach each other over it
  double network_bandwidth = 0;  // bytes a second of one GPU's share of the node's network cards
  double host_bandwidth = 0;     // bytes a second and direction to the host (PCIe or C2C)
  double power = 0;              // watts the board may draw
};

// nullptr: not in the table ("cpu" is not).
const GpuSpec* FindGpu(std::string_view name);
std::span<const GpuSpec> KnownGpus();

}  // namespace attune
