"""A campaign of the fake job on a Slurm cluster of its own."""

import glob
import os
import stat
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("long", "campaigns"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", folder))
sys.path.insert(0, HERE)
import audit  # noqa: E402
import world  # noqa: E402
from cluster import Cluster, Unavailable, until  # noqa: E402
from world import Failure, Skip, expect  # noqa: E402,F401


class SlurmWorld(world.World):
    def __init__(self, name):
        super().__init__(name)
        os.chmod(self.folder, 0o755)
        self.cluster = None
        self.outside = False  # the machine that attune runs on does not know the cluster

    def slurm(self, **options):
        """Brings the cluster up; every case says what it needs."""
        try:
            self.cluster = Cluster(**options)
            self.cluster.start()
        except Unavailable as why:
            raise Skip(str(why)) from None
        return self.cluster

    def close(self, keep):
        if self.cluster is not None:
            self.cluster.own_folder = not keep
            self.cluster.stop()
            if keep:
                print(f"cluster: {self.cluster.folder}")
        super().close(keep)

    def recipe(self, args=None, poll="500ms", sbatch=None, more=None, **options):
        # The folder as a cache: some jobs here write what they were given into it.
        options.setdefault("workload", f"gpus: 2, gpus_per_node: 2, caches: [{self.folder}]")
        lines = ["launcher:", "  kind: slurm", f"  poll: {poll}"]
        if sbatch:
            lines += ["  sbatch:", *[f"    {key}: \"{value}\"" for key, value in sbatch.items()]]
        lines += more or []
        super().recipe(args, launcher=lines, **options)

    def start(self, *words, env=None, **more):
        own = {"SLURM_CONF": self.cluster.conf} if self.cluster and not self.outside else {}
        return super().start(*words, env={**own, **(env or {})}, **more)

    # ----- what the case looks at

    def bodies(self, kind):
        return [body for _, k, body in self.events() if k == kind]

    def ends(self):
        """How each run ended, in order."""
        return [body["detail"]["end"] for body in self.bodies("run_ended")]

    def wait_end(self, process=None, count=1):
        self.wait_for(f"{count} run(s) to end", lambda: len(self.ends()) >= count, process)
        return self.ends()[count - 1]

    def wait_launch_end(self, process=None, count=1):
        self.wait_for(f"{count} launch(es) to end",
                      lambda: len(self.bodies("launch_ended")) >= count, process)
        return self.bodies("launch_ended")[count - 1]

    def tokens_in_order(self):
        return [body["token"] for body in self.bodies("launch_intended")]

    def job(self, number=0, process=None):
        """(id, state) of the job of the n-th launch, once Slurm has it."""
        self.wait_for("a launch", lambda: len(self.tokens_in_order()) > number, process)
        token = self.tokens_in_order()[number]
        return self.wait_for("a job", lambda: next(
            ((i, state) for i, name, state in self.cluster.jobs() if name == token), None), process)

    def job_starts(self, process=None):
        """Until the first training is under way; a case that has to be quick asks no queue first."""
        self.wait_for("a running job", lambda: self.files("*/a0/r*/start"), process)
        self.wait_event("launch_bound", process)

    def job_runs(self, process=None):
        """The job of the first launch, once its training is under way."""
        self.job_starts(process)
        return self.job(0, process)[0]

    def written_down(self, process=None):
        """Until slurmctld would know every job as it is now after kill -9: it saves all at once, some
        seconds after a change, so it is waited for one more job."""
        self.write("marker.sh", "#!/bin/sh\n")
        self.cluster.call("sbatch", "-H", "-J", "marker", "-o", "/dev/null",
                          f"{self.folder}/marker.sh")
        self.wait_for("slurmctld to save", lambda: self.cluster.has_saved("marker"), process)

    def starts(self, token):
        return len(self.files(f"{token}/a*/start"))

    def jobs_named(self, token):
        return [i for i, name, _ in self.cluster.jobs() if name == token]

    def stand_in(self, name, body):
        """A program of that name before Slurm's own one in PATH; `real` calls Slurm's."""
        folder = f"{self.folder}/bin"
        os.makedirs(folder, exist_ok=True)
        self.write(f"bin/{name}", f"""#!/usr/bin/python3
import os, subprocess, sys, time
HERE = {self.folder!r}
def real(*words):
    return subprocess.run(["/usr/bin/{name}", *(words or sys.argv[1:])], capture_output=True,
                          stdin=subprocess.DEVNULL, text=True)
def once():
    try:
        os.close(os.open(HERE + "/{name}.once", os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False
{body}
""")
        os.chmod(f"{folder}/{name}", stat.S_IRWXU)
        return {"PATH": f"{folder}:/usr/bin:/bin"}

    def held_output(self):
        """What attune said in allocations that it asked for."""
        return glob.glob(f"{self.state}/held/*/slurm-*.out")

    def finish(self, process, code=0):
        process.wait()
        expect(process.code == code, f"ended {process.code}, not {code}: {process.text()[-3000:]}")

    def leave(self, process):
        """Ends a case that has seen enough: attune goes, its jobs too."""
        if process.alive():
            process.send(2)
            time.sleep(0.2)
            if process.alive():
                process.send(2)
            process.wait()

    def charge_fits(self, body, seconds, slots=2, by=5.0):
        """A launch's charge is that of `seconds` with all its slots."""
        charged = body["charged_gpu_ms"] / 1000 / slots
        expect(abs(charged - seconds) <= by, f"charged {charged:.1f} s, expected {seconds:.1f}")

    def held_by_slurm(self, token):
        """Seconds that jobs of this name held their nodes, as jobcomp has it: written by a thread of
        slurmctld, so a moment after the job is gone."""
        total = 0.0
        for _ in range(80):
            if any(line.get("Name") == token for line in self.cluster.completed()):
                break
            time.sleep(0.25)
        for line in self.cluster.completed():
            if line.get("Name") == token and line.get("NodeList") not in ("(null)", ""):
                total += stamp(line["EndTime"]) - stamp(line["StartTime"])
        return total


def stamp(text):
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def sh(*argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, check=False, **options)
