"""The simulated cluster with the real program: rehearsed campaigns that repeat and resume byte for
byte, and simulated jobs under the local launcher whose failures are told apart and paid for."""

import csv
import io
import json
import os
import signal
import subprocess
import sys

import world
from world import expect

RECIPE = """schema: attune/recipe/1
name: sim-test
framework: megatron-lm
workload: {{model: dense, gpus: 8, gpus_per_node: 8, gpu: H100, order: layout_free,
           shape: {{vocab: 128256}}}}
stack: {{megatron-lm: 1dcf0da}}
command: {command}
args:
  num-layers: 32
  hidden-size: 4096
  ffn-hidden-size: 14336
  num-attention-heads: 32
  group-query-attention: true
  num-query-groups: 8
  swiglu: true
  disable-bias-linear: true
  untie-embeddings-and-output-weights: true
  attention-dropout: 0
  hidden-dropout: 0
  tensor-model-parallel-size: 2
  sequence-parallel: true
  pipeline-model-parallel-size: 2
  micro-batch-size: 1
  global-batch-size: 64
  seq-length: 4096
  max-position-embeddings: 4096
  lr: 1e-5
  bf16: true
  use-distributed-optimizer: true
  overlap-grad-reduce: true
  calculate-per-token-loss: true
  accumulate-allreduce-grads-in-fp32: true
  train-iters: 3000
  finetune: true
{more}"""
WORLD = ("schema: attune/world/1\nname: elsewhere\n"
         "noise: {allocation_sigma: 0.01, step_sigma: 0.005, step_lag1: 0.3}\n")
CLUSTER = ("launcher: {kind: slurm, sbatch: {partition: gpu, nodes: 1}}\n"
           "budget: {gpu_hours: 400}\n")


def change(lever, label, flag, value):
    return {"lever": lever, "label": label, "hypothesis": "a test", "changes": [
        {"op": "set", "flag": flag, "value": value}]}


SCRIPT = [change("microbatch", "mbs2", "--micro-batch-size", 2),
          change("pipeline_layout", "pp1", "--pipeline-model-parallel-size", 1),
          {"stop": "the script is over", "classes": {}}]


def script(w):
    w.write("script.jsonl", "\n".join(json.dumps(line) for line in SCRIPT) + "\n")


def rehearse(w, state, *more):
    return w.attune("run", "recipe.yaml", "--launcher", "sim", "--seed", "3", "--script",
                    "script.jsonl", "--final-blocks", "1", *more, state=f"{w.folder}/{state}")


def export(w, state):
    p = w.attune("db", "export", state=f"{w.folder}/{state}")
    expect(p.code == 0, f"db export: {p.text()}")
    return p.out


def two_runs_of_one_seed_are_identical(w):
    w.write("recipe.yaml", RECIPE.format(command='[python3, pretrain_gpt.py, "{{args}}"]',
                                         more=CLUSTER))
    script(w)
    for state in ("a", "b"):
        p = rehearse(w, state, "--world", "default:2")
        expect(p.code == 0, f"exit {p.code}: {p.text()}")
    first, second = export(w, "a"), export(w, "b")
    expect(first.count("\n") > 50, "the campaign hardly ran")
    expect(first == second, "two runs with one seed differ")
    expect(f"{w.folder}/a" not in first, "the state folder stands in the record")


