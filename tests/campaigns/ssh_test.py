"""Whole campaigns over a real sshd (tests/real/sshd), with the real program and a fake job."""

import json
import os
import signal
import subprocess
import sys
import time

import world
from world import Failure, Skip, expect

SSHD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "real", "sshd", "sshd.sh")


class Host:
    """A server of the case's own; it takes the place of ssh for the attune processes of a world.
    `session`: further variables of its sessions."""

    def __init__(self, w, **session):
        self.session = " ".join(f"{name}={value}" for name, value in session.items())
        self.folder = f"{w.folder}/sshd"
        self.world = w
        w.closing.append(lambda: self.do("stop"))
        os.mkdir(self.folder)
        self.start()
        self.env = {"ATTUNE_SSH": f"{self.folder}/ssh", "XDG_RUNTIME_DIR": self.folder}

    def do(self, verb):
        return subprocess.run([SSHD, verb, self.folder], stdin=subprocess.DEVNULL, text=True,
                              env={**os.environ, "SSHD_ENV": self.session},
                              capture_output=True, check=False)

    def start(self):
        done = self.do("start")
        if done.returncode == 77:
            raise Skip(done.stderr.strip())
        expect(done.returncode == 0, f"sshd: {done.stderr}")


    def drop_again_and_again(self, process):
        """Ends every connection until the process ends; how often. In between a line lives as long
        as a login and the wrapper's bytes take now, twice: one that never does is no line."""
        drops = 0
        while process.alive():
            begun = time.monotonic()
            with open(world.WRAPPER, "rb") as file:
                subprocess.run([self.env["ATTUNE_SSH"], "node", "cat >/dev/null"], stdin=file,
                               check=True)
            time.sleep(max(0.5, time.monotonic() - begun))
            self.do("drop")
            drops += 1
        return drops


def on_host(w, hosts=("node",), **more):
    """The fake job of every case, on the host; its runs lie in host/."""
    host = Host(w)
    w.recipe(**more)
    with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
        text = file.read()
    w.write("recipe.yaml", text + f"launcher: {{kind: ssh, hosts: [{', '.join(hosts)}],"
                                  f" run_root: {w.folder}/host}}\n")
    return host


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(") ")[2][:1] != "Z"
    except OSError:
        return False


def says(process, *texts):
    for text in texts:
        expect(text in process.text(), f"'{text}' is not said in: {process.text()}")


def ends(process, code):
    expect(process.code == code, f"exit {process.code}, not {code}: {process.text()}")


def ships(w, process):
    ends(process, 0)
    says(process, "micro_batch")
    expect(os.path.exists(f"{w.folder}/recipe.tuned.yaml"), "nothing was shipped")
    w.check_books()


# ----- a campaign, and what a user sees of it


def campaign_ships_over_ssh(w):
    host = on_host(w)
    ships(w, w.run(env=host.env))
    logs = w.attune("logs", "r001", env=host.env)
    ends(logs, 0)
    says(logs, "iteration")
    for folder in w.files("*/a0"):
        there = folder.replace(f"{w.state}/runs", f"{w.folder}/host")
        for name in ("start", "exit", "r001/out"):
            if os.path.exists(f"{there}/{name}"):
                with open(f"{there}/{name}", "rb") as one, open(f"{folder}/{name}", "rb") as two:
                    expect(one.read() == two.read(), f"the mirror of {name} differs")


def line_drops_all_the_time(w):
    """The server ends every connection again and again; the run table is an undisturbed one's."""
    host = on_host(w)
    process = w.start_run(env=host.env)
    drops = host.drop_again_and_again(process)
    ships(w, process.wait())
    expect(drops > 1, f"the line was dropped {drops} times only")
    expect(not any(kind == "run_ended" and body["detail"]["end"] in ("lost", "node_failed")
                   for _, kind, body in w.events()), "a dropped line ended a run")


def killed_and_resumed(w):
    host = on_host(w)
    process = w.start_run(env=host.env)
    w.wait_event("steps_seen", process)
    process.send(signal.SIGKILL)
    process.wait()
    ships(w, w.attune("resume", env=host.env))
    expect(w.kinds().count("launch_bound") == w.kinds().count("launch_intended"),
           "a launch was bound twice or never")


