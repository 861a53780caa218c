"""Campaigns on a real Slurm that goes wrong in every way its users have reported.

Each case has a cluster of its own, so daemons are killed in one while another measures. Without
Slurm's packages every case is skipped, with the reason.
"""

import json
import os
import shutil
import signal
import sys
import time

import slurm_world
from ssh_test import Host
from slurm_world import Skip, SlurmWorld, expect, sh
import world

# The fake job of these cases: a quarter of a minute at most, unless a case asks for more.
SHORT = {"fake-step-ms": 60}
HANGS = {"fake-hang-at": world.START + 3}


def one_seed_of_chaos(w):
    """Kills of attune, slurmctld, slurmd and jobs; tests/long/chaos.sh has more. First, since it
    takes longest."""
    done = sh("/usr/bin/python3", os.path.join(slurm_world.HERE, "../../long/chaos.py"), "--seeds", "1",
              "--events", "6", env=dict(os.environ))
    if done.returncode == 77:
        raise Skip(done.stdout.strip())
    expect(done.returncode == 0, f"{done.stdout[-4000:]}{done.stderr[-2000:]}")


def whole_campaign(w):
    """Submit, watch, stop, rehearse, ship; the books agree with what Slurm's jobcomp says."""
    w.slurm(nodes=2)
    w.recipe(SHORT)
    process = w.run()
    w.finish(process)
    expect(w.table()[0] == "calibration:baseline:reference", f"{w.table()}")
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    w.check_books()
    for token, body in zip(w.tokens_in_order(), w.bodies("launch_ended")):
        expect(len(w.jobs_named(token)) == 1, f"{token} has the jobs {w.jobs_named(token)}")
        w.charge_fits(body, w.held_by_slurm(token))
        expect(body["source"] == "wrapper", f"{body}")


def own_script(w):
    """launcher.script: it starts its ranks itself, as a step of the job."""
    w.slurm()
    w.recipe(SHORT)
    w.use_script(f"""#!/bin/bash
mapfile -t args < "$ATTUNE_ARGS_FILE"
exec srun --ntasks=1 --nodes=1 {world.TRAIN} "${{args[@]}}" --fake-echo-env {w.folder}/env
""")
    process = w.start_run()
    expect(w.wait_end(process) == "stopped", f"{w.ends()}: {process.text()}")
    with open(f"{w.folder}/env", "rb") as file:
        env = dict(e.split(b"=", 1) for e in file.read().split(b"\0") if b"=" in e)
    expect(b"SLURM_STEP_ID" in env and b"ATTUNE_TOKEN" in env, f"{sorted(env)}")
    w.leave(process)
    # What is exported is a job by itself, and hands the script the same.
    batch = w.attune("export", "--as", "sbatch", "--baseline").out
    quote = "'\\''"  # the line is itself one word of the batch script
    short = batch.replace(f"--exit-interval{quote} {quote}500", f"--exit-interval{quote} {quote}3")
    expect(short != batch, batch)
    w.write("train.sbatch", short)
    w.cluster.call("sbatch", "--wait", "-o", f"{w.folder}/said", f"{w.folder}/train.sbatch")
    with open(f"{w.folder}/said", encoding="utf-8") as file:
        said = file.read()
    expect("] iteration" in said, f"{short}\n{said}")


# ----- from a machine that has no Slurm


def behind_login(case, **options):
    """The cluster is known to the login node alone; its run folders lie in cluster/."""
    case.slurm(**options)
    host = Host(case, SLURM_CONF=case.cluster.conf)
    case.outside = True
    case.recipe(SHORT, more=["  login: node", f"  run_root: {case.folder}/cluster"])
    return host


def once_each(case):
    """One job and one process a launch, and what jobcomp says of their time."""
    case.check_books()
    for token, body in zip(case.tokens_in_order(), case.bodies("launch_ended")):
        expect(len(case.jobs_named(token)) == 1, f"{token} has the jobs {case.jobs_named(token)}")
        case.charge_fits(body, case.held_by_slurm(token))


def campaign_through_a_login_node(w):
    host = behind_login(w, nodes=2)
    p = w.attune("doctor", "recipe.yaml", "--job", env=host.env)
    expect(p.code == 0, f"{p.code}: {p.text()}")
    for said in ("host node: ", "sbatch --test-only", f"writes in {w.folder}/cluster"):
        expect(said in p.text(), f"'{said}' is not said: {p.text()}")
    w.finish(w.run(env=host.env))
    expect(w.table()[0] == "calibration:baseline:reference", f"{w.table()}")
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    once_each(w)
    for folder in w.files("*/a0"):
        there = folder.replace(f"{w.state}/runs", f"{w.folder}/cluster")
        for name in ("start", "exit", "r001/out"):
            if os.path.exists(f"{there}/{name}"):
                with open(f"{there}/{name}", "rb") as one, open(f"{folder}/{name}", "rb") as two:
                    expect(one.read() == two.read(), f"the mirror of {name} differs")


def line_to_the_login_node_drops(w):
    host = behind_login(w, nodes=2)
    process = w.start_run(env=host.env)
    drops = host.drop_again_and_again(process)
    w.finish(process)
    expect(drops > 1, f"the line was dropped {drops} times only")
    once_each(w)


def killed_and_resumed_from_elsewhere(w):
    """A machine without the mirror takes the campaign up: what it needs lies on the cluster."""
    host = behind_login(w, nodes=2)
    process = w.start_run(env=host.env)
    job = w.job_runs(process)
    process.send(signal.SIGKILL)
    process.wait()
    shutil.rmtree(f"{w.state}/runs")
    w.finish(w.attune("resume", env=host.env))
    expect(w.job(0)[0] == job, "it was started anew")
    once_each(w)


