"""A folder of its own with a recipe for the fake job, and the real program run in it.

Waiting is always for something that must come (a file, an event, an exit), never for a time to
pass; a deadline far beyond any honest duration turns a hang into a failure.
"""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "long"))
import audit  # noqa: E402

BIN = os.environ.get("ATTUNE_BIN_DIR", "build/bin")
ATTUNE = os.path.abspath(f"{BIN}/attune")
WRAPPER = os.path.abspath(f"{BIN}/attune-wrapper")
TRAIN = os.path.abspath(f"{BIN}/attune_fake_train")
DEADLINE = 240.0
START = 40  # the iteration of the checkpoint that every recipe here loads


class Failure(Exception):
    """What a case found wrong."""


class Skip(Exception):
    """Why a case can't be tried here."""


def expect(condition, message):
    if not condition:
        raise Failure(message)


class Process:
    """A running attune; what it says goes to files, so that no pipe can block it."""

    def __init__(self, world, words, env, more):
        world.started += 1
        self.paths = [f"{world.folder}/{name}.{world.started}" for name in ("out", "err")]
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.popen = subprocess.Popen(
                [ATTUNE, *words], cwd=world.folder, env=env, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, start_new_session=True, **more)
        world.processes.append(self)

    def alive(self):
        return self.popen.poll() is None

    def send(self, number):
        os.kill(self.popen.pid, number)

    def wait(self):
        try:
            self.popen.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise Failure(f"still running after {DEADLINE:.0f} s: {self.text()[-2000:]}") from None
        return self

    @property
    def code(self):
        return self.popen.returncode

    @property
    def out(self):
        with open(self.paths[0], encoding="utf-8", errors="replace") as file:
            return file.read()

    @property
    def err(self):
        with open(self.paths[1], encoding="utf-8", errors="replace") as file:
            return file.read()

    def text(self):
        return self.out + self.err


