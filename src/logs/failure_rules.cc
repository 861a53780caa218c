// A signature is a few literals that must all stand in one line and a few that must not. Literals
// instead of patterns: all of them together cost one pass over the line (literal_scan.h), and there
// is nothing in them that a hostile line could make slow.
#include "failure_rules.h"

#include <algorithm>
#include <vector>

namespace attune {
namespace {

using enum FailureClass;
using enum Strength;

constexpr std::array<std::string_view, static_cast<std::size_t>(Mark::kCount)> kMarks = {
    "Traceback (most recent call last)",
    "\", line ",
    "Error",
    "Exception",
    "Root Cause (first observed failure)",
    "ChildFailedError",
    "exitcode",
    "xited with exit code",
    "Caught signal ",
    ") received by PID",
    "iteration",
    "elapsed time per iteration",
    "memory (MB)",
    " arguments -",
    "building GPT model",
    "> number of parameters on",
    "training ...",
    "[before the start of training step]",
    "Starting training loop at iteration",
    "exiting program at",
    "[after training is done]",
    "saving checkpoint at iteration",
    "saved checkpoint from iteration",
    "wrote profiler trace",
    "validation loss at iteration",
    "Capture range started in the application",
    "Capture range ended in the application",
    "using world size:",
    "time (ms)",
};

struct Signature {
  FailureClass cls;
  Strength strength;
  bool fatal;
  std::array<std::string_view, 3> all;
  std::array<std::string_view, 2> none = {};
};

// Sources: log_formats' table of signatures, and the programs that print them (slurmstepd, srun,
// PyTorch's c10 and elastic, NCCL, NVSHMEM, UCX, DeepEP, Megatron-LM's rerun_state_machine).
constexpr Signature kSignatures[] = {
    {kTimeLimit, kFirm, true, {"slurmstepd", "CANCELLED AT", "DUE TO TIME LIMIT"}},
    {kTimeLimit, kFirm, true, {"***", "CANCELLED AT", "DUE TO TIME LIMIT"}},

    {kNodeFail, kFirm, true, {"Node failure on "}},
    {kNodeFail, kFirm, true, {"DUE TO NODE FAILURE"}},

    {kPreempted, kFirm, true, {"DUE TO PREEMPTION"}},
    {kCancelled, kFirm, true, {"slurmstepd", "CANCELLED AT"}},

    {kOomHost, kFirm, true, {"oom_kill event"}},
    {kOomHost, kFirm, true, {"oom-kill event"}},
    {kOomHost, kFirm, true, {"srun: error:", "task", "Out Of Memory"}},
    {kOomHost, kFirm, true, {"Out of memory: Killed process"}},
    {kOomHost, kFirm, true, {"Memory cgroup out of memory"}},
    {kOomHost, kFirm, false, {"DefaultCPUAllocator", "allocate memory"}},
    {kOomHost, kProvisional, false, {"std::bad_alloc"}},
    {kOomHost, kProvisional, false, {"Cannot allocate memory"}},

    {kOomGpu, kFirm, true, {"OutOfMemoryError"}},
    {kOomGpu, kFirm, true, {"CUDA out of memory"}},
    {kOomGpu, kFirm, true, {"HIP out of memory"}},
    {kOomGpu, kFirm, true, {"CUDA error: out of memory"}},
    {kOomGpu, kFirm, true, {"CUDA_ERROR_OUT_OF_MEMORY"}},
    {kOomGpu, kFirm, true, {"CUBLAS_STATUS_ALLOC_FAILED"}},
    {kOomGpu, kFirm, true, {"CUDNN_STATUS_ALLOC_FAILED"}},
    {kOomGpu, kFirm, true, {"Cuda failure 2 'out of memory'"}},
    {kOomGpu, kFirm, true, {"Cuda failure 'out of memory'"}},
    {kOomGpu, kProvisional, false, {"CUDA warning: out of memory"}},

    {kConfigRejected, kFirm, true, {": error: unrecognized arguments:"}},
    {kConfigRejected, kFirm, true, {": error: argument -"}},
    {kConfigRejected, kFirm, true, {": error: the following arguments are required:"}},
    {kConfigRejected, kFirm, true, {": error: ambiguous option:"}},

    {kNan, kFirm, true, {"found NaN in"}},
    {kNan, kFirm, true, {"found Inf in"}},
    {kNan, kFirm, true, {"Unexpected result nan"}},
    {kNan, kFirm, true, {"Unexpected result inf"}},
    {kNan, kFirm, false, {"grad norm: nan"}},
    {kNan, kFirm, false, {"grad norm: inf"}},
    {kNan, kFirm, false, {"lm loss: nan"}},

    // "NULL value" is what NVSHMEM warns when it can still go on with fewer devices.
    {kInitFailure, kFirm, true, {"ibgda", "non-zero status"}},
    {kInitFailure, kWarning, false, {"ibgda", "NULL value"}},
    {kInitFailure, kFirm, true, {"nvshmem", "non-zero status"}},
    {kInitFailure, kFirm, true, {"nvshmem", "initialization failed"}},
    {kInitFailure, kFirm, true, {"NVSHMEM", "initialization failed"}},
    {kInitFailure, kWarning, false, {"nvshmem", "WARN"}},
    {kInitFailure, kWarning, false, {"NVSHMEM WARN"}},
    {kInitFailure, kFirm, true, {"MPI_INIT failed"}},
    {kInitFailure, kFirm, true, {"ORTE was unable"}},
    {kInitFailure, kFirm, true, {"userbuffers", "failed"}},
    {kInitFailure, kFirm, true, {"Userbuffers", "failed"}},

    {kHang, kFirm, true, {"Watchdog caught collective operation timeout"}},
    {kHang, kFirm, true, {"DeepEP", "timeout"}, {"INFO", "timeout="}},
    {kHang, kFirm, true, {"DeepEP", "Timeout"}, {"INFO"}},
    // gloo, which CPU jobs and barriers use.
    {kHang, kFirm, true, {"Timed out waiting", "for recv operation"}},
    {kHang, kFirm, true, {"Timed out waiting", "for send operation"}},

    {kCrashSignal, kFirm, true, {"Segmentation fault"}},
    {kCrashSignal, kFirm, true, {"Fatal Python error:"}},

    // Driver trouble that PyTorch words as a CUDA error: the machine, not the recipe.
    {kInfra, kFirm, true, {"CUDA error: no CUDA-capable device"}},
    {kInfra, kFirm, true, {"CUDA error: uncorrectable ECC error"}},
    {kInfra, kFirm, true, {"CUDA error: system not yet initialized"}},
    {kInfra, kFirm, true, {"CUDA driver version is insufficient"}},
    {kCudaError, kFirm, true, {"illegal memory access"}},
    {kCudaError, kFirm, true, {"device-side assert"}},
    {kCudaError, kFirm, true, {"CUDA error:"}},
    {kCudaError, kFirm, true, {"CUBLAS_STATUS_EXECUTION_FAILED"}},
    {kCudaError, kFirm, true, {"CUBLAS_STATUS_NOT_INITIALIZED"}},
    {kCudaError, kProvisional, false, {"unhandled cuda error"}},

    // "Address already in use" comes as a network error of PyTorch's, and is none.
    {kInfra, kFirm, false, {"Address already in use"}},
    {kInfra, kFirm, false, {"No space left on device"}},
    {kInfra, kFirm, false, {"Disk quota exceeded"}},
    {kInfra, kFirm, false, {"Read-only file system"}},
    {kInfra, kFirm, false, {"Stale file handle"}},
    {kInfra, kFirm, true, {"Bus error"}},
    {kInfra, kFirm, true, {"GPU has fallen off the bus"}},
    {kInfra, kFirm, false, {"NVRM: Xid"}},
    {kInfra, kFirm, true, {"NVIDIA driver on your system is too old"}},
    {kInfra, kFirm, true, {"Found no NVIDIA driver"}},

    {kNetwork, kFirm, true, {"ncclRemoteError"}},
    {kNetwork, kFirm, true, {"ncclSystemError"}},
    {kNetwork, kFirm, false, {"socket timed out"}},
    {kNetwork, kFirm, false, {"socket has timed out"}},
    {kNetwork, kFirm, false, {"Socket Timeout"}},
    {kNetwork, kFirm, false, {"Timed out after", "waiting for clients"}},
    {kNetwork, kFirm, false, {"No route to host"}},
    // The other end is gone: seldom the cause, more often how the survivors notice.
    {kNetwork, kProvisional, false, {"Connection reset by peer"}},
    {kNetwork, kProvisional, false, {"Connection closed by peer"}},
    {kNetwork, kProvisional, false, {"Connection refused"}},
    {kNetwork, kProvisional, false, {"Broken pipe"}},
    {kNetwork, kProvisional, false, {"NCCL communicator was aborted"}},
    {kNetwork, kWarning, false, {"NCCL WARN NET/"}},
    {kNetwork, kWarning, false, {"NET/OFI", "RC: -"}, {"NCCL INFO"}},
    {kNetwork, kWarning, false, {"NET/OFI", "Unable to"}, {"NCCL INFO"}},
    {kNetwork, kWarning, false, {"NET/IB", "Got completion from peer", "with status="}},

    // Ways to end that name no reason; behind "Bus error", which is printed with a core dump too.
    {kCrashSignal, kProvisional, false, {"terminate called"}},
    {kCrashSignal, kProvisional, false, {"core dumped"}},

    {kPythonException, kProvisional, false, {"ray.exceptions.RayTaskError"}},
    {kPythonException, kProvisional, false, {"ProcessRaisedException"}},
};

struct BenignLine {
  std::string_view name;
  std::array<std::string_view, 3> all;
};
constexpr BenignLine kBenign[] = {
    {"loss_scale_overflow", {"OVERFLOW!", "Skipping step"}},
    {"nccl_plugin_absent", {"NET/Plugin", "Failed to find"}},
};

class Rules {
 public:
  Rules() : scan_(Collect()) {
    for (const Signature& s : kSignatures) {
      signatures_.push_back({Numbers(s.all), Numbers(s.none)});
      any_.Add(signatures_.back().all);
    }
    for (const BenignLine& b : kBenign) {
      benign_.push_back(Numbers(b.all));
      any_.Add(benign_.back());
    }
  }

