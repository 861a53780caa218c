// How fast a log is read, in MB/s of one thread's CPU time: a synthetic Megatron-LM log fed in
// chunks as a launcher hands them out. The bar is 200 MB/s.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "attune/base/random.h"
#include "attune/logs/log_parser.h"

namespace {

double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Iteration lines as a mixture-of-experts run prints them, with the timer lines, memory reports,
// checkpoints and NCCL chatter that stand between them.
std::string SyntheticLog(std::size_t bytes) {
  attune::Random random(7);
  std::string log;
  log.reserve(bytes + 4096);
  for (int i = 1; log.size() < bytes; ++i) {
    log += fmt::format(
        " [2026-11-30 {:02}:{:02}:{:02}.{:06}] iteration {:8}/ {:8} | consumed samples: {:12} | "
        "elapsed time per iteration (ms): {:.1f} | throughput per GPU (TFLOP/s/GPU): {:.1f} | "
        "learning rate: {:.6E} | global batch size: {:5} | lm loss: {:.6E} | "
        "load_balancing_loss: {:.6E} | loss scale: 1.0 | grad norm: {:.3f} | num zeros: 0 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n",
        i / 3600 % 24, i / 60 % 60, i % 60, i % 1000000, i, 10000000, i * 512LL,
        5000 + 50 * random.Normal(), 300 + random.Normal(), 3e-4, 512, 2 + random.Unit(),
        1 + 0.01 * random.Unit(), 1 + random.Unit());
    if (i % 4 == 0) {
      log += fmt::format(
          "time (ms) | forward-compute: {:.2f} | backward-compute: {:.2f} | optimizer: {:.2f} | "
          "all-grads-sync: {:.2f} | batch-generator: {:.2f}\n",
          1500 + random.Unit(), 3000 + random.Unit(), 60.0, 20.0, 2.0);
    }
    if (i % 50 == 0) {
      log += fmt::format(
          "[rank{}]:node-{}:{}:{} [{}] NCCL INFO Channel {:02}/0 : {}[{}] -> {}[{}] via "
          "P2P/CUMEM\n",
          i % 8, i % 16, 1000 + i, 2000 + i, i % 8, i % 16, i % 8, i % 8, (i + 1) % 8, (i + 1) % 8);
    }
    if (i % 1000 == 0) {
      log += fmt::format(
          "saving checkpoint at iteration {:7} to /checkpoints in torch_dist format\n", i);
    }
  }
  return log;
}

// Lines of which none is a step: what NCCL_DEBUG=INFO and start-up print.
std::string ChatterLog(std::size_t bytes) {
  std::string log;
  log.reserve(bytes + 4096);
  for (int i = 1; log.size() < bytes; ++i) {
    log += fmt::format(
        "node-{}:{}:{} [{}] NCCL INFO Channel {:02}/0 : {}[{}] -> {}[{}] [send] via NET/IB/{}\n"
        "[rank{}]: /usr/lib/python3/dist-packages/torch/module.py:{}: UserWarning: this call is "
        "deprecated and will be removed in a later version\n",
        i % 16, 1000 + i, 2000 + i, i % 8, i % 16, i % 8, i % 8, (i + 1) % 8, (i + 1) % 8, i % 8,
        i % 8, i % 900);
  }
  return log;
}

void Measure(const char* what, const std::string& log) {
  constexpr std::size_t kChunk = std::size_t{64} << 10;
  constexpr double kBar = 200;
  double best = 0;
  std::size_t steps = 0;
  for (int round = 0; round < 3; ++round) {
    const auto parser = attune::MakeLogParser({"megatron-lm", ""});
    if (!parser) {
      return;
    }
    steps = 0;
    const double start = CpuSeconds();
    for (std::size_t at = 0; at < log.size(); at += kChunk) {
      (*parser)->Feed(std::string_view(log).substr(at, kChunk), static_cast<std::int64_t>(at));
      steps += (*parser)->Take().steps.size();
    }
    (*parser)->Finish();
    steps += (*parser)->Take().steps.size();
    const double seconds = CpuSeconds() - start;
    best = std::max(best, static_cast<double>(log.size()) / 1e6 / seconds);
  }
  std::printf("log parsing, %s: %.0f MB/s, %zu steps, %.2f of the bar (%.0f MB/s)\n", what, best,
              steps, best / kBar, kBar);
}

}  // namespace

int main() {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  Measure("steps", SyntheticLog(kBytes));
  Measure("chatter", ChatterLog(kBytes));
  return 0;
}
