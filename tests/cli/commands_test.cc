// The real program: exit codes, streams, --json on every path, nothing secret shown.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "attune/base/text.h"
#include "command.h"
#include "run_attune.h"

namespace attune::cli {
namespace {

using Cli = Program;

bool HasEscape(const os::CommandResult& r) {
  return r.out.find('\x1b') != std::string::npos || r.err.find('\x1b') != std::string::npos;
}

struct Row {
  std::vector<std::string> words;
  int code;
};

std::vector<Row> Rows() {
  return {
      {{}, 0},
      {{"check", "good.yaml"}, 0},
      {{"check", "good.yaml", "--print"}, 0},
      {{"check", "good.yaml", "--origins", "--set", "measure.steps=12"}, 0},
      {{"check", "good.yaml", "--set", "measure.stepz=12"}, 2},
      {{"check", "good.yaml", "--set", "gate.long_steps=12"}, 2},  // read, and nothing acts on them
      {{"check", "good.yaml", "--set", "launcher.login=front"}, 2},
      {{"check", "bad.yaml"}, 2},
      {{"check", "none.yaml"}, 2},
      {{"check", "newer.yaml"}, 2},
      {{"check"}, 2},
      {{"check", "good.yaml", "--prnt"}, 2},
      {{"check", "good.yaml", "more.yaml"}, 2},
      {{"chek"}, 2},
      {{"-C", "none", "check", "good.yaml"}, 2},
      {{"--color", "red", "check", "good.yaml"}, 2},
      {{"--log-file", "good.yaml/log", "check", "good.yaml"}, 2},
      {{"config", "show"}, 0},
      {{"config", "show", "--origins"}, 0},
      {{"config", "path"}, 0},
      {{"config"}, 2},
      {{"schema", "recipe"}, 0},
      {{"schema", "events"}, 0},
      {{"schema", "status"}, 0},
      {{"schema"}, 2},
      {{"schema", "dance"}, 2},
      {{"completion", "bash"}, 0},
      {{"completion", "tcsh"}, 2},
      {{"help"}, 0},
      {{"help", "exit-codes"}, 0},
      {{"help", "dance"}, 2},
      {{"plan", "good.yaml"}, 0},
      {{"plan", "good.yaml", "--budget", "1", "--show-command"}, 0},
      {{"plan", "good.yaml", "--budget", "0.000001"}, 0},
      {{"plan", "good.yaml", "--budget", "much"}, 2},
      {{"plan", "bad.yaml"}, 2},
      {{"run", "good.yaml", "--launcher", "ssh", "--dry-run"}, 2},  // it names no hosts
      {{"run", "good.yaml", "--launcher", "local", "--dry-run"}, 0},
      {{"run", "good.yaml", "--approve", "each"}, 2},  // nobody is there to ask
      {{"run", "good.yaml", "--approve", "each", "--detach"}, 2},
      {{"resume", "--approve", "each"}, 2},
      {{"doctor"}, 0},
      {{"doctor", "good.yaml"}, 0},
      {{"doctor", "bad.yaml"}, 2},
      {{"doctor", "good.yaml", "--set", "command=[no-such-program]"}, 7},
      {{"doctor", "good.yaml", "--set", "launcher.kind=slurm"}, 7},
      {{"doctor", "good.yaml", "--set", "measure.start_from=none"}, 7},
      {{"doctor", "good.yaml", "--set", "files=[none.py]"}, 7},
      {{"doctor", "--state", "good.yaml"}, 1},
      {{"doctor", "good.yaml", "--fix-hints"}, 0},
      {{"doctor", "good.yaml", "--offline", "--set", "launcher.kind=slurm"}, 0},
      {{"doctor", "--offline", "--llm"}, 2},
      {{"doctor", "--offline", "--job"}, 2},
      {{"gate", "check", "good.yaml", "--against", "good.yaml"}, 0},
      {{"gate", "check", "good.yaml", "--against", "good.yaml", "--set", "args.micro-batch-size=2"},
       0},
      {{"gate", "check", "good.yaml", "--against", "good.yaml", "--set", "args.lr=1e-4"}, 6},
      {{"gate", "check", "good.yaml", "--against", "none.yaml"}, 2},
      {{"gate", "check", "good.yaml"}, 2},
      {{"gate", "list"}, 0},
      {{"gate", "list", "--arguments"}, 0},
      {{"gate", "list", "--framework", "custom"}, 0},
      {{"gate", "explain", "legality.excludes"}, 0},
      {{"gate", "explain", "value.--micro-batch-size"}, 0},
      {{"gate", "explain", "lr"}, 0},
      {{"gate", "explain", "defect.D4"}, 0},
      {{"gate", "explain", "dance"}, 2},
      {{"gate"}, 2},
      {{"levers", "list"}, 0},
      {{"levers", "list", "--recipe", "good.yaml"}, 0},
      {{"levers", "show", "tensor_parallel"}, 0},
      {{"levers", "show", "micro_batch", "--recipe", "good.yaml"}, 0},
      {{"levers", "show", "dance"}, 2},
      {{"init"}, 0},
      {{"init", "-o", "good.yaml"}, 2},
      {{"init", "-o", "none/recipe.yaml"}, 2},
  };
}

class Paths : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    Write("good.yaml", kGoodRecipe);
    Write("bad.yaml", fmt::format("{}api_key: canary-value-0815\n", kGoodRecipe));
    Write("newer.yaml", "schema: attune/recipe/2\n");
  }
};

