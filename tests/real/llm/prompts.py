"""Examples for the tiny model: attune's own compact prompt (llm.prompt_bytes 1200) and the answer of a
teacher who tries the levers in their order. The campaign of llm_test.py has these levers; a test
holds SYSTEM and the language of USER against what attune really sends.
"""

import json
import random

# lever, how its edit is written, values after the baseline's, in the order in which they are tried
LEVERS = [
    ("micro_batch", {"op": "set", "flag": "--micro-batch-size"}, [2, 4, 8]),
    ("threads", {"op": "env", "name": "OPENBLAS_NUM_THREADS"}, [2, 4]),
]
STEPS = [(lever, edit, value) for lever, edit, values in LEVERS for value in values]

SYSTEM = (
    "Tune the throughput of a training job. Call one tool. propose: one lever to a value not tried. "
    "stop: when nothing is left.\n"
    "levers micro_batch(--micro-batch-size)=1|2|4|8 threads(OPENBLAS_NUM_THREADS)=1|2|4"
)

CLASSES = ["nothing named", "slow_first_steps", "launch_bound", "memory_free", "host_bound",
           "comm_bound", "imbalance", "launch_bound memory_free", "compute_bound", "warmup"]


def label(step):
    return f"{step[0]}-{step[2]}"


def answer(step):
    """The teacher's reply; None: nothing is left."""
    if step is None:
        action = {"tool": "stop", "arguments": {"reason": "every value was tried", "classes": []}}
    else:
        lever, edit, value = step
        action = {"tool": "propose", "arguments": {
            "lever": lever, "changes": [{**edit, "value": value}], "enablers": [],
            "label": label(step), "hypothesis": f"{lever} {value} may hide overhead",
            "bottleneck": "launch_bound", "evidence": ["r001"], "expected_gain": [0, 0.5],
            "expected_peak_gb": 1}}
    return json.dumps(action, separators=(",", ":"))


def hours(x):
    return f"{x:.4f}" if x < 1 else f"{x:.2f}"


def fitted(rows, most=80):
    """As many as fit, then how many more: attune's SomeOf."""
    text = ""
    for i, row in enumerate(rows):
        more = f" +{len(rows) - i} more"
        grown = f"{text} {row}" if text else row
        if len(grown) + (len(more) if i + 1 < len(rows) else 0) > most:
            return f"{text}{more}" if text else more.strip()
        text = grown
    return text


def example(r):
    """(user text, answer) of a state drawn from `r`."""
    done = r.randrange(len(STEPS) + 1)
    total = r.choice([0.05, 0.2, 0.5, 1.0, 5.0, 10.0, 40.0]) * r.uniform(0.5, 2)
    gain, wins, in_a_row, leader = 0.0, 0, 0, "baseline"
    now = {"micro_batch": 1, "threads": "unset"}
    tried, failed = [], []
    for i, step in enumerate(STEPS[:done]):
        kind = r.random()
        if kind < 0.45:
            rise = r.uniform(3, 60)
            gain = ((1 + gain / 100) * (1 + rise / 100) - 1) * 100
            wins, in_a_row = wins + 1, 0
            leader = f"r{i + 2 + r.randrange(3):03d} {label(step)}"
            now[step[0]] = step[2]
            outcome = f"win +{rise:.1f}%"
        else:
            in_a_row += 1
            if kind < 0.85:
                outcome = (f"tie {r.uniform(-3, 3):+.1f}%" if kind < 0.7
                           else f"loss {-r.uniform(3, 40):+.1f}%")
            elif kind < 0.92:
                outcome = "stopped_early"
            else:
                outcome = r.choice(["oom_gpu", "crashed", "hung"])
                failed.insert(0, f"{label(step)}:{outcome}")
        tried.insert(0, f"{label(step)}:{outcome}")
    lines = [
        f"budget {hours(total * r.uniform(0.1, 0.95))} of {hours(total)} GPU-h left, a launch about "
        f"{hours(total * r.uniform(0.005, 0.05))}; launched {done}, won {wins}, {in_a_row} in a row "
        "without",
        f"leader {leader} {gain:+.1f}%",
        f"now micro_batch={now['micro_batch']} threads={now['threads']}",
        f"diagnosis r{r.randrange(1, 12):03d} {r.choice(CLASSES)}",
    ]
    if failed:
        lines.append("failed " + fitted(failed))
    if r.random() < 0.1:
        step = r.choice(STEPS)
        edit = step[1].get("flag") or step[1]["name"]
        lines.append(f"refused {r.choice(['duplicate', 'schema', 'gate.schema.noop'])} {step[0]}: {edit} {step[2]}")
    if tried:
        lines.append("tried " + fitted(tried))
    if r.random() < 0.1:
        lines.append("last answer not taken: " + r.choice([
            "the arguments of propose are not one JSON object: not one", "an empty answer; call "
            "exactly one of: propose, stop", "\"evidence\" names no run"]))
    lines.append("call propose or stop")
    return "\n".join(lines), answer(STEPS[done] if done < len(STEPS) else None)


if __name__ == "__main__":
    drawn = random.Random(1)
    for _ in range(3):
        user, reply = example(drawn)
        print(f"{SYSTEM}\n--\n{user}\n--\n{reply}\n")
