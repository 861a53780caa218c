// A recipe: everything needed to launch one training job. Read by recipe_io, frozen into the
// campaign, hashed. Plain values; what a recipe file may say is in docs/formats/recipe.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/base/units.h"
#include "attune/model/arguments.h"
#include "attune/model/lever.h"
#include "attune/model/run.h"

namespace attune {

enum class Framework { kMegatronLm, kCustom };
std::string_view Word(Framework f);

// Facts that the arguments do not give. Frozen.
struct Workload {
  std::string model;
  int gpus = 1;  // slots: what is taken from others, and the divisor of tokens/s/GPU
  int gpus_per_node = 1;
  std::string gpu;                           // a row of the GPU table, or "cpu"
  std::optional<std::int64_t> seq_length;    // custom: required; megatron-lm: from the arguments
  std::optional<std::int64_t> global_batch;  // likewise
  std::string precision;
  std::string order;           // "layout_free" when the data order does not depend on mbs or dp
  std::string loss_mask;       // "full" when every position counts in the loss
  bool variable_rows = false;  // tokens per step differ: throughput is compared step by step
  std::string shape_row;       // a row of skill/models.tsv
  std::map<std::string, std::string> shape;  // or keys in place
  std::vector<std::string> caches;           // folders a run may write besides its own
  std::vector<std::string> reads;
};

struct LogSpec {
  std::string dialect;  // "megatron-lm", "megatron-bridge", "custom"
  std::string pattern;  // RE2 with named groups step, loss, ms ...: dialect custom only
};

// `measure:`; every default is control_plane.md section 3.
struct MeasureSpec {
  int warmup_steps = 5;
  std::optional<int> steps;  // window length wanted; unset: the rule of the page
  Millis min_seconds{60'000};
  int calibration_runs = 5;
  double cv_max = 0.05;
  double half_drift_max = 0.02;
  double band_floor = 0.03;          // not below 0.03
  double sigma_factor = 3.0;         // not below 3
  std::vector<std::string> relaxed;  // names of the fields a recipe relaxed, for the report
  // framework custom: rows of the measured form. set: flag -> value, "{n}" is the iteration after
  // which the run stops; remove: flags.
  std::map<std::string, std::string> instrument_set;
  std::vector<std::string> instrument_remove;
  std::string start_from;  // custom: checkpoint folder whose latest iteration is the start point
};

struct ComponentTest {
  std::string lever;
  std::string value;  // empty: any value of the lever
  std::vector<std::string> command;
  int gpus = 1;
  Millis time{600'000};
};
struct AcceptedLever {
  std::string lever;  // or a defect id
  std::string why;
};
struct GateSpec {
  double memory_headroom = 0;  // 0: by rule (0.95, or 0.92 for dropless MoE or variable rows)
  double step0_loss = 0.02;    // a recipe may only lower it
  std::optional<int> long_steps;
  std::vector<ComponentTest> component_tests;
  std::vector<AcceptedLever> accept;
};

// The profile of every scored run: a few steps after its timed window.
struct ProfileSpec {
  std::vector<int> ranks{0};             // whose traces are kept
  int steps = 2;                         // profiled
  std::int64_t max_bytes = 200'000'000;  // of a run's traces, as they lie on disk
  bool off = false;
  // custom: flags that make the trainer write traces below "{run}"; empty: no profile. Placeholders
  // as in measure.instrument, and {p} {q} {ranks}.
  std::map<std::string, std::string> set;
};

// Slurm: what the ranks run in. The image stands where the nodes find it.
struct ContainerSpec {
  std::string style;  // pyxis | apptainer | docker; empty: none
  std::string image;
  std::vector<std::string> mounts;  // "SOURCE:TARGET"
};

struct LauncherSpec {
  std::string kind = "local";  // local | slurm | ssh | sim
  std::map<std::string, std::string> sbatch;
  std::string batch_template;  // slurm: the user's batch script, with a line {{attune}}
  ContainerSpec container;
  std::string login;  // slurm: host of the user's ssh config on which its programs are
  std::vector<std::string> hosts;
  std::string run_root;  // ssh: folder on the hosts that holds the run folders; empty: by attune
  std::string workdir;   // empty: the recipe's folder
  Env env;               // left empty by recipe_io: what a recipe says here is base.env
  std::vector<std::string> pass_env;  // names passed from the caller's environment
  std::string script;  // the user's own launch script, handed over unchanged; ScriptPath says where
  bool script_trusted = false;
  std::optional<Millis> time;     // the launcher's own time limit
  std::optional<Millis> startup;  // hang limits, when the recipe says them
  std::optional<Millis> no_progress;
  Millis poll{5'000};
  // slurm: the campaign runs in an allocation that is held this long at most; unset: each launch
  // has one of its own.
  std::optional<Millis> session;
};

// Why a campaign with this launcher can't move into an allocation that is held for `session`, as it
// goes on after the name of what asks for that; empty: it can.
std::string WhyNotHeld(const LauncherSpec& launcher, Millis session);

// What ssh takes for a host of its configuration and never for an option: letters, digits, . _ -
bool IsHostName(std::string_view name);

struct BudgetSpec {
  std::optional<double> gpu_hours;
  bool automatic = false;  // "auto"
  std::optional<Millis> run_limit;
  std::optional<Millis> wall;
  std::optional<double> llm_usd;
};

// `llm:` in a recipe names these and nothing else: endpoint, headers and keys come from the user's
// own configuration, so that a colleague's file can send a key nowhere (DESIGN section 6).
struct LlmSpec {
  std::string profile;
  std::string model;
  std::optional<double> usd;           // limits
  std::optional<std::int64_t> tokens;  // input and output together
  std::optional<int> calls;
  int retries = 9;
  int prompt_bytes = 40'000;  // of the text of one request (docs/agent.md)
};

struct Recipe {
  std::string name;
  std::string description;
  std::vector<std::string> tags;
  // Absolute: commands and relative paths start here. The folder of the file that gives `command`
  // (or launcher.script), so that a recipe that extends it from elsewhere starts the same job.
  std::string folder;
  Framework framework = Framework::kCustom;
  Workload workload;
  std::map<std::string, std::string> stack;  // megatron-lm, core, torch, cuda, nccl, network, ...
  RanksKind ranks = RanksKind::kNone;
  std::vector<std::string> command;  // argv; the token "{{args}}" takes the arguments
  // Arguments (args, args_file) and environment (launcher.env) as the user gives them: the one
  // place where a reader finds either. launcher.pass_env is added by whoever launches.
  Effective base;
  std::vector<std::string> files;  // hashed at each launch
  std::vector<DeclaredLever> declared;
  std::vector<std::string> allow, deny;    // levers: restrict only
  std::map<std::string, std::string> why;  // lever -> the user's reason
  LogSpec log;
  MeasureSpec measure;
  GateSpec gate;
  ProfileSpec profile;
  LauncherSpec launcher;
  BudgetSpec budget;
  LlmSpec llm;
  double price_gpu_hour_usd = 0;            // 0: not known
  std::vector<std::string> notify_on;       // end | fail | budget
  std::vector<std::string> notify_command;  // never from a recipe file: user's own config only
};

// argv of a run: `command` with "{{args}}" replaced by the rendered arguments. When no token says
// "{{args}}" they are appended.
std::vector<std::string> RenderCommand(const Recipe& recipe, const Arguments& args);

// The folder in which the job starts, absolute: launcher.workdir, else the recipe's own.
const std::string& JobFolder(const Recipe& recipe);

// Where launcher.script lies, absolute; empty: the recipe has a command.
std::string ScriptPath(const Recipe& recipe);

}  // namespace attune