TEST_F(Paths, HaveTheirExitCodeAndNoEscapeUnderAPipe) {
  for (const Row& row : Rows()) {
    unlink((folder_ + "/recipe.yaml").c_str());
    const os::CommandResult r = Attune(row.words);
    EXPECT_EQ(r.exit_code, row.code) << Join(row.words, " ") << "\n" << r.err;
    EXPECT_FALSE(HasEscape(r)) << Join(row.words, " ");
    if (row.code == 2 && row.words[0] != "doctor") {  // a finding is an answer
      EXPECT_EQ(r.out, "") << Join(row.words, " ");
      EXPECT_TRUE(r.err.starts_with("error: ")) << r.err;
    }
  }
}

TEST_F(Paths, AnswerOneObjectUnderJson) {
  for (const Row& row : Rows()) {
    if (row.words.empty()) {
      continue;  // the start is for people
    }
    for (const bool first : {true, false}) {
      unlink((folder_ + "/recipe.yaml").c_str());
      std::vector<std::string> words = row.words;
      words.insert(first ? words.begin() : words.end(), "--json");
      const os::CommandResult r = Attune(words);
      EXPECT_EQ(r.exit_code, row.code) << Join(words, " ");
      const auto json = nlohmann::ordered_json::parse(r.out, nullptr, false);
      ASSERT_TRUE(json.is_object()) << Join(words, " ") << "\n" << r.out;
      const std::string key = json.begin().key();
      EXPECT_TRUE(key == "schema" || key == "$schema") << Join(words, " ");
      if (row.code == 2 && row.words[0] != "doctor") {
        EXPECT_EQ(json["schema"], "attune.error/1");
        EXPECT_EQ(json["code"], row.code);
        EXPECT_FALSE(json["message"].get<std::string>().empty());
      }
    }
  }
}

TEST_F(Paths, EveryCommandAnswersAWrongFlagAlike) {
  for (const CommandRow& row : Commands()) {
    if (row.hidden) {
      continue;
    }
    const os::CommandResult plain = Attune({std::string(row.name), "--no-such-flag"});
    EXPECT_EQ(plain.exit_code, 2) << row.name;
    EXPECT_EQ(plain.out, "") << row.name;
    EXPECT_EQ(plain.err.find("error: unknown flag '--no-such-flag'"), 0u) << plain.err;
    const os::CommandResult json = Attune({std::string(row.name), "--no-such-flag", "--json"});
    const auto parsed = nlohmann::json::parse(json.out, nullptr, false);
    ASSERT_TRUE(parsed.is_object()) << row.name << json.out;
    EXPECT_EQ(parsed["schema"], "attune.error/1");
    EXPECT_EQ(parsed["kind"], "usage");
    EXPECT_EQ(parsed["code"], 2);
  }
}

