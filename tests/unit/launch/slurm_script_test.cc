#include "slurm_script.h"

#include <gtest/gtest.h>

#include "attune/base/text.h"
#include "attune/os/process.h"
#include "slurm_rank.h"

namespace attune::launch {
namespace {

LaunchSpec Spec() {
  LaunchSpec spec;
  spec.token = Token("attune-c-1-l001-0a1b2c3d");
  spec.slots = 16;
  spec.limit = Millis{30 * 60'000};
  spec.exclude = {"n7"};
  return spec;
}
SlurmOptions Options() {
  SlurmOptions o;
  o.nodes = 2;
  o.gpus_per_node = 8;
  o.counts_gpus = true;
  o.sbatch = {{"account", "team x"}, {"partition", "gpu"}, {"time", "02:00:00"}};
  return o;
}
Stage Ranked(int ranks, RanksKind kind = RanksKind::kSrun, int nodes = 2) {
  Stage stage;
  stage.kind = ranks > 0 ? kind : RanksKind::kNone;
  stage.nodes = nodes;
  stage.run = RunId("r001");
  stage.argv = {"/usr/bin/python3", "train.py", "--lr", "1 e"};
  stage.env = {{"OMP_NUM_THREADS", "1"}};
  stage.workdir = "/job";
  stage.ranks = ranks;
  return stage;
}

TEST(BatchScript, IsThisTextWithValuesInOneQuotedBlock) {
  EXPECT_EQ(BatchScript("", "/runs/attune-wrapper.12", "/runs/it's $(here)").value(),
            R"(#!/bin/sh
# Made by attune. Without the next line steps of srun get none of these variables.
export SLURM_EXPORT_ENV=ALL
set -- \
  '/runs/attune-wrapper.12' \
  'run' \
  '/runs/it'\''s $(here)'
exec "$@" "${SLURM_RESTART_COUNT:-0}"
)");
}

TEST(BatchScript, TakesThePlaceThatTheUsersTemplateGivesIt) {
  EXPECT_EQ(BatchScript("#!/bin/bash -l\n#SBATCH --account=x\nmodule load cuda\n{{attune}}\necho\n",
                        "/w", "/f")
                .value(),
            R"(#!/bin/bash -l
#SBATCH --account=x
module load cuda
export SLURM_EXPORT_ENV=ALL
set -- \
  '/w' \
  'run' \
  '/f'
"$@" "${SLURM_RESTART_COUNT:-0}"
echo
)");
}

TEST(BatchScript, RefusesATemplateThatSlurmWouldOrThatHasNoPlace) {
  EXPECT_FALSE(BatchScript("{{attune}}\n", "/w", "/f"));
  EXPECT_FALSE(BatchScript("#!/bin/sh\r\n{{attune}}\r\n", "/w", "/f"));
  EXPECT_FALSE(BatchScript("#!/bin/sh\ntrue\n", "/w", "/f"));
  EXPECT_FALSE(BatchScript("#!/bin/sh\n{{attune}}\n{{attune}}\n", "/w", "/f"));
  EXPECT_FALSE(BatchScript("#!/bin/sh\necho {{attune}}\n", "/w", "/f"));
}

TEST(BatchScript, ARealShellStartsTheWrapperWithTheBytesThatWereMeant) {
  os::PosixProcessRunner runner;
  const std::string folder = "/f '\"$(x)`y` \\ *\t\xc3\xa9";
  const auto script = BatchScript("", "/usr/bin/printf", folder);
  const auto out = runner.Run(std::vector<std::string>{"/bin/sh", "-c", *script}, Millis{10'000});
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->exit_code, 0);
  EXPECT_EQ(out->out, "run");  // printf's format; the other words are its arguments
  const auto words = BatchScript("", "/usr/bin/env", folder);
  std::string echo = *words;
  echo.replace(echo.find("'/usr/bin/env'"), 14, "'/usr/bin/printf' '%s|'");
  const auto all = runner.Run(std::vector<std::string>{"/bin/sh", "-c", echo}, Millis{10'000});
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->out, "run|" + folder + "|0|");
}

TEST(SbatchArgv, AsksForWholeNodesWithoutRequeueAndWithoutTheCallersEnvironment) {
  EXPECT_EQ(Join(SbatchArgv(Options(), Spec(), "/runs/t", "/runs/t/batch.sh"), "\n"),
            "sbatch\n--parsable\n--no-requeue\n--export=NONE\n--open-mode=append\n"
            "--job-name=attune-c-1-l001-0a1b2c3d\n--comment=attune-c-1-l001-0a1b2c3d\n"
            "--output=/runs/t/slurm-%j.out\n--chdir=/runs/t\n--time=31\n--nodes=2\n"
            "--gpus-per-node=8\n--exclusive\n--account=team x\n--partition=gpu\n--exclude=n7\n"
            "/runs/t/batch.sh");
}

TEST(SbatchArgv, TheUsersOwnOptionsReplaceOurDefaults) {
  SlurmOptions o = Options();
  o.sbatch = {{"nodes", "2"},
              {"gres", "gpu:8"},
              {"exclusive", "false"},
              {"exclude", "n1"},
              {"spread-job", "true"}};
  const std::string argv = Join(SbatchArgv(o, Spec(), "/f", "/s"), " ");
  EXPECT_EQ(argv.substr(argv.find("--time")),
            "--time=31 --gres=gpu:8 --nodes=2 --spread-job --exclude=n1,n7 /s");
}

TEST(SbatchArgv, ACpuJobAsksForNoGpus) {
  SlurmOptions o = Options();
  o.counts_gpus = false;
  const std::string argv = Join(SbatchArgv(o, Spec(), "/f", "/s"), " ");
  EXPECT_EQ(argv.find("gpu"), argv.find("gpu", argv.find("partition")));
}

TEST(MinutesFor, LeavesTheWrapperTimeToEndTheLaunchItself) {
  EXPECT_EQ(MinutesFor(Millis{1}), 1);
  EXPECT_EQ(MinutesFor(Millis{45'000}), 1);
  EXPECT_EQ(MinutesFor(Millis{60'000}), 2);
  EXPECT_EQ(MinutesFor(Millis{600'000}), 11);
}

std::string OnNodesText(const SlurmOptions& o, const Stage& stage) {
  return Join(OnNodes(o, stage, "/w", "/f").argv, " ");
}

TEST(OnNodes, RanksOverNodesAreTasksOfSrun) {
  const SlurmOptions o = Options();
  for (const RanksKind kind : {RanksKind::kSrun, RanksKind::kEnv}) {
    const Stage stage = OnNodes(o, Ranked(8, kind), "/w", "/f");
    EXPECT_EQ(Join(stage.argv, " "),
              "srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1 "
              "--cpu-bind=none --gpus-per-node=8 /w rank /usr/bin/python3 train.py --lr 1 e");
    EXPECT_EQ(stage.ranks, 0);
    EXPECT_EQ(stage.kind, RanksKind::kNone);
    EXPECT_EQ(stage.nodes, 1);
  }
}

TEST(OnNodes, InsideAnAllocationAStepSharesWithTheOneAttuneRunsIn) {
  SlurmOptions o = Options();
  o.inside = true;
  EXPECT_NE(OnNodesText(o, Ranked(8)).find(" --overlap /w rank "), std::string::npos);
}

TEST(OnNodes, TorchrunIsStartedOnceANode) {
  EXPECT_EQ(OnNodesText(Options(), Ranked(8, RanksKind::kTorchrun)),
            "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 --cpu-bind=none "
            "--gpus-per-node=8 /w rank /usr/bin/python3 -m torch.distributed.run "
            "--nproc-per-node 8 --max-restarts 0 train.py --lr 1 e");
  EXPECT_EQ(OnNodesText(Options(), Ranked(8, RanksKind::kTorchrun, 1)),
            "/usr/bin/python3 -m torch.distributed.run --nproc-per-node 8 --max-restarts 0 "
            "--standalone train.py --lr 1 e");
}

TEST(OnNodes, WhatRunsOnOneNodeStaysTheWrappers) {
  const SlurmOptions o = Options();
  EXPECT_EQ(OnNodesText(o, Ranked(0)), "/usr/bin/python3 train.py --lr 1 e");
  const Stage env = OnNodes(o, Ranked(8, RanksKind::kEnv, 1), "/w", "/f");
  EXPECT_EQ(env.ranks, 8);
  EXPECT_EQ(env.kind, RanksKind::kEnv);
  EXPECT_EQ(Join(env.argv, " "), "/usr/bin/python3 train.py --lr 1 e");
  EXPECT_EQ(OnNodesText(o, Ranked(8, RanksKind::kSrun, 1)).substr(0, 15), "srun --nodes=1 ");
}

TEST(OnNodes, ContainersStandBetweenTheRankAndItsProgram) {
  SlurmOptions o = Options();
  o.container = {"pyxis", "nvcr.io#nvidia/pytorch:25.01", {"/data:/data"}};
  EXPECT_EQ(OnNodesText(o, Ranked(8)),
            "srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1 --cpu-bind=none "
            "--gpus-per-node=8 --container-image=nvcr.io#nvidia/pytorch:25.01 "
            "--container-mounts=/data:/data,/w:/w,/f:/f --container-workdir=/job /w rank "
            "/usr/bin/python3 train.py --lr 1 e");
  o.container.style = "apptainer";
  o.container.image = "/images/pytorch.sif";
  EXPECT_EQ(OnNodesText(o, Ranked(8)),
            "srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1 --cpu-bind=none "
            "--gpus-per-node=8 /w rank apptainer exec --nv --bind=/data:/data --pwd=/job "
            "/images/pytorch.sif /usr/bin/python3 train.py --lr 1 e");
  o.container.style = "docker";
  o.container.image = "pytorch:25.01";
  EXPECT_EQ(OnNodesText(o, Ranked(0)),
            "docker run --rm --init --network=host --ipc=host --gpus=all --volume=/data:/data "
            "--volume=/f:/f --env=OMP_NUM_THREADS --env=ATTUNE_TOKEN --env=ATTUNE_RUN_DIR "
            "--env=RANK --env=LOCAL_RANK --env=WORLD_SIZE --env=LOCAL_WORLD_SIZE "
            "--env=MASTER_ADDR --env=MASTER_PORT --workdir=/job pytorch:25.01 /usr/bin/python3 "
            "train.py --lr 1 e");
}

UserScript ByHand(Stage stage) { return {"my model", {"the leader of c-1"}, std::move(stage), {}}; }

TEST(UserBatchScript, AsksForTheSameNodesAndStartsOneTaskARankWithoutAttune) {
  SlurmOptions o = Options();
  o.container = {"pyxis", "nvcr.io#nvidia/pytorch:25.01", {"/data:/data"}};
  const auto text = UserBatchScript(o, ByHand(Ranked(8)));
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(*text, R"(#!/bin/sh
# the leader of c-1
#SBATCH --job-name='my model'
#SBATCH --export=NONE
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --account='team x'
#SBATCH --partition=gpu
#SBATCH --time=02:00:00
cd '/job' || exit 1
export SLURM_EXPORT_ENV=ALL
export OMP_NUM_THREADS='1'
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000))
'srun' \
  '--nodes=2' \
  '--ntasks=16' \
  '--ntasks-per-node=8' \
  '--kill-on-bad-exit=1' \
  '--cpu-bind=none' \
  '--gpus-per-node=8' \
  '--container-image=nvcr.io#nvidia/pytorch:25.01' \
  '--container-mounts=/data:/data' \
  '--container-workdir=/job' \
  'sh' \
  '-c' \
  'export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=8 MASTER_ADDR="${MASTER_ADDR:-$SLURM_LAUNCH_NODE_IPADDR}"; exec "$@"' \
  'rank' \
  '/usr/bin/python3' \
  'train.py' \
  '--lr' \
  '1 e'
)");
}

TEST(UserBatchScript, ACommandThatStartsItsOwnRanksIsCalledOnceAndGetsWhatTheUserPassesOn) {
  UserScript script = ByHand(Ranked(0));
  script.pass_env = {"HF_HOME", "WANDB_MODE"};
  SlurmOptions o = Options();
  o.sbatch = {{"nodes", "2"}, {"exclusive", "false"}, {"gres", "gpu:8"}};
  const std::string text = UserBatchScript(o, script).value();
  EXPECT_EQ(text.substr(text.find("#SBATCH --export")), R"(#SBATCH --export=HF_HOME,WANDB_MODE
#SBATCH --gres=gpu:8
#SBATCH --nodes=2
cd '/job' || exit 1
export SLURM_EXPORT_ENV=ALL
export OMP_NUM_THREADS='1'
'/usr/bin/python3' \
  'train.py' \
  '--lr' \
  '1 e'
)");
}

TEST(UserBatchScript, OursComesBehindTheTemplatesDirectivesAndBeforeItsFirstCommand) {
  SlurmOptions o = Options();
  o.script_template = "#!/bin/bash -l\n#SBATCH --partition=debug\n\nmodule load cuda\n{{attune}}\n";
  const std::string text = UserBatchScript(o, ByHand(Ranked(8, RanksKind::kTorchrun))).value();
  const auto at = [&](const char* word) { return text.find(word); };
  EXPECT_EQ(at("#!/bin/bash -l"), 0U);
  EXPECT_LT(at("--partition=debug"), at("--partition=gpu"));
  EXPECT_LT(at("--partition=gpu"), at("module load cuda"));
  EXPECT_LT(at("module load cuda"), at("'srun'"));
  EXPECT_NE(at("PET_NODE_RANK=$SLURM_NODEID"), std::string::npos);
  EXPECT_EQ(at("{{attune}}"), std::string::npos);
  o.script_template = "#!/bin/sh\ntrue\n";
  EXPECT_FALSE(UserBatchScript(o, ByHand(Ranked(8))));
}

TEST(UserBatchScript, ARealShellHandsOnTheBytesThatWereMeant) {
  Stage stage = Ranked(0);
  stage.argv = {"/usr/bin/printf", "%s|%s", "it's $(x)`y` \\ *", "a b"};
  stage.env = {{"A", "$HOME '\"x"}};
  stage.workdir = "/tmp";
  std::string text = UserBatchScript(Options(), ByHand(stage)).value();
  text += "/usr/bin/printf '|%s|%s' \"$A\" \"$PWD\"\n";
  os::PosixProcessRunner runner;
  const auto out = runner.Run(std::vector<std::string>{"/bin/sh", "-c", text}, Millis{10'000});
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->out, "it's $(x)`y` \\ *|a b|$HOME '\"x|/tmp");
}

TEST(RankEnvironment, TurnsSlurmsNumbersIntoTheNamesThatPyTorchReads) {
  const os::Environment step = {{"SLURM_PROCID", "5"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_NTASKS", "7"},
                                {"SLURM_NODEID", "2"},
                                {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"},
                                {"SLURM_STEP_NUM_NODES", "3"},
                                {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
                                {"ATTUNE_PORT", "4321"}};
  const auto env = RankEnvironment(step);
  ASSERT_TRUE(env.has_value()) << env.error().message;
  EXPECT_EQ(env->at("RANK"), "5");
  EXPECT_EQ(env->at("LOCAL_RANK"), "1");
  EXPECT_EQ(env->at("WORLD_SIZE"), "7");
  EXPECT_EQ(env->at("LOCAL_WORLD_SIZE"), "3");
  EXPECT_EQ(env->at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(env->at("MASTER_PORT"), "4321");
  EXPECT_EQ(env->at("PET_NNODES"), "3");
  EXPECT_EQ(env->at("PET_NODE_RANK"), "2");
  for (const char* name :
       {"SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", "ATTUNE_PORT", "SLURM_LAUNCH_NODE_IPADDR"}) {
    os::Environment without = step;
    without.erase(name);
    EXPECT_FALSE(RankEnvironment(without).has_value()) << name;
  }
}

TEST(FirstFailedRank, IsTheOneThatSrunNamesFirst) {
  const auto code = FirstFailedRank(
      "step 3\nsrun: error: n2: task 1: Exited with exit code 3\n"
      "srun: launch/slurm: _step_signal: Terminating StepId=4.0\n"
      "srun: error: n1: task 0: Terminated\n");
  ASSERT_TRUE(code.has_value());
  EXPECT_EQ(code->rank, 1);
  EXPECT_EQ(code->code, 3);
  const auto signal = FirstFailedRank(
      "srun: error: n1: task 0: Terminated\n"
      "srun: error: n[1-2]: tasks 2-3: Segmentation fault (core dumped)\n");
  ASSERT_TRUE(signal.has_value());
  EXPECT_EQ(signal->rank, 2);
  EXPECT_EQ(signal->signal, 11);
  EXPECT_FALSE(FirstFailedRank("srun: error: Unable to create step\nall good\n").has_value());
}

}  // namespace
}  // namespace attune::launch
