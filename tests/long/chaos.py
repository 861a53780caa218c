"""One seed of chaos: a campaign of short runs on a real Slurm, behind a login node or over ssh, while
attune, slurmctld, slurmd, the line, ssh's master and the processes of its jobs are killed at random;
see chaos.sh."""

import argparse
import glob
import itertools
import os
import random
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "real", "slurm"))
sys.path.insert(0, os.path.join(HERE, "..", "campaigns"))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import audit  # noqa: E402
import world  # noqa: E402
from slurm_world import Skip, SlurmWorld, stamp  # noqa: E402
from ssh_test import Host  # noqa: E402

FINAL = {0, 3, 6, 7, 10}
# Micro-batches of the fake job, each a candidate; printed step times are fixed.
LEVERS = ["lever: micro_batch, flag: --micro-batch-size, values: [1, 2, 4, 8], class: batching",
          "lever: attention, flag: --attention, values: [plain, fused], class: kernel",
          "lever: recompute, flag: --recompute-none, values: [a, b], class: memory",
          "lever: form, flag: --optimizer-form, values: [single, foreach], class: kernel"]
HARMLESS = {"attune", "line", "master"}  # to a launch
DISTURBED = {"preempted", "node_failed", "never_started", "lost", "cancelled_outside"}


STRIKES = {"slurm": ["attune", "attune", "slurmctld", "slurmd", "wrapper"],
           "login": ["attune", "attune", "slurmctld", "slurmd", "wrapper", "line", "master"],
           "ssh": ["attune", "attune", "wrapper", "line", "line", "master", "server"]}


def prepare(w, kind):
    """What jobs run on, and the recipe. The folder below which they leave their records."""
    there, launcher, w.host = f"{w.state}/runs", ["launcher:", f"  kind: {kind}"], None
    if kind != "ssh":
        w.slurm(nodes=3)
        launcher = ["launcher:", "  kind: slurm", "  poll: 500ms"]
    if kind == "login":
        there = f"{w.folder}/cluster"
        w.host, w.outside = Host(w, SLURM_CONF=w.cluster.conf), True
        launcher += ["  login: node", f"  run_root: {there}"]
    elif kind == "ssh":
        there = f"{w.folder}/host"
        w.host = Host(w)
        launcher += ["  hosts: [node]", f"  run_root: {there}"]
    if w.host:
        w.closing.append(lambda: end_masters(w.host.folder))
    world.World.recipe(
        w, {"fake-step-ms": 60, "attention": "plain", "recompute-none": "a",
            "optimizer-form": "single", "fake-run-noise": 0, "fake-step-noise": 0},
        declare=LEVERS, calibration_runs=3,
        workload=f"gpus: 2, gpus_per_node: 2, caches: [{w.folder}]",
        launcher=launcher + ["gate: {accept: [{lever: attention, why: test}, "
                             "{lever: form, why: test}]}"])
    w.there = there
    w.way = w.host.env if w.host else {}


