"""Bad input and bad luck, with the real program, the real launcher and real processes."""

import hashlib
import os
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys

import world
from world import Failure, Skip, expect


def says(process, *texts):
    for text in texts:
        expect(text in process.text(), f"'{text}' is not said in: {process.text()}")


def ends(process, code):
    expect(process.code == code, f"exit {process.code}, not {code}: {process.text()}")


def tree(folder):
    """{path: hash} of every file below."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                found[os.path.join(root, name)] = hashlib.sha256(file.read()).hexdigest()
    return found


# ----- before anything is launched


def budget_below_calibration(w):
    w.recipe()
    p = w.run("--budget", "0.01")
    ends(p, 5)
    says(p, "budget")
    expect("launch_intended" not in w.kinds(), "something was launched")
    expect(not w.files("*"), "a run folder was made")


def state_folder_is_a_file(w):
    w.recipe()
    w.write("state", "a file\n")
    p = w.run()
    ends(p, 4)
    says(p, "error: ", w.state)
    expect(open(w.state, encoding="utf-8").read() == "a file\n", "the file was touched")


def state_folder_not_writable(w):
    """As a user that is not root: root may write everywhere."""
    w.recipe()
    os.mkdir(w.state, 0o755)
    os.chmod(w.folder, 0o755)
    more = {}
    if os.geteuid() == 0:
        if subprocess.run([world.ATTUNE, "--version"], user=65534, stdout=subprocess.DEVNULL,
                          check=False).returncode != 0:
            raise Skip("user nobody can't execute the program here")
        more = {"user": 65534, "group": 65534, "extra_groups": []}
    else:
        os.chmod(w.state, 0o500)
    p = w.run(**more)
    ends(p, 4)
    says(p, "error: ", w.state, "--state")
    expect(not os.listdir(w.state), "something was written")


def newer_database(w):
    w.recipe()
    w.attune("run", "recipe.yaml", "--budget", "0.01")
    with sqlite3.connect(f"{w.state}/attune.db") as db:
        db.execute("PRAGMA user_version = 999")
    db.close()
    before = tree(w.state)
    for words in (["run", "recipe.yaml"], ["resume"]):
        p = w.attune(*words)
        ends(p, 2)
        says(p, "newer attune", "999")
    expect(tree(w.state) == before, "a file of a newer attune was touched")


def disk_full(w):
    if os.geteuid() != 0:
        raise Skip("needs root for a small file system")
    w.recipe()
    os.mkdir(w.state)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", w.state]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        raise Skip("a tmpfs can't be mounted here")
    try:
        # Fills up while the campaign runs: what the file system gives beyond its start is taken.
        p = w.start_run()
        w.wait_job(p)
        room = os.statvfs(w.state)
        try:
            with open(f"{w.state}/ballast", "wb") as file:
                for _ in range(room.f_bavail + 1):
                    file.write(b"x" * room.f_frsize)
                    file.flush()
        except OSError:
            pass
        p.wait()
        ends(p, 1)
        says(p, "error: ", "full")
        os.unlink(f"{w.state}/ballast")
        subprocess.run(["mount", "-o", "remount,size=64m", w.state], check=True)
        w.resume()
        w.check_books()
    finally:
        w.close(keep=True)
        subprocess.run(["umount", "-l", w.state], check=False)


def checkpoint_missing(w):
    w.recipe()
    shutil.rmtree(f"{w.folder}/ckpt")
    p = w.run()
    expect(p.code not in (0, 1), f"exit {p.code}")
    says(p, "ckpt")
    expect(not w.files("*"), "a run folder was made")


# ----- jobs that behave badly


def baseline_fails(w):
    w.recipe({"fake-die-at": world.START + 3})
    p = w.run()
    ends(p, 7)
    says(p, "RuntimeError: the fake training was told to die here", "/out:")
    w.check_books()
    expect(not any(row.startswith("candidate") for row in w.table()), "the search went on")


def baseline_not_there(w):
    w.recipe()
    with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
        text = file.read()
    w.write("recipe.yaml", text.replace(world.TRAIN, "/nonexistent/train"))
    p = w.run()
    ends(p, 7)
    says(p, "/nonexistent/train")
    w.check_books()


def first_run(w, args, standings=("reference",)):
    """The first run of a misbehaving job to its end, then an orderly stop."""
    w.recipe(args)
    p = w.start_run()
    w.wait_job(p)
    p.send(signal.SIGINT)
    ends(p.wait(), 130)
    wanted = [[f"calibration:baseline:{standing}"] for standing in standings]
    expect(w.table() in wanted, f"{w.table()}: {p.text()}")


def ignores_term(w):
    first_run(w, {"fake-ignore-term": True})
    expect(world.audit.one(world.audit.read_record(w.files("*/a0/r001/exit")[0]), "signal") == "9",
           "it was not killed")
    w.check_books()


def prints_100_mb(w):
    # Step lines that wait behind 100 MB are stamped late, so the run may be no measurement; it is
    # never a failure, and its log is whole.
    first_run(w, {"fake-print-mb": 100}, ("reference", "invalid", "environment"))
    w.check_books()
    out = os.stat(w.files("*/a0/r001/out")[0]).st_size
    expect(out > 100 << 20, f"the log holds {out} bytes")


def child_outlives_it(w):
    first_run(w, {"fake-child-ms": 600_000})
    token = next(b["token"] for _, k, b in w.events() if k == "launch_intended")
    expect(not world.audit.carriers({token}), "the escaped child lives on")
    record = world.audit.read_record(f"{w.state}/runs/{token}/a0/r001/exit")
    expect(int(world.audit.one(record, "strays")) >= 1, "the stray is not in the record")
    w.check_books()


def no_gain(w):
    w.recipe(declare=["lever: form, flag: --optimizer-form, values: [single, foreach]"
                      ", class: batching"])
    p = w.run("--exit-status")
    ends(p, 10)
    says(p, "no gain beyond the band", "stays at")
    expect(not os.path.exists(f"{w.folder}/recipe.tuned.yaml"), "a recipe was shipped")
    expect("candidate:form-foreach:tie" in w.table(), f"{w.table()}")
    w.check_books()


def candidates_that_cheat_or_fail(w):
    """Each lever makes the job misbehave in one way, and none wins. A step printed twice counts
    once (docs/formats/logs.md), so that one only ties."""
    bad = {"half_times": ("true", "invalid"), "twice": ("45", "tie"),
           "printed_batch": ("4", "invalid"), "loss_shift": ("0.05", "rejected"),
           "nan_at": ("44", "failed"), "die_at": ("43", "failed"), "silent": ("true", "failed")}
    w.recipe(declare=[f"lever: {name}, flag: --fake-{name.replace('_', '-')},"
                      f" values: [{value}], class: batching" for name, (value, _) in bad.items()])
    p = w.run("--exit-status")
    found = {row.split(":")[1].rsplit("-", 1)[0]: row.split(":")[2]
             for row in w.table() if row.startswith("candidate")}
    expect(found == {name: standing for name, (_, standing) in bad.items()},
           f"{found}: {p.text()}")
    ends(p, 10)
    w.check_books()


def band_too_wide(w):
    """The baseline's own runs differ so much that the only lever's gain is inside the band."""
    w.recipe({"fake-run-noise": 0.15, "fake-seed": 3}, calibration_runs=3)
    p = w.run("--exit-status")
    ends(p, 10)
    says(p, "no gain beyond the band", "calibration runs, or a quieter machine")
    w.check_books()


# ----- two processes, one campaign


def second_run(w):
    w.recipe()
    p = w.start_run()
    w.wait_job(p)
    for words in (["run", "recipe.yaml"], ["resume"]):
        second = w.attune(*words)
        ends(second, 75)
        expect(p.alive(), "the first one ended meanwhile")
        says(second, "another attune")
    p.wait()
    ends(p, 0)
    w.check_books()


def stop_between_commits(w, p):
    """SIGSTOP, not inside a transaction: a stopped process keeps the database's lock, and then
    nobody can write until it goes on or is gone (said as 75: try again)."""
    while True:
        p.send(signal.SIGSTOP)
        db = sqlite3.connect(f"{w.state}/attune.db", timeout=0.2)
        try:
            db.execute("BEGIN IMMEDIATE")
            db.rollback()
            return
        except sqlite3.OperationalError:
            p.send(signal.SIGCONT)
        finally:
            db.close()


def stopped_writer(w):
    """SIGSTOP, take-over, SIGCONT: the old writer writes nothing and launches nothing."""
    w.recipe()
    p = w.start_run()
    w.wait_job(p)
    stop_between_commits(w, p)
    ends(w.attune("resume"), 75)
    w.resume("--take-over")
    w.check_books()
    before = (w.events(), sorted(w.files("*")), tree(f"{w.state}/shipped"))
    p.send(signal.SIGCONT)
    p.wait()
    ends(p, 75)
    says(p, "taken over")
    expect((w.events(), sorted(w.files("*")), tree(f"{w.state}/shipped")) == before,
           "the old writer left a trace")


# ----- interruptions


def ctrl_c_drains(w):
    w.recipe()
    p = w.start_run()
    w.wait_job(p)
    p.send(signal.SIGINT)
    p.wait()
    ends(p, 130)
    says(p, "attune resume")
    expect(w.table() == ["calibration:baseline:reference"], f"not drained: {w.table()}")
    expect(not world.audit.carriers(w.tokens()), "a job runs on")
    w.resume()
    w.check_books()


def second_ctrl_c_cancels(w):
    w.recipe()
    p = w.start_run()
    w.wait_job(p)
    p.send(signal.SIGINT)
    w.wait_event("user_asked", p)
    p.send(signal.SIGINT)
    p.wait()
    ends(p, 130)
    expect(not world.audit.carriers(w.tokens()), "a job runs on")
    expect("launch_ended" in w.kinds(), "the launch is still open")
    w.resume()
    w.check_books()


def term_detaches(w):
    w.recipe()
    p = w.start_run()
    job = w.wait_job(p)
    pid = int(world.audit.one(world.audit.read_record(job), "pid"))
    p.send(signal.SIGTERM)
    p.wait()
    ends(p, 143)
    expect("launch_ended" not in w.kinds(), "the launch was ended")
    expect(pid in world.audit.carriers(w.tokens()), "the job did not live on")
    r = w.resume()
    w.check_books()
    expect(w.kinds().count("launch_bound") == w.kinds().count("launch_intended"), r.text())


def stop_from_elsewhere(w):
    for how, code in (("--after-run", 130), ("--now", 143), ("--cancel-jobs", 130)):
        w.recipe()
        p = w.start_run() if how == "--after-run" else w.start("resume")
        w.wait_job(p)
        asked = w.attune("stop", how)
        ends(asked, 0)
        p.wait()
        ends(p, code)
        running = world.audit.carriers(w.tokens())
        expect(bool(running) == (how == "--now"), f"{how}: {running}")
    nobody = w.attune("stop")
    ends(nobody, 3)
    says(nobody, "no attune works on it")
    w.resume()
    w.check_books()
    ends(w.attune("stop"), 3)


def cancel_when_nobody_is_there(w):
    """attune is gone, its job is not: stop --cancel-jobs is kept for the next one, stop is not."""
    w.recipe()
    p = w.start_run()
    w.wait_job(p)
    p.send(signal.SIGKILL)
    p.popen.wait()
    ends(w.attune("stop"), 3)
    says(w.attune("stop", "--cancel-jobs"), "attune resume")
    ends(w.attune("resume"), 130)
    expect(not world.audit.carriers(w.tokens()), "a job runs on")
    w.resume()
    w.check_books()


def retry(w):
    """A candidate that ran out of memory is launched again when asked, and only then."""
    w.recipe({"fake-oom-above": 1},
             declare=["lever: micro_batch, flag: --micro-batch-size, values: [1, 2]"
                      ", class: batching",
                      "lever: form, flag: --optimizer-form, values: [single, foreach, flat]"
                      ", class: batching"])
    p = w.start_run()
    w.wait_event("judged", p, count=2)
    p.send(signal.SIGINT)
    p.wait()
    failed = [row for row in w.table() if row.endswith(":failed")]
    expect(failed, f"no failed candidate: {w.table()}")
    label = failed[0].split(":")[1]
    ends(w.attune("retry", "baseline"), 2)
    ends(w.attune("retry", label), 0)
    w.attune("resume")
    again = [row for row in w.table() if row == failed[0] or f"{label}" in row]
    expect(len(again) >= 2, f"not launched again: {w.table()}")
    w.check_books()
    ends(w.attune("retry", label), 2)


# ----- what a user keeps


def checkpoint_is_kept(w):
    """--save X --load X: X stays as it is, and what ships keeps the user's own arguments."""
    w.recipe()
    before = tree(f"{w.folder}/ckpt")
    p = w.run("--exit-status")
    ends(p, 0)
    expect(tree(f"{w.folder}/ckpt") == before, "the checkpoint was touched")
    bundle = f"{w.state}/shipped/shipped-{w.campaign()}"
    shipped = open(f"{bundle}/command.sh", encoding="utf-8").read()
    given = open(f"{bundle}/baseline-command.sh", encoding="utf-8").read()
    shipped, given = shlex.split(shipped), shlex.split(given)
    for flag, value in (("save", "ckpt"), ("load", "ckpt"), ("save-interval", "100"),
                        ("exit-interval", "500"), ("eval-interval", "100"), ("eval-iters", "4"),
                        ("log-interval", "10")):
        expect(shipped[shipped.index(f"--{flag}") + 1] == value, f"--{flag} in {shipped}")
    differ = [(a, b) for a, b in zip(given, shipped, strict=True) if a != b]
    expect(differ == [("1", "2")], f"more than the lever differs: {given} {shipped}")
    check = w.attune("check", "recipe.tuned.yaml")
    ends(check, 0)
    w.check_books()
    # Ended: nothing to do, said by each way to ask.
    ends(w.attune("resume"), 3)
    ends(w.attune("run", "recipe.yaml", "--if-changed"), 3)
    expect(len(world.audit.campaigns(w.state)) == 1, "a campaign was opened")