def where_it_lies_changes_nothing(w):
    """Recipe, world file, script, working folder and state folder are elsewhere: past the opening
    event, which names them, the record is the same to the byte."""
    records = []
    for folder in ("here", "somewhere/else/with a longer name"):
        at = f"{w.folder}/{folder}"
        os.makedirs(at)
        w.write(f"{folder}/recipe.yaml", RECIPE.format(
            command='[python3, pretrain_gpt.py, "{{args}}"]', more=CLUSTER))
        w.write(f"{folder}/world.yaml", WORLD)
        w.write(f"{folder}/script.jsonl", "\n".join(json.dumps(line) for line in SCRIPT) + "\n")
        env = {"PATH": "/usr/bin:/bin", "HOME": at, "ATTUNE_STATE_DIR": f"{at}/state"}

        def attune(*words):
            p = subprocess.run([world.ATTUNE, *words], cwd=at, env=env, check=False, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            expect(p.returncode == 0, f"{words[0]}: exit {p.returncode}: {p.stdout}")
            return p.stdout

        attune("run", "recipe.yaml", "--launcher", "sim", "--seed", "3", "--script",
               "script.jsonl", "--final-blocks", "1", "--world", "./world.yaml")
        opened, *rest = attune("db", "export").splitlines()
        expect(at in opened, "the opening event names no folder")
        records.append([line for line in rest if '"kind":"ship' not in line])
    expect(len(records[0]) > 50, "the campaign hardly ran")
    for a, b in zip(*records):
        expect(a == b, f"where it lies changed the record:\n{a}\n{b}")
    expect(len(records[0]) == len(records[1]), "one record is longer")


def kill_anywhere(w, *more):
    """The record of an undisturbed campaign, of one that was killed again and again, and kills."""
    w.write("recipe.yaml", RECIPE.format(command='[python3, pretrain_gpt.py, "{{args}}"]',
                                         more=CLUSTER))
    script(w)
    p = rehearse(w, "whole", "--world", "default:2", *more)
    expect(p.code == 0, f"exit {p.code}: {p.text()}")
    whole = export(w, "whole")
    kills = 0
    for attempt in range(40):
        env = {"PATH": "/usr/bin:/bin", "HOME": w.folder, "ATTUNE_STATE_DIR": f"{w.folder}/cut"}
        # Where there is a campaign it is taken up: `run` on an ended one would begin another.
        there = subprocess.run([world.ATTUNE, "status"], cwd=w.folder, env=env, check=False,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        words = ["resume"] if there.returncode == 0 else [
            "run", "recipe.yaml", "--launcher", "sim", "--seed", "3", "--script", "script.jsonl",
            "--final-blocks", "1", "--world", "default:2", *more]
        child = subprocess.Popen([world.ATTUNE, *words],
                                 cwd=w.folder, env=env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            child.wait(0.05 * (1 + attempt))
            break
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            kills += 1
    else:
        expect(False, "forty times it did not come to its end in up to two seconds")
    expect(kills > 0, "it was never killed")
    return whole, export(w, "cut"), kills


def killed_anywhere_it_ends_the_same(w):
    whole, cut, kills = kill_anywhere(w)
    expect(cut == whole, f"after {kills} kills the record differs")
    expect('"source":"trace"' not in whole, "a campaign without --traces has traces")


def with_traces_runs_are_diagnosed_by_them(w):
    """Also of a launch that had ended when attune was killed: its trace is made again."""
    whole, cut, kills = kill_anywhere(w, "--traces")
    diagnoses = [json.loads(line)["body"]["diagnosis"] for line in whole.splitlines()
                 if '"kind":"diagnosed"' in line]
    traced = [d for d in diagnoses if d["source"] == "trace"]
    expect(len(traced) >= 3, f"{len(traced)} of {len(diagnoses)} diagnoses are from a trace: {diagnoses}")
    for d in traced:
        expect(os.path.isdir(d["traces"]), f"no folder {d['traces']}")
    expect(cut.replace(f"{w.folder}/cut/", f"{w.folder}/whole/") == whole,
           f"after {kills} kills the record differs")
    p = w.attune("run", "recipe.yaml", "--launcher", "local", "--traces")
    expect(p.code == 2 and "--traces" in p.text(), f"exit {p.code}: {p.text()}")


def a_custom_recipe_is_refused(w):
    w.recipe()
    p = w.run("--launcher", "sim")
    expect(p.code == 2, f"exit {p.code}: {p.text()}")
    expect("megatron-lm" in p.text(), p.text())


FAULTS = {
    # name: (world text, expected end, expected class)
    "oom": ("defects: [{id: d, when: [mbs=2], effect: oom, step: 2}]", "oom_gpu", "oom_gpu"),
    "nan": ("defects: [{id: d, when: [mbs=2], effect: nan, step: 2}]", "nan", "nan"),
    "crash": ("defects: [{id: d, when: [mbs=2], effect: crash}]", "crashed", "crash_signal"),
    "hang": ("hazards: {watchdog: true, watchdog_minutes: 0.5}\n"
             "defects: [{id: d, when: [mbs=2], effect: hang, step: 2}]", "hung", "hang"),
    "limit": ("defects: [{id: d, when: [mbs=2], effect: hang, step: 4}]", "hung", ""),
}


def faults_under_the_local_launcher(w):
    """sim-train at 400 times the speed: each failure has its class, is charged, and the campaign
    goes on to the next candidate."""
    for name, (text, end, cls) in FAULTS.items():
        w.write("world.yaml", "schema: attune/world/1\nname: faulty\n"
                "starting: {queue_s: 0, teardown_s: 5}\nnoise: {step_sigma: 0.002, slow_first: 0.1}\n" + text + "\n")
        command = json.dumps([world.ATTUNE, "sim-train", "--world", f"{w.folder}/world.yaml",
                              "--speed", "400", "--gpu", "H100", "--gpus", "8", "--gpus-per-node",
                              "8", "--shape", "vocab=128256", "--", "{{args}}"])
        w.write("recipe.yaml", RECIPE.format(command=command, more=(
            "measure: {warmup_steps: 2, steps: 8, min_seconds: 3, calibration_runs: 1, cv_max: 0.5,"
            " half_drift_max: 0.5}\n"
            "launcher: {limits: {startup: 20s, no_progress: 4s}}\n"
            "budget: {gpu_hours: 50, run_limit: 30s}\n")))
        script(w)
        state = f"{w.folder}/{name}"
        p = w.run("--script", "script.jsonl", state=state)
        expect(p.code in (0, 10), f"{name}: exit {p.code}: {p.text()}")
        listed = w.attune("runs", "--format", "csv", "--columns", "label,end,class,gpu_h",
                          state=state)
        by_label = {row["label"]: row for row in csv.DictReader(io.StringIO(listed.out))}
        bad = by_label.get("mbs2")
        expect(bad is not None, f"{name}: the candidate never ran: {p.text()}")
        expect(bad["end"] == end, f"{name}: ended as {bad['end']}, expected {end}: {bad}")
        expect(not cls or bad["class"] == cls, f"{name}: class {bad['class']}, expected {cls}")
        expect(float(bad["gpu_h"]) > 0, f"{name}: no charge: {bad}")
        expect("pp1" in by_label, f"{name}: the campaign did not go on: {sorted(by_label)}")


CASES = {case.__name__: case for case in (
    two_runs_of_one_seed_are_identical, where_it_lies_changes_nothing, killed_anywhere_it_ends_the_same,
    with_traces_runs_are_diagnosed_by_them,
    a_custom_recipe_is_refused, faults_under_the_local_launcher)}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
