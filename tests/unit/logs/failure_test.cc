// Rules of the failure watch one by one; whole logs stand in tests/cases/logs.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "attune/base/text.h"
#include "failure_rules.h"
#include "news_text.h"

namespace attune {
namespace {

using testing_logs::Megatron;
using testing_logs::NewsOf;

std::string ClassOf(const std::string& log) {
  const LogNews news = NewsOf(Megatron(), log);
  return news.failure ? news.failure->cls : "";
}

std::string Step(int n) {
  return fmt::format(
      "iteration {}/ 90 | elapsed time per iteration (ms): 10.0 | lm loss: 1.0 | number of skipped "
      "iterations: 0 |\n",
      n);
}

struct Sample {
  const char* line;
  const char* cls;
};

TEST(FailureSignature, EachLineHasItsClass) {
  const Sample samples[] = {
      {"slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT "
       "***",
       "time_limit"},
      {"slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
       "preempted"},
      {"slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE "
       "***",
       "node_fail"},
      {"srun: error: Node failure on n17", "node_fail"},
      {"slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "cancelled"},
      {"srun: error: n1: task 3: Out Of Memory", "oom_host"},
      {"slurmstepd: error: Detected 2 oom_kill events in StepId=5.0.", "oom_host"},
      {"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5.0.", "oom_host"},
      {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB", "oom_gpu"},
      {"RuntimeError: CUDA out of memory. Tried to allocate 1 GiB (total capacty of 8 GiB)",
       "oom_gpu"},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
       "oom_gpu"},
      {"n1:1:2 [0] include/alloc.h:48 NCCL WARN Cuda failure 2 'out of memory'", "oom_gpu"},
      {"RuntimeError: CUDA error: out of memory", "oom_gpu"},
      {"AssertionError: Rank 2: found NaN in local forward loss calculation.", "nan"},
      {"RuntimeError: Unexpected result nan on rank 1", "nan"},
      {"loss scale: 1.0 | grad norm: nan |", "nan"},
      {"/b/src/ibgda/ibgda.cpp:3: non-zero status: 7 create DCT share err.", "init_failure"},
      {"ModuleNotFoundError: No module named 'deep_ep'", "init_failure"},
      {"ImportError: DeepEP is not installed. Please install it.", "init_failure"},
      {"It looks like MPI_INIT failed for some reason", "init_failure"},
      {"[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: x",
       "hang"},
      {"DeepEP combine NVL receiver timeout, channel: 1", "hang"},
      {"RuntimeError: DeepEP error: CPU recv timeout", "hang"},
      {"RuntimeError: [buffer.cc:84] Timed out waiting 1800000ms for recv operation to complete",
       "hang"},
      {"[n1:5:0:5] Caught signal 11 (Segmentation fault: address not mapped)", "crash_signal"},
      {"[n1:5:0:5] Caught signal 7 (Bus error: nonexistent physical address)", "crash_signal"},
      {"srun: error: n1: task 4: Exited with exit code 139", "crash_signal"},
      {"E1130 api.py:869] failed (exitcode: -11) local_rank: 3 (pid: 9) of binary: python3",
       "crash_signal"},
      {"Fatal Python error: Segmentation fault", "crash_signal"},
      {"RuntimeError: CUDA error: device-side assert triggered", "cuda_error"},
      {"RuntimeError: CUDA error: an illegal memory access was encountered", "cuda_error"},
      {"n1:1:2 [0] NCCL WARN NET/IB : Got completion with error 12", "network"},
      {"torch.distributed.DistBackendError: ncclRemoteError: A call failed possibly due to network",
       "network"},
      {"RuntimeError: Connection reset by peer", "network"},
      {"OSError: [Errno 98] Address already in use", "infra"},
      {"OSError: [Errno 28] No space left on device", "infra"},
      {"ERROR: Unexpected bus error encountered in worker: Bus error", "infra"},
      {"bash: line 1: 77 Bus error               (core dumped) python3 train.py", "infra"},
      {"bash: line 1: 77 Aborted                 (core dumped) python3 train.py", "crash_signal"},
      {"torch.distributed.DistNetworkError: The client socket has timed out after 600s", "network"},
      {"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients.",
       "network"},
      {"kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "infra"},
      {"RuntimeError: CUDA error: no CUDA-capable device is detected", "infra"},
      {"Traceback (most recent call last):", "python_exception"},
      {"KeyError: 'input_ids'", "python_exception"},
      {"srun: error: n1: task 0: Exited with exit code 1", "unknown"},
      {"srun: error: n1: task 0: Exited with exit code 137", "oom_host"},
  };
  for (const Sample& s : samples) {
    EXPECT_EQ(ClassOf(std::string(s.line) + "\n"), s.cls) << s.line;
    EXPECT_EQ(ClassOf("[rank3]: " + std::string(s.line) + "\n"), s.cls) << s.line;
  }
}

TEST(FailureSignature, OrdinaryLinesHaveNone) {
  for (const char* line :
       {"NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin symbol (v4 or v5).",
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4, reducing to 2",
        "WARNING: overwriting default arguments for error_injection_rate", "Error: 0 of 10",
        "INFO: watchdog started, timeout 600 s", "UserWarning: this is deprecated",
        "Starting training loop at iteration 0", "no errors, no exceptions",
        "srun: error: n1: task 0: Exited with exit code 143", "Exited with exit code 0",
        "[n1:5:0:5] Caught signal 15 (Terminated)", "  error_file: <N/A>",
        "NCCL INFO DeepEP timeout set", "  deepep_timeout ........ 100"}) {
    EXPECT_EQ(ClassOf(std::string(line) + "\n"), "") << line;
  }
}

TEST(FailureCause, IsTheEarliestOfEquals) {
  const std::string cuda = "RuntimeError: CUDA error: device-side assert triggered\n";
  const std::string hang = "Watchdog caught collective operation timeout: x\n";
  EXPECT_EQ(ClassOf(cuda + hang), "cuda_error");
  EXPECT_EQ(ClassOf(hang + cuda), "hang");
}

TEST(FailureCause, OutOfMemoryIsPreferredToItsEchoes) {
  const std::string oom = "torch.OutOfMemoryError: CUDA out of memory.\n";
  for (const std::string echo :
       {"ncclRemoteError: call failed\n", "Watchdog caught collective operation timeout: x\n",
        "[n:1:0:1] Caught signal 11 (x)\n", "RuntimeError: CUDA error: unspecified\n"}) {
    EXPECT_EQ(ClassOf(echo + oom), "oom_gpu") << echo;
    EXPECT_EQ(ClassOf(oom + echo), "oom_gpu") << echo;
  }
  // What refused the run before it could run out of memory stays.
  EXPECT_EQ(ClassOf("train.py: error: unrecognized arguments: --x\n" + oom), "config_rejected");
}

TEST(FailureCause, AWarningIsOneOnlyWhereThereIsNothingElse) {
  const std::string warning = "NCCL WARN NET/OFI slow\n";
  EXPECT_EQ(ClassOf(warning), "network");
  EXPECT_EQ(ClassOf(warning + "[n:1:0:1] Caught signal 11 (x)\n"), "crash_signal");
}

TEST(FailureCause, ACancellationAfterADeathIsNotTheCause) {
  const std::string cancel = "slurmstepd: error: *** STEP 1.0 ON n CANCELLED AT 2026 ***\n";
  EXPECT_EQ(ClassOf(cancel), "cancelled");
  EXPECT_EQ(ClassOf("srun: error: n: task 1: Exited with exit code 2\n" + cancel), "unknown");
  EXPECT_EQ(ClassOf(cancel + "srun: error: n: task 1: Exited with exit code 2\n"), "cancelled");
}

TEST(FailureCause, ATracebackCountsFromItsFirstLine) {
  // Rank 1's watchdog speaks between the lines of rank 0's traceback.
  EXPECT_EQ(ClassOf("[rank0]: Traceback (most recent call last):\n"
                    "[rank1]: Watchdog caught collective operation timeout: x\n"
                    "[rank0]:   File \"a.py\", line 3, in f\n"
                    "[rank0]: ValueError: no\n"),
            "python_exception");
}

TEST(FailureCause, ATracebackThatEndsInABrokenConnectionIsNetwork) {
  EXPECT_EQ(ClassOf("Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n"
                    "RuntimeError: Connection reset by peer\n"),
            "network");
}

TEST(FailureCause, WhatThreeStepsOutliveIsTakenBack) {
  const std::string trouble = "RuntimeError: CUDA error: device-side assert triggered\n";
  EXPECT_EQ(ClassOf(trouble + Step(1) + Step(2)), "cuda_error");
  EXPECT_EQ(ClassOf(trouble + Step(1) + Step(2) + Step(3)), "");
  auto parser = MakeLogParser(Megatron());
  (*parser)->Feed(trouble, -1);
  ASSERT_TRUE((*parser)->Take().failure);
  (*parser)->Feed(Step(1) + Step(2) + Step(3), -1);
  const LogNews news = (*parser)->Take();
  ASSERT_TRUE(news.failure);
  EXPECT_EQ(news.failure->cls, "");
  (*parser)->Feed(trouble, -1);
  EXPECT_EQ((*parser)->Take().failure->cls, "cuda_error");
}

TEST(FailureCause, NanIsNeverOutlived) {
  EXPECT_EQ(ClassOf("grad norm: nan\n" + Step(1) + Step(2) + Step(3) + Step(4)), "nan");
}

TEST(FailureNews, ComeOnceAndAgainOnlyWhenTheyChange) {
  auto parser = MakeLogParser(Megatron());
  (*parser)->Feed("RuntimeError: Connection reset by peer\n", -1);
  const LogNews first = (*parser)->Take();
  ASSERT_TRUE(first.failure);
  EXPECT_FALSE(first.failure->fatal);
  EXPECT_FALSE((*parser)->Take().failure);
  (*parser)->Feed("RuntimeError: Connection reset by peer\n", -1);
  EXPECT_FALSE((*parser)->Take().failure);
  (*parser)->Feed("torch.OutOfMemoryError: CUDA out of memory.\n", -1);
  const LogNews better = (*parser)->Take();
  ASSERT_TRUE(better.failure);
  EXPECT_EQ(better.failure->cls, "oom_gpu");
  EXPECT_TRUE(better.failure->fatal);
}

TEST(ConfigRejected, NeedsARefusingFrameAndNoStepYet) {
  const auto log = [](const char* function, const char* exception) {
    return fmt::format(
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in main\n    x()\n  File "
        "\"b.py\", line 2, in {}\n    y()\n{}: heads are not divisible\n",
        function, exception);
  };
  EXPECT_EQ(ClassOf(log("validate_args", "AssertionError")), "config_rejected");
  EXPECT_EQ(ClassOf(log("__post_init__", "ValueError")), "config_rejected");
  EXPECT_EQ(ClassOf(log("initialize_model_parallel", "RuntimeError")), "config_rejected");
  EXPECT_EQ(ClassOf(log("get_num_layers_to_build", "AssertionError")), "config_rejected");
  EXPECT_EQ(ClassOf(log("load_batch", "AssertionError")), "python_exception");
  EXPECT_EQ(ClassOf(log("validate_args", "KeyError")), "python_exception");
  EXPECT_EQ(ClassOf(Step(1) + log("validate_args", "AssertionError")), "python_exception");
  // Further out than the caller of the function that raised, it refused nothing.
  EXPECT_EQ(ClassOf("Traceback (most recent call last):\n"
                    "  File \"a.py\", line 1, in validate_args\n"
                    "  File \"a.py\", line 2, in f\n  File \"a.py\", line 3, in g\n"
                    "ValueError: no\n"),
            "python_exception");
}

TEST(SignalVerdict, WishesSayNothingAndKillsPointToMemory) {
  EXPECT_FALSE(VerdictForSignal(15));
  EXPECT_FALSE(VerdictForSignal(2));
  EXPECT_EQ(VerdictForSignal(9)->cls, FailureClass::kOomHost);
  EXPECT_EQ(VerdictForSignal(9)->strength, Strength::kProvisional);
  EXPECT_EQ(VerdictForSignal(6)->strength, Strength::kProvisional);
  EXPECT_EQ(VerdictForSignal(11)->strength, Strength::kFirm);
}

}  // namespace
}  // namespace attune
