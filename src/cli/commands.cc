// The table of commands, in the order in which help names them.
#include "commands.h"

#include <array>

namespace attune::cli {
namespace {

constexpr CommandRow kCommands[] = {
    {.name = "init",
     .summary = "write a recipe to start from",
     .synopsis = "[-o FILE] [--launcher local|sim] [--example NAME] [--force]",
     .examples = "attune init                   # recipe.yaml for the training example\n"
                 "attune init --launcher sim    # for a simulated cluster: needs no GPU\n"
                 "attune init -o my.yaml --example gpt-moe",
     .exits = "",
     .make = MakeInit},
    {.name = "doctor",
     .summary = "is everything there that a campaign needs?",
     .synopsis = "[RECIPE] [--job] [--llm] [--offline] [--fix-hints] [--set KEY=VALUE]...",
     .examples = "attune doctor\n"
                 "attune doctor recipe.yaml     # also what the recipe needs\n"
                 "attune doctor recipe.yaml --fix-hints    # and a command for what is not\n"
                 "attune doctor --llm           # also whether the model does what it should",
     .exits = "4 7 75",
     .make = MakeDoctor},
    {.name = "check",
     .summary = "read a recipe and say what is wrong with it",
     .synopsis = "RECIPE [--set KEY=VALUE]... [--print] [--origins]",
     .examples = "attune check recipe.yaml\n"
                 "attune check recipe.yaml --print --origins    # merged, with file:line of each "
                 "value\n"
                 "attune check recipe.yaml --set measure.steps=15",
     .exits = "",
     .make = MakeCheck},
    {.name = "plan",
     .summary = "what a campaign would do and cost; launches nothing",
     .synopsis = "RECIPE [--budget H|auto] [--ask-scheduler] [--show-command] [--show-prompt] "
                 "[--set KEY=VALUE]...",
     .examples = "attune plan recipe.yaml\n"
                 "attune plan recipe.yaml --budget 500 --show-command\n"
                 "attune plan recipe.yaml --ask-scheduler    # and are its machines ready?\n"
                 "attune plan recipe.yaml --show-prompt",
     .exits = "4 7 75",
     .make = MakePlan},
    {.name = "run",
     .summary = "tune a recipe inside a budget",
     .synopsis = "RECIPE [--budget H|auto] [--tuner NAME] [--policy NAME] [--set KEY=VALUE]...",
     .examples =
         "attune run recipe.yaml --budget auto\n"
         "attune run recipe.yaml --dry-run                 # what it would do; launches nothing\n"
         "attune run recipe.yaml --tuner agent\n"
         "attune run recipe.yaml --budget 500 --deadline 06:00 --if-changed -q    # from cron\n"
         "attune run recipe.yaml --detach                  # goes on without this terminal\n"
         "attune run recipe.yaml --tuner scripted --script proposals.jsonl\n"
         "attune run recipe.yaml --launcher sim --world cloud:3 --seed 1    # a rehearsal, no GPU",
     .exits = "3 4 5 6 7 10 75 130 143",
     .make = MakeRun},
    {.name = "resume",
     .summary = "go on with a campaign after a stop or a crash",
     .synopsis = "[CAMPAIGN] [--budget H] [--retry WHICH] [--take-over]",
     .examples = "attune resume\n"
                 "attune resume --retry infra   # and launch again what the machines spoiled\n"
                 "attune resume c-20261130-7f3a --budget 600",
     .exits = "3 4 5 6 7 10 75 130 143",
     .make = MakeResume},
    {.name = "stop",
     .summary = "ask a running campaign to stop",
     .synopsis = "[CAMPAIGN] [--after-run | --now | --cancel-jobs]",
     .examples = "attune stop                   # after the run that is going on\n"
                 "attune stop --cancel-jobs     # end its jobs first",
     .exits = "3",
     .make = MakeStop},
    {.name = "retry",
     .summary = "launch a candidate again with the same configuration",
     .synopsis = "RUN...",
     .examples = "attune retry r007",
     .exits = "",
     .make = MakeRetry},
    {.name = "report",
     .summary = "what a campaign came to, with its evidence",
     .synopsis = "[CAMPAIGN] [--html FILE] [--md FILE]",
     .examples = "attune report\n"
                 "attune report c-20261130-7f3a --html report.html    # one offline page, charts\n"
                 "attune report --md report.md                        # for a pull request",
     .exits = "",
     .make = MakeReport},
    {.name = "explain",
     .summary = "the story of one run or proposal",
     .synopsis = "RUN|PROPOSAL [--trace] [--svg FILE [--step NAME]] [--transcript]",
     .examples =
         "attune explain r007\n"
         "attune explain r007 --svg r007.svg        # one step of its trace, stream by stream\n"
         "attune explain p003 -c c-20261130-7f3a\n"
         "attune explain r007 --transcript          # what a model was asked, and said",
     .exits = "",
     .make = MakeExplain},
    {.name = "gate",
     .summary = "ask the correctness gate about a recipe, or about its rules",
     .synopsis = "check RECIPE --against BASE | loss BASE_LOG LOG | list | explain RULE",
     .examples = "attune gate check candidate.yaml --against recipe.yaml\n"
                 "attune gate check recipe.yaml --against recipe.yaml --set args.lr=1e-4\n"
                 "attune gate list --framework custom\n"
                 "attune gate explain lr",
     .exits = "6",
     .make = MakeGate},
    {.name = "levers",
     .summary = "what may be changed",
     .synopsis = "list | show LEVER",
     .examples = "attune levers list --recipe recipe.yaml\n"
                 "attune levers show tensor_parallel\n"
                 "attune levers show tensor_parallel -c latest    # by the skill of that campaign",
     .exits = "",
     .make = MakeLevers},
    {.name = "status",
     .summary = "where a campaign stands",
     .synopsis = "[CAMPAIGN] [--all | --watch] [--exit-status]",
     .examples = "attune status\n"
                 "attune status --watch\n"
                 "attune status --all\n"
                 "attune status --json --exit-status",
     .exits = "8 10 130",
     .make = MakeStatus},
    {.name = "runs",
     .summary = "list a campaign's runs",
     .synopsis = "[CAMPAIGN] [--failed] [--columns LIST] [--format FORMAT]",
     .examples = "attune runs\n"
                 "attune runs --failed --columns run,label,class,why\n"
                 "attune runs --format csv > runs.csv",
     .exits = "",
     .make = MakeRuns},
    {.name = "show",
     .summary = "show one run's record",
     .synopsis = "RUN",
     .examples = "attune show r007",
     .exits = "",
     .make = MakeShow},
    {.name = "logs",
     .summary = "print a run's log",
     .synopsis = "RUN [-f] [--rank N] [--tail KIB] [--stderr]",
     .examples = "attune logs r007\n"
                 "attune logs r007 -f           # as it grows, until the run has ended\n"
                 "attune logs r007 --tail 16\n"
                 "attune logs r007 --stderr     # without what it printed to stdout",
     .exits = "",
     .make = MakeLogs},
    {.name = "export",
     .summary = "print the leader as a recipe, a command, a batch script, or a difference",
     .synopsis = "[CAMPAIGN] [--as FORM] [--baseline] [-o FILE]",
     .examples = "attune export --as command\n"
                 "attune export --as command --baseline\n"
                 "attune export --as sbatch -o train.sbatch    # to submit by hand\n"
                 "attune export --as recipe -o tuned.yaml",
     .exits = "",
     .make = MakeExport},
    {.name = "diagnose",
     .summary = "say where the time of a step goes, from traces and logs",
     .synopsis = "PATH... [--steps PATTERN] [--svg FILE [--step NAME]] [--framework F] [--pipeline "
                 "P,M[,V]]",
     .examples = "attune diagnose trace.json.gz             # one rank of torch.profiler\n"
                 "attune diagnose traces/ --json            # all ranks of a folder\n"
                 "attune diagnose report.sqlite --steps 'train step {n}'",
     .exits = "",
     .make = MakeDiagnose},
    {.name = "db",
     .summary = "check, copy, prune or write out the campaign database",
     .synopsis = "check | backup FILE | gc [--keep-logs N] | export [FILE]",
     .examples = "attune db check\n"
                 "attune db backup attune-2026-11-30.db\n"
                 "attune db gc --keep-logs 3    # logs of three campaigns stay, every record too\n"
                 "attune db export events.ndjson",
     .exits = "",
     .make = MakeDb},
    {.name = "sim",
     .summary = "ask the simulated cluster what a campaign could find in a world",
     .synopsis = "scan RECIPE | gap RECIPE | faults RECIPE | worlds",
     .examples =
         "attune sim worlds\n"
         "attune sim scan recipe.yaml --world default:3    # the best there is, and how many\n"
         "attune sim faults recipe.yaml     # which faults the gates catch, and when",
     .exits = "",
     .make = MakeSim},
    {.name = "bench",
     .summary = "compare tuners over worlds of the simulated cluster",
     .synopsis = "RECIPE... [--world WORLD]... [--tuner NAME]... [--seeds N]",
     .examples = "attune bench recipe.yaml --world default:0 --world cloud:1-10 --tuner rules\n"
                 "attune bench examples/*/recipe.yaml --no-scan --each",
     .exits = "",
     .make = MakeBench},
    {.name = "sim-train",
     .summary = "run a simulated training job as a program",
     .synopsis = "[--world WORLD] [--seed N] [--speed N] -- ARGUMENTS...",
     .examples = "attune sim-train --gpu H100 --gpus 8 --speed 100 -- --num-layers 16 ...",
     .exits = "",
     .make = MakeSimTrain},
    {.name = "config",
     .summary = "show your own configuration and where it comes from",
     .synopsis = "show [--origins] | path",
     .examples = "attune config show --origins\n"
                 "attune config path            # files that are read, strongest first",
     .exits = "",
     .make = MakeConfig},
    {.name = "schema",
     .summary = "print a JSON Schema",
     .synopsis = "recipe | events | status",
     .examples = "attune schema recipe > recipe.schema.json    # for your editor\n"
                 "attune schema events          # a line of run --events and of db export",
     .exits = "",
     .make = MakeSchema},
    {.name = "completion",
     .summary = "print a completion script for your shell",
     .synopsis = "bash | zsh | fish",
     .examples = "source <(attune completion bash)",
     .exits = "",
     .make = MakeCompletion},
    {.name = "help",
     .summary = "help for a command, or: exit-codes, environment, recipe",
     .synopsis = "[COMMAND | TOPIC]",
     .examples = "attune help check\n"
                 "attune help exit-codes",
     .exits = "",
     .make = MakeHelp},
    {.name = "__complete",
     .summary = "answers the completion scripts",
     .synopsis = "WORD...",
     .examples = "",
     .exits = "",
     .make = MakeComplete,
     .hidden = true},
};

}  // namespace

std::span<const CommandRow> Commands() { return kCommands; }

const CommandRow* FindCommand(std::string_view name) {
  for (const CommandRow& row : kCommands) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace attune::cli
