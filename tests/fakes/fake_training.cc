#include "fakes/fake_training.h"

#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "attune/base/random.h"

namespace attune::fakes {
namespace {

using Flags = std::map<std::string, std::string>;

// Flags in the argument block are Megatron's: sorted, without dashes, with underscores.
Flags ReadFlags(const std::vector<std::string>& args) {
  Flags flags = {{"train-iters", "1000"},    {"exit-interval", "None"}, {"micro-batch-size", "1"},
                 {"global-batch-size", "8"}, {"seq-length", "128"},     {"num-ranks", "1"},
                 {"num-experts", "None"},    {"lr", "0.0003"},          {"seed", "1"},
                 {"attention", "plain"},     {"recompute", "False"}};
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].starts_with("--")) {
      continue;
    }
    std::string name = args[i].substr(2);
    if (const auto eq = name.find('='); eq != std::string::npos) {
      flags[name.substr(0, eq)] = name.substr(eq + 1);
    } else if (i + 1 < args.size() && !args[i + 1].starts_with("--")) {
      flags[name] = args[++i];
    } else {
      flags[name] = "True";
    }
  }
  return flags;
}

class Reader {
 public:
  explicit Reader(const Flags& flags) : flags_(flags) {}
  double Number(const std::string& name, double otherwise) const {
    const auto it = flags_.find(name);
    if (it == flags_.end()) {
      return otherwise;
    }
    char* end = nullptr;
    const double v = strtod(it->second.c_str(), &end);
    return end == it->second.c_str() ? otherwise : v;
  }
  std::int64_t Int(const std::string& name, std::int64_t otherwise) const {
    return static_cast<std::int64_t>(Number(name, static_cast<double>(otherwise)));
  }
  bool Has(const std::string& name) const { return flags_.contains(name); }
  std::string Text(const std::string& name) const {
    const auto it = flags_.find(name);
    return it == flags_.end() ? std::string() : it->second;
  }

 private:
  const Flags& flags_;
};

std::uint64_t Mix(std::uint64_t seed, const std::string& text) {
  std::uint64_t h = 1469598103934665603ULL ^ seed;
  for (const char c : text) {
    h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return h;
}

// A quiet, falling loss: a function of the iteration alone, as for equal data and equal maths.
double LossAt(std::int64_t iteration) {
  const double x = static_cast<double>(iteration);
  return 2.0 + 0.8 * std::exp(-x / 300.0) + 0.01 * std::sin(x * 0.7);
}

std::string Pad(std::int64_t v, int width) { return fmt::format("{:>{}}", v, width); }

}  // namespace

