#!/usr/bin/python3
"""An sbatch that is silent for 150 s and then submits, with attune's own time limits: attune gives up
on it, looks for the launch for two minutes, submits again, and the late job finds its folder claimed.
Some five minutes on a real Slurm.

    tests/long/late_sbatch.py [--keep]       ATTUNE_BIN_DIR: default build/bin
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("real/slurm", "campaigns", "long"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
sys.dont_write_bytecode = True
import world  # noqa: E402
from slurm_world import SlurmWorld, expect  # noqa: E402

world.DEADLINE = 900.0


def sbatch_submits_after_150_seconds(w):
    w.slurm()
    w.recipe({"fake-step-ms": 60}, poll="5s")
    path = w.stand_in("sbatch", """
if once():
    # Out of the group that attune's time limit ends, as a controller that was only slow would be.
    if os.fork() == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.close(fd)
        time.sleep(150)
        real()
        open(HERE + "/late", "w").close()
        os._exit(0)
    time.sleep(3600)
done = real()
sys.stdout.write(done.stdout)
sys.exit(done.returncode)
""")
    process = w.start_run(env=path)
    w.wait_for("the late submit", lambda: os.path.exists(f"{w.folder}/late"))
    w.wait_end(process)
    token = w.tokens_in_order()[0]
    w.wait_for("the end of its jobs", lambda: all(
        state in ("COMPLETED", "CANCELLED", "FAILED")
        for _, name, state in w.cluster.jobs() if name == token))
    jobs = w.jobs_named(token)
    expect(w.starts(token) == 1, f"{w.starts(token)} processes past the claim")
    expect(len(jobs) in (1, 2), f"jobs {jobs}")
    print(f"  {token}: jobs {', '.join(jobs)}, one claim; "
          f"submitted again: {'launch_absent' in w.kinds()}")
    w.leave(process)


if __name__ == "__main__":
    sys.exit(world.main({"sbatch_submits_after_150_seconds": sbatch_submits_after_150_seconds},
                        make=SlurmWorld))