TEST_F(Paths, PlanShowsTheFirstLaunchTheRowsAndTheCommandAndWritesNothing) {
  Write("plan.yaml", fmt::format("{}budget: {{gpu_hours: 3, run_limit: 90s}}\n"
                                 "price: {{gpu_hour_usd: 2}}\n",
                                 kGoodRecipe));
  const os::CommandResult plan = Attune({"plan", "plan.yaml", "--show-command", "--set",
                                         "measure.instrument.set.exit-interval=\"{n}\""});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  // 2 slots x (90 s + 15 s release) = 0.0583 GPU-h, at 2 dollars an hour.
  EXPECT_NE(
      plan.out.find("holds at most 0.0583 GPU-h: 2 slots x (1m30s limit + 15s release)  $0.12"),
      std::string::npos)
      << plan.out;
  EXPECT_NE(plan.out.find("budget          3.00 GPU-h  $6.00"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("  --exit-interval off -> "), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find(" '/bin/true' '--micro-batch-size' '1' '--lr' '3e-4' '--exit-interval'"),
            std::string::npos)
      << plan.out;
  EXPECT_NE(plan.out.find("nothing was launched\n"), std::string::npos);
  EXPECT_NE(access((folder_ + "/state").c_str(), F_OK), 0);
  const os::CommandResult poor = Attune({"plan", "plan.yaml", "--budget", "0.01"});
  EXPECT_NE(poor.out.find("does not cover the calibration"), std::string::npos) << poor.out;
}

TEST_F(Paths, DoctorSaysWhatIsMissingAndWritesNothing) {
  const os::CommandResult r =
      Attune({"doctor", "good.yaml", "--set", "command=[python-9, train.py]"});
  EXPECT_EQ(r.exit_code, 7);
  EXPECT_NE(r.out.find("FAIL  launcher: "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("python-9"), std::string::npos) << r.out;
  EXPECT_NE(access((folder_ + "/state").c_str(), F_OK), 0);
}

TEST_F(Paths, DoctorOfflineNamesWhatItDoesNotAsk) {
  const std::vector<std::string> words = {"doctor", "good.yaml", "--set", "launcher.kind=slurm",
                                          "--offline"};
  const os::CommandResult r = Attune(words);
  EXPECT_EQ(r.exit_code, 0) << r.out;
  EXPECT_NE(r.out.find("skip  slurm: not asked: --offline\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("0 failed"), std::string::npos) << r.out;
  // ssh would have taken its time, and failed.
  Write("hosts.yaml",
        fmt::format("{}launcher: {{kind: ssh, hosts: [no-such-host]}}\n", kGoodRecipe));
  const os::CommandResult hosts =
      Attune({"doctor", "hosts.yaml", "--offline"}, {{"ATTUNE_SSH", "/bin/false"}});
  EXPECT_EQ(hosts.exit_code, 0) << hosts.out;
  EXPECT_NE(hosts.out.find("skip  host no-such-host: "), std::string::npos) << hosts.out;
  EXPECT_EQ(Attune({"doctor", "hosts.yaml"}, {{"ATTUNE_SSH", "/bin/false"}}).out.find("skip"),
            std::string::npos);
}

TEST_F(Paths, DoctorGivesACommandForWhatIsNotInOrder) {
  const std::vector<std::string> words = {"doctor", "good.yaml", "--set",
                                          "command=[python-9, train.py]"};
  EXPECT_EQ(Attune(words).out.find("fix:"), std::string::npos);
  std::vector<std::string> more = words;
  more.emplace_back("--fix-hints");
  const os::CommandResult r = Attune(more);
  EXPECT_EQ(r.exit_code, 7);
  EXPECT_NE(r.out.find("      fix:  type -a 'python-9'\n"), std::string::npos) << r.out;
  more.emplace_back("--json");
  const auto json = nlohmann::json::parse(Attune(more).out);
  EXPECT_EQ(json["checks"].back()["fix"], "type -a 'python-9'") << json.dump(1);
  EXPECT_EQ(json["checks"].front()["fix"], "");
}

TEST_F(Paths, NeverShowASecret) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"check", "bad.yaml"},
        {"check", "good.yaml", "--set", "llm.api_key=canary-value-0815"},
        {"check", "good.yaml", "--set", "args.hf-token=canary-value-0815", "--json"}}) {
    const os::CommandResult r = Attune(words);
    EXPECT_EQ(r.exit_code, 2);
    EXPECT_EQ((r.out + r.err).find("canary-value-0815"), std::string::npos) << r.err;
  }
}

TEST_F(Paths, ColourIsForced) {
  EXPECT_TRUE(HasEscape(Attune({"check", "none.yaml", "--color", "always"})));
  EXPECT_TRUE(HasEscape(Attune({"check", "none.yaml"}, {{"CLICOLOR_FORCE", "1"}})));
  EXPECT_FALSE(
      HasEscape(Attune({"check", "none.yaml"}, {{"CLICOLOR_FORCE", "1"}, {"NO_COLOR", "1"}})));
  EXPECT_FALSE(HasEscape(Attune({"--json", "check", "good.yaml", "--color", "always"})));
}

