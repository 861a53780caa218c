#!/usr/bin/python3
"""A real Slurm on this machine: munged, slurmctld and one slurmd a virtual node, all on 127.0.0.1.

Each cluster has a folder and a block of ports of its own, so several run side by side, and fault
tests may kill the daemons of one without the others noticing. Timers are short.

    with Cluster(nodes=2) as cluster:
        subprocess.run(["sinfo"], env=cluster.env())

By hand:  cluster.py start FOLDER [--nodes N] [--accounting] [--cgroup]   (prints the export line)
          cluster.py stop FOLDER
"""

import argparse
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PORTS = 40  # a block: accounting, slurmctld, up to 38 nodes
FIRST_PORT, BLOCKS = 21000, 200
SBIN = "/usr/sbin:/sbin:/usr/bin:/bin"
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
NEEDED_FOR_ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr")


class Unavailable(Exception):
    """Why there can be no cluster here: a test skips with it."""


def missing(accounting=False):
    """Why no cluster can be had; None: one can."""
    if os.getuid() != 0:
        return "the daemons of Slurm need root"
    for name in NEEDED + (NEEDED_FOR_ACCOUNTING if accounting else ()):
        if not shutil.which(name, path=SBIN):
            return f"{name} is not installed (group slurm of tests/packages.sh)"
    return None


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def until(seconds, found, what):
    end = time.monotonic() + seconds
    while not found():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not come within {seconds} s")
        time.sleep(0.05)