def login_node_without_slurm(w):
    """Its name is right and Slurm's programs are not there: said at once, and nothing runs."""
    host = behind_login(w, nodes=1)
    os.mkdir(f"{w.folder}/tools")
    for name in ("sha256sum", "mkdir", "cat", "find", "rm", "chmod", "mv"):
        os.symlink(f"/usr/bin/{name}", f"{w.folder}/tools/{name}")
    host.do("stop")
    host.session = f"PATH={w.folder}/tools"
    host.start()
    p = w.run(env=host.env)
    expect(p.code not in (0, 75), f"{p.code}: {p.text()}")
    expect("sbatch is not in the PATH" in p.text(), p.text())
    expect(not w.cluster.jobs(), "a job came into being")


# ----- the submit


def sbatch_fails_but_the_job_runs(w):
    """toil 5459: "Socket timed out", exit code 1, and yet a job. Exactly one, adopted."""
    w.slurm()
    w.recipe(SHORT)
    path = w.stand_in("sbatch", """
done = real()
if once():
    sys.stderr.write("sbatch: error: Batch job submission failed: Socket timed out on send/recv"
                     " operation\\n")
    sys.exit(1)
sys.stdout.write(done.stdout)
sys.exit(done.returncode)
""")
    process = w.start_run(env=path)
    w.wait_end(process)
    expect("launch_uncertain" in w.kinds(), f"{w.kinds()}")
    token = w.tokens_in_order()[0]
    expect(len(w.jobs_named(token)) == 1, f"jobs {w.jobs_named(token)}")
    expect(w.starts(token) == 1, "one process past the claim")
    w.leave(process)


def sbatch_that_submits_late(w):
    """It says nothing, dies, and submits when attune has given up and submitted again."""
    w.slurm()
    w.recipe(SHORT, poll="200ms")  # certain that nothing is there after 24 polls
    path = w.stand_in("sbatch", """
if once():
    if os.fork() == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.close(fd)
        while not os.path.exists(HERE + "/now"):
            time.sleep(0.05)
        real()
        os._exit(0)
    sys.exit(1)
done = real()
open(HERE + "/now", "w").close()
sys.stdout.write(done.stdout)
sys.exit(done.returncode)
""")
    process = w.start_run(env=path)
    w.wait_end(process)
    token = w.tokens_in_order()[0]
    w.wait_for("the late job", lambda: len(w.jobs_named(token)) == 2)
    w.wait_for("its end", lambda: all(
        state in ("COMPLETED", "CANCELLED", "FAILED")
        for _, name, state in w.cluster.jobs() if name == token))
    expect(w.starts(token) == 1, f"{w.starts(token)} processes past the claim")
    expect(w.kinds().count("launch_absent") == 1, f"{w.kinds()}")
    w.leave(process)


def sbatch_prints_anothers_id(w):
    """The id is believed only under our name: the stranger lives on."""
    c = w.slurm(nodes=2)
    w.write("stranger.sh", "#!/bin/sh\nexec sleep 300\n")
    stranger = c.call("sbatch", "--parsable", "-J", "stranger", "-o", "/dev/null",
                      f"{w.folder}/stranger.sh").strip()
    w.recipe(SHORT)
    path = w.stand_in("sbatch", f"""
done = real()
print({stranger})
sys.exit(done.returncode)
""")
    process = w.start_run(env=path)
    w.wait_launch_end(process)
    body = w.bodies("launch_bound")[0]
    expect(body["handle"]["id"] != stranger, f"it took {body}")
    w.leave(process)
    state = dict((i, s) for i, _, s in c.jobs())[stranger]
    expect(state == "RUNNING", f"the stranger is {state}")


def refused(w):
    """A partition that does not exist: nothing runs, nothing is charged, and Slurm's word is said."""
    w.slurm()
    w.recipe(SHORT, sbatch={"partition": "nowhere"})
    process = w.run()
    expect(process.code == 7, f"{process.code}: {process.text()}")
    expect(not w.cluster.jobs(), "a job came into being")
    expect("Invalid partition name" in process.text(), process.text())
    w.check_books()


def arguments_arrive(w):
    """Every byte, and 100 kB of flags, through sbatch, its script and the wrapper."""
    w.slurm()
    values = {"a": "two words", "b": "'single' \"double\"", "c": "$(touch /tmp/x) `id` $HOME",
              "d": "back\\slash * ? [x] {y} ~ !", "e": "grün 漢字", "f": "-42",
              "g": "#comment; & | > <", "h": ""}
    args = {**SHORT, "fake-echo-args": f"{w.folder}/echo", **{f"v-{k}": v for k, v in
                                                              values.items()}}
    for i in range(1000):
        args[f"long-flag-number-{i:04}"] = "x" * 80
    w.recipe(args)
    process = w.start_run()
    w.wait_for("the echo", lambda: os.path.exists(f"{w.folder}/echo"), process)
    w.wait_end(process)
    with open(f"{w.folder}/echo", "rb") as file:
        words = file.read().split(b"\0")
    for key, value in values.items():
        at = words.index(f"--v-{key}".encode())
        expect(words[at + 1] == value.encode(), f"--v-{key} arrived as {words[at + 1]!r}")
    expect(sum(len(x) for x in words) > 100_000, f"{sum(len(x) for x in words)} bytes arrived")
    w.leave(process)


