"""Audits campaigns from their run folders and their events alone.

What it holds against them (control_plane.md 2 and 10): one start record a token, no folder that no
event names, no process that carries a token of an ended launch, each charge = slots x held_ms of
its folder's records, sums equal, charged + held <= budget after every event, a sound database.
"""

import contextlib
import glob
import hashlib
import json
import os
import sqlite3


def connect(state):
    """The database as it is on disk, its write-ahead log included; never written."""
    return sqlite3.connect(f"file:{state}/attune.db?mode=ro", uri=True, timeout=10)


def campaigns(state):
    with contextlib.closing(connect(state)) as db:
        return [row[0] for row in db.execute("SELECT id FROM campaign ORDER BY opened_ms, id")]


def events(state, campaign):
    """[(seq, kind, body)] in order."""
    with contextlib.closing(connect(state)) as db:
        rows = db.execute(
            "SELECT seq, kind, body FROM event WHERE campaign = ? ORDER BY seq", (campaign,)
        )
        return [(seq, kind, json.loads(body)) for seq, kind, body in rows]


def read_record(path):
    """A record of the run folder (docs/formats/run_folder.md); None when it counts as absent."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    at = data.rfind(b"\nend ") + 1
    if at <= 0 or data[at:].strip() != b"end " + hashlib.sha256(data[:at]).hexdigest().encode():
        return None
    fields = {}
    rest = data[data.index(b"\n") + 1 : at]
    while rest:
        key, _, rest = rest.partition(b" ")
        size, _, rest = rest.partition(b":")
        fields.setdefault(key.decode(), []).append(rest[: int(size)].decode("utf-8", "replace"))
        rest = rest[int(size) + 1 :]
    return fields


def one(record, key):
    return record[key][0]


def carriers(tokens):
    """Processes whose environment names one of the tokens: {pid: token}."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                entries = file.read().split(b"\0")
            with open(f"/proc/{name}/stat", "rb") as file:
                state = file.read().rpartition(b") ")[2][:1]
        except OSError:
            continue
        if state == b"Z":
            continue
        for entry in entries:
            if entry.startswith(b"ATTUNE_TOKEN=") and entry[13:].decode() in tokens:
                found[int(name)] = entry[13:].decode()
    return found


def run_table(all_events):
    """What two campaigns of one recipe must share: purpose, label, standing of each run."""
    order, standing = [], {}
    for _, kind, body in all_events:
        if kind == "launch_intended":
            order += [(run["run"], body["purpose"], run["label"]) for run in body["runs"]]
        elif kind == "judged":
            standing[body["run"]] = body["standing"]
    return [f"{purpose}:{label}:{standing.get(run, 'open')}" for run, purpose, label in order]


def ended(all_events):
    return any(
        kind == "phase_set" and body["phase"] in ("shipped", "no_gain", "aborted")
        for _, kind, body in all_events
    )


