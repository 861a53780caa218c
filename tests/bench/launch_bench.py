#!/usr/bin/python3
"""What a launch costs attune itself: user and system time of its own process, without the jobs, over
a whole campaign on the local launcher with a durable store.

    ATTUNE_BIN_DIR=build/bin tests/bench/launch_bench.py [--step-ms 60] [--startup-ms 50]

Prints launches, CPU a launch, and CPU a second of running job. Asserts nothing.
"""

import argparse
import glob
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "campaigns"))
import world  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")


def own_seconds(pid):
    """User and system time of the process alone; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICK


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--step-ms", type=int, default=60)
    parser.add_argument("--startup-ms", type=int, default=50)
    options = parser.parse_args()
    w = world.World("launch-bench")
    try:
        levers = [f"lever: l{i}, flag: --fake-l{i}, values: [0, 1], class: batching"
                  for i in range(6)]
        w.recipe({"fake-step-ms": options.step_ms, "fake-startup-ms": options.startup_ms,
                  **{f"fake-l{i}": 0 for i in range(6)}}, declare=levers, calibration_runs=5)
        begun = time.monotonic()
        process = w.start_run()
        spent = 0.0
        while process.alive():
            spent = own_seconds(process.popen.pid) or spent
            time.sleep(0.02)
        wall = time.monotonic() - begun
        launches = len(glob.glob(f"{w.state}/runs/*/a0"))
        runs = len(glob.glob(f"{w.state}/runs/*/a0/r*"))
        if launches == 0:
            print(process.text(), file=sys.stderr)
            return 1
        print(f"exit {process.code}: {launches} launches with {runs} runs in {wall:.1f} s; "
              f"attune itself {spent:.2f} s = {1000 * spent / launches:.0f} ms a launch, "
              f"{1000 * spent / wall:.1f} ms a second")
    finally:
        w.close(False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