def inside_another_allocation(w):
    """spd 955, parsl 2293, firecrest 148: the environment of an allocation, a format of the user's
    own for squeue, and jobs of the same user with names that no parser likes."""
    c = w.slurm()
    w.write("s.sh", "#!/bin/sh\nexec sleep 300\n")
    for name in ("a|b", "quote'\"", "two\nlines", b"\xff\xfe bad"):
        sh("/usr/bin/sbatch", "-H", "-o", "/dev/null", b"--job-name=" + (
            name if isinstance(name, bytes) else name.encode()), f"{w.folder}/s.sh", env=c.env())
    w.recipe({**SHORT, "fake-echo-env": f"{w.folder}/env"})
    process = w.start_run(env={
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_ID": "99",
        "SLURM_NTASKS": "77", "SBATCH_PARTITION": "nowhere", "SBATCH_TIMELIMIT": "0:01",
        "SQUEUE_FORMAT": "%i|%j", "SQUEUE_FORMAT2": "jobid", "SQUEUE_STATES": "PENDING",
        "SACCT_FORMAT": "jobid", "SLURM_TIME_FORMAT": "relative", "PMIX_RANK": "5"})
    expect(w.wait_end(process) == "stopped", f"{w.ends()}")
    with open(f"{w.folder}/env", "rb") as file:
        env = dict(e.split(b"=", 1) for e in file.read().split(b"\0") if b"=" in e)
    for name in (b"SLURM_CPU_BIND", b"SLURM_CPUS_PER_TASK", b"SBATCH_PARTITION", b"PMIX_RANK",
                 b"SQUEUE_FORMAT"):
        expect(name not in env, f"{name} reached the job")
    expect(env.get(b"SLURM_NTASKS") != b"77", "SLURM_NTASKS reached the job")
    w.leave(process)


# ----- what becomes of a job


def lost_and_its_id_given_away(w):
    """submitit 1660, blackfish 484: slurmctld dies before it has written the job down; the next
    sbatch gets its id. Lost, run again, the stranger untouched."""
    # Nothing is to start: a job that runs lives on when the controller forgets it.
    c = w.slurm(nodes=1, extra={"SchedulerParameters": "defer,batch_sched_delay=600,"
                                "sched_interval=600,bf_interval=600"})
    w.recipe(HANGS, poll="200ms")
    w.write("s.sh", "#!/bin/sh\nexec sleep 300\n")
    # slurmctld writes a change down at once, and the next ones some seconds later.
    c.call("sbatch", "-H", "-o", "/dev/null", f"{w.folder}/s.sh")
    process = w.start_run()
    ours, _ = w.job(0, process)
    # Before sbatch has its answer, attune would have no id and submit again.
    w.wait_event("launch_bound", process)
    c.kill_controller()
    c.start_controller()
    if ours in [i for i, _, _ in c.jobs()]:
        w.leave(process)
        raise Skip("this slurmctld had written the job down")
    w.write("s.sh", "#!/bin/sh\nexec sleep 300\n")
    stranger = c.call("sbatch", "--parsable", "-J", "stranger", "-o", "/dev/null",
                      f"{w.folder}/s.sh").strip()
    expect(stranger == ours, f"Slurm gave {stranger}, not {ours}")
    end = w.wait_end(process)
    expect(end == "lost", f"{end}")
    expect(w.wait_launch_end(process)["charged_gpu_ms"] == 0, "it never ran and is charged")
    w.wait_event("launch_intended", process, 2)
    w.leave(process)
    state = dict((i, s) for i, _, s in c.jobs())[stranger]
    expect(state in ("PENDING", "RUNNING"), f"the stranger is {state}")


def started_twice_by_a_forgetful_controller(w):
    """slurmctld dies after it has saved the job and before it has saved that it runs: it ends what
    runs, and starts it again under the same id. Refused by the claim, lost, paid, run again."""
    c = w.slurm(nodes=1)
    w.recipe(HANGS)
    process = w.start_run()
    w.job_starts(process)
    c.kill_controller()
    c.start_controller()
    body = w.wait_launch_end(process)
    token = w.tokens_in_order()[0]
    w.held_by_slurm(token)
    # What Slurm did is read from its own books: the second start ended with the wrapper's code 3.
    twice = any(line.get("ExitCode", "").startswith("3:") for line in c.completed()
                if line["Name"] == token)
    if not twice:
        w.leave(process)
        raise Skip("this slurmctld had saved the start")
    expect("started it a second time" in body["detail"], f"{body}")
    expect(w.wait_end(process) == "lost", f"{w.ends()}")
    expect(w.starts(token) == 1, "one process past the claim")
    again = min(slurm_world.stamp(line["StartTime"]) for line in c.completed()
                if line["Name"] == token)
    first = slurm_world.audit.read_record(w.files(f"{token}/a0/start")[0])
    w.charge_fits(body, again - int(slurm_world.audit.one(first, "wall_ms")) / 1000)
    w.wait_event("launch_intended", process, 2)
    w.leave(process)


def node_fails_and_the_site_requeues(w):
    """snakemake plugin 109: two attempts, both charged, the first measurement void, another node."""
    c = w.slurm(nodes=2)
    w.recipe(HANGS)
    process = w.start_run()
    job = w.job_runs(process)
    c.call("scontrol", "update", f"job={job}", "requeue=1")
    node = c.call("squeue", "-h", "-j", job, "-o", "%N").strip()
    begun = time.monotonic()
    c.kill_node(node)
    end = w.wait_end(process)
    expect(end == "node_failed", f"{end}")
    first = w.wait_launch_end(process)
    expect(first["failed_nodes"] == [node], f"{first}")
    expect(first["charged_gpu_ms"] > 0, f"{first}")
    expect(first["charged_gpu_ms"] / 2000 < time.monotonic() - begun + 30, f"{first}")
    w.wait_for("the second attempt", lambda: len(w.files("*/a0/r*/start")) >= 2, process)
    again = w.job(1, process)[0]
    on = c.call("squeue", "-h", "-j", again, "-o", "%N").strip()
    expect(on != node, f"the second attempt is on {on} again")
    w.leave(process)


