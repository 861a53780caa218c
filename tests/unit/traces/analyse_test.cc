// Figures of small timelines that can be counted by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernel_class.h"
#include "kineto_text.h"

namespace attune::traces {
namespace {

constexpr char kGemm[] = "sm90_gemm_bf16";
constexpr char kNccl[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

std::string Collective(std::string_view type, std::string_view group = "0") {
  return fmt::format(
      ", \"Collective name\": \"{}\", \"Process Group Name\": \"{}\", \"Group size\": 4, "
      "\"In msg nelems\": 10, \"dtype\": \"BFloat16\"",
      type, group);
}

TEST(Breakdown, CountsUnionsNotSums) {
  // compute 0..100 and 50..150, communication 120..300, copy 250..280, compute 400..500
  const RankTrace t = MustRead(
      Document({KernelEvent(kGemm, 1000, 100, 1), KernelEvent(kGemm, 1050, 100, 2, 8),
                KernelEvent(kNccl, 1120, 180, 3, 9), CopyEvent("Memcpy DtoD", 1250, 30, 4, 10),
                KernelEvent(kGemm, 1400, 100, 5)}));
  const Breakdown& b = t.whole_file.time;
  EXPECT_EQ(b.span, 500);
  EXPECT_EQ(b.compute, 250);
  EXPECT_EQ(b.comm, 180);
  EXPECT_EQ(b.mem, 30);
  EXPECT_EQ(b.overlap, 30);
  EXPECT_EQ(b.exposed, 120);
  EXPECT_EQ(b.busy, 400);
  EXPECT_EQ(b.idle(), 100);
}

TEST(Breakdown, LaunchedFiguresLeaveOutWhatWasLaunchedBefore) {
  const RankTrace t = MustRead(Document(
      {KernelEvent(kGemm, 1000, 100, 77), LaunchEvent(1100, 1), KernelEvent(kGemm, 1200, 50, 1)}));
  EXPECT_EQ(t.whole_file.counts.events, 2);
  EXPECT_EQ(t.whole_file.time.span, 250);
  EXPECT_EQ(t.whole_file.launched_counts.events, 1);
  EXPECT_EQ(t.whole_file.launched_time.span, 50);
  EXPECT_EQ(t.whole_file.launched_time.compute, 50);
  EXPECT_EQ(t.whole_file.without_launch, 1);
  EXPECT_EQ(t.whole_file.without_launch_time, 100);
  EXPECT_EQ(NoteCount(t, "events_without_launch"), 1);
}

TEST(Breakdown, OneGraphLaunchJoinsAllItsKernels) {
  std::vector<std::string> events = {LaunchEvent(1000, 5, 1, "cudaGraphLaunch")};
  for (int i = 0; i < 10; ++i) events.push_back(KernelEvent(kGemm, 2000 + i * 100, 50, 5));
  const RankTrace t = MustRead(Document(events));
  EXPECT_EQ(t.whole_file.without_launch, 0);
  EXPECT_EQ(t.sums.graph_kernels, 10);
  EXPECT_EQ(t.sums.graph_launches, 1);
}

TEST(Breakdown, ALaunchWithoutAKernelIsReported) {
  const RankTrace t = MustRead(
      Document({LaunchEvent(1000, 1), LaunchEvent(1100, 2), KernelEvent(kGemm, 1200, 50, 2)}));
  EXPECT_EQ(NoteCount(t, "launches_without_kernel"), 1);
}

TEST(Overlaps, AKernelThatRunsFarIntoTheNextIsCut) {
  const RankTrace t =
      MustRead(Document({KernelEvent("a", 1000, 9'000'000'000, 1), KernelEvent("b", 5000, 1000, 2),
                         KernelEvent("c", 7000, 1000, 3)}));
  EXPECT_EQ(NoteCount(t, "clipped_kernel"), 1);
  EXPECT_EQ(t.whole_file.time.span, 7000);
  EXPECT_EQ(t.whole_file.time.busy, 4000 + 1000 + 1000);
}

TEST(Overlaps, ASmallOverlapIsKept) {
  // A dependent launch starts 3.7 us before its predecessor ends.
  const RankTrace t = MustRead(
      Document({KernelEvent("a", 100'000, 28'000, 1), KernelEvent("b", 124'300, 10'000, 2)}));
  EXPECT_EQ(NoteCount(t, "clipped_kernel"), 0);
  EXPECT_EQ(t.whole_file.same_stream_overlaps, 1);
  EXPECT_EQ(t.whole_file.worst_same_stream_overlap, 3'700);
  EXPECT_EQ(t.whole_file.time.busy, 34'300);
}

TEST(Overlaps, OtherStreamsMayOverlapFreely) {
  const RankTrace t = MustRead(
      Document({KernelEvent("a", 0, 9'000'000, 1, 7), KernelEvent("b", 1000, 1000, 2, 8)}));
  EXPECT_EQ(NoteCount(t, "clipped_kernel"), 0);
  EXPECT_EQ(t.whole_file.time.busy, 9'000'000);
}

// Three steps of a 1 ms host period; in each one kernel launched 100 us in, running 300 us.
std::vector<std::string> ThreeSteps() {
  std::vector<std::string> events;
  for (int s = 0; s < 3; ++s) {
    const std::int64_t host = s * 1'000'000;
    events.push_back(AnnotationEvent(fmt::format("ProfilerStep#{}", s + 5), host, 990'000));
    events.push_back(LaunchEvent(host + 100'000, s + 1));
    events.push_back(KernelEvent(kGemm, host + 150'000, 300'000, s + 1));
  }
  return events;
}

TEST(Steps, AStepGoesFromItsFirstKernelToTheNextSteps) {
  const RankTrace t = MustRead(Document(ThreeSteps()));
  ASSERT_EQ(t.steps.size(), 3u);
  EXPECT_EQ(t.steps[0].name, "ProfilerStep#5");
  EXPECT_EQ(t.steps[0].begin, 150'000);
  EXPECT_EQ(t.steps[0].end, 1'150'000);
  EXPECT_EQ(t.steps[1].time.span, 1'000'000);
  EXPECT_EQ(t.steps[1].time.compute, 300'000);
  EXPECT_EQ(t.steps[1].idle.host_wait, 700'000);
  EXPECT_EQ(t.steps[2].time.span, 300'000);
  EXPECT_FALSE(t.steps[0].analysed);
  EXPECT_TRUE(t.steps[1].analysed);
  EXPECT_FALSE(t.steps[2].analysed);
  EXPECT_EQ(t.analysed.span, 1'000'000);
  EXPECT_EQ(t.steps[1].launches, 1);
  EXPECT_EQ(t.steps[1].kernels, 1);
}

TEST(Steps, AnEventBelongsToTheStepThatLaunchedIt) {
  // Launched in the first step, run after the second one has begun on the host.
  const RankTrace t = MustRead(Document({AnnotationEvent("ProfilerStep#1", 0, 1000),
                                         AnnotationEvent("ProfilerStep#2", 1000, 1000),
                                         LaunchEvent(500, 1), KernelEvent(kGemm, 1500, 100, 1),
                                         LaunchEvent(1700, 2), KernelEvent(kGemm, 1800, 100, 2)}));
  ASSERT_EQ(t.steps.size(), 2u);
  EXPECT_EQ(t.steps[0].begin, 1500);
  EXPECT_EQ(t.steps[0].end, 1800);
  EXPECT_EQ(t.steps[0].time.compute, 100);
}

TEST(Steps, AMarkOnTheGpuRowIsNotASecondStep) {
  auto events = ThreeSteps();
  events.push_back(
      R"({"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#5","pid":0,"tid":7,"ts":150,"dur":300,"args":{}})");
  EXPECT_EQ(MustRead(Document(events)).steps.size(), 3u);
}

TEST(Steps, WithoutMarksTheWholeWindowIsAnalysedAndSaidSo) {
  const RankTrace t = MustRead(Document({KernelEvent(kGemm, 1000, 100, 1)}));
  ASSERT_EQ(t.steps.size(), 1u);
  EXPECT_EQ(t.steps[0].name, "window");
  EXPECT_TRUE(t.steps[0].analysed);
  EXPECT_FALSE(t.steps_marked);
  EXPECT_EQ(NoteCount(t, "no_steps"), 1);
}

TEST(Steps, AUserPatternMarksSteps) {
  KinetoOptions options;
  options.step_pattern = "train iter {n}";
  const auto read = ReadText(
      Document({AnnotationEvent("train iter 12", 0, 1000), AnnotationEvent("train iter x", 0, 9),
                LaunchEvent(500, 1), KernelEvent(kGemm, 1500, 100, 1)}),
      0, options);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->trace.steps.size(), 1u);
  EXPECT_EQ(read->trace.steps[0].name, "train iter 12");
}

TEST(Idle, GapsAreSplitByWhatEndedThem) {
  // host wait: launched after the gap began; kernel wait: queued before, short; communication wait:
  // a collective on another stream; other: queued before, long, nothing running.
  const RankTrace t = MustRead(Document(
      {LaunchEvent(0, 1), LaunchEvent(10, 2), LaunchEvent(20, 3), LaunchEvent(30, 4),
       LaunchEvent(40, 5), LaunchEvent(2'000'000, 6), KernelEvent(kGemm, 100'000, 100'000, 1),
       KernelEvent(kGemm, 210'000, 90'000, 2), KernelEvent(kNccl, 300'000, 200'000, 3, 9),
       KernelEvent(kGemm, 500'000, 100'000, 4), KernelEvent(kGemm, 900'000, 100'000, 5),
       KernelEvent(kGemm, 2'050'000, 50'000, 6)}));
  ASSERT_EQ(t.streams.size(), 2u);
  const IdleSplit& idle = t.streams[0].idle;
  EXPECT_EQ(idle.kernel_wait, 10'000);
  EXPECT_EQ(idle.comm_wait, 200'000);
  EXPECT_EQ(idle.other, 300'000);
  EXPECT_EQ(idle.host_wait, 1'050'000);
  EXPECT_EQ(idle.total(), 2'000'000 - 440'000);
  EXPECT_EQ(t.analysed_idle.comm_wait, 0);  // the GPU as a whole was not idle then
  EXPECT_EQ(t.analysed_idle.total(), t.analysed.idle());
}

TEST(Host, WhatStandsInAStepIsCounted) {
  auto events = ThreeSteps();
  const std::int64_t step = 1'000'000;
  events.push_back(AnnotationEvent("enumerate(DataLoader)#_Iter.__next__", step + 1000, 50'000));
  events.push_back(AnnotationEvent("enumerate(DataLoader)#_Iter.__next__", step + 1000, 50'000, 2));
  events.push_back(RuntimeEvent("cudaStreamSynchronize", step + 500'000, 20'000));
  events.push_back(OperatorEvent("aten::item", step + 499'000, 30'000));
  events.push_back(RuntimeEvent("cudaMalloc", step + 600'000, 7'000));
  events.push_back(RuntimeEvent("cudaDeviceSynchronize", 2'900'000, 50'000));
  const RankTrace t = MustRead(Document(events));
  const StepFigures& s = t.steps[1];
  EXPECT_EQ(s.data_loader, 50'000);  // the worker's own thread does not count
  EXPECT_EQ(s.host_sync, 30'000);    // one inside the other: once
  EXPECT_EQ(s.host_syncs, 1);
  EXPECT_EQ(s.allocations, 1);
  EXPECT_EQ(s.allocation_time, 7'000);
  EXPECT_EQ(t.steps[2].host_sync, 0);  // the profiler's own, at the end of its window
}

TEST(Host, KernelsLaunchedInTheOptimizersStepAreItsOwn) {
  const RankTrace t = MustRead(
      Document({AnnotationEvent("Optimizer.step#AdamW.step", 1000, 500), LaunchEvent(900, 1),
                LaunchEvent(1100, 2), LaunchEvent(1200, 3, 2), KernelEvent(kGemm, 2000, 100, 1),
                KernelEvent(kGemm, 2200, 70, 2), KernelEvent(kGemm, 2400, 30, 3)}));
  // The third was launched by another thread meanwhile.
  EXPECT_EQ(t.steps[0].optimizer_kernels, 70);
}

TEST(Host, PageableCopiesCountWhileNothingComputes) {
  const RankTrace t =
      MustRead(Document({KernelEvent(kGemm, 1000, 100, 1),
                         CopyEvent("Memcpy HtoD (Pageable -> Device)", 1050, 100, 2, 8),
                         CopyEvent("Memcpy HtoD (Pinned -> Device)", 1200, 100, 3, 8)}));
  EXPECT_EQ(t.steps[0].pageable_exposed, 50);
}

TEST(Recompute, ForwardWorkUnderACheckpointsBackward) {
  const std::string hook =
      R"({"ph":"X","cat":"python_function","name":"torch/utils/checkpoint.py(1154): unpack_hook","pid":100,"tid":2,"ts":10,"dur":5,"args":{}})";
  const RankTrace t =
      MustRead(Document({hook, LaunchEvent(11'000, 1, 2), LaunchEvent(20'000, 2, 2),
                         LaunchEvent(12'000, 3, 1), KernelEvent(kGemm, 30'000, 100, 1),
                         KernelEvent(kGemm, 30'200, 100, 2), KernelEvent(kGemm, 30'400, 100, 3)}));
  EXPECT_EQ(t.sums.compute_kernels, 300);
  EXPECT_EQ(t.sums.recompute, 100);
}

TEST(Recompute, OfACheckpointFunctionOnlyItsForwardPart) {
  // The function's backward, with a nested function of the backward pass inside.
  const RankTrace t = MustRead(
      Document({OperatorEvent("autograd::engine::evaluate_function: CheckpointFunctionBackward",
                              1000, 9000, 2),
                OperatorEvent("CheckpointFunctionBackward", 1100, 8800, 2),
                OperatorEvent("autograd::engine::evaluate_function: MmBackward0", 5000, 3000, 2),
                LaunchEvent(2000, 1, 2), LaunchEvent(6000, 2, 2),
                KernelEvent(kGemm, 30'000, 100, 1), KernelEvent(kGemm, 30'200, 40, 2)}));
  EXPECT_EQ(t.sums.recompute, 100);
}

TEST(Recompute, WithoutStacksForwardOperatorsOnTheAutogradThread) {
  const RankTrace t = MustRead(Document(
      {OperatorEvent("autograd::engine::evaluate_function: ConvolutionBackward0", 1000, 500, 2),
       OperatorEvent("aten::conv2d", 2000, 500, 2), OperatorEvent("aten::conv2d", 2000, 500, 1),
       LaunchEvent(2100, 1, 2), LaunchEvent(2200, 2, 1), KernelEvent(kGemm, 30'000, 100, 1),
       KernelEvent(kGemm, 30'200, 40, 2)}));
  EXPECT_EQ(t.sums.recompute, 100);
}

TEST(Collectives, ExposedTimeIsKeptByTypeAndGroup) {
  const RankTrace t = MustRead(Document(
      {KernelEvent(kGemm, 1000, 100, 1),
       KernelEvent(kNccl, 1050, 150, 2, 9, Collective("allreduce", "1")),
       KernelEvent("ncclDevKernel_Generic", 1300, 100, 3, 9, Collective("_allgather_base", "2")),
       KernelEvent("ncclDevKernel_SendRecv", 1500, 50, 4, 9)}));
  ASSERT_EQ(t.collectives.size(), 3u);
  // Both are exposed for 100 ns; of equals the one that runs longer comes first.
  EXPECT_EQ(t.collectives[0].type, "allreduce");
  EXPECT_EQ(t.collectives[0].exposed, 100);
  EXPECT_EQ(t.collectives[0].time, 150);
  EXPECT_EQ(t.collectives[1].type, "allgather");
  EXPECT_EQ(t.collectives[1].name, "_allgather_base");
  EXPECT_EQ(t.collectives[1].group, "2");
  EXPECT_EQ(t.collectives[1].bytes, 20);
  EXPECT_EQ(t.collectives[1].exposed, 100);
  EXPECT_EQ(t.collectives[2].type, "send_recv");
  EXPECT_EQ(t.collectives[2].group, "");
}

TEST(Collectives, ArgumentsComeFromTheOperatorWhenTheKernelHasNone) {
  const RankTrace t = MustRead(Document(
      {R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":1,"dur":1,"args":{"External id":44,"Collective name":"reduce_scatter_tensor_coalesced","Process Group Name":"3","Group size":2}})",
       KernelEvent("ncclDevKernel_Generic", 1300, 100, 3, 9, ", \"External id\": 44")}));
  ASSERT_EQ(t.collectives.size(), 1u);
  EXPECT_EQ(t.collectives[0].type, "reduce_scatter");
  EXPECT_EQ(t.collectives[0].group, "3");
  EXPECT_EQ(t.collectives[0].with_arguments_in_file, 0);
}

TEST(ClassifyKernel, FirstMatchOfTheTable) {
  struct Case {
    const char* name;
    const char* cls;
  };
  const Case cases[] = {
      {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"},
      {"NCCLKernel_x", "communication"},
      {"multimem_all_reduce_kernel", "communication"},
      {"void deep_ep::ep::internode::dispatch<1>", "communication"},
      {"void vllm::cross_device_reduce_1stage<bf16>", "communication"},
      {"two_shot_all_reduce_kernel", "communication"},
      {"void sub_kernel<int>", "other"},
      {"flash_fwd_kernel", "attention"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "attention"},
      {"permute_kernel", "moe"},
      {"void cudnn::nchwToNhwc_permute", "convolution"},
      {"Cijk_Ailk_Bljk_SB_MT64", "gemm"},
      {"nvjet_hsh_128x128", "gemm"},
      {"sm80_xmma_gemm_bf16", "gemm"},
      {"sm80_xmma_fprop_implicit_bf16", "convolution"},
      {"void at::native::layer_norm_kernel", "normalisation"},
      {"softmax_warp_forward", "softmax_loss"},
      {"void at::native::multi_tensor_apply_kernel", "optimizer"},
      {"indexing_backward_kernel", "embedding"},
      {"reduce_kernel", "reduce"},
      {"void cub::DeviceRadixSort", "sort_scan"},
      {"CatArrayBatchedCopy", "copy"},
      {"max_pool_forward_nchw", "pool"},
      {"triton_poi_fused_add_0", "triton"},
      {"vectorized_elementwise_kernel", "elementwise"},
      {"cast_to_fp8", "quantise_cast"},
      {"mystery", "other"},
  };
  for (const Case& c : cases) EXPECT_EQ(Word(ClassifyKernel(c.name)), c.cls) << c.name;
}

TEST(HostFigures, OperatorsCountTheirOwnTime) {
  // linear 0..100 holds mm 10..90, which holds nothing
  const RankTrace t = MustRead(
      Document({OperatorEvent("aten::linear", 1000, 100), OperatorEvent("aten::mm", 1010, 80),
                OperatorEvent("aten::add", 1200, 50)}));
  EXPECT_FALSE(t.HasGpu());
  EXPECT_EQ(t.host.span, 250);
  EXPECT_EQ(t.host.operators, 150);
  ASSERT_EQ(t.host.classes.size(), 2u);
  EXPECT_EQ(t.host.classes[0].cls, "gemm");
  EXPECT_EQ(t.host.classes[0].total, 100);
  EXPECT_EQ(t.host.classes[1].cls, "elementwise");
  ASSERT_EQ(t.host.top.size(), 3u);
  EXPECT_EQ(t.host.top[0].name, "aten::mm");
  EXPECT_EQ(t.host.top[2].name, "aten::linear");
  EXPECT_EQ(t.host.top[2].total, 20);
}

TEST(HostFigures, TheLegacyFormIsHostTimes) {
  const RankTrace t = MustRead(
      "[{\"name\": \"ProfilerStep#1\", \"ph\": \"X\", \"ts\": 0, \"dur\": 100, \"tid\": 1, "
      "\"pid\": "
      "\"CPU functions\", \"args\": {}}, {\"name\": \"aten::mm\", \"ph\": \"X\", \"ts\": 10, "
      "\"dur\": "
      "40, \"tid\": 1, \"pid\": \"CPU functions\", \"args\": {}}]");
  ASSERT_EQ(t.steps.size(), 1u);
  EXPECT_EQ(t.steps[0].host, 100'000);
  EXPECT_EQ(t.host.span, 100'000);
  EXPECT_EQ(t.host.operators, 40'000);
}

}  // namespace
}  // namespace attune::traces
