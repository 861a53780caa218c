#include "slurm_script.h"

#include <algorithm>
#include <array>

#include "attune/base/text.h"
#include "ranks.h"

namespace attune::launch {
namespace {

constexpr std::string_view kMark = "{{attune}}";

// Everything that varies, each value in quotes on a line of its own.
std::string Block(const std::string& wrapper, const std::string& folder, bool last) {
  std::string out = "set --";
  for (const std::string& word : {wrapper, std::string("run"), folder}) {
    out += " \\\n  " + ShellQuote(word);
  }
  return out + "\n" + (last ? "exec " : "") + "\"$@\" \"${SLURM_RESTART_COUNT:-0}\"\n";
}

bool Says(const SlurmOptions& o, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view n) { return o.sbatch.contains(std::string(n)); });
}

void Add(std::vector<std::string>& argv, const std::vector<std::string>& more) {
  argv.insert(argv.end(), more.begin(), more.end());
}

// What `attune-wrapper rank` does (slurm_rank.h), for a job that has no wrapper.
std::string RankShell(const Stage& stage, bool torchrun) {
  const std::string at = "MASTER_ADDR=\"${MASTER_ADDR:-$SLURM_LAUNCH_NODE_IPADDR}\"";
  if (torchrun) {  // the same names for torchrun's own defaults
    return "export " + at +
           "; export PET_NNODES=$SLURM_STEP_NUM_NODES PET_NODE_RANK=$SLURM_NODEID "
           "PET_MASTER_ADDR=$MASTER_ADDR PET_MASTER_PORT=$MASTER_PORT; exec \"$@\"";
  }
  return "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID "
         "LOCAL_WORLD_SIZE=" +
         std::to_string(stage.ranks) + " " + at + "; exec \"$@\"";
}

std::vector<std::string> SrunWords(const SlurmOptions& o, int nodes, int tasks_a_node) {
  std::vector<std::string> argv = {"srun",
                                   "--nodes=" + std::to_string(nodes),
                                   "--ntasks=" + std::to_string(nodes * tasks_a_node),
                                   "--ntasks-per-node=" + std::to_string(tasks_a_node),
                                   "--kill-on-bad-exit=1",
                                   "--cpu-bind=none"};
  if (o.counts_gpus) {
    argv.push_back("--gpus-per-node=" + std::to_string(o.gpus_per_node));
  }
  if (o.inside) {
    argv.emplace_back("--overlap");  // attune itself may run in a step that has everything
    if (!o.without.empty()) {
      argv.push_back("--exclude=" + Join(o.without, ","));
    }
  }
  return argv;
}

std::vector<std::string> InApptainer(const SlurmOptions& o, const std::string& workdir) {
  std::vector<std::string> argv = {"apptainer", "exec"};
  if (o.counts_gpus) {
    argv.emplace_back("--nv");
  }
  for (const std::string& mount : o.container.mounts) {
    argv.push_back("--bind=" + mount);
  }
  Add(argv, {"--pwd=" + workdir, o.container.image});
  return argv;
}

std::vector<std::string> InDocker(const SlurmOptions& o, const Stage& stage,
                                  const std::string& folder) {
  std::vector<std::string> argv = {"docker",         "run",       "--rm", "--init",
                                   "--network=host", "--ipc=host"};
  if (o.counts_gpus) {
    argv.emplace_back("--gpus=all");
  }
  for (const std::string& mount : o.container.mounts) {
    argv.push_back("--volume=" + mount);
  }
  if (!folder.empty()) {
    argv.push_back("--volume=" + folder + ":" + folder);
  }
  // By name: the value is taken from the environment of the client, which the wrapper made.
  for (const auto& [name, value] : stage.env) {
    argv.push_back("--env=" + name);
  }
  if (!folder.empty()) {
    Add(argv, {"--env=ATTUNE_TOKEN", "--env=ATTUNE_RUN_DIR"});
  }
  for (const char* name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    argv.push_back(std::string("--env=") + name);
  }
  Add(argv, {"--workdir=" + stage.workdir, o.container.image});
  return argv;
}

}  // namespace

std::vector<std::string> NodesAskedFor(const SlurmOptions& o) {
  std::vector<std::string> argv;
  if (!Says(o, {"nodes"})) {
    argv.push_back("--nodes=" + std::to_string(o.nodes));
  }
  if (o.counts_gpus && !Says(o, {"gpus", "gpus-per-node", "gpus-per-task", "gres"})) {
    argv.push_back("--gpus-per-node=" + std::to_string(o.gpus_per_node));
  }
  // Whole nodes: a neighbour's job would be in the measurement (control_plane.md section 2).
  if (!Says(o, {"exclusive", "oversubscribe"})) {
    argv.emplace_back("--exclusive");
  }
  return argv;
}

std::string OptionOf(const std::string& name, const std::string& value) {
  return value == "true" ? "--" + name : "--" + name + "=" + value;
}