def node_fails(w):
    """The same where nothing is requeued: NODE_FAIL."""
    c = w.slurm(nodes=2)
    w.recipe(HANGS)
    process = w.start_run()
    job = w.job_runs(process)
    node = c.call("squeue", "-h", "-j", job, "-o", "%N").strip()
    c.kill_node(node)
    end = w.wait_end(process)
    expect(end == "node_failed", f"{end}")
    body = w.wait_launch_end(process)
    expect(body["failed_nodes"] == [node], f"{body}")
    w.charge_fits(body, w.held_by_slurm(w.tokens_in_order()[0]))
    w.wait_event("launch_intended", process, 2)
    expect(w.bodies("launch_intended")[1]["exclude"] == [node], "the node is not left out")
    w.leave(process)


def preempted(w):
    """By a job of another partition; charged, run again, its measurement void."""
    c = w.slurm(nodes=1)
    w.recipe(HANGS)
    process = w.start_run()
    w.job_runs(process)
    w.write("u.sh", "#!/bin/sh\nexec sleep 3\n")
    c.call("sbatch", "-p", "urgent", "--exclusive", "-o", "/dev/null", f"{w.folder}/u.sh")
    end = w.wait_end(process)
    expect(end == "preempted", f"{end}")
    body = w.wait_launch_end(process)
    w.charge_fits(body, w.held_by_slurm(w.tokens_in_order()[0]))
    w.wait_event("launch_intended", process, 2)
    w.leave(process)


def time_limit_after_slurm_forgot(w):
    """parsl 1588 and 2207: the job leaves the queue between two polls. The folder knows its end."""
    w.slurm(extra={"MinJobAge": 2})
    w.recipe({"fake-step-ms": 15000}, poll="15s")
    process = w.start_run()
    end = w.wait_end(process)
    expect(end == "too_slow", f"{end}: {w.bodies('run_ended')}")
    body = w.wait_launch_end(process)
    w.charge_fits(body, w.held_by_slurm(w.tokens_in_order()[0]))
    w.leave(process)


def out_of_memory(w):
    c = w.slurm(cgroup=True) if can_limit_memory() else None
    if c is None:
        raise Skip("no writable memory cgroup")
    w.recipe({**SHORT, "fake-eat-mb": 300}, sbatch={"mem": "100"})
    process = w.start_run()
    end = w.wait_end(process)
    expect(end == "oom_host", f"{end}: {w.bodies('run_ended')}")
    w.leave(process)


def can_limit_memory():
    path = "/sys/fs/cgroup/memory" if os.path.isdir("/sys/fs/cgroup/memory") else None
    return path is not None and os.access(path, os.W_OK) and os.access(
        "/sys/fs/cgroup/freezer", os.W_OK)


def never_starts(w):
    """More nodes than there are: accepted, and hopeless. Ended with Slurm's reason, free."""
    w.slurm(nodes=2)
    w.recipe(SHORT, workload="gpus: 198, gpus_per_node: 2")
    process = w.start_run()
    body = w.wait_launch_end(process)
    expect("cannot start" in body["detail"], f"{body}")
    expect(body["charged_gpu_ms"] == 0, f"{body}")
    expect(w.wait_end(process) == "never_started", f"{w.ends()}")
    w.leave(process)


def cancelled_by_somebody_else(w):
    """A job that ignores TERM: charged until its processes are gone, and the campaign pauses."""
    c = w.slurm()
    w.recipe({**HANGS, "fake-ignore-term": True})
    process = w.start_run()
    job = w.job_runs(process)
    c.call("scancel", job)
    w.finish(process, 75)
    expect(w.ends() == ["cancelled_outside"], f"{w.ends()}")
    body = w.bodies("launch_ended")[0]
    held = w.held_by_slurm(w.tokens_in_order()[0])
    charged = body["charged_gpu_ms"] / 2000
    expect(held - 2 <= charged <= held + 8, f"charged {charged} s, jobcomp says {held}")
    for said in ("was cancelled from outside", "Slurm does not say by whom", "attune resume"):
        expect(said in process.text(), f"'{said}' is not said: {process.text()}")


def cancelled_by_somebody_with_a_name(w):
    """Where there is accounting, the campaign that pauses says who it was."""
    c = w.slurm(accounting=True)
    w.recipe(HANGS)
    process = w.start_run()
    c.call("scancel", w.job_runs(process))
    w.finish(process, 75)
    expect(w.ends() == ["cancelled_outside"], f"{w.ends()}")
    expect("it was root (uid 0)" in process.text(), process.text())


def controller_down_and_back(w):
    """Nothing is concluded while it is away; the campaign goes on."""
    c = w.slurm()
    w.recipe({"fake-step-ms": 2000})  # its window isn't whole before the controller is back
    process = w.start_run()
    w.job_runs(process)
    w.written_down(process)
    c.kill_controller()
    time.sleep(3)
    expect(not w.ends(), f"{w.ends()}")
    c.start_controller()
    expect(w.wait_end(process) == "stopped", f"{w.ends()}")
    body = w.wait_launch_end(process)
    w.charge_fits(body, w.held_by_slurm(w.tokens_in_order()[0]))
    w.leave(process)


