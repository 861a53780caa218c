"""A campaign of GLM-4.5 on 128 simulated GPUs through a real Slurm of 16 virtual nodes with 8 GPUs each.

Every launch is a real batch job that holds all nodes and runs `attune sim-train` on the first of
them, a few hundred times as fast as the cluster that it simulates. At least 20 launches; the books
agree with Slurm's own jobcomp. ATTUNE_BIN_DIR: default build/bin.
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("real/slurm", "campaigns", "long"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
sys.dont_write_bytecode = True
import world  # noqa: E402
from slurm_world import SlurmWorld, expect  # noqa: E402

world.DEADLINE = 1200.0
NODES, GPUS, LAUNCHES = 16, 8, 20
EXAMPLE = os.path.abspath(os.path.join(HERE, "..", "..", "examples", "glm-4.5-b200x128",
                                       "recipe.yaml"))

# One change each; the cluster's gates and the measurement decide what comes of it.
CHANGES = [("microbatch", "--micro-batch-size", "2"), ("microbatch", "--micro-batch-size", "4"),
           *[("dp_buckets", "--ddp-bucket-size", f"{millions}000000")
             for millions in (10, 20, 40, 80, 160, 320)],
           *[("data_loading", "--num-workers", str(workers)) for workers in (1, 4, 8)],
           ("fusion", "--cross-entropy-loss-fusion", "true"),
           ("garbage_collection", "--manual-gc", "true"),
           ("optimizer_precision", "--use-precision-aware-optimizer", "true")]


def script(w):
    lines = []
    for number, (lever, flag, value) in enumerate(CHANGES):
        op = {"op": "set", "flag": flag, "value": True if value == "true" else value}
        lines.append({"lever": lever, "label": f"{lever}-{number}", "hypothesis": "a launch",
                      "changes": [op]})
    lines.append({"stop": "the script is over", "classes": {}})
    w.write("script.jsonl", "\n".join(json.dumps(line) for line in lines) + "\n")


def recipe(w):
    command = json.dumps([world.ATTUNE, "sim-train", "--world", "default:0", "--speed", "400",
                          "--gpu", "B200", "--gpus", str(NODES * GPUS), "--gpus-per-node",
                          str(GPUS), "--", "{{args}}"])
    w.write("recipe.yaml", f"""schema: attune/recipe/1
extends: {EXAMPLE}
name: glm-on-virtual-nodes
command: {command}
launcher:
  poll: 500ms
  sbatch: {{partition: main}}
  limits: {{startup: 60s, no_progress: 20s}}
measure: {{warmup_steps: 2, steps: 8, min_seconds: 3, calibration_runs: 5}}
profile: {{off: true}}
budget: {{gpu_hours: 500, run_limit: 2m}}
""")


def twenty_launches_on_sixteen_nodes(w):
    cluster = w.slurm(nodes=NODES, gpus=GPUS)
    recipe(w)
    script(w)
    process = w.attune("run", "recipe.yaml", "--script", "script.jsonl")
    expect(process.code == 0, f"ended {process.code}: {process.text()[-3000:]}")
    w.check_books()
    tokens, ends = w.tokens_in_order(), w.bodies("launch_ended")
    expect(len(tokens) >= LAUNCHES, f"{len(tokens)} launches: {w.table()}")
    for token, body in zip(tokens, ends):
        expect(len(w.jobs_named(token)) == 1, f"{token} has the jobs {w.jobs_named(token)}")
        w.charge_fits(body, w.held_by_slurm(token), slots=NODES * GPUS)
    for line in cluster.completed():
        expect(line["NodeCnt"] == str(NODES), f"a job on other than {NODES} nodes: {line}")
    print("\n".join(w.table()))
    print(process.text()[-1500:])
    print(f"{len(tokens)} launches, "
          f"{sum(body['charged_gpu_ms'] for body in ends) / 3.6e6:.1f} GPU-h charged")


if __name__ == "__main__":
    sys.exit(world.main({"twenty_launches_on_sixteen_nodes": twenty_launches_on_sixteen_nodes},
                        make=SlurmWorld))