  LineHits Scan(std::string_view line) const { return {scan_.Find(line)}; }

  std::optional<LineVerdict> Match(const LineHits& hits) const {
    if (!hits.set.HasAny(any_)) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < signatures_.size(); ++i) {
      if (hits.set.HasAll(signatures_[i].all) && !hits.set.HasAny(signatures_[i].none)) {
        const Signature& s = kSignatures[i];
        return LineVerdict{s.cls, s.strength, s.fatal};
      }
    }
    return std::nullopt;
  }

  std::string_view MatchBenign(const LineHits& hits) const {
    if (hits.set.HasAny(any_)) {
      for (std::size_t i = 0; i < benign_.size(); ++i) {
        if (hits.set.HasAll(benign_[i])) {
          return kBenign[i].name;
        }
      }
    }
    return {};
  }

 private:
  struct Needs {
    LiteralSet all, none;
  };

  // Marks first, so that a mark's number is its enumerator.
  std::vector<std::string_view> Collect() {
    literals_.assign(kMarks.begin(), kMarks.end());
    for (const Signature& s : kSignatures) {
      Numbers(s.all);
      Numbers(s.none);
    }
    for (const BenignLine& b : kBenign) {
      Numbers(b.all);
    }
    return literals_;
  }

  std::size_t Number(std::string_view literal) {
    const auto at = std::find(literals_.begin(), literals_.end(), literal);
    const auto number = static_cast<std::size_t>(at - literals_.begin());
    if (at == literals_.end()) {
      literals_.push_back(literal);
    }
    return number;
  }