def accounting_fails_and_agrees(w):
    """snakemake plugin 207: slurmdbd is gone for a while; and the sum of what is charged is what
    sacct says, within a minute a job."""
    c = w.slurm(accounting=True)
    w.recipe({"fake-step-ms": 150})
    process = w.start_run()
    w.job_runs(process)
    c.kill("slurmdbd")
    expect(w.wait_end(process) == "stopped", f"{w.ends()}")
    c.start_accounting()
    w.finish(process)
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    w.check_books()

    def accounted():
        out = c.call("sacct", "-X", "-D", "-n", "-P", "-S", "now-1hour", "-o",
                     "JobName,ElapsedRaw,State", check=False)
        rows = [line.split("|") for line in out.splitlines()]
        return {name: int(elapsed) for name, elapsed, state in rows
                if state.split()[0] not in ("RUNNING", "PENDING")}

    tokens = w.tokens_in_order()
    w.wait_for("sacct", lambda: all(t in accounted() for t in tokens))
    for token, body in zip(tokens, w.bodies("launch_ended")):
        w.charge_fits(body, accounted()[token], by=6)


def exit_record_comes_late(w):
    """nextflow 1045: the record is renamed into place when Slurm has long said COMPLETED."""
    c = w.slurm()
    w.recipe({"fake-step-ms": 20}, poll="1s")
    w.write("wrapper", f"""#!/bin/sh
{world.WRAPPER} "$@"
code=$?
[ "$1" = run ] && mv "$2/a0/exit" "$2/a0/late"
exit $code
""")
    os.chmod(f"{w.folder}/wrapper", 0o755)
    process = w.start_run(env={"ATTUNE_WRAPPER": f"{w.folder}/wrapper"})
    w.job_starts(process)
    # So that it can neither see the record before it is moved nor end the job.
    process.send(signal.SIGSTOP)
    job = w.job()[0]
    w.wait_for("the end of the job", lambda: dict(
        (i, s) for i, _, s in c.jobs())[job] in ("COMPLETED", "FAILED"))
    late = w.files("*/a0/late")[0]
    process.send(signal.SIGCONT)
    time.sleep(2)
    expect(not w.bodies("launch_ended"), "it did not wait for the record")
    os.rename(late, late[:-4] + "exit")
    body = w.wait_launch_end(process)
    expect(body["source"] == "wrapper", f"{body}")
    expect(w.wait_end(process) == "completed", f"{w.ends()}")
    w.leave(process)


def run_folder_read_only_on_the_node(w):
    """Never started, and the reason is there; nothing hangs."""
    w.slurm()
    w.recipe(SHORT, poll="300ms")
    w.write("wrapper", f"""#!/bin/sh
if [ "$1" = run ]; then
  exec unshare -m sh -c 'mount --bind -o ro "$1" "$1" && mount -o remount,bind,ro "$1" &&
    shift && exec "$@"' sh "$2" {world.WRAPPER} "$@"
fi
exec {world.WRAPPER} "$@"
""")
    os.chmod(f"{w.folder}/wrapper", 0o755)
    if sh("unshare", "-m", "true").returncode != 0:
        raise Skip("no mount namespaces here")
    process = w.start_run(env={"ATTUNE_WRAPPER": f"{w.folder}/wrapper"})
    end = w.wait_end(process)
    expect(end == "never_started", f"{end}")
    body = w.wait_launch_end(process)
    expect("exit code 12" in body["detail"], f"{body}")
    w.leave(process)


# ----- attune itself


def killed_and_resumed(w):
    """kill -9 around a submit and a run: the job is adopted, no other is started."""
    w.slurm()
    w.recipe(SHORT)
    process = w.start_run()
    w.job(0, process)
    process.send(signal.SIGKILL)
    process.popen.wait()
    process = w.start("resume")
    w.wait_for("the run", lambda: w.files("*/a0/r*/start"), process)
    process.send(signal.SIGKILL)
    process.popen.wait()
    w.resume()
    w.check_books()
    for token in w.tokens_in_order():
        expect(len(w.jobs_named(token)) == 1, f"{token}: jobs {w.jobs_named(token)}")


def detached_and_adopted(w):
    """SIGTERM: attune leaves within 5 s and the job goes on."""
    c = w.slurm()
    w.recipe({"fake-step-ms": 250})
    process = w.start_run()
    w.job_starts(process)
    begun = time.monotonic()
    process.send(signal.SIGTERM)
    process.wait()
    expect(process.code == 143, f"{process.code}: {process.text()}")
    expect(time.monotonic() - begun < 5, "it took longer than 5 s")
    job = w.job()[0]
    expect(dict((i, s) for i, _, s in c.jobs())[job] == "RUNNING", f"{c.jobs()}")
    w.resume()
    expect(w.bodies("launch_bound")[0]["handle"]["id"] == job, "another job was started")
    w.check_books()


def inside_a_batch_job_of_its_own(w):
    """As docs/slurm.md says: TERM before the time limit, attune leaves, the inner job goes on."""
    c = w.slurm(nodes=2)
    w.recipe({"fake-step-ms": 500, "fake-echo-env": f"{w.folder}/env"})
    w.write("outer.sh", f"""#!/bin/bash
#SBATCH --job-name=attune --ntasks=1 --cpus-per-task=1 --mem=100 --time=10
#SBATCH --signal=B:TERM@120 --open-mode=append
export ATTUNE_STATE_DIR={w.state} HOME={w.folder}
cd {w.folder}
exec {world.ATTUNE} run recipe.yaml --final-blocks 1 --no-input
""")
    outer = c.call("sbatch", "--parsable", "-o", f"{w.folder}/outer.out",
                   f"{w.folder}/outer.sh").strip()
    # At once: a few seconds later the inner job has shown enough and is asked to stop.
    w.wait_for("its environment", lambda: os.path.exists(f"{w.folder}/env"))
    c.call("scancel", "--batch", "--signal=TERM", outer)
    w.wait_for("the end of the outer job", lambda: dict(
        (i, s) for i, _, s in c.jobs())[outer] not in ("RUNNING", "COMPLETING"))
    inner = w.job()[0]
    expect(dict((i, s) for i, _, s in c.jobs())[inner] == "RUNNING", f"{c.jobs()}")
    with open(f"{w.folder}/env", "rb") as file:
        env = dict(e.split(b"=", 1) for e in file.read().split(b"\0") if b"=" in e)
    expect(env[b"SLURM_JOB_ID"] == inner.encode(), f"{env[b'SLURM_JOB_ID']} is not {inner}")
    expect(env[b"SLURM_JOB_NAME"] != b"attune", "the outer job's name reached the inner one")
    w.resume()
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    w.check_books()


