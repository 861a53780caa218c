// What a kernel does, from its name: the table of docs/formats/traces.md, first match wins.
#pragma once

#include <string_view>

#include "event_store.h"

namespace attune::traces {

enum class KernelClass : std::uint8_t {
  kCommunication,
  kAttention,
  kMoe,
  kGemm,
  kConvolution,
  kNormalisation,
  kSoftmax,
  kOptimizer,
  kEmbedding,
  kReduce,
  kSort,
  kCopy,
  kPool,
  kTriton,
  kElementwise,
  kQuantise,
  kOther,
  kMemory,  // copies and memsets of the driver: by category, not by name
  kCount
};

std::string_view Word(KernelClass c);
KernelClass ClassifyKernel(std::string_view name);
// Of a communication kernel without arguments: "allreduce", "all_to_all", "send_recv" ... or
// "communication" when its name does not say.
std::string_view CollectiveFromName(std::string_view name);
// One word for the spellings of "Collective name": _allgather_base,
// allgather_into_tensor_coalesced.
std::string_view CollectiveFromArgument(std::string_view argument);
bool IsPointToPoint(std::string_view collective);
// Single precision matrix product outside tensor cores (ampere_sgemm_..., volta_sgemm_...).
bool IsFp32Gemm(std::string_view name);
bool IsPageableCopy(std::string_view name);

// What a host event means, by its name. Runtime: calls of the CUDA or HIP runtime or driver.
HostKind ClassifyOperator(std::string_view name);
struct RuntimeCall {
  HostKind kind = HostKind::kNothing;  // kSyncCall, kDeviceSyncCall, kAllocation
  LaunchKind launch = LaunchKind::kOther;
  bool never_launches = false;  // its correlation joins nothing
};
RuntimeCall ClassifyRuntime(std::string_view name);

}  // namespace attune::traces
