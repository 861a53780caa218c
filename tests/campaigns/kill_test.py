"""kill -9 of the real program around what it does to the world: submit, cancel, exit, ship.

Each case cuts one campaign at several points in turn and resumes it; the last resume must end it
with the run table of an unbroken campaign, and its books and folders must agree.
"""

import glob
import os
import signal
import stat
import sys

import world
from world import expect

UNBROKEN = ["calibration:baseline:reference", "candidate:micro_batch-2:win",
            "final:baseline:reference", "final:micro_batch-2:reference",
            "rehearsal:rehearsal:reference", "rehearsal:restart:reference"]


def kill(w, process, what, found):
    """-9 as soon as found(); the process must still have been alive."""
    w.wait_for(what, found, process)
    process.send(signal.SIGKILL)
    process.popen.wait()
    expect(process.code == -signal.SIGKILL, f"{what}: it had ended: {process.text()}")


def whole(w):
    """Resumes to the end and holds the campaign against the unbroken one."""
    w.resume()
    expect(w.table() == UNBROKEN, f"the run table is {w.table()}")
    w.check_books()
    expect(len([k for k in w.kinds() if k == "shipped"]) == 1, "shipped not exactly once")


def cut(w, points):
    """points: (what, found) in the order in which a campaign meets them."""
    w.recipe()
    process = w.start_run()
    for what, found in points:
        kill(w, process, what, found)
        process = w.start("resume")
    process.wait()
    expect(process.code == 0, f"the last resume ended {process.code}: {process.text()}")
    w.resume(code=3)
    expect(w.table() == UNBROKEN, f"the run table is {w.table()}")
    w.check_books()
    expect(w.kinds().count("shipped") == 1, "not shipped exactly once")


def appears(w, pattern, count=1):
    return f"{count} x {pattern}", lambda: len(w.files(pattern)) >= count


def event(w, kind, count=1):
    return f"{count} x event {kind}", lambda: w.kinds().count(kind) >= count


def shipped(w, ending):
    return f"the bundle{ending}", lambda: glob.glob(f"{w.state}/shipped/shipped-*{ending}")


def records_of_the_wrapper(w):
    """The plan, the claim, the start and the exit of a stage, of a launch."""
    cut(w, [appears(w, "*/plan"), appears(w, "*/a0/start"), appears(w, "*/a0/r001/start"),
            appears(w, "*/a0/r001/exit"), appears(w, "*/a0/exit"),
            appears(w, "*/plan", 2), appears(w, "*/a0/exit", 2)])


def around_a_cancel(w):
    """The stop record of each stage: before or after its fact is written."""
    cut(w, [appears(w, "*/a0/r*/stop", n) for n in (1, 2, 3, 4)])


def around_the_shipping(w):
    cut(w, [shipped(w, ".draft")])


def after_the_rename(w):
    cut(w, [shipped(w, "[0-9a-f]")])


def between_commits(w):
    cut(w, [event(w, "launch_intended"), event(w, "launch_bound"), event(w, "steps_seen"),
            event(w, "stop_asked"), event(w, "run_ended"), event(w, "calibrated"),
            event(w, "proposed"), event(w, "launch_intended", 2), event(w, "launch_ended", 2),
            event(w, "launch_bound", 3), event(w, "final_result"), event(w, "ship_intended")])


def wrapper_that_kills(w, body):
    """A stand-in before the real wrapper that ends attune at an exact point, once."""
    w.write("wrapper", f"""#!/usr/bin/python3
import os, signal, subprocess, sys
plan = sys.stdin.buffer.read()
def submit():
    return subprocess.run([{world.WRAPPER!r}, *sys.argv[1:]], input=plan, capture_output=True)
def cut():
    mark = {w.folder!r} + "/cut"
    if not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(1)
{body}
sys.stdout.buffer.write(done.stdout)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode)
""")
    os.chmod(f"{w.folder}/wrapper", stat.S_IRWXU)
    return {"ATTUNE_WRAPPER": f"{w.folder}/wrapper"}


def cut_in_submit(w, body, folders):
    w.recipe()
    process = w.start_run(env=wrapper_that_kills(w, body))
    process.popen.wait()
    expect(process.code == -signal.SIGKILL, f"it was not cut: {process.text()}")
    expect(w.kinds() == ["opened", "launch_intended"], f"the fact was written: {w.kinds()}")
    expect(len(w.files("*")) == folders, f"{w.files('*')}")
    whole(w)


def before_the_spawn(w):
    cut_in_submit(w, "cut()\ndone = submit()", 0)


def after_the_spawn(w):
    cut_in_submit(w, "done = submit()\ncut()", 1)


def twice_after_the_spawn(w):
    """The launcher dies too: the job has ended by the time anybody looks for it."""
    w.recipe({"fake-die-at": world.START + 3})
    process = w.start_run(env=wrapper_that_kills(w, "done = submit()\ncut()"))
    process.popen.wait()
    w.wait_for("the job's end", lambda: w.files("*/a0/exit"))
    w.resume(code=7)
    w.check_books()


def wrapper_killed_too(w):
    """Attune and the wrapper of its job die together: the launch is settled, nothing lives on."""
    w.recipe()
    process = w.start_run()
    job = w.wait_job(process)
    process.send(signal.SIGKILL)
    process.popen.wait()
    attempt = os.path.dirname(os.path.dirname(job))
    wrapper = int(world.audit.one(world.audit.read_record(f"{attempt}/start"), "pid"))
    os.kill(wrapper, signal.SIGKILL)
    w.attune("resume")
    expect(os.path.exists(f"{attempt}/lost"), "the launch was not settled")
    w.check_books()


CASES = {name: case for name, case in list(globals().items())
         if callable(case) and getattr(case, "__module__", "") == __name__
         and case.__code__.co_varnames[:1] == ("w",) and case.__code__.co_argcount == 1
         and name != "whole"}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
