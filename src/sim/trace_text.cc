// The step is laid out slot by slot. A slot is one merged micro-batch in one direction, cut into
// merged layers; each layer holds its kernels on the compute stream, its exposed collectives with
// nothing beside them, and gaps where the host had not launched yet. Hidden collectives lie beside
// kernels of the same layer. What belongs to the whole step (bubble, gradients, optimizer, data)
// stands before and behind the slots.
#include "trace_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "write_file.h"

namespace attune::sim {
namespace {

constexpr int kComputeStream = 7, kCopyStream = 17, kTpStream = 20, kEpStream = 24, kCpStream = 28,
              kPpStream = 32, kDpStream = 36;
constexpr double kNs = 1e9;
constexpr std::int64_t kQueued =
    400'000;  // a kernel that waits in its queue was launched so long ago
constexpr std::int64_t kLaunchDelay = 4'000;  // from a launch to a kernel of an idle GPU
constexpr int kMostSlots = 24, kMostLayers = 12;

std::size_t Index(Term t) { return static_cast<std::size_t>(t); }
std::size_t Index(Traffic t) { return static_cast<std::size_t>(t); }

struct Collective {
  std::string_view kernel, name;
  int stream;
  std::string_view group;
};
constexpr Collective kTp = {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                            "_allgather_base", kTpStream, "TENSOR_MODEL_PARALLEL_GROUP"};
constexpr Collective kEp = {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
                            "all_to_allv", kEpStream, "EXPERT_MODEL_PARALLEL_GROUP"};
constexpr Collective kCp = {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send",
                            kCpStream, "CONTEXT_PARALLEL_GROUP"};
constexpr Collective kPp = {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "recv",
                            kPpStream, "PIPELINE_MODEL_PARALLEL_GROUP"};
constexpr Collective kDp = {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage)",
                            "_reduce_scatter_base", kDpStream, "DATA_PARALLEL_GROUP_WITH_CP"};

class Writer {
 public:
  Writer(const TrainingJob& job, const Truth& truth, const TraceStep& step)
      : job_(job), truth_(truth), step_(step) {}

  std::string Text() {
    const double sum = std::accumulate(truth_.terms.begin(), truth_.terms.end(), 0.0);
    scale_ = sum > 0 ? step_.seconds / sum * kNs : 0;
    Head();
    Slots();
    Tail();
    return Document();
  }

 private:
  double Ns(Term t) const { return truth_.terms[Index(t)] * scale_; }
  double Hidden(Traffic t) const {
    const auto stage = static_cast<std::size_t>(truth_.stage);
    return stage < truth_.model.stages.size() ? truth_.model.stages[stage].hidden[Index(t)] * scale_
                                              : 0;
  }

  void Event(std::string text) {
    ++events_;
    body_ += body_.empty() ? "" : ",\n";
    body_ += text;
  }
  static std::string Micros(std::int64_t ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
  }
  void Launch(std::int64_t start, std::string_view name) {
    Event(
        fmt::format("{{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"{}\", \"pid\": 100, "
                    "\"tid\": 100, \"ts\": {}, \"dur\": 2.000, \"args\": {{\"correlation\": {}}}}}",
                    name, Micros(std::max<std::int64_t>(base_ + start, base_)), ++correlation_));
  }
  void Kernel(std::string_view name, double ns, bool waited = false) {
    const std::int64_t start = Now(), length = LengthFromNow(ns);
    if (length <= 0) return;
    Launch(waited ? start - kLaunchDelay : start - kQueued, "cudaLaunchKernel");
    Event(fmt::format(
        "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": "
        "{}, \"ts\": {}, \"dur\": {}, \"args\": {{\"device\": 0, \"stream\": {}, "
        "\"correlation\": {}}}}}",
        name, kComputeStream, Micros(base_ + start), Micros(length), kComputeStream, correlation_));
    now_ += ns;
  }
  void Copy(std::string_view name, double ns) {
    const std::int64_t start = Now(), length = LengthFromNow(ns);
    if (length <= 0) return;
    Launch(start - kLaunchDelay, "cudaMemcpyAsync");
    Event(fmt::format(
        "{{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"{}\", \"pid\": 0, "
        "\"tid\": {}, \"ts\": {}, \"dur\": {}, \"args\": {{\"device\": 0, \"stream\": "
        "{}, \"correlation\": {}}}}}",
        name, kCopyStream, Micros(base_ + start), Micros(length), kCopyStream, correlation_));
    now_ += ns;
  }
  // From `start` on, without moving the time: exposed ones are followed by Pass.
  void Transfer(const Collective& c, std::int64_t start, std::int64_t length, int group_size) {
    if (length <= 0) return;
    Launch(start - kQueued, "cudaLaunchKernelExC");
    Event(fmt::format(
        "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": {}, \"ts\": "
        "{}, "
        "\"dur\": {}, \"args\": {{\"device\": 0, \"stream\": {}, \"correlation\": {}, \"Collective "
        "name\": \"{}\", \"dtype\": \"BFloat16\", \"In msg nelems\": 1048576, \"Out msg nelems\": "
        "1048576, \"Group size\": {}, \"Process Group Name\": \"{}\", \"Process Group "
        "Description\": \"{}\"}}}}",
        c.kernel, c.stream, Micros(base_ + start), Micros(length), c.stream, correlation_, c.name,
        group_size, c.stream, c.group));
  }
  void Exposed(const Collective& c, double ns, int group_size) {
    Transfer(c, Now(), LengthFromNow(ns), group_size);
    now_ += ns;
  }
  void Gap(double ns) { now_ += ns; }
  // To the nanosecond on which what follows begins: lengths rounded on their own would overlap it.
  std::int64_t LengthFromNow(double ns) const {
    return static_cast<std::int64_t>(std::llround(now_ + ns)) - Now();
  }
  std::int64_t Now() const { return static_cast<std::int64_t>(std::llround(now_)); }

