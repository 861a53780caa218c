#include "keys.h"

#include "attune/base/check.h"

namespace attune {
namespace {

using enum KeyKind;
using Word = std::string_view;

constexpr Word kFrameworks[] = {"megatron-lm", "custom"};
constexpr Word kOrders[] = {"layout_free"};
constexpr Word kMasks[] = {"full"};
constexpr Word kRankKinds[] = {"env", "torchrun", "srun"};
// The readers of logs that there are (logs/log_parser.h: LogDialects, compared by a test of cli).
constexpr Word kDialects[] = {
    "megatron-lm", "megatron-bridge", "automodel",  "torchtitan", "torchtune",
    "verl",        "deepspeed",       "hf-trainer", "slime",      "custom"};
constexpr Word kLaunchers[] = {"local", "slurm", "ssh", "sim"};
constexpr Word kNotices[] = {"end", "fail", "budget"};
constexpr Word kClasses[] = {"placement", "memory", "overlap", "batching", "kernel", "env"};
constexpr Word kSchemas[] = {"attune/recipe/1"};

constexpr Key kWorkload[] = {
    {.name = "model", .kind = kText, .doc = "name of the model, for people", .required = true},
    {.name = "gpus",
     .kind = kInt,
     .doc = "slots taken from others, divisor of tokens/s/GPU",
     .required = true},
    {.name = "gpus_per_node", .kind = kInt, .doc = "slots of one node; default: gpus, at most 8"},
    {.name = "gpu", .kind = kText, .doc = "kind of GPU, or cpu"},
    {.name = "seq_length", .kind = kInt, .doc = "tokens of a row; custom: required"},
    {.name = "global_batch", .kind = kInt, .doc = "rows of a step; custom: required"},
    {.name = "precision", .kind = kText, .doc = "precision of the GEMMs: fp32, bf16, fp8 ..."},
    {.name = "order",
     .kind = kText,
     .doc = "the data order depends on neither micro-batch nor data parallelism",
     .words = kOrders},
    {.name = "loss_mask",
     .kind = kText,
     .doc = "every position counts in the loss",
     .words = kMasks},
    {.name = "variable_rows", .kind = kBool, .doc = "steps differ in tokens"},
    {.name = "shape", .kind = kShape, .doc = "row of the model table, or its keys in place"},
    {.name = "caches", .kind = kTexts, .doc = "folders that a run may write besides its own"},
    {.name = "reads", .kind = kTexts, .doc = "paths that the job reads, when no argument says so"},
};
constexpr Key kRanks[] = {
    {.name = "kind",
     .kind = kText,
     .doc = "who starts the ranks of a node",
     .words = kRankKinds,
     .required = true},
};
constexpr Key kCondition[] = {
    {.name = "flag", .kind = kText, .doc = "a flag, or"},
    {.name = "env", .kind = kText, .doc = "a variable"},
    {.name = "is", .kind = kText, .doc = "its value; left out: present"},
};
constexpr Key kDeclare[] = {
    {.name = "lever", .kind = kText, .doc = "id of the lever", .required = true},
    {.name = "flag", .kind = kText, .doc = "the flag that it sets, or"},
    {.name = "env", .kind = kText, .doc = "the variable that it sets"},
    {.name = "values",
     .kind = kTexts,
     .doc = "allowed values, in the order in which to try them",
     .required = true},
    {.name = "class",
     .kind = kText,
     .doc = "what kind of change it is",
     .words = kClasses,
     .required = true},
    {.name = "excludes", .kind = kSections, .doc = "never together with", .keys = kCondition},
    {.name = "needs", .kind = kSections, .doc = "only together with", .keys = kCondition},
    {.name = "derives",
     .kind = kTextMap,
     .doc = "printed argument: the value that follows from the lever, {v}"},
    {.name = "why", .kind = kText, .doc = "why it may help or hurt"},
};
constexpr Key kLevers[] = {
    {.name = "allow", .kind = kTexts, .doc = "only these levers may change"},
    {.name = "deny", .kind = kTexts, .doc = "these levers may not change"},
    {.name = "why", .kind = kTextMap, .doc = "lever: your reason, for the report and the proposer"},
};
constexpr Key kLog[] = {
    {.name = "dialect", .kind = kText, .doc = "built-in log format", .words = kDialects},
    {.name = "pattern",
     .kind = kText,
     .doc = "RE2 with named groups: step, loss, ms and others; dialect custom"},
};
constexpr Key kBand[] = {
    {.name = "floor_pct", .kind = kNumber, .doc = "smallest band in percent, not below 3"},
    {.name = "sigma", .kind = kNumber, .doc = "factor on the baseline's spread, not below 3"},
};
constexpr Key kInstrument[] = {
    {.name = "set",
     .kind = kTextMap,
     .doc = "flag: value; {n} is the iteration after which the run stops"},
    {.name = "remove", .kind = kTexts, .doc = "flags taken out of a tuning run"},
};
constexpr Key kMeasure[] = {
    {.name = "warmup_steps", .kind = kInt, .doc = "steps before the timed window"},
    {.name = "steps", .kind = kInt, .doc = "steps of the timed window"},
    {.name = "min_seconds", .kind = kNumber, .doc = "length of the timed window, not below 3"},
    {.name = "calibration_runs", .kind = kInt, .doc = "runs of the baseline that give the band"},
    {.name = "cv_max", .kind = kNumber, .doc = "largest variation of step times in a window"},
    {.name = "half_drift_max", .kind = kNumber, .doc = "largest drift between its halves"},
    {.name = "band", .kind = kSection, .doc = "what counts as a gain", .keys = kBand},
    {.name = "instrument",
     .kind = kSection,
     .doc = "custom: rows of the measured form",
     .keys = kInstrument},
    {.name = "start_from", .kind = kText, .doc = "custom: checkpoint folder of the start point"},
};
constexpr Key kComponentTest[] = {
    {.name = "lever", .kind = kText, .doc = "the lever that it proves", .required = true},
    {.name = "value", .kind = kText, .doc = "the value that it proves; left out: any"},
    {.name = "command", .kind = kTexts, .doc = "argv; exit 0 proves it", .required = true},
    {.name = "gpus", .kind = kInt, .doc = "slots that it holds"},
    {.name = "time", .kind = kDuration, .doc = "time limit"},
};
constexpr Key kAccept[] = {
    {.name = "lever", .kind = kText, .doc = "a lever or a defect id", .required = true},
    {.name = "why", .kind = kText, .doc = "your reason; printed in the report", .required = true},
};
constexpr Key kGate[] = {
    {.name = "memory_headroom", .kind = kNumber, .doc = "share of memory that may be reserved"},
    {.name = "step0_loss_pct", .kind = kNumber, .doc = "step-0 limit in percent; at most 2"},
    {.name = "long_steps", .kind = kInt, .doc = "steps of one long comparison of the loss curves"},
    {.name = "component_tests",
     .kind = kSections,
     .doc = "tests that prove a kernel swap",
     .keys = kComponentTest},
    {.name = "accept", .kind = kSections, .doc = "what you accept without a test", .keys = kAccept},
};
constexpr Key kProfile[] = {
    {.name = "ranks", .kind = kInts, .doc = "ranks whose trace is kept"},
    {.name = "steps", .kind = kInt, .doc = "profiled steps, after the timed window"},
    {.name = "max_mb", .kind = kInt, .doc = "most that the traces of a run may take"},
    {.name = "off", .kind = kBool, .doc = "no profile"},
    {.name = "set",
     .kind = kTextMap,
     .doc = "custom: flags that write a trace; {p} {q} first and last step, {run} the folder"},
};
constexpr Key kScript[] = {
    {.name = "file",
     .kind = kText,
     .doc = "your own launch script, copied unchanged",
     .required = true},
    {.name = "trusted", .kind = kBool, .doc = "it may contain sbatch, pkill, ssh and their like"},
};
constexpr Key kLimits[] = {
    {.name = "startup", .kind = kDuration, .doc = "a run without a first step is hung after"},
    {.name = "no_progress", .kind = kDuration, .doc = "a run without a further step is hung after"},
};
constexpr std::string_view kContainers[] = {"pyxis", "apptainer", "docker"};
constexpr Key kContainer[] = {
    {.name = "style", .kind = kText, .doc = "how the image is run", .words = kContainers},
    {.name = "image", .kind = kText, .doc = "the image, as the nodes name it"},
    {.name = "mounts", .kind = kTexts, .doc = "SOURCE:TARGET each"},
};
constexpr Word kAllocations[] = {"per_run"};
constexpr Key kHeld[] = {
    {.name = "session", .kind = kDuration, .doc = "for how long at most", .required = true},
};
constexpr Key kAllocation[] = {
    {.name = "held",
     .kind = kSection,
     .doc = "one that the campaign runs in",
     .keys = kHeld,
     .required = true},
};
constexpr Key kLauncher[] = {
    {.name = "kind", .kind = kText, .doc = "how jobs are started", .words = kLaunchers},
    {.name = "sbatch", .kind = kTextMap, .doc = "slurm: options of sbatch without dashes"},
    {.name = "batch_template", .kind = kText, .doc = "slurm: your batch script with {{attune}}"},
    {.name = "container",
     .kind = kSection,
     .doc = "slurm: what the ranks run in",
     .keys = kContainer},
    {.name = "login", .kind = kText, .doc = "slurm: ssh host that has its programs"},
    {.name = "hosts", .kind = kTexts, .doc = "ssh: names of your ssh config"},
    {.name = "run_root", .kind = kText, .doc = "folder of the runs, as hosts or nodes name it"},
    {.name = "workdir", .kind = kText, .doc = "folder in which the job starts"},
    {.name = "env", .kind = kTextMap, .doc = "variables of the job"},
    {.name = "pass_env", .kind = kTexts, .doc = "variables passed on from your environment"},
    {.name = "script", .kind = kSection, .doc = "your own launch script", .keys = kScript},
    {.name = "time", .kind = kDuration, .doc = "time limit of a launch before any is measured"},
    {.name = "limits", .kind = kSection, .doc = "when a run counts as hung", .keys = kLimits},
    {.name = "poll", .kind = kDuration, .doc = "how often a scheduler is asked"},
    {.name = "allocation",
     .kind = kChoice,
     .doc = "slurm: one for each launch, or one held for a session",
     .keys = kAllocation,
     .words = kAllocations},
};
constexpr Key kBudgetKeys[] = {
    {.name = "gpu_hours", .kind = kBudget, .doc = "GPU-hours of the campaign, or auto"},
    {.name = "run_limit",
     .kind = kDuration,
     .doc = "time limit of a launch before any is measured"},
    {.name = "wall", .kind = kDuration, .doc = "wall-clock limit of the campaign"},
    {.name = "llm_usd", .kind = kNumber, .doc = "dollars for model calls"},
};
constexpr Key kLlmLimits[] = {
    {.name = "usd", .kind = kNumber, .doc = "dollars"},
    {.name = "tokens", .kind = kInt, .doc = "input and output tokens together"},
    {.name = "calls", .kind = kInt, .doc = "requests"},
};
constexpr Key kLlm[] = {
    {.name = "profile", .kind = kText, .doc = "a profile of your own config"},
    {.name = "model", .kind = kText, .doc = "name of the model"},
    {.name = "limits", .kind = kSection, .doc = "ceilings of the campaign", .keys = kLlmLimits},
    {.name = "retries", .kind = kInt, .doc = "attempts after a failed request"},
    {.name = "prompt_bytes", .kind = kInt, .doc = "most bytes of one request's text"},
};
constexpr Key kPrice[] = {
    {.name = "gpu_hour_usd", .kind = kNumber, .doc = "dollars of one GPU-hour"},
};
constexpr Key kNotify[] = {
    {.name = "on", .kind = kTexts, .doc = "what to be told of", .words = kNotices},
};
constexpr Key kRecipe[] = {
    {.name = "schema",
     .kind = kText,
     .doc = "first line of every recipe",
     .words = kSchemas,
     .required = true},
    {.name = "extends", .kind = kExtends, .doc = "recipes below this one, relative to it"},
    {.name = "name", .kind = kText, .doc = "short name: letters, digits, . _ -", .required = true},
    {.name = "description", .kind = kText, .doc = "for people"},
    {.name = "tags", .kind = kTexts, .doc = "for people"},
    {.name = "framework",
     .kind = kText,
     .doc = "the trainer",
     .words = kFrameworks,
     .required = true},
    {.name = "workload",
     .kind = kSection,
     .doc = "frozen facts",
     .keys = kWorkload,
     .required = true},
    {.name = "stack", .kind = kTextMap, .doc = "versions, probed when left out"},
    {.name = "ranks", .kind = kSection, .doc = "how ranks are started", .keys = kRanks},
    {.name = "command", .kind = kTexts, .doc = "argv; {{args}} takes the arguments"},
    {.name = "args", .kind = kArgs, .doc = "the arguments as they are today"},
    {.name = "args_file", .kind = kText, .doc = "the same as shell words in a file"},
    {.name = "files", .kind = kTexts, .doc = "files hashed at each launch"},
    {.name = "declare", .kind = kSections, .doc = "custom: the levers", .keys = kDeclare},
    {.name = "levers", .kind = kSection, .doc = "restricts the levers", .keys = kLevers},
    {.name = "log", .kind = kSection, .doc = "how the job's log reads", .keys = kLog},
    {.name = "measure", .kind = kSection, .doc = "how a run is measured", .keys = kMeasure},
    {.name = "gate", .kind = kSection, .doc = "how a run is judged", .keys = kGate},
    {.name = "profile", .kind = kSection, .doc = "profiler trace of every run", .keys = kProfile},
    {.name = "launcher", .kind = kSection, .doc = "how a run is started", .keys = kLauncher},
    {.name = "budget", .kind = kSection, .doc = "ceilings", .keys = kBudgetKeys},
    {.name = "llm", .kind = kSection, .doc = "which model proposes", .keys = kLlm},
    {.name = "price", .kind = kSection, .doc = "what a GPU-hour costs", .keys = kPrice},
    {.name = "notify", .kind = kSection, .doc = "what to be told of", .keys = kNotify},
};

}  // namespace

std::span<const Key> RecipeKeys() { return kRecipe; }

std::span<const Key> SectionKeys(std::string_view path) {
  std::span<const Key> keys = kRecipe;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    const Key* found = nullptr;
    for (const Key& key : keys) {
      if (key.name == name) {
        found = &key;
      }
    }
    ATTUNE_CHECK(found != nullptr && !found->keys.empty(), "no such section in the table of keys");
    keys = found->keys;
    path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
  }
  return keys;
}

}  // namespace attune
