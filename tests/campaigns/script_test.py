"""The user's own launch script (launcher.script) instead of a command."""

import subprocess
import sys

import world
from world import expect

# What such scripts do: read the arguments into an array, set something up, start the trainer.
SCRIPT = f"""#!/bin/bash
set -euo pipefail
mapfile -t args < "$ATTUNE_ARGS_FILE"
echo "handed ${{#args[@]}} arguments, $(grep -c = "$ATTUNE_ENV_FILE") settings"
exec {world.TRAIN} "${{args[@]}}"
"""


def recipe(w):
    w.recipe(launcher=["launcher:", "  env: {OMP_NUM_THREADS: 1}"])
    w.use_script(SCRIPT)


def tunes_and_ships(w):
    recipe(w)
    p = w.attune("plan", "recipe.yaml", "--show-command")
    expect("ATTUNE_ARGS_FILE" in p.text() and "scripts/run.sh" in p.text(), p.text())
    p = w.attune("doctor", "recipe.yaml")
    expect("scripts/run.sh in " in p.text(), p.text())
    p = w.run("--exit-status")
    expect(p.code == 0, f"{p.code}: {p.text()}")
    w.check_books()
    for folder in w.files("*/a0/r*"):
        with open(f"{folder}/script", encoding="utf-8") as file:
            expect(file.read() == SCRIPT, f"{folder}/script is another")
        with open(f"{folder}/out", encoding="utf-8") as file:
            expect("1 settings" in file.readline(), f"{folder}: not handed its environment")
    # What is exported starts the same script, with the lever that won and the user's own length.
    command = w.attune("export", "--as", "command").out
    expect("'--micro-batch-size' '2'" in command, command)
    command = command.replace("'--exit-interval' '500'", "'--exit-interval' '3'")
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    expect(done.returncode == 0 and "1 settings" in done.stdout and "] iteration" in done.stdout,
           f"{command}: {done.returncode}\n{done.stdout[:2000]}{done.stderr}")
    batch = w.attune("export", "--as", "sbatch")
    expect(batch.code == 2, "the recipe names no Slurm job")


def edited_while_it_tunes(w):
    """The measurements rest on the script: an edited one pauses the campaign, its own resumes it."""
    recipe(w)
    process = w.start_run()
    w.wait_event("judged", process)
    w.write("scripts/run.sh", SCRIPT + "# changed\n")
    process.wait()
    expect(process.code == 75, f"{process.code}: {process.text()}")
    started = w.files("*/a0/start")
    p = w.attune("resume")
    expect(p.code == 75 and w.files("*/a0/start") == started, f"{p.code}: {p.text()}")
    w.write("scripts/run.sh", SCRIPT)
    p = w.attune("resume")
    expect(p.code == 0, f"{p.code}: {p.text()}")
    w.check_books()


CASES = {case.__name__: case for case in (tunes_and_ships, edited_while_it_tunes)}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