def argument_names_a_path_to_write(w):
    """Whether --fake-write names what is read or written nobody states: refused, not tried."""
    w.recipe({"fake-write": "ckpt/hook.txt"})
    before = tree(f"{w.folder}/ckpt")
    p = w.run()
    ends(p, 2)
    says(p, "paths.unknown", "recipe.yaml:")
    expect(tree(f"{w.folder}/ckpt") == before, "it was run")
    expect(not w.files("*"), "a run folder was made")


def hook_writes_to_checkpoint(w):
    """A hook that no argument shows: its first write stops the campaign before the next launch."""
    w.recipe(calibration_runs=2)
    w.write("hooked", f"""#!/usr/bin/python3
import os, sys
with open("ckpt/hook.txt", "w") as file:
    file.write("written by a hook")
os.execv({world.TRAIN!r}, [{world.TRAIN!r}, *sys.argv[1:]])
""")
    os.chmod(f"{w.folder}/hooked", stat.S_IRWXU)
    with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
        text = file.read()
    w.write("recipe.yaml", text.replace(world.TRAIN, "./hooked"))
    p = w.run()
    ends(p, 75)
    says(p, "hook.txt", "ckpt")
    expect(w.kinds().count("launch_bound") == 1, "it was launched again")
    w.check_books()


