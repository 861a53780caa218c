#include "kernel_class.h"

#include <algorithm>
#include <array>
#include <string>

namespace attune::traces {
namespace {

std::string Lower(std::string_view s) {
  std::string lower(s);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool Has(std::string_view s, std::string_view part) {
  return s.find(part) != std::string_view::npos;
}

template <std::size_t N>
bool HasAny(std::string_view s, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(), [s](std::string_view p) { return Has(s, p); });
}

constexpr std::array kClassWords = {
    std::string_view("communication"), std::string_view("attention"),
    std::string_view("moe"),           std::string_view("gemm"),
    std::string_view("convolution"),   std::string_view("normalisation"),
    std::string_view("softmax_loss"),  std::string_view("optimizer"),
    std::string_view("embedding"),     std::string_view("reduce"),
    std::string_view("sort_scan"),     std::string_view("copy"),
    std::string_view("pool"),          std::string_view("triton"),
    std::string_view("elementwise"),   std::string_view("quantise_cast"),
    std::string_view("other"),         std::string_view("memory"),
};
static_assert(kClassWords.size() == static_cast<std::size_t>(KernelClass::kCount));

// Lower case. "shot" alone would take too much: the kernels of symmetric memory say what they
// reduce.
bool IsCommunication(std::string_view n) {
  static constexpr std::array<std::string_view, 9> kParts = {
      "nccl",  "rccl",     "::ep::internode",     "::ep::intranode", "nvshmem",
      "msccl", "multimem", "cross_device_reduce", "userbuffers"};
  if (HasAny(n, kParts) || n.rfind("ub_", 0) == 0) return true;
  const bool shot =
      Has(n, "one_shot") || Has(n, "oneshot") || Has(n, "two_shot") || Has(n, "twoshot");
  return shot && (Has(n, "reduce") || Has(n, "gather"));
}

bool IsAttention(std::string_view n) {
  static constexpr std::array<std::string_view, 8> kParts = {
      "flash", "fmha", "attention", "attn", "mha_", "mla_", "sage_", "paged_"};
  if (HasAny(n, kParts)) return true;
  return Has(n, "cudnn") && Has(n, "sdpa");
}

bool IsMoe(std::string_view n) {
  static constexpr std::array<std::string_view, 7> kParts = {
      "topk", "router", "moe", "expert", "_matmul_ogs", "combined_routing", "grouped_gemm"};
  if (HasAny(n, kParts)) return true;
  return Has(n, "permute") && !Has(n, "conv") && !Has(n, "nchw") && !Has(n, "nhwc");
}

bool IsGemm(std::string_view n) {
  static constexpr std::array<std::string_view, 8> kParts = {
      "gemm",   "nvjet", "cutlass::kernel", "cutlass::device_kernel",
      "splitk", "gemv",  "cublaslt",        "magma"};
  return HasAny(n, kParts) || n.rfind("cijk_", 0) == 0 || n.rfind("bmm_", 0) == 0;
}

bool IsConvolution(std::string_view n) {
  static constexpr std::array<std::string_view, 12> kParts = {
      "conv", "winograd", "implicit",    "fprop",  "dgrad",      "wgrad",
      "xmma", "miopen",   "subtensorop", "im2col", "nchwtonhwc", "nhwctonchw"};
  return HasAny(n, kParts);
}

bool IsNormalisation(std::string_view n) {
  static constexpr std::array<std::string_view, 5> kParts = {"norm", "rowwisemoments", "gammabeta",
                                                             "bn_fw", "bn_bw"};
  return HasAny(n, kParts);
}

bool IsSoftmax(std::string_view n) {
  static constexpr std::array<std::string_view, 4> kParts = {"softmax", "cross_entropy", "nll_loss",
                                                             "classnllcriterion"};
  return HasAny(n, kParts);
}

bool IsOptimizer(std::string_view n) {
  static constexpr std::array<std::string_view, 4> kParts = {"multi_tensor_apply", "adam", "lamb",
                                                             "sgd"};
  return HasAny(n, kParts);
}

bool IsEmbedding(std::string_view n) {
  static constexpr std::array<std::string_view, 5> kParts = {"embedding", "index_select", "gather",
                                                             "scatter", "indexing_backward"};
  return HasAny(n, kParts);
}

bool IsSort(std::string_view n) {
  static constexpr std::array<std::string_view, 6> kParts = {"radix", "cub::",  "rocprim",
                                                             "scan",  "unique", "sort"};
  return HasAny(n, kParts);
}

bool IsCopy(std::string_view n) {
  static constexpr std::array<std::string_view, 5> kParts = {"catarray", "copy", "transpose",
                                                             "fill", "kvcache"};
  return HasAny(n, kParts);
}

bool IsElementwise(std::string_view n) {
  static constexpr std::array<std::string_view, 5> kParts = {
      "elementwise", "pointwise", "act_and_mul", "dropout", "distribution"};
  return HasAny(n, kParts);
}

}  // namespace

std::string_view Word(KernelClass c) { return kClassWords[static_cast<std::size_t>(c)]; }

KernelClass ClassifyKernel(std::string_view name) {
  const std::string lower = Lower(name);
  const std::string_view n = lower;
  if (IsCommunication(n)) return KernelClass::kCommunication;
  if (IsAttention(n)) return KernelClass::kAttention;
  if (IsMoe(n)) return KernelClass::kMoe;
  if (IsGemm(n)) return KernelClass::kGemm;
  if (IsConvolution(n)) return KernelClass::kConvolution;
  if (IsNormalisation(n)) return KernelClass::kNormalisation;
  if (IsSoftmax(n)) return KernelClass::kSoftmax;
  if (IsOptimizer(n)) return KernelClass::kOptimizer;
  if (IsEmbedding(n)) return KernelClass::kEmbedding;
  if (Has(n, "reduce")) return KernelClass::kReduce;
  if (IsSort(n)) return KernelClass::kSort;
  if (IsCopy(n)) return KernelClass::kCopy;
  if (Has(n, "pool")) return KernelClass::kPool;
  if (n.rfind("triton_", 0) == 0) return KernelClass::kTriton;
  if (IsElementwise(n)) return KernelClass::kElementwise;
  if (Has(n, "quant") || Has(n, "cast")) return KernelClass::kQuantise;
  return KernelClass::kOther;
}

std::string_view CollectiveFromName(std::string_view name) {
  const std::string lower = Lower(name);
  const std::string_view n = lower;
  if (Has(n, "::ep::")) return "all_to_all";
  if (Has(n, "reducescatter") || Has(n, "reduce_scatter")) return "reduce_scatter";
  if (Has(n, "allgather") || Has(n, "all_gather")) return "allgather";
  if (Has(n, "allreduce") || Has(n, "all_reduce") || Has(n, "cross_device_reduce")) {
    return "allreduce";
  }
  if (Has(n, "sendrecv")) return "send_recv";
  if (Has(n, "alltoall") || Has(n, "all_to_all")) return "all_to_all";
  if (Has(n, "broadcast")) return "broadcast";
  if (Has(n, "reduce")) return "reduce";
  return "communication";
}

std::string_view CollectiveFromArgument(std::string_view argument) {
  const std::string lower = Lower(argument);
  const std::string_view n = lower;
  if (Has(n, "reduce_scatter") || Has(n, "reducescatter")) return "reduce_scatter";
  if (Has(n, "allgather") || Has(n, "all_gather")) return "allgather";
  if (Has(n, "allreduce") || Has(n, "all_reduce")) return "allreduce";
  if (Has(n, "all_to_all") || Has(n, "alltoall")) return "all_to_all";
  if (Has(n, "broadcast")) return "broadcast";
  if (Has(n, "barrier")) return "barrier";
  if (n == "send") return "send";
  if (n == "recv") return "recv";
  if (Has(n, "reduce")) return "reduce";
  return {};
}

bool IsPointToPoint(std::string_view collective) {
  return collective == "send" || collective == "recv";
}

bool IsFp32Gemm(std::string_view name) {
  const std::string n = Lower(name);
  return Has(n, "_sgemm") || n.rfind("sgemm", 0) == 0;
}

bool IsPageableCopy(std::string_view name) {
  return name.rfind("Memcpy HtoD", 0) == 0 && Has(name, "Pageable");
}

HostKind ClassifyOperator(std::string_view n) {
  if (n.rfind("aten::", 0) == 0) {
    const std::string_view op = n.substr(6);
    static constexpr std::array<std::string_view, 3> kSyncs = {"item", "_local_scalar_dense",
                                                               "nonzero"};
    if (std::find(kSyncs.begin(), kSyncs.end(), op) != kSyncs.end()) return HostKind::kSyncOperator;
    // Operators that a model calls and a backward formula does not.
    static constexpr std::array<std::string_view, 16> kForward = {
        "linear",     "conv1d",     "conv2d",     "conv3d",
        "batch_norm", "layer_norm", "rms_norm",   "group_norm",
        "embedding",  "dropout",    "max_pool2d", "adaptive_avg_pool2d",
        "softmax",    "gelu",       "silu",       "scaled_dot_product_attention"};
    if (std::find(kForward.begin(), kForward.end(), op) != kForward.end()) {
      return HostKind::kForwardOperator;
    }
    return HostKind::kNothing;
  }
  if (n.rfind("ProfilerStep", 0) == 0) return HostKind::kStep;
  if (n.rfind("Optimizer.step", 0) == 0) return HostKind::kOptimizer;
  if (n.rfind("enumerate(DataLoader)#", 0) == 0) return HostKind::kDataLoader;
  if (Has(n, "CheckpointFunctionBackward")) return HostKind::kCheckpoint;
  if (n.rfind("autograd::engine::evaluate_function", 0) == 0) return HostKind::kAutograd;
  return HostKind::kNothing;
}

RuntimeCall ClassifyRuntime(std::string_view n) {
  RuntimeCall call;
  std::string_view rest = n;
  for (const std::string_view prefix : {"cuda", "hip", "cu"}) {
    if (rest.rfind(prefix, 0) == 0) {
      rest.remove_prefix(prefix.size());
      break;
    }
  }
  if (rest.size() == n.size()) return call;  // "INVALID" and the like may launch
  if (rest == "StreamSynchronize" || rest == "EventSynchronize") {
    call.kind = HostKind::kSyncCall;
  } else if (rest == "DeviceSynchronize" || rest == "CtxSynchronize") {
    call.kind = HostKind::kDeviceSyncCall;
  } else if (rest == "Malloc" || rest == "Free" || rest == "HostAlloc" || rest == "MallocHost" ||
             rest == "HostMalloc" || rest == "FreeHost" || rest == "HostFree" ||
             rest == "MallocManaged" || rest == "MemAlloc_v2" || rest == "MemFree_v2" ||
             rest == "MemCreate" || rest == "MemRelease" || rest == "ExtMallocWithFlags") {
    call.kind = HostKind::kAllocation;
  }
  if (Has(rest, "GraphLaunch")) {
    call.launch = LaunchKind::kGraph;
  } else if (Has(rest, "Launch")) {
    call.launch = LaunchKind::kKernel;
  } else if (Has(rest, "Memcpy") || Has(rest, "Memset")) {
    call.launch = LaunchKind::kCopy;
  }
  static constexpr std::array<std::string_view, 12> kNever = {
      "Event",     "StreamWaitEvent", "Occupancy",       "StreamIsCapturing",
      "GetDevice", "DeviceGet",       "StreamGet",       "PointerGet",
      "FuncGet",   "SetDevice",       "PeekAtLastError", "GetLastError"};
  call.never_launches = call.launch == LaunchKind::kOther &&
                        (call.kind != HostKind::kNothing ||
                         std::any_of(kNever.begin(), kNever.end(),
                                     [rest](std::string_view p) { return rest.rfind(p, 0) == 0; }));
  return call;
}

}  // namespace attune::traces