class Cluster:
    def __init__(self, nodes=2, folder=None, cpus=8, gpus=0, accounting=False, cgroup=False,
                 extra=None, name="attunetest"):
        why = missing(accounting)
        if why:
            raise Unavailable(why)
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.cpus, self.gpus, self.accounting, self.cgroup = cpus, gpus, accounting, cgroup
        self.extra, self.name = dict(extra or {}), name
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="attune-slurm-")
        os.chmod(self.folder, 0o755)
        self.block = None
        self.conf = f"{self.folder}/slurm.conf"
        self.host = socket.gethostname().split(".")[0]

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def env(self, **more):
        return {"PATH": SBIN, "HOME": os.environ.get("HOME", "/root"), "LC_ALL": "C.UTF-8",
                "SLURM_CONF": self.conf, **more}

    def call(self, *argv, timeout=20, check=True):
        return subprocess.run(argv, env=self.env(), stdin=subprocess.DEVNULL, timeout=timeout,
                              capture_output=True, text=True, check=check).stdout

    # ----- up and down

    def start(self):
        for name in ("run", "log", "munge", "state/env_cache"):
            os.makedirs(f"{self.folder}/{name}", exist_ok=True)
        os.chmod(f"{self.folder}/munge", 0o700)
        if not os.path.exists(self.conf):
            self.configure(self.take_ports())
        self.start_munged()
        if self.accounting:
            self.start_database()
            self.start_accounting()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self.wait_idle()

    def take_ports(self):
        """A block of ports that no other cluster of these tests has, until this process ends."""
        if self.block:
            return self.block[0]
        for number in range(BLOCKS):
            number = (os.getpid() * 7 + number) % BLOCKS
            lock = open(f"{tempfile.gettempdir()}/attune-slurm-ports.{number}", "w",
                        encoding="utf-8")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            first = FIRST_PORT + number * PORTS
            if all(self.is_free(first + i) for i in range(len(self.nodes) + 2)):
                self.block = (first, lock)
                return first
            lock.close()
        raise Unavailable("no free block of ports")

    @staticmethod
    def is_free(port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True

    def configure(self, port):
        self.port = port
        values = {
            "ClusterName": self.name,
            "SlurmctldHost": f"{self.host}(127.0.0.1)",
            "SlurmctldPort": port + 1,
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.folder}/run/munge.sock",
            "CryptoType": "crypto/munge",
            "StateSaveLocation": f"{self.folder}/state",
            "SlurmdSpoolDir": f"{self.folder}/spool.%n",
            "SlurmctldPidFile": f"{self.folder}/run/slurmctld.pid",
            "SlurmdPidFile": f"{self.folder}/run/slurmd.%n.pid",
            "SlurmctldLogFile": f"{self.folder}/log/slurmctld.log",
            "SlurmdLogFile": f"{self.folder}/log/slurmd.%n.log",
            "ProctrackType": "proctrack/cgroup" if self.cgroup else "proctrack/linuxproc",
            "TaskPlugin": "task/cgroup" if self.cgroup else "task/none",
            "JobAcctGatherType": "jobacct_gather/linux",
            "JobAcctGatherFrequency": "task=1",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core_Memory",
            "SlurmdParameters": "config_overrides",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters":
                "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=2",
            "PreemptType": "preempt/partition_prio",
            "PreemptMode": "REQUEUE",
            "ReturnToService": 2,
            "MpiDefault": "none",
            "SwitchType": "switch/none",
            "MinJobAge": 300,
            "KillWait": 3,
            "InactiveLimit": 0,
            "SlurmctldTimeout": 10,
            "SlurmdTimeout": 15,
            "BatchStartTimeout": 20,
            "MessageTimeout": 10,
            "JobRequeue": 1,
            "DefMemPerNode": 500,
            # The login environment comes from a file: asking a shell for it takes seconds here.
            "GetEnvTimeout": 0,
            "JobCompType": "jobcomp/filetxt",
            "JobCompLoc": f"{self.folder}/log/jobcomp.txt",
            "AccountingStorageType": "accounting_storage/none",
        }
        if self.gpus:
            values["GresTypes"] = "gpu"
        if self.accounting:
            values.update({
                "AccountingStorageType": "accounting_storage/slurmdbd",
                "AccountingStorageHost": "127.0.0.1",
                "AccountingStoragePort": port,
                "AccountingStoreFlags": "job_comment",
                "AccountingStoragePass": f"{self.folder}/run/munge.sock",
            })
            if self.gpus:
                values["AccountingStorageTRES"] = "gres/gpu"
        values.update(self.extra)
        lines = [f"{key}={value}" for key, value in values.items()]
        gres = f" Gres=gpu:{self.gpus}" if self.gpus else ""
        for i, node in enumerate(self.nodes):
            lines.append(f"NodeName={node} NodeHostname={self.host} NodeAddr=127.0.0.1 "
                         f"Port={port + 2 + i} CPUs={self.cpus} RealMemory=16000 "
                         f"State=UNKNOWN{gres}")
        names = ",".join(self.nodes)
        common = f"Nodes={names} MaxTime=UNLIMITED DefaultTime=60 State=UP"
        lines.append(f"PartitionName=main {common} Default=YES PriorityTier=10")
        lines.append(f"PartitionName=urgent {common} PriorityTier=100 PreemptMode=OFF")
        self.write("slurm.conf", "\n".join(lines) + "\n")
        self.write("state/env_cache/root", f"HOME=/root\nPATH={SBIN}\nUSER=root\nSHELL=/bin/sh\n")
        self.write("log/jobcomp.txt", "")
        if self.cgroup:
            self.write("cgroup.conf", "CgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
                       "ConstrainRAMSpace=yes\nConstrainSwapSpace=no\nConstrainCores=no\n"
                       "ConstrainDevices=no\n")
        if self.gpus:
            self.make_gpus()

    def make_gpus(self):
        """Device nodes that are /dev/null stand for GPUs: slurmd counts files of such a name."""
        os.makedirs(f"{self.folder}/gpu", exist_ok=True)
        for i in range(self.gpus):
            path = f"{self.folder}/gpu/nvidia{i}"
            if not os.path.exists(path):
                try:
                    os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
                except PermissionError:
                    self.write(f"gpu/nvidia{i}", "")
        last = f"[0-{self.gpus - 1}]" if self.gpus > 1 else "0"
        self.write("gres.conf", f"Name=gpu File={self.folder}/gpu/nvidia{last}\n")

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def log(self, name):
        return open(f"{self.folder}/log/{name}", "ab")

    def daemon(self, name, argv, **env):
        with self.log(f"{name}.out") as out:
            code = subprocess.run(argv, env=self.env(**env), stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=out, check=False).returncode
        if code != 0:
            raise RuntimeError(f"{name} did not start: {self.tail(name + '.out')}")

    def tail(self, name):
        with open(f"{self.folder}/log/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()[-1500:]

    def start_munged(self):
        if self.is_up("munged"):
            return
        key = f"{self.folder}/munge/munge.key"
        if not os.path.exists(key):
            with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(os.urandom(128))
        for name in ("munge.sock", "munge.sock.lock"):
            if os.path.exists(f"{self.folder}/run/{name}"):
                os.unlink(f"{self.folder}/run/{name}")
        # --force: a folder below a scratch folder that all may write is refused otherwise.
        self.daemon("munged", [
            "munged", "--force", f"--key-file={key}", f"--socket={self.folder}/run/munge.sock",
            f"--pid-file={self.folder}/run/munged.pid", "--num-threads=2",
            f"--log-file={self.folder}/log/munged.log",
            f"--seed-file={self.folder}/munge/munged.seed"])

    def start_database(self):
        if self.is_up("mariadbd"):
            return
        data, sock = f"{self.folder}/mysql", f"{self.folder}/run/mysql.sock"
        if not os.path.isdir(f"{data}/mysql"):
            os.makedirs(data, mode=0o700, exist_ok=True)
            self.daemon("mariadb-install", [
                "mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}",
                "--auth-root-authentication-method=normal", "--skip-test-db"])
        with self.log("mariadbd.out") as out:
            subprocess.Popen([
                "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}",
                f"--socket={sock}", "--skip-networking",
                f"--pid-file={self.folder}/run/mariadbd.pid", "--innodb-buffer-pool-size=32M",
                "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"],
                env=self.env(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True)
        until(60, lambda: subprocess.run(
            ["mariadb", "--no-defaults", "-uroot", f"-S{sock}", "-eselect 1"], env=self.env(),
            capture_output=True, check=False).returncode == 0, "MariaDB")

    def start_accounting(self):
        if self.is_up("slurmdbd"):
            return
        self.write("slurmdbd.conf", "\n".join([
            "AuthType=auth/munge", f"AuthInfo=socket={self.folder}/run/munge.sock",
            f"DbdHost={self.host}", "DbdAddr=127.0.0.1", f"DbdPort={self.port}", "SlurmUser=root",
            f"LogFile={self.folder}/log/slurmdbd.log", f"PidFile={self.folder}/run/slurmdbd.pid",
            "StorageType=accounting_storage/mysql", "StorageHost=localhost", "StorageUser=root",
            "StorageLoc=slurm_acct"]) + "\n")
        os.chmod(f"{self.folder}/slurmdbd.conf", 0o600)
        # libmysqlclient takes the socket of "localhost" from this variable.
        self.daemon("slurmdbd", ["slurmdbd"], MYSQL_UNIX_PORT=f"{self.folder}/run/mysql.sock")
        until(60, lambda: subprocess.run(
            ["sacctmgr", "-n", "list", "cluster"], env=self.env(), capture_output=True,
            check=False).returncode == 0, "slurmdbd")
        subprocess.run(["sacctmgr", "-i", "add", "cluster", self.name], env=self.env(),
                       capture_output=True, check=False)

    def start_controller(self):
        if not self.is_up("slurmctld"):
            self.daemon("slurmctld", ["slurmctld", "-f", self.conf])
        until(30, lambda: subprocess.run(["scontrol", "ping"], env=self.env(), timeout=20,
                                         capture_output=True, check=False).returncode == 0,
              "slurmctld")

    def start_node(self, node):
        if not self.is_up(f"slurmd.{node}", "slurmd"):
            os.makedirs(f"{self.folder}/spool.{node}", exist_ok=True)
            self.daemon(f"slurmd.{node}", ["slurmd", "-f", self.conf, "-N", node])

    def node_states(self):
        out = self.call("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T", check=False)
        return dict(line.split() for line in out.splitlines() if len(line.split()) == 2)

    def wait_idle(self, seconds=60):
        until(seconds, lambda: [s for s in self.node_states().values() if s in (
            "idle", "mixed", "allocated")].__len__() == len(self.nodes), "all nodes")

    # ----- daemons by their pid files, after a look at who they are

    def pid(self, name, comm=None):
        try:
            with open(f"{self.folder}/run/{name}.pid", encoding="utf-8") as file:
                pid = int(file.read().strip())
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                what = file.read().strip()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{pid}/environ", "rb") as file:
                words += file.read()
        except (OSError, ValueError):
            return None
        ours = what.startswith(comm or name) and self.folder.encode() in words
        return pid if ours and alive(pid) else None

    def is_up(self, name, comm=None):
        return self.pid(name, comm) is not None

    def kill(self, name, comm=None, number=signal.SIGKILL):
        pid = self.pid(name, comm)
        if pid is None:
            return False
        os.kill(pid, number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            until(20, lambda: not alive(pid), f"the end of {name}")
        return True

    def kill_controller(self):
        return self.kill("slurmctld")

    def kill_node(self, node, steps=True):
        """The node's daemon and its step daemons: what they started lives on."""
        killed = self.kill(f"slurmd.{node}", "slurmd")
        if steps:
            for pid in self.step_daemons(node):
                os.kill(pid, signal.SIGKILL)
        return killed

    def step_daemons(self, node=None):
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/comm", encoding="utf-8") as file:
                    if file.read().strip() != "slurmstepd":
                        continue
                with open(f"/proc/{entry}/environ", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if f"SLURM_CONF={self.conf}".encode() not in words:
                continue
            if node is None or self.node_of(int(entry)) == node:
                found.append(int(entry))
        return found

    def node_of(self, pid):
        """By the node's spool folder or socket among its open files."""
        try:
            names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            names.append(os.readlink(f"/proc/{pid}/cwd"))
        except OSError:
            return None
        for node in self.nodes:
            if any(f"spool.{node}/" in n or f"slurmd.{node}." in n or n.endswith(f"spool.{node}")
                   for n in names):
                return node
        return None

    def stop(self):
        if self.is_up("slurmctld"):
            for argv in (["scancel", "--state=PENDING"], ["scancel", "--full", "--signal=KILL",
                                                          "--state=RUNNING"],
                         ["scancel", "--state=RUNNING"]):
                subprocess.run(argv + ["--user=root"], env=self.env(), timeout=30,
                               capture_output=True, check=False)
        for node in self.nodes:
            self.end(f"slurmd.{node}", "slurmd")
        for pid in self.step_daemons():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for name in ("slurmctld", "slurmdbd", "mariadbd", "munged"):
            self.end(name)
        if self.block:
            self.block[1].close()
            self.block = None
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def end(self, name, comm=None):
        pid = self.pid(name, comm)
        if pid is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            end = time.monotonic() + 5
            while alive(pid) and time.monotonic() < end:
                time.sleep(0.02)
            if not alive(pid):
                return

    # ----- what it remembers

    def has_saved(self, name):
        """Whether slurmctld has saved a job of that name."""
        try:
            with open(f"{self.folder}/state/job_state", "rb") as file:
                return name.encode() in file.read()
        except OSError:
            return False

    def completed(self):
        """Lines of jobcomp/filetxt as dictionaries."""
        out = []
        with open(f"{self.folder}/log/jobcomp.txt", encoding="utf-8", errors="replace") as file:
            for line in file:
                pairs = [word.split("=", 1) for word in line.split() if "=" in word]
                if pairs:
                    out.append(dict(pairs))
        return out

    def jobs(self):
        """Every job in memory: (id, name, state)."""
        out = self.call("squeue", "-h", "-t", "all", "-o", "%i %j %T", timeout=30)
        return [tuple(line.split()) for line in out.splitlines() if len(line.split()) == 3]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["start", "stop"])
    parser.add_argument("folder")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--accounting", action="store_true")
    parser.add_argument("--cgroup", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    folder = os.path.abspath(options.folder)
    try:
        cluster = Cluster(nodes=options.nodes, folder=folder, gpus=options.gpus,
                          accounting=options.accounting, cgroup=options.cgroup)
        if options.what == "stop":
            cluster.stop()
        else:
            cluster.start()
            print(f"export SLURM_CONF={cluster.conf}")
    except Unavailable as why:
        print(f"cluster.py: {why}", file=sys.stderr)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