def in_allocation(w, body, time="10", nodes=2):
    """A batch job of all nodes that says `body`; its output comes into outer.out."""
    c = w.slurm(nodes=nodes)
    w.recipe(SHORT, workload=f"gpus: 2, gpus_per_node: 1, caches: [{w.folder}]",
             more=["ranks: {kind: srun}"])
    w.write("outer.sh", f"""#!/bin/bash
#SBATCH --job-name=attune --nodes={nodes} --exclusive --time={time} --no-requeue --no-kill
export ATTUNE_STATE_DIR={w.state} HOME={w.folder}
cd {w.folder}
{body}
""")
    return c.call("sbatch", "--parsable", "-o", f"{w.folder}/outer.out",
                  f"{w.folder}/outer.sh").strip()


def outer_ends(w, outer, state):
    w.wait_for("the end of the outer job", lambda: dict(
        (i, s) for i, _, s in w.cluster.jobs())[outer] not in ("PENDING", "RUNNING", "COMPLETING"))
    with open(f"{w.folder}/outer.out", encoding="utf-8") as file:
        said = file.read()
    now = dict((i, s) for i, _, s in w.cluster.jobs())[outer]
    expect(now == state, f"it ended {now}: {said[-3000:]}")
    return said


RUN_INSIDE = f"{world.ATTUNE} run recipe.yaml --final-blocks 1 --no-input --in-allocation"


def inside_its_allocation(w):
    """Every launch is a step of one job, and idle nodes between two are charged."""
    outer = in_allocation(w, f"exec {RUN_INSIDE}")
    outer_ends(w, outer, "COMPLETED")
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    w.check_books()
    expect([i for i, _, _ in w.cluster.jobs()] == [outer], f"other jobs: {w.cluster.jobs()}")
    ends = w.bodies("launch_ended")
    charged = sum(body["charged_gpu_ms"] for body in ends) / 2000
    runs = sum(body["held_ms"] for body in w.bodies("run_ended")) / 1000
    held = w.held_by_slurm("attune")
    expect(runs <= charged <= held + 1, f"runs {runs} s, charged {charged} s, the job {held} s")
    expect(held - charged < 12, f"charged {charged} s of {held} s")
    idle = [body["idle_gpu_ms"] for body in ends]
    expect(idle[0] == 0 and min(idle[1:]) > 0, f"idle before each: {idle}")
    expect(all(body["overrun_gpu_ms"] == 0 for body in ends), f"{ends}")
    names = {body["handle"]["allocation"] for body in w.bodies("launch_bound")}
    expect(len(names) == 1 and names.pop().startswith(f"{outer}-"), f"{w.bodies('launch_bound')}")
    # In one allocation the leader is measured once.
    expect("probe" not in purposes(w), f"{purposes(w)}")
    expect(all(body["nodes"] == "n1,n2" for body in ends), f"{ends}")


def killed_inside_its_allocation(w):
    """The run lives on and is adopted by the next attune in the same allocation."""
    outer = in_allocation(w, f"{RUN_INSIDE} & echo $! >pid; wait; "
                             f"exec {world.ATTUNE} resume --no-input --in-allocation")
    w.wait_for("a running job", lambda: w.files("*/a0/r*/start"))
    with open(f"{w.folder}/pid", encoding="utf-8") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    outer_ends(w, outer, "COMPLETED")
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    w.check_books()
    expect(w.kinds().count("launch_bound") == w.kinds().count("launch_intended"),
           "a launch was bound twice or never")


def allocation_that_ends_too_soon(w):
    """Nothing is started that would not be over; as jobs of their own the launches go on."""
    outer = in_allocation(w, f"exec {RUN_INSIDE}", time="1")
    said = outer_ends(w, outer, "FAILED")
    expect(f"allocation {outer} ends in" in said, said)
    expect(not w.bodies("launch_bound"), "something was started")
    w.resume()
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    w.check_books()


def asks_for_its_allocation(w):
    """run --hold: one job, in which attune and every launch run; a second one isn't asked for."""
    c = w.slurm(nodes=2)
    w.recipe(SHORT, workload=f"gpus: 2, gpus_per_node: 1, caches: [{w.folder}]",
             more=["ranks: {kind: srun}"])
    p = w.run("--hold", "10m")
    expect(p.code == 0, f"{p.code}: {p.text()}")
    outer = c.jobs()[0][0]
    expect(f"job {outer} is to hold the nodes for 10m" in p.text(), p.text())
    p = w.run("--hold", "10m")
    expect(p.code == 75 and f"job {outer} is asked for already" in p.text(), f"{p.code}: {p.text()}")
    w.wait_for("the end of the job", lambda: c.jobs()[0][2] not in (
        "PENDING", "RUNNING", "COMPLETING"))
    expect("shipped" in w.kinds(), f"{w.kinds()}; {[open(x).read() for x in w.held_output()]}")
    expect([(i, s) for i, _, s in c.jobs()] == [(outer, "COMPLETED")], f"{c.jobs()}")
    w.check_books()