class World:
    def __init__(self, name):
        self.folder = tempfile.mkdtemp(prefix=f"attune-{name}-")
        self.state = f"{self.folder}/state"
        self.started = 0
        self.processes = []
        self.closing = []  # called at the end, in turn
        os.mkdir(f"{self.folder}/ckpt")
        self.write("ckpt/latest_checkpointed_iteration.txt", f"{START}\n")
        self.write("ckpt/weights.bin", "w" * 65536)

    def close(self, keep):
        for process in self.processes:
            if process.alive():
                process.send(signal.SIGKILL)
                process.popen.wait()
        for pid in audit.carriers(self.tokens()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for close in self.closing:
            close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def recipe(self, args=None, declare=None, calibration_runs=1, name="recipe.yaml",
               launcher=None, workload="gpus: 2"):
        """The fake job: two slots, steps of 60 ms, a window of 3 s, one lever."""
        all_args = {
            "micro-batch-size": 1, "global-batch-size": 8, "seq-length": 128, "load": "ckpt",
            "save": "ckpt", "save-interval": 100, "exit-interval": 500, "eval-interval": 100,
            "eval-iters": 4, "log-interval": 10, "fake-step-ms": 60, "fake-startup-ms": 50,
            **(args or {})}
        declare = declare or ["lever: micro_batch, flag: --micro-batch-size, values: [1, 2]"
                              ", class: batching"]
        lines = [
            "schema: attune/recipe/1",
            "name: fake",
            "framework: custom",
            f"workload: {{model: gpt, {workload}, gpu: cpu, seq_length: 128, global_batch: 8,"
            " precision: fp32, order: layout_free, loss_mask: full}",
            f"command: [{TRAIN}, \"{{{{args}}}}\"]",
            "args:",
            *[f"  {key}: {json.dumps(value)}" for key, value in all_args.items()],
            "declare:",
            *[f"  - {{{lever}}}" for lever in declare],
            "log: {dialect: megatron-lm}",
            "measure:",
            "  warmup_steps: 2",
            "  steps: 8",
            "  min_seconds: 3",
            f"  calibration_runs: {calibration_runs}",
            "  cv_max: 0.5",  # the fake job prints its plan; a busy machine must not matter here
            "  half_drift_max: 0.5",
            "  instrument:",
            "    set: {exit-interval: \"{n}\", log-interval: \"1\", eval-iters: \"0\"}",
            "    remove: [save, save-interval]",
            "profile: {off: true}",
            "budget: {gpu_hours: auto, run_limit: 1m}",
            *(launcher or []),
        ]
        self.write(name, "\n".join(lines) + "\n")

    def use_script(self, text):
        """The user's own launch script instead of the recipe's command."""
        with open(f"{self.folder}/recipe.yaml", encoding="utf-8") as file:
            lines = [line for line in file.read().splitlines() if not line.startswith("command:")]
        lines.insert(lines.index("launcher:") + 1, "  script: {file: scripts/run.sh}")
        self.write("recipe.yaml", "\n".join(lines) + "\n")
        os.makedirs(f"{self.folder}/scripts")
        self.write("scripts/run.sh", text)  # not executable: a copy of it is started

    def start(self, *words, env=None, state=None, **more):
        own = {"PATH": "/usr/bin:/bin", "HOME": self.folder, "LC_ALL": "C.UTF-8",
               "ATTUNE_STATE_DIR": state or self.state, **(env or {})}
        if "LSAN_OPTIONS" in os.environ:
            own["LSAN_OPTIONS"] = os.environ["LSAN_OPTIONS"]
        return Process(self, [*words, "--no-input"], own, more)

    def attune(self, *words, **more):
        return self.start(*words, **more).wait()

    def run(self, *words, **more):
        return self.attune("run", "recipe.yaml", "--final-blocks", "1", *words, **more)

    def start_run(self, *words, **more):
        return self.start("run", "recipe.yaml", "--final-blocks", "1", *words, **more)

    # What is on disk.

    def campaign(self):
        ids = audit.campaigns(self.state)
        expect(len(ids) == 1, f"{len(ids)} campaigns where one was expected")
        return ids[0]

    def events(self):
        try:
            ids = audit.campaigns(self.state)
            return audit.events(self.state, ids[-1]) if ids else []
        except audit.sqlite3.OperationalError:
            return []  # not made yet

    def kinds(self):
        return [kind for _, kind, _ in self.events()]

    def tokens(self):
        return {body["token"] for _, kind, body in self.events() if kind == "launch_intended"}

    def table(self):
        return audit.run_table(self.events())

    def files(self, pattern):
        """Paths below the run root, for example '*/a0/start'."""
        return glob.glob(f"{self.state}/runs/{pattern}")

    def wait_for(self, what, found, process=None):
        """Until found() is true; a process that ends first is a failure."""
        end = time.monotonic() + DEADLINE
        while True:
            value = found()
            if value:
                return value
            if process is not None and not process.alive():
                value = found()
                if value:
                    return value
                raise Failure(f"{what}: attune ended first ({process.code}): {process.text()}")
            if time.monotonic() > end:
                said = process.text()[-2000:] if process is not None else ""
                raise Failure(f"{what}: did not come; events: {self.kinds()[-40:]}; it said: {said}")
            time.sleep(0.005)

    def wait_event(self, kind, process=None, count=1):
        self.wait_for(f"{count} x {kind}", lambda: self.kinds().count(kind) >= count, process)

    def wait_job(self, process=None):
        """Until the job of the newest launch is under way."""
        return self.wait_for("a running job", lambda: [
            path for path in self.files("*/a0/r*/start")
            if not os.path.exists(os.path.join(os.path.dirname(path), "exit"))], process)[0]

    def resume(self, *words, code=0):
        process = self.attune("resume", *words)
        expect(process.code == code, f"resume ended {process.code}, not {code}: {process.text()}")
        return process

    def check_books(self):
        faults = audit.audit(self.state, self.campaign())
        expect(not faults, "; ".join(faults))


def main(cases, make=World, jobs=8):
    """Runs the named cases (default: all) side by side; most of each is waiting for a job."""
    import argparse
    from concurrent.futures import ThreadPoolExecutor

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="cases; default: all")
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--keep", action="store_true", help="leave the folders of failed cases")
    options = parser.parse_args()
    unknown = set(options.names) - set(cases)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")

    def attempt(name):
        world, begun = make(name), time.monotonic()
        verdict, why = "ok", ""
        try:
            cases[name](world)
        except Skip as skip:
            verdict, why = "skipped", str(skip)
        except Failure as failure:
            verdict, why = "FAILED", str(failure)
        except Exception as error:  # a bug of the test itself must not end the others
            import traceback
            verdict, why = "FAILED", "".join(traceback.format_exception(error))
        finally:
            world.close(keep=options.keep and verdict == "FAILED")
        if options.keep and verdict == "FAILED":
            why += f" [{world.folder}]"
        print(f"{verdict:8} {name} ({time.monotonic() - begun:.0f} s) {why}".rstrip(), flush=True)
        return verdict

    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(pool.map(attempt, options.names or list(cases)))
    bad = verdicts.count("FAILED")
    print(f"{len(verdicts)} cases, {bad} failed, {verdicts.count('skipped')} skipped")
    return 1 if bad or not verdicts else 0
