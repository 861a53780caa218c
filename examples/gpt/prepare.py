#!/usr/bin/python3
"""Makes what the recipes start from: the training text and two briefly trained checkpoints.

    prepare.py [--force] [--work DIR]

A model with random weights scores every next byte alike, so a run that learns from wrong labels
starts with the same loss as one that learns from right ones. Two hundred steps are enough to tell
them apart. What is there already stays; --force makes it again.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from corpus_files import read_text  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# The project's own text. It is copied once: the project changes, a checkpoint's text must not.
SOURCES = ["README.md", "docs", "include", "src", "gates", "skill", "examples/gpt"]
ITERATIONS = {"dense": 200, "moe": 200}
# One fixed layout, so that the same text gives the same checkpoint.
LAYOUT = ["--num-ranks", "2", "--micro-batch-size", "8", "--moe-expert-impl", "sorted"]


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--force", action="store_true", help="make everything again")
    parser.add_argument("--work", default=os.path.join(HERE, "prepared"), help="folder to make it in")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    text = os.path.join(options.work, "text.bin")
    if options.force or not os.path.exists(text):
        make_text(text)
    for model in ITERATIONS:
        checkpoint = os.path.join(options.work, model)
        if options.force or not os.path.exists(checkpoint):
            make_checkpoint(model, checkpoint, text)
    return 0


def make_text(path):
    sources = [os.path.join(ROOT, source) for source in SOURCES]
    text = read_text(source for source in sources if os.path.exists(source))
    with open(path + ".part", "wb") as file:
        file.write(text)
    os.replace(path + ".part", path)
    print(f"{path}: {len(text)} bytes of the project's own text", flush=True)


def make_checkpoint(model, path, text):
    started = time.monotonic()
    # Trained beside its place and then renamed: a folder that is there is complete.
    part = f"{path}.part.{os.getpid()}"
    log = path + ".log"
    with open(os.path.join(HERE, model + ".args")) as file:
        arguments = shlex.split(file.read(), comments=True)
    # The last --data-path wins; a path of its own lets --work lie anywhere.
    command = [sys.executable, os.path.join(HERE, "train.py"), *arguments, *LAYOUT,
               "--data-path", text, "--save", part, "--exit-interval", str(ITERATIONS[model]),
               "--log-interval", "10", "--eval-iters", "0"]
    print(f"{path}: training {ITERATIONS[model]} iterations, log in {log}", flush=True)
    with open(log, "wb") as out:
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    if code != 0:
        shutil.rmtree(part, ignore_errors=True)
        sys.exit(f"error: training the {model} checkpoint ended with {code}\n  help: see {log}")
    shutil.rmtree(path, ignore_errors=True)
    os.rename(part, path)
    print(f"{path}: done in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