std::int64_t MinutesFor(Millis limit) {
  constexpr std::int64_t kMinute = 60'000;
  return ((limit + kWrapperTail).count() + kMinute - 1) / kMinute;
}

Result<std::string> BatchScript(const std::string& user_template, const std::string& wrapper,
                                const std::string& folder) {
  if (user_template.empty()) {
    return "#!/bin/sh\n"
           "# Made by attune. Without the next line steps of srun get none of these variables.\n"
           "export SLURM_EXPORT_ENV=ALL\n" +
           Block(wrapper, folder, true);
  }
  if (!user_template.starts_with("#!") || user_template.find('\r') != std::string::npos) {
    return Fail(ErrorCode::kInvalidInput,
                "the batch script template must begin with #! and have no carriage returns");
  }
  std::string out;
  int marks = 0;
  for (const std::string_view line : SplitLines(user_template)) {
    if (Trim(line) == kMark) {
      ++marks;
      out += "export SLURM_EXPORT_ENV=ALL\n" + Block(wrapper, folder, false);
    } else {
      out += std::string(line) + "\n";
    }
  }
  if (marks != 1) {
    return Fail(ErrorCode::kInvalidInput,
                "the batch script template has " + std::to_string(marks) +
                    " lines {{attune}}, expected one",
                "put {{attune}} on a line of its own where the job is to run");
  }
  return out;
}

std::vector<std::string> SbatchArgv(const SlurmOptions& o, const LaunchSpec& spec,
                                    const std::string& folder, const std::string& script) {
  std::vector<std::string> argv = {"sbatch",
                                   "--parsable",
                                   "--no-requeue",
                                   "--export=NONE",
                                   "--open-mode=append",
                                   "--job-name=" + spec.token.value,
                                   "--comment=" + spec.token.value,
                                   "--output=" + folder + "/slurm-%j.out",
                                   "--chdir=" + folder,
                                   "--time=" + std::to_string(MinutesFor(spec.limit))};
  Add(argv, NodesAskedFor(o));
  std::vector<std::string> exclude = spec.exclude;
  for (const auto& [name, value] : o.sbatch) {
    if (name == "time" || value == "false") {
      continue;
    }
    if (name == "exclude") {
      exclude.insert(exclude.begin(), value);
    } else {
      argv.push_back(OptionOf(name, value));
    }
  }
  if (!exclude.empty()) {
    argv.push_back("--exclude=" + Join(exclude, ","));
  }
  argv.push_back(script);
  return argv;
}

Stage OnNodes(const SlurmOptions& o, const Stage& stage, const std::string& wrapper,
              const std::string& folder) {
  Stage out = stage;
  out.nodes = 1;  // the wrapper is on the first node alone; srun knows the others
  const bool pyxis = o.container.style == "pyxis";
  const bool ranked = stage.kind != RanksKind::kNone && stage.ranks > 0;
  // env:// ranks on a single node are started by the wrapper itself, where there is one.
  const bool alone = wrapper.empty();
  const bool by_srun = ranked && (stage.nodes > 1 || stage.kind == RanksKind::kSrun || pyxis ||
                                  (alone && stage.kind == RanksKind::kEnv));
  const bool torchrun = stage.kind == RanksKind::kTorchrun && !stage.argv.empty();
  std::vector<std::string> program = stage.argv;
  if (torchrun) {
    Stage one = stage;
    one.nodes = 1;
    program = UnderTorchrun(one);
    if (by_srun) {  // where the nodes meet and which one it is stands in its PET_ variables
      std::erase(program, "--standalone");
    }
  }
  std::vector<std::string> argv;
  if (by_srun || pyxis) {
    // torchrun starts the ranks of its node itself, so it is started once a node.
    argv = SrunWords(o, by_srun ? stage.nodes : 1, by_srun && !torchrun ? stage.ranks : 1);
    if (pyxis) {
      std::vector<std::string> mounts = o.container.mounts;
      if (!alone) {
        Add(mounts, {wrapper + ":" + wrapper, folder + ":" + folder});
      }
      argv.push_back("--container-image=" + o.container.image);
      if (!mounts.empty()) {
        argv.push_back("--container-mounts=" + Join(mounts, ","));
      }
      argv.push_back("--container-workdir=" + stage.workdir);
    }
    if (by_srun) {
      Add(argv, alone ? std::vector<std::string>{"sh", "-c", RankShell(stage, torchrun), "rank"}
                      : std::vector<std::string>{wrapper, "rank"});
    }
  }
  if (by_srun || torchrun || !ranked) {
    out.kind = RanksKind::kNone;
    out.ranks = 0;
  }
  if (o.container.style == "apptainer") {
    Add(argv, InApptainer(o, stage.workdir));
  } else if (o.container.style == "docker") {
    Add(argv, InDocker(o, stage, folder));
  }
  Add(argv, program);
  out.argv = std::move(argv);
  return out;
}

}  // namespace attune::launch
