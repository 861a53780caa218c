#include "log_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "attune/base/text.h"

namespace attune::sim {
namespace {

constexpr double kMiB = 1024.0 * 1024.0, kGiB = 1024.0 * kMiB;

// "2026-01-01 00:00:00", UTC; with `micros` as newer versions print it.
std::string Stamp(Instant t, bool micros) {
  const std::string iso = Rfc3339(Instant{t.ms - t.ms % 1000});
  std::string out = iso.substr(0, 10) + " " + iso.substr(11, 8);
  if (micros) out += fmt::format(".{:03}000", t.ms % 1000);
  return out;
}

std::string Dotted(std::string_view key, std::string_view value) {
  const std::size_t dots = key.size() < 48 ? 48 - key.size() : 0;
  return fmt::format("  {} {} {}\n", key, std::string(dots, '.'), value);
}

std::string Bool(bool on) { return on ? "True" : "False"; }

}  // namespace

std::string WorldSizeLine(const TrainingJob& job) {
  const Layout& l = job.layout;
  return fmt::format(
      "using world size: {}, data-parallel size: {}, context-parallel size: {}, hierarchical "
      "context-parallel sizes: None, tensor-model-parallel size: {}, pipeline-model-parallel size: "
      "{}\n",
      job.world, l.dp, l.cp, l.tp, l.pp);
}

std::string ArgumentBlock(const Arguments& args, const TrainingJob& job,
                          std::span<const BlockFlag> flags) {
  std::map<std::string, std::string> block = {
      {"iteration", "0"},
      {"consumed_train_samples", "0"},
      {"rank", "0"},
      {"local_rank", "0"},
      {"params_dtype",
       job.switches.precision.starts_with("bf16") ? "torch.bfloat16" : "torch.float16"},
      {"transformer_impl", "transformer_engine"},
  };
  for (const BlockFlag& flag : flags) {
    const Argument* a = args.Find(flag.flag);
    if (a == nullptr) {
      block.try_emplace(flag.key, flag.absent);
    } else if (!flag.present.empty()) {
      block[flag.key] = flag.present;
    }
  }
  for (const Argument& a : args.items()) {
    if (!a.flag.starts_with("--")) continue;
    const auto known = std::find_if(flags.begin(), flags.end(),
                                    [&](const BlockFlag& f) { return f.flag == a.flag; });
    if (known != flags.end() && !known->present.empty()) continue;
    std::string key = known != flags.end() ? known->key : a.flag.substr(2);
    if (known == flags.end()) std::replace(key.begin(), key.end(), '-', '_');
    block[key] = a.values.empty()       ? "True"
                 : a.values.size() == 1 ? a.values.front()
                                        : "['" + Join(a.values, "', '") + "']";
  }
  // What validate_args makes of the above.
  block["world_size"] = std::to_string(job.world);
  block["data_parallel_size"] = std::to_string(job.layout.dp);
  block["sequence_parallel"] = Bool(job.layout.sequence_parallel && job.layout.tp > 1);
  block["virtual_pipeline_model_parallel_size"] =
      job.layout.vp > 1 ? std::to_string(job.layout.vp) : "None";
  if (job.batch.padded_vocab > 0) {
    block["padded_vocab_size"] = std::to_string(job.batch.padded_vocab);
  }
  std::string text = "------------------------ arguments ------------------------\n";
  for (const auto& [key, value] : block) text += Dotted(key, value);
  return text + "-------------------- end of arguments ---------------------\n";
}

std::string ModelLines(const TrainingJob& job, const Truth& truth, Instant now) {
  std::string text = "building GPT model ...\n";
  for (int s = 0; s < job.layout.pp; ++s) {
    // BF16 weights: two bytes a parameter.
    const auto at = static_cast<std::size_t>(s);
    const double weights =
        at < truth.model.stages.size() ? truth.model.stages[at].memory.weights : 0;
    text += fmt::format(
        " > number of parameters on (tensor, pipeline) model parallel rank (0, {}): {:.0f}\n", s,
        weights / 2);
  }
  return text + fmt::format(
                    "[after model, optimizer, and learning rate scheduler are built] "
                    "datetime: {} \n",
                    Stamp(now, false));
}

std::string TrainingLines(Instant now) {
  return fmt::format("training ...\n[before the start of training step] datetime: {} \n",
                     Stamp(now, false));
}

std::string IterationLine(const IterationFacts& f, Instant now) {
  std::string text = fmt::format(
      " [{}] iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per iteration (ms): "
      "{:.1f} |",
      Stamp(now, true), f.iteration, f.last, f.consumed, f.ms);
  if (f.tflops > 0) text += fmt::format(" throughput per GPU (TFLOP/s/GPU): {:.1f} |", f.tflops);
  text += fmt::format(" learning rate: {:.6E} | global batch size: {:5} |", f.learned.learning_rate,
                      f.global_batch);
  // A key is printed only when its mean is >= 0, which NaN is not.
  if (!f.nan) text += fmt::format(" lm loss: {:.6E} |", f.learned.loss);
  if (!f.nan && f.learned.mtp > 0) text += fmt::format(" mtp_1 loss: {:.6E} |", f.learned.mtp);
  if (!f.nan && f.learned.balance > 0) {
    text += fmt::format(" load_balancing_loss: {:.6E} |", f.learned.balance);
  }
  text += " loss scale: 1.0 |";
  text += f.nan ? std::string(" grad norm: nan |")
                : fmt::format(" grad norm: {:.3f} |", f.learned.grad_norm);
  return text + " number of skipped iterations:   0 | number of nan iterations:   0 |\n";
}

std::string MemoryLines(const TrainingJob& job, const Truth& truth, std::int64_t iteration) {
  std::string text;
  const int ranks_of_stage = std::max(1, job.world / std::max(1, job.layout.pp));
  for (std::size_t s = 0; s < truth.stage_allocated.size(); ++s) {
    const double allocated = truth.stage_allocated[s];
    const double reserved = std::min(allocated * 1.03, truth.limit);
    text += fmt::format(
        "[Rank {}] (after {} iterations) memory (MB) | allocated: {} | max allocated: {} | "
        "reserved: {} | max reserved: {}\n",
        static_cast<int>(s) * ranks_of_stage, iteration, std::round(0.6 * allocated / kMiB),
        std::round(allocated / kMiB), std::round(reserved / kMiB), std::round(reserved / kMiB));
  }
  return text;
}

std::string SaveLines(std::int64_t iteration, const std::string& folder) {
  return fmt::format(
      "saving checkpoint at iteration {:7} to {} in torch_dist format\n"
      "  successfully saved checkpoint from iteration {:7} to {} [ t 1/1, p 1/1 ]\n",
      iteration, folder, iteration, folder);
}

std::string EvaluationLines(std::int64_t iteration, double loss) {
  const std::string rule(98, '-');
  return fmt::format(
      "(min, max) time across ranks (ms):\n{0}\n validation loss at iteration {1} | lm loss value: "
      "{2:.6E} | lm loss PPL: {3:.6E} | \n{0}\n",
      rule, iteration, loss, std::exp(loss));
}

std::string ExitLine(std::int64_t iteration, Instant now) {
  return fmt::format("[exiting program at iteration {}] datetime: {} \n", iteration,
                     Stamp(now, false));
}

std::string OutOfMemory(int rank, double tried, double total, double allocated) {
  const double free = std::max(0.0, std::min(0.9 * tried, total - allocated));
  return fmt::format(
      "[rank{0}]: Traceback (most recent call last):\n"
      "[rank{0}]:   File \"pretrain_gpt.py\", line 301, in <module>\n"
      "[rank{0}]:     pretrain(\n"
      "[rank{0}]:   File \"megatron/training/training.py\", line 2204, in train\n"
      "[rank{0}]:     train_step(\n"
      "[rank{0}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {1:.2f} GiB. GPU "
      "{2} "
      "has a total capacity of {3:.2f} GiB of which {4:.2f} GiB is free. Including non-PyTorch "
      "memory, this process has {5:.2f} GiB memory in use.\n",
      rank, tried / kGiB, rank % 8, total / kGiB, free / kGiB, (total - free) / kGiB);
}

std::string Refused(const std::string& why) {
  return fmt::format(
      "[rank0]: Traceback (most recent call last):\n"
      "[rank0]:   File \"pretrain_gpt.py\", line 301, in <module>\n"
      "[rank0]:     pretrain(\n"
      "[rank0]:   File \"megatron/training/initialize.py\", line 83, in initialize_megatron\n"
      "[rank0]:     validate_args(args, args_defaults)\n"
      "[rank0]:   File \"megatron/training/arguments.py\", line 561, in validate_args\n"
      "[rank0]: AssertionError: {}\n",
      EscapeForDisplay(why, 300));
}

std::string DeepEpFailed(int rank) {
  return fmt::format(
      "src/modules/transport/ibgda/ibgda.cpp:2966: non-zero status: 7 create DCT share err.\n"
      "[rank{0}]: Traceback (most recent call last):\n"
      "[rank{0}]:   File \"megatron/core/transformer/moe/fused_a2a.py\", line 74, in get_buffer\n"
      "[rank{0}]: RuntimeError: nvshmem initialization failed\n",
      rank);
}

std::string Watchdog(int rank, double minutes) {
  const double ms = minutes * 60'000;
  return fmt::format(
      "[rank{0}]:[E101 00:00:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught "
      "collective operation timeout: WorkNCCL(SeqNum=808, OpType=_ALLGATHER_BASE, NumelIn=1048576, "
      "NumelOut=8388608, Timeout(ms)={1:.0f}) ran for {2:.0f} milliseconds before timing out.\n",
      rank, ms, ms + 20);
}

std::string NanFound(int rank) {
  return fmt::format(
      "[rank{0}]: AssertionError: Rank {0}: found NaN in local grad norm in backward pass before "
      "data-parallel communication collective. Device: {1}\n",
      rank, rank % 8);
}

std::string Segfault(const std::string& node) {
  return fmt::format(
      "[{}:446  :0:446] Caught signal 11 (Segmentation fault: address not mapped to object at "
      "address 0x28)\n==== backtrace (tid:    446) ====\n",
      node);
}

std::string PreemptedLine(const std::string& job, const std::string& node, Instant now) {
  return fmt::format("slurmstepd: error: *** JOB {} ON {} CANCELLED AT {} DUE TO PREEMPTION ***\n",
                     job, node, Rfc3339(Instant{now.ms - now.ms % 1000}).substr(0, 19));
}

std::string NodeFailedLine(const std::string& node) {
  return fmt::format("srun: error: Node failure on {}\n", node);
}

}  // namespace attune::sim
