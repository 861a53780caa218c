#!/usr/bin/python3
"""Rounds of kill -9 after a random time and `resume` until the campaign ends, then an audit.

    tests/long/kill9.py [--rounds 25] [--seed 1] [--recipe FILE] [--set KEY=VALUE] [--bin FOLDER]

Without --recipe: the fake job of the tests, and a new campaign whenever one ends before all rounds
are done. With it (for example examples/gpt/recipe.yaml, whose checkpoint must be there): likewise,
in a state folder of its own. Each ended campaign is audited from its run folders and its events
alone (audit.py); the last line says what was found. Exit code 0: nothing was.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "campaigns"))
import audit  # noqa: E402

LEAST, MOST = 0.2, 30.0  # seconds until a kill
FINAL = {0, 3, 6, 7, 10}  # what `resume` says of a campaign that has ended


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recipe", help="default: the fake job of the tests")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--most", type=float, default=MOST, help="longest time until a kill")
    parser.add_argument("--bin", default=os.path.join(HERE, "..", "..", "build", "bin"))
    parser.add_argument("--keep", action="store_true", help="leave the state folder")
    return parser.parse_args()


class Rounds:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.attune = os.path.abspath(f"{options.bin}/attune")
        self.home = tempfile.mkdtemp(prefix="attune-kill9-")
        self.state = f"{self.home}/state"
        self.killed = self.faults = self.stalled = 0
        self.campaigns, self.codes = set(), []
        if options.recipe:
            self.recipe = os.path.abspath(options.recipe)
        else:
            os.environ["ATTUNE_BIN_DIR"] = options.bin
            import world
            fake = world.World("kill9")
            fake.recipe(calibration_runs=2)
            self.fake, self.recipe = fake, f"{fake.folder}/recipe.yaml"

    def start(self, words, log):
        env = {**os.environ, "ATTUNE_STATE_DIR": self.state}
        return subprocess.Popen([self.attune, *words, "--no-input", "--progress", "plain"],
                                cwd=os.path.dirname(self.recipe), env=env,
                                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def open_campaign(self):
        """The campaign that has not ended, if there is one on disk."""
        try:
            for campaign in reversed(audit.campaigns(self.state)):
                if not audit.ended(audit.events(self.state, campaign)):
                    return campaign
        except audit.sqlite3.OperationalError:
            pass  # killed before the database was there
        return None

    def words(self):
        campaign = self.open_campaign()
        if campaign:
            return ["resume", campaign]
        words = ["run", self.recipe]
        if not self.options.recipe:
            words += ["--final-blocks", "2"]
        for value in self.options.set:
            words += ["--set", value]
        return words

    def check(self):
        """Audits every campaign that has ended since the last time."""
        try:
            ids = audit.campaigns(self.state)
        except audit.sqlite3.OperationalError:
            return
        for campaign in ids:
            if campaign in self.campaigns:
                continue
            events = audit.events(self.state, campaign)
            if not audit.ended(events):
                continue
            self.campaigns.add(campaign)
            faults = audit.audit(self.state, campaign)
            self.faults += len(faults)
            for fault in faults:
                print(f"FAULT {fault}", flush=True)
            table = audit.run_table(events)
            print(f"{campaign} ended: {len(table)} runs, {len(events)} events, "
                  f"{len(faults)} faults", flush=True)

    def go(self):
        path = f"{self.home}/output"
        with open(path, "ab") as log:
            while self.killed < self.options.rounds:
                after = self.random.uniform(LEAST, self.options.most)
                process = self.start(self.words(), log)
                try:
                    code = process.wait(timeout=after)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    self.killed += 1
                    print(f"round {self.killed}: killed after {after:.1f} s", flush=True)
                else:
                    if not self.over(code):
                        return self.tell(path)
                    self.check()
            while self.open_campaign():
                code = self.start(self.words(), log).wait()
                if not self.over(code):
                    return self.tell(path)
            self.check()
        return self.tell(path)

    def over(self, code):
        """A campaign that ended, or one that cannot go on by itself."""
        self.codes.append(code)
        if code in FINAL:
            return True
        print(f"attune ended {code}", flush=True)
        self.stalled += 1
        return False

    def tell(self, path):
        if self.faults or self.stalled:
            with open(path, encoding="utf-8", errors="replace") as file:
                sys.stdout.write(file.read()[-4000:])
        ends = " ".join(str(code) for code in self.codes)
        print(f"kill9: {self.killed} kills (seed {self.options.seed}), {len(self.campaigns)} "
              f"campaigns ended (codes {ends}), {self.faults} faults"
              + (f", {self.stalled} stalled" if self.stalled else ""))
        good = not self.faults and not self.stalled and self.killed == self.options.rounds
        if self.options.keep or not good:
            print(f"state folder: {self.state}")
        else:
            shutil.rmtree(self.home, ignore_errors=True)
            if not self.options.recipe:
                self.fake.close(keep=False)
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(Rounds(arguments()).go())