def two_attunes_on_one_campaign(w):
    host = on_host(w)
    first = w.start_run(env=host.env)
    w.wait_event("launch_bound", first)
    second = w.run(env=host.env)
    ends(second, 75)
    # The first one stopped, taken over, and woken up again: it may touch nothing any more.
    first.send(signal.SIGSTOP)
    third = w.start("resume", "--take-over", env=host.env)
    w.wait_event("resumed", third)
    first.send(signal.SIGCONT)
    ends(first.wait(), 75)
    ships(w, third.wait())


# ----- hosts that are not there


def host_down_before_a_run(w):
    host = on_host(w)
    host.do("stop")
    process = w.start_run(env=host.env)
    # It tries for a while before it gives up; being told to stop it leaves at once.
    w.wait_event("launch_intended", process)
    time.sleep(1)
    process.send(signal.SIGTERM)
    process.wait()
    expect(process.code in (75, 143), f"exit {process.code}: {process.text()}")
    expect(not os.path.exists(f"{w.folder}/host"), "something was started")
    host.start()
    ships(w, w.attune("resume", env=host.env))


def refused_key(w):
    host = on_host(w)
    os.remove(f"{host.folder}/client.pub")
    p = w.run(env=host.env)
    ends(p, 4)
    says(p, "node: ", "Permission denied")


def host_names_are_no_options(w):
    w.recipe()
    with open(f"{w.folder}/recipe.yaml", "a", encoding="utf-8") as file:
        file.write("launcher: {kind: ssh, hosts: [\"-oProxyCommand=touch pwned\"]}\n")
    p = w.attune("check", "recipe.yaml")
    ends(p, 2)
    says(p, "recipe.yaml:", "is no name of a host")
    expect(not os.path.exists(f"{w.folder}/pwned"), "it was an option")


# ----- detaching


def detaches_on(w, number):
    host = on_host(w)
    process = w.start_run(env=host.env)
    w.wait_event("steps_seen", process)
    begun = time.monotonic()
    process.send(number)
    process.wait()
    took = time.monotonic() - begun
    expect(took < 5, f"it took {took:.1f} s to leave")
    ends(process, 143 if number == signal.SIGTERM else process.code)
    running = [token for token in w.tokens() if not os.path.exists(f"{w.folder}/host/{token}/a0/exit")]
    expect(len(running) == 1, "the job did not go on")
    ships(w, w.attune("resume", env=host.env))


def sigterm_detaches(w):
    detaches_on(w, signal.SIGTERM)


def sighup_detaches(w):
    detaches_on(w, signal.SIGHUP)


def detached_run_goes_on_by_itself(w):
    host = on_host(w)
    p = w.run("--detach", "--json", env=host.env)
    ends(p, 0)
    told = json.loads(p.out)
    w.wait_for("the end", lambda: "ended" in w.attune("status", told["campaign"]).text()
               or os.path.exists(f"{w.folder}/recipe.tuned.yaml"))
    w.wait_for("its process to leave", lambda: not alive(told["pid"]))
    expect(os.path.exists(f"{w.folder}/recipe.tuned.yaml"), "nothing was shipped")
    with open(told["log"], encoding="utf-8") as file:
        expect("micro_batch" in file.read(), "its log says nothing of the end")
    w.check_books()


def detached_run_that_cannot_begin_says_why(w):
    w.recipe()
    p = w.attune("run", "recipe.yaml", "--detach", "--set", "launcher.kind=ssh")
    ends(p, 2)
    says(p, "launcher.hosts")
    first = w.start_run()
    w.wait_event("launch_bound", first)
    p = w.run("--detach")
    ends(p, 75)
    says(p, "another attune run works on")
    first.send(signal.SIGTERM)
    first.wait()


# ----- doctor


def doctor_asks_the_hosts(w):
    host = on_host(w, hosts=("node", "node2"))
    p = w.attune("doctor", "recipe.yaml", env=host.env)
    says(p, "host node: ", "host node2: ", "answers in", "cores")
    ends(p, 0)
    p = w.attune("plan", "recipe.yaml", "--ask-scheduler", "--json", env=host.env)
    ends(p, 0)
    rows = json.loads(p.out)["scheduler"]
    expect([row["what"] for row in rows if row["state"] == "ok"] == ["host node", "host node2"],
           f"not each host once: {rows}")
    host.do("stop")
    p = w.attune("doctor", "recipe.yaml", env=host.env)
    ends(p, 75)
    says(p, "FAIL", "host node: node: ssh: connect to host")


CASES = {name: case for name, case in list(globals().items())
         if not isinstance(case, type) and callable(case) and getattr(case, "__module__", "") == __name__
         and case.__code__.co_varnames[:1] == ("w",) and case.__code__.co_argcount == 1}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
