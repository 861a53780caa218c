"""Starts the data-parallel ranks of one machine, for runs that no launcher has split up already."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

# Seconds that ranks get to leave after SIGTERM, once one of them has failed.
GRACE_S = 5.0


def start_ranks(count):
    """Runs this program once a rank and waits for all; returns the exit code for the whole job.

    The ranks stay in this process group, so a signal to the group reaches them all. When one fails,
    the others are ended and its code is returned: they could only wait for it.
    """
    environment = dict(os.environ, WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=str(_free_port()))
    # Otherwise gloo looks up the host's name, which need not resolve, to find an address.
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    parent = os.getpid()
    running = {}
    for rank in range(count):
        process = subprocess.Popen([sys.executable] + sys.argv, preexec_fn=lambda: _follow(parent),
                                   env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)))
        running[process.pid] = process
    while running:
        process = _next_to_end(running)
        if process.returncode != 0:
            _end(running.values())
            # The shell's convention for a death by signal, which an exit code can't express.
            return process.returncode if process.returncode > 0 else 128 - process.returncode
    return 0


def _next_to_end(running):
    pid, status = os.wait()
    while pid not in running:
        pid, status = os.wait()
    process = running.pop(pid)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process


def _end(processes):
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + GRACE_S
    for process in processes:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _follow(parent):
    """Has the kernel end this rank with its parent: a parent killed alone must leave no ranks."""
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != parent:  # It died before the call.
        os._exit(128 + signal.SIGTERM)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
