"""`attune_corpus KIND --answers` reads no answer: with expected fields, ids, names, sources and notes
scrambled, and again with them left out, and the rows shuffled, it prints the same text."""

import csv
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

CORPORA = os.environ.get("ATTUNE_CORPORA", "")
PROGRAM = os.environ["ATTUNE_CORPUS"]
RESULTS = ["tokens_per_s_gpu", "model_tflops_gpu", "mfu_pct", "step_time_s", "peak_mem_gb", "outcome"]
WORDS = ["accept", "refuse", "oom", "ok", "0", "1e999", "healthy", "x\u00e9", "-"]


class Scramble:
    """How the fields that no answer may depend on are written: as junk, or not at all."""

    def __init__(self, seed, leave_out):
        self.random = random.Random(seed)
        self.leave_out = leave_out

    def junk(self):
        return self.random.choice(WORDS)

    def shuffled(self, rows):
        rows = list(rows)
        self.random.shuffle(rows)
        return rows

    def cases(self, rows, kept):
        """JSON rows of which only the fields `kept` bear on the answer."""
        out = []
        for n, row in enumerate(self.shuffled(rows)):
            new = {key: row[key] for key in kept}
            if not self.leave_out:
                for key in sorted(set(row) - set(kept)):
                    new[key] = self.random.choice([n, None, [n], {"a": self.junk()}, self.junk()])
            out.append(new)
        return out

    def table(self, header, rows, kept):
        """Header and rows; columns not `kept` are junk, or not there."""
        columns = [n for n, name in enumerate(header) if name in kept or not self.leave_out]
        return [[header[n] for n in columns]] + [
            [row[n] if header[n] in kept else self.junk() for n in columns]
            for row in self.shuffled(rows)]


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def proposals(scramble, folder):
    rows = [json.loads(line) for line in read(f"{CORPORA}/facts/hostile_proposals.jsonl").splitlines()]
    path = f"{folder}/x.jsonl"
    write(path, "".join(json.dumps(row) + "\n" for row in scramble.cases(rows, ["proposal"])))
    return path


def statistics(scramble, folder):
    rows = json.loads(read(f"{CORPORA}/facts/statistics_cases.json"))["cases"]
    path = f"{folder}/x.json"
    write(path, json.dumps({"cases": scramble.cases(rows, ["kind", "input"])}))
    return path


def throughput(scramble, folder):
    header, *rows = csv.reader(io.StringIO(read(f"{CORPORA}/facts/published_throughput.csv")))
    free = RESULTS + ["id", "group", "split", "source", "notes"]
    kept = [name for name in header if name not in free]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(scramble.table(header, rows, kept))
    path = f"{folder}/x.csv"
    write(path, out.getvalue())
    return path


def renamed(scramble, folder, origin, names, suffix_of):
    """Copies of files under names that say nothing: old name to new."""
    new = {}
    for n, name in enumerate(scramble.shuffled(names)):
        new[name] = f"f{n}{suffix_of(name)}"
        shutil.copyfile(f"{origin}/{name}", f"{folder}/{new[name]}")
    return new


def folder_with_table(origin):
    def make(scramble, folder):
        header, *rows = [line.split("\t") for line in read(f"{origin}/expected.tsv").splitlines()]
        new = renamed(scramble, folder, origin, [row[0] for row in rows], lambda name: ".log")
        table = [[new[row[0]], *row[1:]] for row in rows]
        table = scramble.table(header, table, ["file"])
        write(f"{folder}/expected.tsv", "".join("\t".join(row) + "\n" for row in table))
        return folder
    return make


def traces(scramble, folder):
    origin = f"{CORPORA}/traces"
    suffixes = (".json.gz", ".json", ".raw.gz", ".sqlite")
    names = [name for name in sorted(os.listdir(origin))
             if name.endswith(suffixes) and name != "expected_hta.json"]
    new = renamed(scramble, folder, origin, names,
                  lambda name: next(s for s in suffixes if name.endswith(s)))
    if not scramble.leave_out:
        write(f"{folder}/MANIFEST.tsv", "file\torigin\tlicence\tbytes\tsha256_16\twhat it shows\n" +
              "".join(f"{name}\t{scramble.junk()}\tx\t1\tx\t{scramble.junk()}\n"
                      for name in new.values()))
        wrong = {name: {"ours": scramble.random.choice([None, {}, {"events": 1}, "x"])}
                 for name in new.values()}
        write(f"{folder}/expected_hta.json", json.dumps({"traces": wrong}))
    return folder


KINDS = {  # the shared files, and how to scramble them
    "proposals": ("facts/hostile_proposals.jsonl", proposals),
    "statistics": ("facts/statistics_cases.json", statistics),
    "throughput": ("facts/published_throughput.csv", throughput),
    "failures": ("facts/logs/failures", folder_with_table(f"{CORPORA}/facts/logs/failures")),
    "logs": ("facts/logs", folder_with_table(f"{CORPORA}/facts/logs")),
    "traces": ("traces", traces),
}


def answers(kind, path):
    p = subprocess.run([PROGRAM, kind, path, "--answers"], capture_output=True, check=False)
    assert p.returncode == 0, f"{kind}: exit {p.returncode}: {p.stderr.decode()[:2000]}"
    return p.stdout


def main():
    if not CORPORA:
        print("ATTUNE_CORPORA is not set")
        return 77
    failed = []
    for kind in sys.argv[1:] or KINDS:
        path, make = KINDS[kind]
        plain = answers(kind, f"{CORPORA}/{path}")
        assert len(plain.splitlines()) > 10, f"{kind}: {plain[:200]}"
        for leave_out in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                same = answers(kind, make(Scramble(7, leave_out), folder)) == plain
            how = "left out" if leave_out else "scrambled"
            print(f"{kind}, {how}: {'same' if same else 'DIFFERENT'}")
            if not same:
                failed.append(kind)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
