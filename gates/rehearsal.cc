// The winner as the user would run it, short enough to be paid for: save redirected into the run
// folder, evaluation on, intervals shortened only where they would fall outside.
#include <algorithm>

#include "attune/base/text.h"
#include "attune/gates/instrument.h"

namespace attune {
namespace {

std::optional<std::int64_t> Number(const Arguments& args, std::string_view flag) {
  const std::optional<std::string> v = args.Value(flag);
  return v ? ParseInt(*v) : std::nullopt;
}

// The last multiple of `interval` in (after, last]; nullopt when none lies there.
std::optional<std::int64_t> LastMultiple(std::int64_t interval, std::int64_t after,
                                         std::int64_t last) {
  if (interval <= 0) return std::nullopt;
  const std::int64_t m = last / interval * interval;
  return m > after ? std::optional(m) : std::nullopt;
}

// An interval is a modulus of the absolute iteration: one that is larger than the start has its
// first hit exactly at itself.
void Shorten(Arguments& args, std::string_view flag, std::int64_t after, std::int64_t last,
             std::int64_t target) {
  const std::optional<std::int64_t> own = Number(args, flag);
  if (own && LastMultiple(*own, after, last)) return;
  args.Set(flag, {std::to_string(target)});
}

// Whether the trainer knows the flag: a custom one shows it in its arguments or instrumentation.
bool Takes(const Recipe& recipe, const Arguments& args, const std::string& flag) {
  return recipe.framework == Framework::kMegatronLm || args.Has(flag) ||
         recipe.measure.instrument_set.contains(flag);
}

// The run ends by itself after this iteration, by whatever argument the framework or the recipe has
// for that; without one the watcher stops it.
void EndAfter(const Recipe& recipe, Arguments& args, std::int64_t last) {
  if (Takes(recipe, args, "--exit-interval")) args.Set("--exit-interval", {std::to_string(last)});
  if (recipe.framework == Framework::kMegatronLm) return;
  for (const auto& [flag, value] : recipe.measure.instrument_set) {
    if (value == "{n}") args.Set(flag, {std::to_string(last)});
  }
}

bool Evaluates(const Arguments& args, bool megatron) {
  const std::optional<std::int64_t> iters = Number(args, "--eval-iters");
  const std::optional<std::int64_t> interval = Number(args, "--eval-interval");
  if (iters && *iters <= 0) return false;
  return interval ? *interval > 0 && (megatron || iters) : false;
}

}  // namespace

RehearsalForms RehearsalForm(const Recipe& recipe, const Effective& user,
                             const RehearsalWindow& window, const Rules& rules) {
  RehearsalForms out;
  const bool megatron = recipe.framework == Framework::kMegatronLm;
  const std::int64_t s = window.start_iteration;
  std::int64_t last = s + std::max(window.steps, 2);
  out.first = user;
  Arguments& args = out.first.args;
  out.saves = args.Has("--save");
  out.evaluates = Evaluates(args, megatron);

  const std::string scratch = window.run_dir + "/rehearsal";
  if (out.saves) {
    // The run ends on a save, so that what the second run finds is what the first one reached.
    const std::optional<std::int64_t> own = Number(args, "--save-interval");
    const std::optional<std::int64_t> hit =
        own ? LastMultiple(*own, s + 1, last) : std::optional<std::int64_t>();
    if (hit) {
      last = *hit;
    } else {
      args.Set("--save-interval", {std::to_string(last)});
    }
    args.Set("--save", {scratch});
  }
  if (out.evaluates)
    Shorten(args, "--eval-interval", s, last, s + std::max<std::int64_t>(1, (last - s) / 2));
  // Where the user's log interval falls inside the run it stays; a run that prints nothing would
  // show nothing.
  if (Takes(recipe, args, "--log-interval")) {
    if (!args.Has("--log-interval")) args.Set("--log-interval", {"100"});
    Shorten(args, "--log-interval", s, last, 1);
  }
  EndAfter(recipe, args, last);
  if (args.Has("--load") && s > 0 && (megatron || args.Has("--ckpt-step"))) {
    args.Set("--ckpt-step", {std::to_string(s)});
  }
  // Everything else that writes goes to the run folder, or nowhere.
  for (const PathRow& row : rules.paths) {
    if (row.use != PathUse::kWrite || row.name == "--save" || !args.Has(row.name)) continue;
    args.Set(row.name, {scratch + "-" + std::string(row.name.substr(2))});
  }
  if (megatron) out.first.env["WANDB_MODE"] = "disabled";
  out.last_iteration = last;
  out.first_steps = static_cast<int>(last - s);

  if (out.saves) {
    out.second = out.first;
    out.second_steps = 2;
    Arguments& again = out.second->args;
    again.Set("--load", {scratch});
    for (const std::string_view flag : {"--ckpt-step", "--finetune", "--no-load-optim",
                                        "--no-load-rng", "--pretrained-checkpoint"}) {
      again.Unset(flag);
    }
    if (Takes(recipe, again, "--log-interval")) again.Set("--log-interval", {"1"});
    EndAfter(recipe, again, last + out.second_steps);
    again.Set("--save-interval", {std::to_string(last + out.second_steps)});
  }
  return out;
}

}  // namespace attune
