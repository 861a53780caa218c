#!/usr/bin/python3
"""examples/gpt tuned for real: its training through a real Slurm of two virtual nodes
(recipe-slurm.yaml), or on another host over a real sshd (recipe-ssh.yaml). It must end with a
verified gain, and its books must agree with the run folders. Needs examples/gpt/prepared, python3-torch
and a quiet machine; some ten minutes each.

    tests/long/gpt.py slurm|ssh [--keep] [ARGUMENT of attune run ...]
    ATTUNE_BIN_DIR: default build/bin
"""

import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("real/slurm", "campaigns", "long"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
sys.dont_write_bytecode = True
import world  # noqa: E402
from slurm_world import Failure, Skip, SlurmWorld, expect  # noqa: E402
from ssh_test import Host  # noqa: E402

world.DEADLINE = 3600.0
GPT = os.path.abspath(os.path.join(HERE, "..", "..", "examples", "gpt"))


def campaign(w, kind, more):
    if kind == "slurm":
        w.slurm(nodes=2)
        env = {}
    else:
        env = Host(w).env
    begun = time.monotonic()
    process = w.attune("run", f"{GPT}/recipe-{kind}.yaml", "--budget", "auto", "--exit-status", *more,
                       env=env)
    print(process.text(), flush=True)
    print(f"{kind}: exit {process.code} after {time.monotonic() - begun:.0f} s, "
          f"{len(w.bodies('run_ended'))} runs")
    w.check_books()
    if kind == "slurm":
        for token, body in zip(w.tokens_in_order(), w.bodies("launch_ended")):
            expect(len(w.jobs_named(token)) <= 1, f"{token} has the jobs {w.jobs_named(token)}")
            w.charge_fits(body, w.held_by_slurm(token))
    expect(process.code == 0, "it ended without a verified gain")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["slurm", "ssh"])
    parser.add_argument("--keep", action="store_true")
    options, more = parser.parse_known_args()
    w = SlurmWorld(f"gpt-{options.kind}")
    try:
        campaign(w, options.kind, more)
    except Skip as why:
        print(f"skipped: {why}")
        return 77
    except Failure as why:
        print(f"FAILED: {why}")
        return 1
    finally:
        w.close(options.keep)
        if options.keep:
            print(w.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
