#!/usr/bin/python3
"""kill -9 while real PyTorch trains: attune is gone, the job is not, and resume takes it up.

A tiny model, so that a launch takes seconds; the campaign is whole, from calibration to a rehearsal
that saves and restarts. Audited from run folders and events alone.
"""

import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
GPT = os.path.join(os.path.dirname(TESTS), "examples", "gpt")
sys.path.insert(0, os.path.join(TESTS, "campaigns"))
import world  # noqa: E402
from world import expect  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch
SKIPPED = 77                 # SKIP_RETURN_CODE in CMakeLists.txt
START = 20
MODEL = {"num-layers": 1, "hidden-size": 32, "num-attention-heads": 2, "seq-length": 32,
         "global-batch-size": 8, "train-iters": 4000, "lr": "1e-3", "split": "90,10,0", "seed": 7,
         "data-path": "text.bin"}
KILLS = 3


def prepare(w):
    with open(f"{w.folder}/text.bin", "wb") as out:
        for name in sorted(os.listdir(GPT)):
            if name.endswith(".py"):
                with open(os.path.join(GPT, name), "rb") as source:
                    out.write(source.read())
    words = [word for key, value in MODEL.items() for word in (f"--{key}", str(value))]
    subprocess.run([PYTHON, f"{GPT}/train.py", *words, "--micro-batch-size", "8", "--eval-iters",
                    "0", "--save", "start", "--exit-interval", str(START)], cwd=w.folder,
                   check=True, capture_output=True, timeout=world.DEADLINE)
    own = {"micro-batch-size": 1, "load": "start", "save": "start", "save-interval": 500,
           "exit-interval": 2000, "eval-interval": 500, "eval-iters": 2, "log-interval": 10}
    w.write("recipe.yaml", "\n".join([
        "schema: attune/recipe/1",
        "name: tiny",
        "framework: custom",
        "workload: {model: tiny, gpus: 1, gpu: cpu, seq_length: 32, global_batch: 8,"
        " precision: fp32, order: layout_free, loss_mask: full}",
        f'command: [{PYTHON}, "{GPT}/train.py", "{{{{args}}}}"]',
        "args:",
        *[f"  {key}: {value}" for key, value in {**MODEL, **own}.items()],
        "declare:",
        "  - {lever: micro_batch, flag: --micro-batch-size, values: [1, 4], class: batching}",
        "log: {dialect: megatron-lm}",
        "launcher: {kind: local, env: {OPENBLAS_NUM_THREADS: \"1\", OMP_NUM_THREADS: \"1\"}}",
        # What is tested is the record, not the speed: noise must end nothing.
        "measure:",
        "  warmup_steps: 2",
        "  steps: 10",
        "  min_seconds: 3",
        "  calibration_runs: 2",
        "  cv_max: 1",
        "  half_drift_max: 1",
        "  start_from: start",
        "  instrument:",
        '    set: {exit-interval: "{n}", log-interval: "1", eval-iters: "0"}',
        "    remove: [save, save-interval]",
        "profile: {off: true}",
        "budget: {gpu_hours: 10, run_limit: 2m}"]) + "\n")


def killed_while_it_trains(w):
    prepare(w)
    before = {name: os.stat(f"{w.folder}/start/{name}").st_mtime_ns
              for name in os.listdir(f"{w.folder}/start")}
    process = w.start("run", "recipe.yaml", "--final-blocks", "1")
    for kill in range(KILLS):
        w.wait_event("launch_bound", process, kill + 1)
        job = w.wait_job(process)
        pid = int(world.audit.one(world.audit.read_record(job), "pid"))
        process.send(signal.SIGKILL)
        process.popen.wait()
        expect(pid in world.audit.carriers(w.tokens()), "the job died with attune")
        process = w.start("resume")
    process.wait()
    expect(process.code == 0, f"exit {process.code}: {process.text()}")
    kinds = w.kinds()
    expect(kinds.count("resumed") == KILLS, f"{kinds.count('resumed')} x resumed")
    expect(kinds.count("launch_bound") == kinds.count("launch_intended"), "a launch was repeated")
    after = {name: os.stat(f"{w.folder}/start/{name}").st_mtime_ns
             for name in os.listdir(f"{w.folder}/start")}
    expect(before == after, "the start checkpoint was written")
    w.check_books()


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode:
        print("skipped: no torch for /usr/bin/python3 (python3-torch)")
        sys.exit(SKIPPED)
    sys.exit(world.main({"killed_while_it_trains": killed_while_it_trains}))