def purposes(w):
    return [body["purpose"] for body in w.bodies("launch_intended")]


def held(w, session="10m"):
    """The recipe asks for the allocation."""
    w.recipe(SHORT, workload=f"gpus: 2, gpus_per_node: 1, caches: [{w.folder}]",
             more=[f"  allocation: {{held: {{session: {session}}}}}", "ranks: {kind: srun}"])


def asked_for(w, p, session="10m"):
    """The newest job, which `p` has asked for, once it is over: (id, state)."""
    expect(p.code == 0, f"{p.code}: {p.text()}")
    job = max((i for i, _, _ in w.cluster.jobs()), key=int)
    expect(f"job {job} is to hold the nodes for {session}" in p.text(), p.text())
    return job, w.wait_for("the end of the job", lambda: next(
        (s for i, _, s in w.cluster.jobs()
         if i == job and s not in ("PENDING", "RUNNING", "COMPLETING")), None))


def recipe_that_holds_its_allocation(w):
    """launcher.allocation: run asks for a session, and resume for the next one, in which the leader
    is measured again before a candidate is."""
    w.slurm(nodes=2)
    held(w)
    p = w.attune("plan", "recipe.yaml", "--json")
    plan = json.loads(p.out)
    # The first session has room for what may be held for one launch.
    first, state = asked_for(w, w.run("--session-budget",
                                      str(plan["launch"]["hold_gpu_hours"] * 1.0001)))
    expect(state == "FAILED" and w.kinds()[-1] != "shipped", f"{state}: {w.kinds()}")
    expect(purposes(w) == ["calibration"] and "calibrated" in w.kinds(), f"{w.kinds()}")
    second, state = asked_for(w, w.attune("resume"))
    said = [open(path, encoding="utf-8").read() for path in w.held_output()]
    expect(state == "COMPLETED" and "shipped" in w.kinds(), f"{state}: {w.kinds()}; {said}")
    expect(purposes(w)[:3] == ["calibration", "probe", "candidate"], f"{purposes(w)}")
    names = [body["handle"]["allocation"] for body in w.bodies("launch_bound")]
    expect(names[0].startswith(f"{first}-") and len(set(names[1:])) == 1
           and names[1].startswith(f"{second}-"), f"{names}")
    expect({i for i, _, _ in w.cluster.jobs()} == {first, second}, f"{w.cluster.jobs()}")
    w.check_books()


def final_blocks_outside_the_held_allocation(w):
    """A held allocation has room for one; run again, the others are jobs of their own."""
    w.slurm(nodes=2)
    held(w)
    outer, state = asked_for(w, w.attune("run", "recipe.yaml", "--final-blocks", "2"))
    said = [open(path, encoding="utf-8").read() for path in w.held_output()]
    expect(state == "FAILED" and "has had its final block" in said[0], f"{state}: {said}")
    expect(purposes(w).count("final") == 1, f"{purposes(w)}")
    w.finish(w.attune("run", "recipe.yaml", "--final-blocks", "2"))
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    bound = w.bodies("launch_bound")
    blocks = [body["handle"]["allocation"] for body, purpose in zip(bound, purposes(w))
              if purpose == "final"]
    expect(len(blocks) == 2 and blocks[0].startswith(f"{outer}-") and blocks[1] == "", f"{blocks}")
    w.check_books()


def held_node_that_dies(w):
    """Its slurmd and step daemon are gone: the run is the node's failure, the next ones leave it out
    and go on in the same allocation, since two nodes of three are left."""
    outer = in_allocation(w, f"exec {RUN_INSIDE}", time="20", nodes=3)
    c = w.cluster
    w.wait_for("a running job", lambda: w.files("*/a0/r*/start"))
    first = c.call("squeue", "-h", "-j", outer, "-o", "%B").strip()
    at = w.wait_for("a step on another node", lambda: [
        node for node in c.nodes if node != first and c.step_daemons(node)])[0]
    c.kill_node(at)
    outer_ends(w, outer, "COMPLETED")
    # The first run, unless the machine was so busy that it was over; then the one after it.
    expect(w.ends().count("node_failed") == 1, f"{w.ends()}")
    failed = [body["failed_nodes"] for body in w.bodies("launch_ended")]
    hit = failed.index([at])
    expect(failed.count([]) == len(failed) - 1, f"{failed}")
    left_out = [body["exclude"] for body in w.bodies("launch_intended")]
    expect(left_out == [[]] * (hit + 1) + [[at]] * (len(left_out) - hit - 1), f"{left_out}")
    expect("shipped" in w.kinds(), f"{w.kinds()}")
    w.check_books()


CLOCK = r"""
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
  const int done = syscall(SYS_clock_gettime, id, t);
  if (done == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += SHIFT;
  return done;
}
int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""


def wrapper_whose_clock_is_off(w, seconds):
    """attune-wrapper on a node whose clock is off, and on no other: its program alone reads it."""
    name = f"clock{seconds}"
    w.write(f"{name}.c", CLOCK)
    made = sh("gcc", "-shared", "-fPIC", f"-DSHIFT=({seconds})", "-o", f"{w.folder}/{name}.so",
              f"{w.folder}/{name}.c")
    if made.returncode != 0:
        raise Skip(f"no gcc: {made.stderr[-500:]}")
    if "not a dynamic executable" in sh("ldd", world.WRAPPER).stderr:
        raise Skip("attune-wrapper is static in this build: nothing can be put before its clock")
    w.write(name, f"""#!/bin/sh