class Chaos:
    def __init__(self, w, kind, seed, events):
        self.w, self.random, self.events = w, random.Random(seed), events
        self.strikes = STRIKES[kind]
        self.killed_jobs, self.log = set(), []

    def say(self, text):
        self.log.append(text)

    def strike(self):
        what = self.random.choice(self.strikes)
        # What was spoiled is made again once; a second loss rightly ends it and changes the table.
        if what not in HARMLESS and self.is_second_try():
            what = "attune"
        getattr(self, what)()

    def is_second_try(self):
        """Whether the launch under way repeats one that was spoiled."""
        runs, ended, spoiled = {}, set(), set()
        for _, kind, body in self.w.events():
            if kind == "launch_intended":
                for run in body["runs"]:
                    runs[run["run"]] = (body["purpose"], run["label"])
            elif kind == "run_ended":
                ended.add(body["run"])
                if body["detail"]["end"] in DISTURBED:
                    spoiled.add(runs[body["run"]])
        return any(what in spoiled for run, what in runs.items() if run not in ended)

    def attune(self):
        if self.process.alive():
            self.process.send(signal.SIGKILL)
            self.process.popen.wait()
            self.say("attune killed")

    def slurmctld(self):
        if self.w.cluster.kill_controller():
            time.sleep(self.random.uniform(0, 2))
            self.w.cluster.start_controller()
            self.say("slurmctld killed and started")

    def slurmd(self):
        node = self.random.choice(self.w.cluster.nodes)
        if self.w.cluster.kill(f"slurmd.{node}", "slurmd"):
            time.sleep(self.random.uniform(0, 2))
            self.w.cluster.start_node(node)
            self.say(f"slurmd {node} killed and started")

    def line(self):
        self.w.host.do("drop")
        self.say("line dropped")

    def server(self):
        self.w.host.do("stop")
        time.sleep(self.random.uniform(0, 4))
        self.w.host.start()
        self.say("sshd stopped and started")

    def master(self):
        """ssh's master process, killed or frozen: frozen ones never answer again."""
        for pid in masters(self.w.host.folder):
            os.kill(pid, self.random.choice([signal.SIGKILL, signal.SIGSTOP]))
            self.say("ssh master killed or stopped")

    def wrapper(self):
        """The job's own processes at once: no record says why it ended."""
        # First who carries a token: each has a wrapper whose start record is there by then.
        others = audit.carriers(self.w.tokens())
        wrappers = []
        for path in glob.glob(f"{self.w.there}/*/a0/start"):
            record = audit.read_record(path)
            if record and not os.path.exists(os.path.dirname(path) + "/exit"):
                wrappers.append(int(audit.one(record, "pid")))
        # The wrappers first: they would record that a rank was killed, a crash of the job.
        victims = wrappers + [pid for pid in others if pid not in wrappers]
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if victims:
            self.say(f"{len(victims)} processes of a job killed")

    def go(self):
        self.process = self.w.start_run(env=self.w.way)
        strikes = 0
        while True:
            if strikes < self.events:
                end = time.monotonic() + self.random.uniform(3, 15)
                while time.monotonic() < end and self.process.alive():
                    time.sleep(0.1)
                if self.process.alive():
                    self.strike()
                    strikes += 1
            else:
                self.process.wait()
            if not self.process.alive():
                if self.process.code in FINAL and audit.ended(self.w.events()):
                    return strikes
                if self.process.code not in (-signal.SIGKILL, 75, 143, 130, *FINAL):
                    raise RuntimeError(f"attune ended {self.process.code}: "
                                       f"{self.process.text()[-2000:]}")
                words = ["resume"] if self.w.events() else [
                    "run", "recipe.yaml", "--final-blocks", "1"]
                self.process = self.w.start(*words, env=self.w.way)


def masters(folder):
    """Processes of ssh that are masters with their socket in that folder."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                line = file.read().decode(errors="replace")
        except OSError:
            continue
        if line.startswith(f"ssh: {folder}/attune/") and "[mux]" in line:
            found.append(int(path.split("/")[2]))
    return found


def end_masters(folder):
    for pid in masters(folder):
        os.kill(pid, signal.SIGKILL)


def table(events):
    """The run table without what the infrastructure spoiled: those runs are made again."""
    ended_badly = {body["run"] for _, kind, body in events
                   if kind == "run_ended" and body["detail"]["end"] in DISTURBED}
    # A launch of several runs is made again as a whole.
    spoiled = {run["run"] for _, kind, body in events if kind == "launch_intended"
               for run in body["runs"] if ended_badly & {r["run"] for r in body["runs"]}}
    order, standing = [], {}
    for _, kind, body in events:
        if kind == "launch_intended":
            order += [(run["run"], body["purpose"], run["label"]) for run in body["runs"]]
        elif kind == "judged":
            standing[body["run"]] = body["standing"]
    return [f"{purpose}:{label}:{standing.get(run, 'open')}"
            for run, purpose, label in order if run not in spoiled]


def attempts_of(lines):
    """What jobcomp's lines say of each attempt: seconds that it held its nodes. More than one
    figure: a slurmctld that forgot an end writes another for the same start when it misses the
    job, and either is Slurm's own word."""
    attempts = {}
    for line in lines:
        if line.get("NodeList") not in ("(null)", ""):
            seconds = stamp(line["EndTime"]) - stamp(line["StartTime"])
            attempts.setdefault((line["JobId"], line["StartTime"]), []).append(seconds)
    return list(attempts.values())