def edited_recipe(w):
    """A recipe that was edited while its campaign was interrupted: refused by name, but for what
    nothing is decided by. What stood in --set is no edit."""
    w.recipe()
    p = w.start_run("--set", "measure.half_drift_max=0.6")
    w.wait_job(p)
    p.send(signal.SIGTERM)
    ends(p.wait(), 143)
    with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
        text = file.read()
    w.write("recipe.yaml", text.replace("  steps: 8", "  steps: 9"))
    before = w.kinds()
    refused = w.attune("resume")
    ends(refused, 2)
    says(refused, "measure.steps 8 -> 9", "1 differences", "attune run")
    expect(w.kinds() == before, "something was written")
    beside = w.attune("run", "recipe.yaml", "--set", "budget.gpu_hours=0.00001")
    ends(beside, 5)  # a campaign of its own, too poor to launch anything
    says(beside, "was interrupted with 1 launches open")
    w.write("recipe.yaml", text.replace("gpu_hours: auto", "gpu_hours: 7")
            + "price: {gpu_hour_usd: 2}\n")
    first = world.audit.campaigns(w.state)[0]
    r = w.resume(first)
    says(r, "of 7.00 GPU-h ($", "at $2.00)")
    faults = world.audit.audit(w.state, first)
    expect(not faults, "; ".join(faults))


