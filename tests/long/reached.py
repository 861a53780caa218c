#!/usr/bin/env python3
"""reached.py ATTUNE SCANS RECIPE WORLD... [--seeds N]: what `rules` ships, over the best of a scan.

Prints a Markdown table, one row a world. The scan of a world takes most of the time and does not
depend on the tuner: its output is kept in the folder SCANS and made only where it is missing there.
A WORLD may be a range: default:0-10.
"""

import argparse
import pathlib
import re
import subprocess
import sys


def expand(world):
    m = re.fullmatch(r"(.+):(\d+)-(\d+)", world)
    return [f"{m[1]}:{n}" for n in range(int(m[2]), int(m[3]) + 1)] if m else [world]


def scan(attune, folder, recipe, world):
    kept = folder / f"{recipe.parent.name}.{world}"
    if not kept.exists():
        done = subprocess.run(
            [attune, "sim", "scan", recipe, "--world", world], capture_output=True, text=True, check=True
        )
        kept.write_text(done.stdout)
    best = re.search(r"^best .*?\(([+-][\d.]+)%\)", kept.read_text(), re.M)
    return float(best[1]) / 100


CAMPAIGN = re.compile(
    r"\S+ \S+ rules \d+: (?:shipped|aborted|no gain) ([+-][\d.]+)% .*?, (\d+) \+ (\d+) GPU-h, "
    r"(\d+) launches, (\d+) failed"
)


def campaigns(attune, recipe, world, seeds):
    done = subprocess.run(
        [attune, "bench", recipe, "--world", world, "--no-scan", "--each", "--seeds", str(seeds)],
        capture_output=True, text=True, check=True,
    )
    rows = [[float(x) for x in m.groups()] for m in map(CAMPAIGN.match, done.stdout.splitlines()) if m]
    if len(rows) != seeds:
        sys.exit(f"reached.py: {world}: {len(rows)} campaigns, expected {seeds}")
    return rows


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attune")
    parser.add_argument("scans", type=pathlib.Path)
    parser.add_argument("recipe", type=pathlib.Path)
    parser.add_argument("worlds", nargs="+")
    parser.add_argument("--seeds", type=int, default=1)
    a = parser.parse_args()
    a.scans.mkdir(parents=True, exist_ok=True)

    print("| recipe | world | best | true gain | reached | search+final GPU-h | launches | failed |")
    print("|---|---|---|---|---|---|---|---|")
    name, total = a.recipe.parent.name, []
    for world in [w for spec in a.worlds for w in expand(spec)]:
        best = scan(a.attune, a.scans, a.recipe, world)
        rows = campaigns(a.attune, a.recipe, world, a.seeds)
        gain = mean(r[0] for r in rows) / 100
        reached = (1 + gain) / (1 + best)
        cost, launches, failed = (mean(r[1] + r[2] for r in rows), mean(r[3] for r in rows),
                                  mean(r[4] for r in rows))
        total.append((reached, cost, launches, failed))
        print(f"| {name} | {world} | {best:+.1%} | {gain:+.1%} | {reached:.3f} | {cost:.0f} "
              f"| {launches:.1f} | {failed / launches if launches else 0:.1%} |", flush=True)
    launches, failed = mean(t[2] for t in total), mean(t[3] for t in total)
    print(f"| {name} | mean | | | {mean(t[0] for t in total):.3f} | {mean(t[1] for t in total):.0f} "
          f"| {launches:.1f} | {failed / launches if launches else 0:.1%} |")


if __name__ == "__main__":
    main()