class _Audit:
    def __init__(self, state, campaign):
        self.state, self.campaign, self.faults = state, campaign, []
        self.events = events(state, campaign)
        self.run_root = self.events[0][2]["run_root"]
        self.intents, self.ends, self.runs = {}, {}, []

    def fault(self, text):
        self.faults.append(f"{self.campaign}: {text}")

    def fold(self):
        budget, held, charged = None, 0, 0
        for expected, (seq, kind, body) in enumerate(self.events, start=1):
            if seq != expected:
                self.fault(f"event {seq} where {expected} was expected")
            if kind == "opened":
                budget = body["budget_gpu_ms"]
            elif kind == "budget_set":
                budget = body["budget_gpu_ms"]
            elif kind == "launch_intended":
                self.intents[body["launch"]] = body
                self.runs += [run["run"] for run in body["runs"]]
                held += body["hold_gpu_ms"]
            elif kind == "launch_ended":
                if body["launch"] in self.ends:
                    self.fault(f"{body['launch']} ended twice")
                self.ends[body["launch"]] = body
                held -= self.intents[body["launch"]]["hold_gpu_ms"]
                charged += body["charged_gpu_ms"]
                if body["overrun_gpu_ms"]:
                    self.fault(f"{body['launch']} overran by {body['overrun_gpu_ms']}")
            if budget is not None and held + charged > budget:
                self.fault(f"event {seq}: charged {charged} + held {held} > budget {budget}")
        if len(set(self.runs)) != len(self.runs):
            self.fault("a run id was given twice")
        tokens = [intent["token"] for intent in self.intents.values()]
        if len(set(tokens)) != len(tokens):
            self.fault("a token was given twice")
        return held, charged

    def folder(self, launch):
        """Each launch against its own folder: one start, the charge as the records say."""
        intent = self.intents[launch]
        end = self.ends.get(launch)
        root = f"{self.run_root}/{intent['token']}"
        starts = [p for p in glob.glob(f"{glob.escape(root)}/a*/start") if read_record(p)]
        if end is None:
            self.fault(f"{launch} never ended")
            return
        if not end["reached"]:
            if starts:
                self.fault(f"{launch} is void but has {len(starts)} start records")
            if end["charged_gpu_ms"]:
                self.fault(f"{launch} is void but is charged")
            return
        # Of a scheduler: what was settled stands there, or in the mirror of a folder elsewhere.
        jobs = read_record(f"{root}/jobs") or read_record(
            f"{self.state}/runs/{intent['token']}/jobs")
        if jobs is not None:
            if len(starts) > 1:
                self.fault(f"{launch}: {len(starts)} start records")
            if "charged" not in jobs or int(one(jobs, "charged")) != end["charged_gpu_ms"]:
                self.fault(f"{launch} is charged {end['charged_gpu_ms']}, its folder says "
                           f"{jobs.get('charged')}")
            return
        if len(starts) != 1:
            self.fault(f"{launch}: {len(starts)} start records")
            return
        plan = read_record(f"{root}/plan")
        attempt = os.path.dirname(starts[0])
        last = read_record(f"{attempt}/exit") or read_record(f"{attempt}/lost")
        if plan is None or last is None:
            self.fault(f"{launch}: no plan, or neither an exit nor a lost record")
            return
        cost = int(one(plan, "slots")) * int(one(last, "held_ms"))
        if cost != end["charged_gpu_ms"]:
            self.fault(f"{launch} is charged {end['charged_gpu_ms']}, its folder says {cost}")
        if int(one(last, "survivors")) and end["source"] == "wrapper":
            self.fault(f"{launch}: {one(last, 'survivors')} processes lived on")

    def finish(self):
        held, charged = self.fold()
        for launch in self.intents:
            self.folder(launch)
        if held:
            self.fault(f"{held} GPU-ms are held after the end")
        tokens = {intent["token"] for intent in self.intents.values()}
        for pid, token in carriers(tokens).items():
            self.fault(f"process {pid} still carries {token}")
        for path in glob.glob(f"{glob.escape(self.run_root)}/attune-{self.campaign}-*"):
            if os.path.basename(path) not in tokens:
                self.fault(f"no event names the folder {path}")
        with contextlib.closing(connect(self.state)) as db:
            row = db.execute(
                "SELECT calibration_gpu_ms + search_gpu_ms + final_gpu_ms + idle_gpu_ms,"
                " held_gpu_ms, overrun_gpu_ms FROM campaign WHERE id = ?",
                (self.campaign,),
            ).fetchone()
            if row != (charged, 0, 0):
                self.fault(f"books (charged, held, overrun) {row}, the launches sum to {charged}")
        return self.faults


def audit(state, campaign):
    """Faults of one ended campaign; empty when its books and folders agree."""
    faults = _Audit(state, campaign).finish()
    with contextlib.closing(connect(state)) as db:
        for (line,) in db.execute("PRAGMA integrity_check"):
            if line != "ok":
                faults.append(f"integrity_check: {line}")
    return faults