def recipe_file_is_gone(w):
    """The campaign has its recipe: it goes on without the file, and says so."""
    w.recipe()
    p = w.start_run()
    w.wait_job(p)
    p.send(signal.SIGTERM)
    ends(p.wait(), 143)
    os.rename(f"{w.folder}/recipe.yaml", f"{w.folder}/moved.yaml")
    p = w.start("resume")
    w.wait_event("judged", p)
    p.send(signal.SIGTERM)
    p.wait()
    says(p, "recipe.yaml", "goes on with its recipe as it was")
    os.rename(f"{w.folder}/moved.yaml", f"{w.folder}/recipe.yaml")
    w.resume()
    w.check_books()


def logs_of_a_run(w):
    """stderr by itself, and what is said when the folder was removed."""
    w.recipe()
    w.write("noisy", f"""#!/usr/bin/python3
import os, sys
os.write(1, b"on stdout\\n")
os.write(2, b"on stderr\\n")
os.execv({world.TRAIN!r}, [{world.TRAIN!r}, *sys.argv[1:]])
""")
    os.chmod(f"{w.folder}/noisy", stat.S_IRWXU)
    with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
        text = file.read()
    w.write("recipe.yaml", text.replace(world.TRAIN, "./noisy"))
    ends(w.run(), 0)
    whole = w.attune("logs", "r001")
    says(whole, "on stdout", "on stderr", "iteration")
    expect(w.attune("logs", "r001", "--stderr").out == "on stderr\n",
           w.attune("logs", "r001", "--stderr").text())
    expect(w.attune("logs", "r001", "--stderr", "-f", "--tail", "1").out == "", "more than a KiB")
    os.remove(w.files("*/a0/r001/errs")[0])
    older = w.attune("logs", "r001", "--stderr")
    ends(older, 2)
    says(older, "did not tell stderr apart")
    ends(w.attune("db", "gc", "--keep-logs", "1"), 0)
    ends(w.attune("logs", "r001"), 0)
    says(w.attune("db", "gc", "--keep-logs", "0"), "run folders removed")
    gone = w.attune("logs", "r001")
    says(gone, "not there any more", "attune show r001")
    says(w.attune("show", "r001"), "reference")