  // Unused places of a row are empty.
  template <std::size_t n>
  LiteralSet Numbers(const std::array<std::string_view, n>& words) {
    LiteralSet set;
    for (const std::string_view w : words) {
      if (!w.empty()) {
        set.Add(Number(w));
      }
    }
    return set;
  }

  std::vector<std::string_view> literals_;
  LiteralScan scan_;
  std::vector<Needs> signatures_;
  std::vector<LiteralSet> benign_;
  LiteralSet any_;
};

const Rules& TheRules() {
  static const Rules rules;
  return rules;
}

}  // namespace

std::string_view Word(FailureClass c) {
  switch (c) {
    case kTimeLimit:
      return "time_limit";
    case kNodeFail:
      return "node_fail";
    case kPreempted:
      return "preempted";
    case kCancelled:
      return "cancelled";
    case kOomHost:
      return "oom_host";
    case kOomGpu:
      return "oom_gpu";
    case kConfigRejected:
      return "config_rejected";
    case kNan:
      return "nan";
    case kInitFailure:
      return "init_failure";
    case kHang:
      return "hang";
    case kCrashSignal:
      return "crash_signal";
    case kCudaError:
      return "cuda_error";
    case kNetwork:
      return "network";
    case kInfra:
      return "infra";
    case kPythonException:
      return "python_exception";
    case kUnknown:
      return "unknown";
  }
  return "unknown";
}

LineHits ScanLine(std::string_view line) { return TheRules().Scan(line); }
std::optional<LineVerdict> MatchSignature(const LineHits& hits) { return TheRules().Match(hits); }
std::string_view MatchBenign(const LineHits& hits) { return TheRules().MatchBenign(hits); }

std::optional<LineVerdict> VerdictForSignal(int signal) {
  constexpr int kSigInt = 2, kSigAbrt = 6, kSigKill = 9, kSigTerm = 15;
  switch (signal) {
    case kSigInt:
    case kSigTerm:
      return std::nullopt;
    case kSigKill:
      return LineVerdict{kOomHost, kProvisional, false};
    case kSigAbrt:  // how a watchdog ends a process after it has said why
      return LineVerdict{kCrashSignal, kProvisional, false};
    default:
      return LineVerdict{kCrashSignal, kFirm, true};
  }
}

}  // namespace attune