export LD_PRELOAD={w.folder}/{name}.so ASAN_OPTIONS=verify_asan_link_order=0
exec {world.WRAPPER} "$@"
""")
    os.chmod(f"{w.folder}/{name}", 0o755)
    return {"ATTUNE_WRAPPER": f"{w.folder}/{name}"}


def node_clock_an_hour_off(w):
    """What is charged comes from monotonic clocks, no beat is stale for it, a job is adopted by a
    process that sees an hour old records, and doctor names it."""
    w.slurm(nodes=2)
    w.recipe({"fake-step-ms": 250})
    for seconds, word in ((3600, "ahead of"), (-3600, "behind")):
        p = w.attune("doctor", "recipe.yaml", "--job", env=wrapper_whose_clock_is_off(w, seconds))
        expect("the clock of n" in p.text() and word in p.text(), f"{p.code}: {p.text()}")
    behind = wrapper_whose_clock_is_off(w, -3600)
    process = w.start_run(env=behind)
    w.job_starts(process)
    token = w.tokens_in_order()[0]
    start = slurm_world.audit.read_record(w.files(f"{token}/a0/start")[0])
    off = int(slurm_world.audit.one(start, "wall_ms")) / 1000 - time.time()
    expect(-3700 < off < -3500, f"the wrapper's clock is off by {off} s")
    process.send(signal.SIGKILL)
    process.wait()
    process = w.start("resume", env=behind)
    expect(w.wait_end(process) == "stopped", f"{w.ends()}")
    body = w.wait_launch_end(process)
    expect(body["source"] == "wrapper" and w.starts(token) == 1, f"{body}")
    w.charge_fits(body, w.held_by_slurm(token))
    w.leave(process)


def not_in_an_allocation(w):
    w.slurm(nodes=1)
    w.recipe(SHORT)
    p = w.run("--in-allocation")
    expect(p.code == 2 and "SLURM_JOB_ID is not set" in p.text(), f"{p.code}: {p.text()}")


def interrupted_while_the_controller_is_down(w):
    """snakemake plugin 209 and 397: the cancel is kept and carried out by resume."""
    c = w.slurm(nodes=1)
    w.write("s.sh", "#!/bin/sh\nexec sleep 600\n")
    blocker = c.call("sbatch", "--parsable", "--exclusive", "-o", "/dev/null",
                     f"{w.folder}/s.sh").strip()
    w.wait_for("the blocker",
               lambda: dict((i, s) for i, _, s in c.jobs())[blocker] == "RUNNING")
    w.recipe(SHORT)
    process = w.start_run()
    ours, _ = w.job(0, process)
    w.wait_event("launch_bound", process)
    w.written_down(process)
    c.kill_controller()
    process.send(signal.SIGINT)
    w.wait_for("the first wish", lambda: "user_asked" in w.kinds(), process)
    process.send(signal.SIGINT)
    w.wait_event("stop_sent", process)
    process.send(signal.SIGTERM)  # it would wait for the controller
    process.wait()
    expect(process.code in (130, 143), f"{process.code}: {process.text()}")
    expect("still to be cancelled" in process.text(), process.text())
    c.start_controller()
    expect(dict((i, s) for i, _, s in c.jobs())[ours] == "PENDING", f"{c.jobs()}")
    process = w.start("resume")
    w.wait_for("the cancel", lambda: dict((i, s) for i, _, s in c.jobs())[ours] == "CANCELLED",
               process)
    body = w.wait_launch_end(process)
    expect(body["charged_gpu_ms"] == 0, f"{body}")
    w.leave(process)


def two_login_nodes(w):
    """A second attune on another host of the same file system touches nothing."""
    if sh("unshare", "--uts", "true").returncode != 0:
        raise Skip("no UTS namespaces here")
    w.slurm()
    w.recipe(HANGS)  # nothing new begins meanwhile
    process = w.start_run()
    w.job_runs(process)
    before = len(w.events())
    other = sh("unshare", "--uts", "sh", "-c", 'hostname login2 && exec "$@"', "sh", world.ATTUNE,
               "resume", "--no-input", cwd=w.folder,
               env={"PATH": "/usr/bin:/bin", "HOME": w.folder, "ATTUNE_STATE_DIR": w.state,
                    "SLURM_CONF": w.cluster.conf})
    expect(other.returncode == 75, f"{other.returncode}: {other.stdout}{other.stderr}")
    expect(len(w.tokens_in_order()) == 1 and len(w.events()) >= before, "it wrote something")
    w.leave(process)


def queue_of_another_cluster(w):
    """The same id means another job there: it is neither taken for ours nor cancelled."""
    w.slurm()
    w.recipe({"fake-step-ms": 250})
    process = w.start_run()
    w.job_starts(process)
    process.send(signal.SIGTERM)
    process.wait()
    job = w.job()[0]
    other = slurm_world.Cluster(nodes=1, name="elsewhere")
    try:
        other.start()
        w.write("s.sh", "#!/bin/sh\nexec sleep 300\n")
        while True:
            there = other.call("sbatch", "--parsable", "-o", "/dev/null",
                               f"{w.folder}/s.sh").strip()
            if int(there) >= int(job):
                break
        process = w.start("resume", env={"SLURM_CONF": other.conf})
        expect(w.wait_end(process) == "stopped", f"{w.ends()}")
        w.leave(process)
        states = {s for _, name, s in other.jobs() if name == "s.sh"}
        expect(states <= {"RUNNING", "PENDING"}, f"jobs over there are {states}")
    finally:
        other.stop()


CASES = {name: case for name, case in list(globals().items())
         if callable(case) and getattr(case, "__module__", "") == __name__
         and case.__code__.co_varnames[:1] == ("w",) and case.__code__.co_argcount == 1}

if __name__ == "__main__":
    sys.exit(world.main(CASES, make=SlurmWorld))