FakeTraining PlanFakeTraining(const std::vector<std::string>& args,
                              const std::map<std::string, std::string>& env, const std::string& run,
                              std::int64_t loaded) {
  const Flags flags = ReadFlags(args);
  const Reader in(flags);
  FakeTraining out;
  out.exit_code = static_cast<int>(in.Int("fake-exit-code", 0));
  out.ignore_term = in.Has("fake-ignore-term");
  out.print_mb = static_cast<int>(in.Int("fake-print-mb", 0));
  out.child = Millis{in.Int("fake-child-ms", 0)};
  out.write_path = in.Text("fake-write");
  out.echo_args = in.Text("fake-echo-args");
  out.echo_env = in.Text("fake-echo-env");
  out.save_dir = in.Text("save");
  out.load_dir = in.Text("load");

  const std::int64_t mbs = std::max<std::int64_t>(1, in.Int("micro-batch-size", 1));
  const std::int64_t gbs = in.Int("global-batch-size", 8);
  const std::int64_t ranks = in.Int("num-ranks", 1);
  const auto threads = env.find("OPENBLAS_NUM_THREADS");
  double step_ms = in.Number("fake-step-ms", 100) * (0.4 + 0.6 / static_cast<double>(mbs));
  step_ms *= ranks > 1 ? 0.55 : 1.0;
  step_ms *= ranks == 1 && threads != env.end() && threads->second == "2" ? 0.8 : 1.0;
  step_ms *= in.Text("recompute") == "True" ? 1.2 : 1.0;
  step_ms *= in.Text("attention") == "fused" ? 0.97 : 1.0;
  step_ms *= in.Number("slow", 1.0);
  Random noise(Mix(static_cast<std::uint64_t>(in.Int("fake-seed", 1)), run));
  step_ms *= 1.0 + in.Number("fake-run-noise", 0.001) * noise.Normal();
  const double step_noise = in.Number("fake-step-noise", 0.001);

  const bool silent = in.Has("fake-silent");
  double now = 0;
  const auto say = [&](std::string line, bool step = false) {
    if (!silent) {
      out.events.push_back({Millis{std::llround(now)}, std::move(line), step});
    }
  };
  say(
      fmt::format("using world size: {}, data-parallel size: {}, context-parallel size: 1, "
                  "tensor-model-parallel size: 1, pipeline-model-parallel size: 1",
                  ranks, ranks));
  if (!in.Has("fake-no-block")) {
    say("------------------------ arguments ------------------------");
    Flags block;
    for (const auto& [name, value] : flags) {
      std::string key = name;
      std::replace(key.begin(), key.end(), '-', '_');
      block[key] = value;
    }
    block["data_parallel_size"] = std::to_string(ranks);
    block["world_size"] = std::to_string(ranks);
    for (const auto& [key, value] : block) {
      std::string dots(key.size() < 48 ? 48 - key.size() : 3, '.');
      say(fmt::format("  {} {} {}", key, dots, value));
    }
    say("-------------------- end of arguments ---------------------");
  }
  now += in.Number("fake-startup-ms", 200);

  const auto oom = [&](const std::string& what) {
    say("[rank0]: Traceback (most recent call last):");
    say("[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + what +
        " GiB. GPU 0 has a total capacity of 79.11 GiB of which 0.61 GiB is free.");
    out.exit_code = 1;
    out.ends_at = Millis{std::llround(now)};
  };
  if (const auto above = in.Int("fake-oom-above", 0); above > 0 && mbs > above) {
    oom("2.00");
    return out;
  }
  say("training ...");

  const std::int64_t start = in.Int("ckpt-step", loaded);
  const std::int64_t train_iters = in.Int("train-iters", 1000);
  const std::int64_t exit_interval = in.Int("exit-interval", 0);
  const std::int64_t eval_interval = in.Int("eval-iters", 0) > 0 ? in.Int("eval-interval", 0) : 0;
  const std::int64_t save_interval = in.Has("save") ? in.Int("save-interval", 0) : 0;
  const double drift = in.Number("fake-drift", 0);
  for (std::int64_t i = start + 1; i <= train_iters; ++i) {
    if (i == in.Int("fake-hang-at", 0)) {
      out.exit_code.reset();
      out.ends_at = Millis::max();
      return out;
    }
    if (i == in.Int("fake-oom-at", 0)) {
      oom("1.00");
      return out;
    }
    if (i == in.Int("fake-die-at", 0)) {
      if (in.Has("fake-signal")) {
        out.signal = static_cast<int>(in.Int("fake-signal", 11));
        out.exit_code.reset();
      } else if (!in.Has("fake-exit-code")) {
        out.exit_code = 1;
      }
      say("RuntimeError: the fake training was told to die here");
      out.ends_at = Millis{std::llround(now)};
      return out;
    }
    // The first steps compile and allocate: slower, as in real life.
    const std::int64_t nth = i - start;
    const double warm = nth == 1 ? 3.0 : nth == 2 ? 1.2 : 1.0;
    const double true_ms = step_ms * warm * (1.0 + step_noise * noise.Normal()) *
                           (1.0 + drift * static_cast<double>(nth) / 100.0);
    now += true_ms;
    const double printed_ms = in.Has("fake-half-times") ? true_ms / 2 : true_ms;
    const bool nan = in.Has("fake-nan-at") && i >= in.Int("fake-nan-at", 0);
    std::string losses;
    if (!nan) {  // Megatron-LM prints a loss only when it is >= 0: a NaN loses its field
      losses =
          fmt::format(" lm loss: {:.6E} |", LossAt(i) * (1.0 + in.Number("fake-loss-shift", 0)));
    }
    if (in.Int("num-experts", 0) > 0) {
      losses += fmt::format(" load_balancing_loss: {:.6E} |",
                            in.Has("fake-drop-aux") ? 0.0 : 1.0 + 0.02 / static_cast<double>(i));
    }
    const std::string line = fmt::format(
        " [2026-11-30 20:{:02}:{:02}.000000] iteration {}/{} | consumed samples: {} | elapsed time "
        "per iteration (ms): {:.1f} | learning rate: {:.6E} | global batch size: {} |{} loss "
        "scale: "
        "1.0 | grad norm: {} | number of skipped iterations:   0 | number of nan iterations:   0 |",
        (i / 60) % 60, i % 60, Pad(i, 8), Pad(train_iters, 8), Pad(i * gbs, 12), printed_ms,
        in.Number("lr", 3e-4), Pad(in.Int("fake-printed-batch", gbs), 5), losses,
        nan ? std::string("nan") : fmt::format("{:.3f}", 1.0 + 2.0 / static_cast<double>(i)));
    if (nth == 1 || i % std::max<std::int64_t>(1, in.Int("log-interval", 1)) == 0) {
      say(line, true);
    }
    if (i == in.Int("fake-twice", 0)) {
      say(line, true);
    }
    if (nth == 1) {
      const double mb =
          400.0 + 55.0 * static_cast<double>(mbs) * (in.Text("recompute") == "True" ? 0.6 : 1.0);
      say(
          fmt::format("[Rank 0] (after {} iterations) memory (MB) | allocated: {:.1f} | max "
                      "allocated: {:.1f} | reserved: {:.1f} | max reserved: {:.1f}",
                      i, mb * 0.7, mb, mb * 1.1, mb * 1.1));
    }
    if (eval_interval > 0 && i % eval_interval == 0) {
      now += 2 * step_ms;
      say(" validation loss at iteration " + std::to_string(i) +
          " on validation set | lm loss value: " + fmt::format("{:.6E}", LossAt(i) + 0.05) +
          " | lm loss PPL: 1.000000E+01 | ");
    }
    if (save_interval > 0 && i % save_interval == 0) {
      say(fmt::format("saving checkpoint at iteration {} to {} in torch format", Pad(i, 7),
                      in.Text("save")));
      now += step_ms;
      out.saves.emplace_back(Millis{std::llround(now)}, i);
      say(fmt::format("  successfully saved checkpoint from iteration {} to {}", Pad(i, 7),
                      in.Text("save")));
    }
    // Megatron-LM writes a checkpoint on its way out while --save is set.
    const bool last = i == train_iters || (exit_interval > 0 && i % exit_interval == 0);
    if (last && !out.save_dir.empty() && (out.saves.empty() || out.saves.back().second != i)) {
      out.saves.emplace_back(Millis{std::llround(now)}, i);
      say(fmt::format("  successfully saved checkpoint from iteration {} to {}", Pad(i, 7),
                      out.save_dir));
    }
    if (exit_interval > 0 && i % exit_interval == 0) {
      say(fmt::format("exiting program at iteration {}", i));
      break;
    }
  }
  out.ends_at = in.Has("fake-end-hang") ? Millis::max() : Millis{std::llround(now + 5)};
  if (in.Has("fake-end-hang")) {
    out.exit_code.reset();
  }
  return out;
}

std::string FlagValue(const std::vector<std::string>& args, const std::string& name) {
  const Flags flags = ReadFlags(args);
  const auto it = flags.find(name);
  return it == flags.end() ? std::string() : it->second;
}

std::int64_t LatestCheckpoint(const std::string& dir) {
  std::ifstream in(dir + "/latest_checkpointed_iteration.txt");
  std::int64_t iteration = 0;
  return in >> iteration ? iteration : 0;
}

void WriteCheckpoint(const std::string& dir, std::int64_t iteration) {
  std::error_code ignored;
  std::filesystem::create_directories(dir, ignored);
  std::ofstream(dir + "/weights.txt") << "weights after iteration " << iteration << "\n";
  std::ofstream(dir + "/latest_checkpointed_iteration.txt") << iteration << "\n";
}

}  // namespace attune::fakes