def link_as_run_folder(w):
    """Somebody planted a link in place of the run folder: nothing is written behind it."""
    victim = f"{w.folder}/victim"
    os.mkdir(victim)
    w.recipe()
    w.write("wrapper", f"""#!/usr/bin/python3
import os, re, subprocess, sys
plan = sys.stdin.buffer.read()
token = re.search(rb"^token [0-9]+:(.*)$", plan, re.M).group(1).decode()
os.makedirs(sys.argv[2], exist_ok=True)
if not os.path.lexists(sys.argv[2] + "/" + token):
    os.symlink({victim!r}, sys.argv[2] + "/" + token)
sys.exit(subprocess.run([{world.WRAPPER!r}, *sys.argv[1:]], input=plan).returncode)
""")
    os.chmod(f"{w.folder}/wrapper", stat.S_IRWXU)
    p = w.run(env={"ATTUNE_WRAPPER": f"{w.folder}/wrapper"})
    expect(p.code not in (0, 1), f"exit {p.code}: {p.text()}")
    says(p, "symbolic link")
    expect(not os.listdir(victim), "something was written behind the link")


def files_beside_the_database(w):
    """--events, --metrics-textfile, notify and explain of one short campaign."""
    w.recipe()
    with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
        text = file.read()
    # A job of its own that leaves a trace, as a profiler would.
    w.write("traced", f"""#!/usr/bin/python3
import os, sys
words = sys.argv[1:]
if "--trace-dir" in words:
    folder = words[words.index("--trace-dir") + 1]
    os.makedirs(folder, exist_ok=True)
    events = []
    for step in range(3):
        at = 1000000 + step * 1000
        events.append('{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":1,"tid":1,"ts":%d,"dur":990}}' % (step, at))
        for k in range(10):
            n = step * 10 + k + 1
            events.append('{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":%d,"dur":4,"args":{{"correlation":%d}}}}' % (at + k * 100, n))
            events.append('{{"ph":"X","cat":"kernel","name":"sgemm_128x128","pid":0,"tid":7,"ts":%d,"dur":40,"args":{{"device":0,"stream":7,"correlation":%d}}}}' % (at + k * 100 + 10, n))
    with open(folder + "/rank0.pt.trace.json", "w") as out:
        out.write('{{"schemaVersion":1,"traceEvents":[' + ",".join(events) + "]}}")
os.execv({world.TRAIN!r}, [{world.TRAIN!r}, *words])
""")
    os.chmod(f"{w.folder}/traced", stat.S_IRWXU)
    w.write("recipe.yaml", text.replace(world.TRAIN, "./traced").replace(
        "profile: {off: true}", 'profile: {set: {trace-dir: "{run}/traces"}}')
        + "notify: {on: [end, fail]}\n")
    w.write("told", f"""#!/usr/bin/python3
import sys
with open({w.folder!r} + "/told.json", "a") as out:
    out.write(sys.argv[1] + " " + sys.stdin.read())
""")
    os.chmod(f"{w.folder}/told", stat.S_IRWXU)
    w.write("config.yaml", f"schema: attune/config/1\nnotify: {{command: [{w.folder}/told]}}\n")
    p = w.run("--events", "events.ndjson", "--metrics-textfile", "attune.prom",
              env={"ATTUNE_CONFIG": f"{w.folder}/config.yaml"})
    ends(p, 0)
    with open(f"{w.folder}/events.ndjson", encoding="utf-8") as file:
        lines = file.read().splitlines()
    exported = w.attune("db", "export").out.splitlines()
    expect(lines == exported, "the event file is not what db export writes")
    with open(f"{w.folder}/attune.prom", encoding="utf-8") as file:
        metrics = file.read()
    for text in ('state="shipped"} 1\n', "attune_leader_score", 'result="win"} 1\n'):
        expect(text in metrics, f"'{text}' is not in: {metrics}")
    with open(f"{w.folder}/told.json", encoding="utf-8") as file:
        told = file.read()
    expect(told.startswith("end {") and told.count("schema") == 1, f"told: {told}")
    says(w.attune("explain", "r001", "--svg", "r001.svg"), "launch_bound", "rank 0")
    says(w.attune("explain", "r001", "--trace"), "kernels by class")
    says(w.attune("show", "r001"), "from trace")
    with open(f"{w.folder}/r001.svg", encoding="utf-8") as file:
        expect("<svg" in file.read(), "no picture")
    w.check_books()


CASES = {name: case for name, case in list(globals().items())
         if callable(case) and getattr(case, "__module__", "") == __name__
         and case.__code__.co_varnames[:1] == ("w",) and case.__code__.co_argcount == 1}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
