#!/usr/bin/python3
"""What each lever of examples/gpt is worth on this machine: ratios, never absolute promises.

    levers_bench.py [--model dense|moe] [--rounds N] [--steps N] [--tuned] [NAME...]

Runs the configurations in turn, N rounds of all of them, so that a drift of the machine meets them
alike. Prints speed against the first configuration, the spread over the rounds, the variation of
steps within a run, and the processor time of the whole run, start-up included, for each of its
steps, which other programs disturb less than the clock. --tuned starts from the tuned configuration
and changes one lever of it at a time. Run prepare.py before, and nothing beside it.
"""

import argparse
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "examples", "gpt")
START = 200  # Iteration of the prepared checkpoints.
WARMUP = 5

# The values that recipe.yaml, recipe-moe.yaml and recipe-tuned.yaml start from.
DEFAULT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
TUNED = {"--num-ranks": "2", "--micro-batch-size": "8", "--attention-impl": "baddbmm",
         "--optimizer-impl": "flat"}
LEVERS = {
    "ranks": {"--num-ranks": "2"},
    "mbs2": {"--micro-batch-size": "2"},
    "mbs4": {"--micro-batch-size": "4"},
    "mbs8": {"--micro-batch-size": "8"},
    "blas": {"OPENBLAS_NUM_THREADS": "2"},
    "omp": {"OMP_NUM_THREADS": "2"},
    "baddbmm": {"--attention-impl": "baddbmm"},
    "chunked": {"--attention-impl": "chunked"},
    "einsum": {"--attention-impl": "einsum"},
    "flat": {"--optimizer-impl": "flat"},
    "foreach": {"--optimizer-impl": "foreach"},
    "workers": {"--num-workers": "1"},
    "recompute": {"--recompute-granularity": "selective"},
    "sorted": {"--moe-expert-impl": "sorted"},
    "ranks+sync": {"--num-ranks": "2", "--grad-sync": "last-micro"},
    "mbs8+blas": {"--micro-batch-size": "8", "OPENBLAS_NUM_THREADS": "2"},
    "mbs8+ranks": {"--micro-batch-size": "8", "--num-ranks": "2"},
    "tuned": TUNED,
}
# One lever of the tuned configuration taken back or changed.
AROUND_TUNED = {
    "matmul": {"--attention-impl": "matmul"},
    "chunked": {"--attention-impl": "chunked"},
    "einsum": {"--attention-impl": "einsum"},
    "single": {"--optimizer-impl": "single"},
    "foreach": {"--optimizer-impl": "foreach"},
    "mbs4": {"--micro-batch-size": "4"},
    "mbs4+sync": {"--micro-batch-size": "4", "--grad-sync": "last-micro"},
    "bucket64k": {"--ddp-bucket-size": "65536"},
    "bucket256k": {"--ddp-bucket-size": "262144"},
    "workers": {"--num-workers": "1"},
    "recompute": {"--recompute-granularity": "selective"},
    "one-rank+blas": {"--num-ranks": "1", "OPENBLAS_NUM_THREADS": "2"},
    "loop": {"--moe-expert-impl": "loop"},
}


def run(model, setting, steps):
    """Returns mean milliseconds of the timed steps, processor milliseconds a step, variation."""
    environment = dict(os.environ, **{k: v for k, v in setting.items() if k[0] != "-"})
    with open(os.path.join(GPT, model + ".args")) as file:
        arguments = shlex.split(file.read(), comments=True)
    for flag, value in setting.items():
        if flag[0] == "-":
            arguments += [flag, value]
    # The flag is a modulus, and no smaller multiple of it lies after the start.
    arguments += ["--load", f"prepared/{model}", "--exit-interval", str(START + WARMUP + steps),
                  "--log-interval", "1", "--eval-iters", "0"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["/usr/bin/python3", "train.py", *arguments], cwd=GPT, text=True,
                          env=environment, stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    times = [float(ms) for ms in re.findall(r"per iteration \(ms\): ([\d.]+)", done.stdout)]
    assert len(times) == WARMUP + steps, done.stdout
    processor = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    timed = times[WARMUP:]
    variation = statistics.pstdev(timed) / statistics.mean(timed)
    return statistics.mean(timed), 1000.0 * processor / len(times), variation


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model", choices=["dense", "moe"], default="dense")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("names", nargs="*", help="configurations to run; all if none is named")
    options = parser.parse_args()
    start = dict(DEFAULT, **(TUNED if options.tuned else {}))
    if options.tuned and options.model == "moe":
        start["--moe-expert-impl"] = "sorted"
    table = AROUND_TUNED if options.tuned else LEVERS
    names = options.names or [n for n, change in table.items()
                              if options.model == "moe" or "--moe-expert-impl" not in change]
    settings = {"start": start, **{name: dict(start, **table[name]) for name in names}}
    found = {name: [] for name in settings}
    for number in range(options.rounds):
        for name, setting in settings.items():
            found[name].append(run(options.model, setting, options.steps))
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr, flush=True)
    base = statistics.mean(ms for ms, _, _ in found["start"])
    print(f"{'':14} {'ms/step':>8} {'speed':>7} {'spread':>7} {'cv':>6} {'cpu ms':>8}")
    for name, runs in found.items():
        times = [ms for ms, _, _ in runs]
        mean = statistics.mean(times)
        spread = statistics.stdev(times) / mean if len(times) > 1 else 0.0
        print(f"{name:14} {mean:8.1f} {base / mean:6.2f}x {100 * spread:6.1f}% "
              f"{100 * statistics.median(r[2] for r in runs):5.1f}% "
              f"{min(cpu for _, cpu, _ in runs):8.1f}")


if __name__ == "__main__":
    main()