def forgotten(w, token, lines):
    """A slurmctld that came back with an older state ends a job that it has as waiting, and starts it
    again: the start that the folder has and no line, at most until the next one's."""
    starts = [audit.read_record(path) for path in glob.glob(f"{w.there}/{token}/a*/start")]
    later = [stamp(line["StartTime"]) for line in lines]
    return [[int(min(later) - int(audit.one(start, "wall_ms")) / 1000)] for start in starts
            if start and int(audit.one(start, "wall_ms")) / 1000 < min(later) - 1]


def faults_of(w):
    """Double launches, orphans, and charges against what Slurm's own jobcomp says."""
    faults = audit.audit(w.state, w.campaign())
    if w.cluster is None:
        return faults + [f"{b['launch']} has no end" for b in w.bodies("launch_intended")
                         if not any(e["launch"] == b["launch"] for e in w.bodies("launch_ended"))]
    finals = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")
    # A slurmctld that came back with an old state shows a job that has ended as running until the
    # node's next registration, which was seen to take 100 s here.
    end = time.monotonic() + 240
    while time.monotonic() < end and any(
            state not in finals for _, name, state in w.cluster.jobs() if name.startswith("attune")):
        time.sleep(1)
    completed = w.cluster.completed()
    for intent, token in zip(w.bodies("launch_intended"), w.tokens_in_order()):
        starts = len(glob.glob(f"{w.there}/{token}/a*/start"))
        if starts > 1:
            faults.append(f"{token}: {starts} processes past the claim")
        end = next((b for b in w.bodies("launch_ended") if b["launch"] == intent["launch"]), None)
        if end is None:
            faults.append(f"{token} never ended")
            continue
        lines = [x for x in completed if x.get("Name") == token]
        live = [state for _, name, state in w.cluster.jobs()
                if name == token and state not in finals]
        if live:
            faults.append(f"{token}: a job of it is still there: {live}")
        if lines and end["source"] != "last_beat":
            charged = end["charged_gpu_ms"] / 1000 / intent["slots"]
            attempts = attempts_of(lines) + forgotten(w, token, lines)
            may_be = [sum(choice) for choice in itertools.product(*attempts)]
            if min(abs(charged - seconds) for seconds in may_be) > 5 * max(1, len(attempts)):
                faults.append(f"{token} is charged {charged} s, jobcomp says {may_be}")
    return faults


def undisturbed(options):
    w = SlurmWorld("calm")
    try:
        prepare(w, options.kind)
        process = w.run(env=w.way)
        if process.code not in FINAL:
            raise RuntimeError(f"the undisturbed campaign ended {process.code}: {process.text()}")
        return table(w.events())
    finally:
        w.close(options.keep)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=sorted(STRIKES), default="slurm")
    parser.add_argument("--seeds", default="1-20")
    parser.add_argument("--events", type=int, default=8, help="kills a campaign")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    try:
        calm = undisturbed(options)
    except Skip as why:
        print(f"skipped: {why}")
        return 77
    print(f"undisturbed: {len(calm)} runs: {' '.join(calm)}", flush=True)
    bad = 0
    for seed in range(int(first), int(last or first) + 1):
        w, begun = SlurmWorld(f"chaos{seed}"), time.monotonic()
        faults, strikes, runs, again = [], 0, [], 0
        try:
            prepare(w, options.kind)
            chaos = Chaos(w, options.kind, seed, options.events)
            strikes = chaos.go()
            runs = table(w.events())
            again = sum(end in DISTURBED for end in w.ends())
            faults = faults_of(w)
            if runs != calm:
                faults.append(f"the run table is {runs}")
            if faults:
                print("\n".join(chaos.log))
        except Exception as error:  # the next seed all the same
            faults.append(f"{type(error).__name__}: {error}")
        finally:
            w.close(options.keep and bool(faults))
        bad += bool(faults)
        print(f"seed {seed}: {strikes} kills, {len(runs)} runs, {again} made again, "
              f"{len(faults)} faults ({time.monotonic() - begun:.0f} s)", flush=True)
        for fault in faults:
            print(f"  FAULT {fault}", flush=True)
    print(f"chaos: {options.kind}, seeds {options.seeds}, {bad} with faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