  void Head() {
    base_ = step_.begin.ms * 1'000'000;
    Kernel("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
           std::min(2'000.0, Ns(Term::kMemoryForward)), true);
    Gap(0.5 * Ns(Term::kFixed));
    Exposed(kPp, 0.5 * Ns(Term::kBubble), job_.layout.pp);
  }

  // One merged layer of one merged micro-batch in one direction.
  void Layer(bool forward, double share) {
    const auto part = [&](Term f, Term b) { return share * Ns(forward ? f : b); };
    const double wait = 0.5 * share * Ns(Term::kLaunchWait);
    Gap(wait);
    const std::int64_t begin = Now();
    const bool waited = wait > 30'000;
    const double small = forward && first_ ? std::min(2'000.0, Ns(Term::kMemoryForward)) : 0;
    first_ = first_ && !forward;
    Kernel("void transformer_engine::normalization::rmsnorm_tuned_kernel",
           std::max(0.0, 0.5 * part(Term::kMemoryForward, Term::kMemoryBackward) - small), waited);
    Kernel("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNN",
           part(Term::kGemmForward, Term::kGemmBackward));
    Kernel(forward ? "cudnn_generated_fort_native_sdpa_sm100_flash_fprop"
                   : "cudnn_generated_fort_native_sdpa_sm100_flash_bprop",
           part(Term::kAttentionForward, Term::kAttentionBackward));
    Kernel("void _chunk_scan_fwd_kernel", part(Term::kScanForward, Term::kScanBackward));
    Kernel("nvjet_tst_grouped_gemm_128x256_64x4_TNT",
           part(Term::kExpertForward, Term::kExpertBackward));
    Kernel("void at::native::elementwise_kernel<128, 4, swiglu>",
           0.5 * part(Term::kMemoryForward, Term::kMemoryBackward));
    if (!forward) {
      Kernel("nvjet_tst_256x128_64x4_2x1_v_bz_recomputed_TNN", share * Ns(Term::kRecompute));
    }
    // What compute covers, from the layer's first kernel on.
    const double busy = now_ - static_cast<double>(begin);
    const double half = 0.5 * share;
    const auto hide = [&](const Collective& c, Traffic t, int size) {
      Transfer(c, begin, static_cast<std::int64_t>(std::min(half * Hidden(t), busy)), size);
    };
    hide(kTp, Traffic::kTp, job_.layout.tp);
    hide(kEp, Traffic::kEp, job_.layout.ep);
    hide(kCp, Traffic::kCp, job_.layout.cp);
    hide(kPp, Traffic::kPp, 2);
    hide(kDp, Traffic::kDp, job_.layout.dp);
    Exposed(kTp, half * Ns(Term::kTpExposed), job_.layout.tp);
    Exposed(kEp, half * Ns(Term::kEpExposed), job_.layout.ep);
    Exposed(kCp, half * Ns(Term::kCpExposed), job_.layout.cp);
  }

  void Slots() {
    const int slots =
        static_cast<int>(std::clamp<std::int64_t>(job_.batch.microbatches, 1, kMostSlots));
    const std::int64_t per_stage =
        std::max<std::int64_t>(1, job_.shape.layers / std::max(1, job_.layout.pp));
    const int layers = static_cast<int>(std::clamp<std::int64_t>(per_stage, 1, kMostLayers));
    const double share = 1.0 / (slots * layers);
    for (int s = 0; s < slots; ++s) {
      for (int l = 0; l < layers; ++l) Layer(true, share);
      Kernel("nvjet_tst_128x256_64x4_output_layer_TNT", 0.5 / slots * Ns(Term::kHead));
      Kernel("void cross_entropy_loss_fused_kernel", 0.5 / slots * Ns(Term::kHead));
      for (int l = 0; l < layers; ++l) Layer(false, share);
      Exposed(kPp, Ns(Term::kPpExposed) / slots, 2);
    }
  }

  void Tail() {
    Exposed(kPp, 0.5 * Ns(Term::kBubble), job_.layout.pp);
    Exposed(kDp, Ns(Term::kDpExposed), job_.layout.dp);
    Copy("Memcpy DtoH (Device -> Pinned)", 0.1 * Ns(Term::kOffload));
    Gap(0.8 * Ns(Term::kOffload));
    Copy("Memcpy HtoD (Pinned -> Device)", 0.1 * Ns(Term::kOffload));
    Gap(0.5 * Ns(Term::kFixed));
    Kernel("void multi_tensor_apply_kernel<AdamFunctor<float>>", Ns(Term::kOptimizer), true);
  }

  std::string Document() {
    ATTUNE_CHECK(events_ <= kMostTraceEvents, "merged layers keep a trace small");
    const std::string annotation = fmt::format(
        "{{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#{}\", \"pid\": "
        "100, "
        "\"tid\": 100, \"ts\": {}, \"dur\": {}, \"args\": {{}}}}",
        step_.number, Micros(base_), Micros(std::max<std::int64_t>(Now(), 1)));
    return fmt::format(
        "{{\"schemaVersion\": 1, \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, "
        "\"world_size\": {}}}, \"deviceProperties\": [{{\"id\": 0, \"name\": \"NVIDIA {}\", "
        "\"numSms\": 132}}],\n\"traceEvents\": [\n{},\n{}\n], \"traceName\": \"rank{}.json\"}}\n",
        step_.rank, job_.world, job_.gpu, annotation, body_, step_.rank);
  }

  const TrainingJob& job_;
  const Truth& truth_;
  TraceStep step_;
  double scale_ = 0, now_ = 0;
  std::int64_t base_ = 0, correlation_ = 0;
  int events_ = 1;
  bool first_ = true;
  std::string body_;
};

}  // namespace

std::string KinetoTrace(const TrainingJob& job, const Truth& truth, const TraceStep& step) {
  return Writer(job, truth, step).Text();
}

std::optional<TraceWish> TraceWishOf(const Arguments& args) {
  if (!args.Has("--profile") || !args.Has("--use-pytorch-profiler")) return std::nullopt;
  TraceWish wish;
  const auto start = args.Value("--profile-step-start");
  wish.step = (start ? ParseInt(*start).value_or(10) : 10) + 1;
  if (const Argument* ranks = args.Find("--profile-ranks"); ranks && !ranks->values.empty()) {
    wish.rank = static_cast<int>(ParseInt(ranks->values.front()).value_or(0));
  }
  wish.folder = args.Value("--tensorboard-dir").value_or("");
  return wish.folder.empty() ? std::nullopt : std::optional(wish);
}

Status WriteTrace(const TraceWish& wish, const TrainingJob& job, const Truth& truth,
                  const TraceStep& step) {
  return WriteFile(
      fmt::format("{}/node001_{}.{}.pt.trace.json", wish.folder, wish.rank, step.begin.ms),
      KinetoTrace(job, truth, step));
}

Shares SharesOf(const Terms& terms) {
  Shares s;
  double sum = 0;
  for (std::size_t t = 0; t < kTermCount; ++t) {
    sum += terms[t];
    switch (static_cast<Term>(t)) {
      case Term::kTpExposed:
      case Term::kEpExposed:
      case Term::kCpExposed:
      case Term::kPpExposed:
      case Term::kDpExposed:
      case Term::kBubble:  // a stage that waits sits in its receive
        s.exposed += terms[t];
        break;
      case Term::kLaunchWait:
      case Term::kFixed:
        s.idle += terms[t];
        break;
      case Term::kOffload:  // a tenth each way on the bus, the rest on the host
        s.memory_copies += 0.2 * terms[t];
        s.idle += 0.8 * terms[t];
        break;
      case Term::kGemmForward:
      case Term::kGemmBackward:
      case Term::kExpertForward:
      case Term::kExpertBackward:
      case Term::kAttentionForward:
      case Term::kAttentionBackward:
      case Term::kMemoryForward:
      case Term::kMemoryBackward:
      case Term::kScanForward:
      case Term::kScanBackward:
      case Term::kRecompute:
      case Term::kHead:
      case Term::kOptimizer:
      case Term::kCount:
        s.compute += terms[t];
        break;
    }
  }
  if (sum <= 0) return {};
  for (double* share : {&s.compute, &s.exposed, &s.memory_copies, &s.idle}) *share /= sum;
  return s;
}

std::string TruthJson(const Truth& truth, double step_ms) {
  const Shares s = SharesOf(truth.terms);
  std::string text = fmt::format(
      "{{\"step_ms\": {:.3f}, \"noise_free_step_ms\": {:.3f}, \"peak_allocated\": {:.0f}, "
      "\"shares\": {{\"compute\": {:.6f}, \"exposed\": {:.6f}, \"memory\": {:.6f}, \"idle\": "
      "{:.6f}}}, \"terms\": {{",
      step_ms, 1000 * truth.step, truth.peak_allocated, s.compute, s.exposed, s.memory_copies,
      s.idle);
  for (std::size_t t = 0; t < kTermCount; ++t) {
    text += fmt::format("{}\"{}\": {:.9f}", t == 0 ? "" : ", ", Word(static_cast<Term>(t)),
                        truth.terms[t]);
  }
  return text + "}}\n";
}

}  // namespace attune::sim