TEST_F(Paths, FlagsWinOverTheEnvironmentAndThatOverFiles) {
  ASSERT_EQ(mkdir((folder_ + "/.config").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((folder_ + "/.config/attune").c_str(), 0700), 0);
  Write(".config/attune/config.yaml",
        "schema: attune/config/1\nstate_dir: /from/file\nbudget: 3\n");
  EXPECT_NE(Attune({"config", "show"}).out.find("/from/file"), std::string::npos);
  const os::Environment env = {{"ATTUNE_STATE_DIR", "/from/env"}};
  EXPECT_NE(Attune({"config", "show"}, env).out.find("kept in /from/env"), std::string::npos);
  EXPECT_NE(Attune({"config", "show", "--state", "/from/flag"}, env).out.find("kept in /from/flag"),
            std::string::npos);
  const std::string shown = Attune({"config", "show", "--origins"}, env).out;
  EXPECT_NE(shown.find("budget: 3  # " + folder_ + "/.config/attune/config.yaml:3:9"),
            std::string::npos)
      << shown;
  EXPECT_NE(shown.find("state_dir: /from/env  # ATTUNE_STATE_DIR"), std::string::npos) << shown;
}

TEST_F(Paths, ABrokenConfigIsNamedAndEverythingStops) {
  Write("attune.yaml", "schema: attune/config/1\nallow_env: [HF_TOKEN]\n");
  const os::CommandResult r = Attune({"check", "good.yaml"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_NE(r.err.find("attune.yaml:2:1: allow_env cannot come from a project's"),
            std::string::npos)
      << r.err;
}

TEST_F(Paths, GateCheckJudgesLeverByLeverAndNamesThePlace) {
  std::string changed = kGoodRecipe;
  changed.replace(changed.find("micro-batch-size: 1, lr: 3e-4"), 29,
                  "micro-batch-size: 2, lr: 1e-4");
  Write("changed.yaml", changed + "description: other\ngate: {step0_loss_pct: 1}\n");
  const os::CommandResult r = Attune({"gate", "check", "changed.yaml", "--against", "good.yaml"});
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_EQ(r.out,
            "refused   recipe.gate.step0_loss   0.02 -> 0.01   changed.yaml\n"
            "          only arguments and variables may differ\n"
            "refused   unknown.--lr   3e-4 -> 1e-4   changed.yaml:7:29\n"
            "          the recipe declares no lever over it: frozen\n"
            "allowed   micro_batch   1 -> 2   batching   changed.yaml:7:8\n"
            "2 refused, 1 allowed\n");
  const auto json = nlohmann::json::parse(
      Attune({"gate", "check", "changed.yaml", "--against", "good.yaml", "--json"}).out);
  EXPECT_EQ(json["schema"], "attune.gate/1");
  EXPECT_EQ(json["verdict"], "refused");
  EXPECT_EQ(json["rules"][1]["id"], "unknown.--lr");
  EXPECT_EQ(json["rules"][1]["was"], "3e-4");
  EXPECT_EQ(json["rules"][1]["where"], "changed.yaml:7:29");
}

// TP 8 alone does not divide what PP 4 needs: together they are legal, and judged together.
TEST_F(Paths, GateCheckOfAMegatronRecipe) {
  const std::string base = R"(schema: attune/recipe/1
name: big
framework: megatron-lm
workload: {model: any, gpus: 16, gpus_per_node: 8, gpu: B200, order: layout_free, loss_mask: full}
command: [torchrun, pretrain_gpt.py, "{{args}}"]
args: {num-layers: 8, hidden-size: 1024, num-attention-heads: 16, seq-length: 1024,
       vocab-size: 32000, max-position-embeddings: 1024, tensor-model-parallel-size: 8,
       pipeline-model-parallel-size: 2, micro-batch-size: 1, global-batch-size: 16, bf16: true,
       lr: 1e-4, make-vocab-size-divisible-by: 16}
)";
  Write("base.yaml", base);
  const os::CommandResult r =
      Attune({"gate", "check", "base.yaml", "--against", "base.yaml", "--set",
              "args.tensor-model-parallel-size=4", "--set", "args.global-batch-size=32"});
  EXPECT_EQ(r.exit_code, 6) << r.out << r.err;
  EXPECT_NE(r.out.find("objective.--global-batch-size   16 -> 32   --set args.global-batch-size"),
            std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("allowed   tensor_parallel   8 -> 4   placement"), std::string::npos)
      << r.out;
}

TEST_F(Cli, InitWritesARecipeThatReads) {
  const os::CommandResult init = Attune({"init", "-o", "a b.yaml", "--example", "gpt-moe"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_EQ(init.out, "a b.yaml\n");
  const os::CommandResult check = Attune({"check", "a b.yaml"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_NE(check.out.find("my-gpt-moe"), std::string::npos);
  EXPECT_EQ(Attune({"init", "-o", "a b.yaml"}).exit_code, 2);
  EXPECT_EQ(Attune({"init", "-o", "a b.yaml", "--force", "-q"}).err, "");
}

// What a fresh machine without a GPU can do with two commands.
TEST_F(Cli, InitForTheSimulatedClusterWritesARecipeThatRuns) {
  const os::CommandResult init = Attune({"init", "--launcher", "sim"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_NE(init.err.find("next: attune run recipe.yaml\n"), std::string::npos) << init.err;
  EXPECT_EQ(Attune({"doctor", "recipe.yaml"}).exit_code, 0);
  const os::CommandResult run = Attune({"run", "recipe.yaml", "-q"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("simulated in world default:0"), std::string::npos) << run.out;
  EXPECT_EQ(Attune({"init", "--launcher", "sim", "--example", "gpt", "--force"}).exit_code, 2);
  EXPECT_EQ(Attune({"init", "--example", "mixtral-8x22b", "--force"}).exit_code, 0);
}

TEST_F(Paths, WhatCheckPrintsIsARecipe) {
  const os::CommandResult printed = Attune({"check", "good.yaml", "--print"});
  Write("again.yaml", printed.out);
  EXPECT_EQ(Attune({"check", "again.yaml"}).out, Attune({"check", "good.yaml"}).out);
}

TEST_F(Cli, CompletionAnswersFromTheTables) {
  EXPECT_EQ(Attune({"__complete", "ch"}).out, "check\n");
  EXPECT_EQ(Attune({"__complete", "check", "--pri"}).out, "--print\n");
  EXPECT_EQ(Attune({"__complete", "config", ""}).out, "path\nshow\n");
  EXPECT_EQ(Attune({"__complete", "completion", "z"}).out, "zsh\n");
  EXPECT_EQ(Attune({"__complete", "no-such", "--json"}).exit_code, 0);
  EXPECT_EQ(Attune({"__complete", "schema", ""}).out, "events\nrecipe\nstatus\n");
  // Of a subcommand, and values: of a flag with words of its own, and of one without.
  EXPECT_EQ(Attune({"__complete", "gate", "check", "--ag"}).out, "--against\n");
  EXPECT_EQ(Attune({"__complete", "run", "r.yaml", "--on-interrupt", "d"}).out, "detach\ndrain\n");
  EXPECT_EQ(Attune({"__complete", "run", "r.yaml", "--budget", ""}).out, "auto\n");
  EXPECT_EQ(Attune({"__complete", "levers", "show", "tensor"}).out, "tensor_parallel\n");
  EXPECT_EQ(Attune({"__complete", "gate", "explain", "batch.mask"}).out.substr(0, 10),
            "batch.mask");
}

TEST_F(Paths, CompletionFindsRecipesAndFoldersAndLevers) {
  mkdir((folder_ + "/more").c_str(), 0700);
  Write("more/deep.yaml", kGoodRecipe);
  Write("other.yaml", "no: recipe\n");
  EXPECT_EQ(Attune({"__complete", "check", ""}).out, "bad.yaml\ngood.yaml\nmore/\nnewer.yaml\n");
  EXPECT_EQ(Attune({"__complete", "plan", "--budget", "3", "more/"}).out, "more/deep.yaml\n");
  EXPECT_EQ(Attune({"__complete", "gate", "check", "good.yaml", "--against", "g"}).out,
            "good.yaml\n");
  EXPECT_EQ(Attune({"__complete", "-C", "more", "run", "d"}).out, "deep.yaml\n");
  EXPECT_EQ(Attune({"__complete", "levers", "show", "--recipe", "good.yaml", ""}).out,
            "micro_batch\n");
  EXPECT_EQ(Attune({"__complete", "check", "good.yaml", ""}).out, "");  // the shell's own
  // Without a database there are no ids, and none is made.
  EXPECT_EQ(Attune({"__complete", "status", ""}).out, "");
  EXPECT_NE(access((folder_ + "/state").c_str(), F_OK), 0);
}

TEST_F(Cli, AFullDiskIsAFailure) {
  os::Command command;
  command.argv = {"/bin/sh", "-c", std::string(ATTUNE_BINARY) + " help exit-codes > /dev/full"};
  command.workdir = folder_;
  os::PosixProcessRunner runner;
  const auto result = runner.Run(command);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exit_code, 1);
}

TEST_F(Cli, AReaderThatLeavesIsNone) {
  os::Command command;
  command.argv = {"/bin/sh", "-c", std::string(ATTUNE_BINARY) + " schema recipe; echo $? >&2"};
  command.argv[2] = "{ " + command.argv[2] + "; } | head -c 1";
  command.workdir = folder_;
  os::PosixProcessRunner runner;
  const auto result = runner.Run(command);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->err, "0\n");
}

}  // namespace
}  // namespace attune::cli
