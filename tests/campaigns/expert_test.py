"""A scripted expert, a provider that plays a file of replies, tunes GLM-4.5 on the simulated
cluster with the real program (paper, Table F1)."""

import json
import os
import sys

import world
from world import expect

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fakes"))
import model_server  # noqa: E402
from model_server import ModelServer  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = os.path.join(ROOT, "examples", "glm-4.5-b200x128", "recipe.yaml")
REPLIES = os.path.join(ROOT, "tests", "cases", "agent", "table_f1.jsonl")


def plays():
    with open(REPLIES, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [{"body": model_server.chat(row["arguments"], row["tool"], prompt_tokens=9_000)}
            for row in rows]


def tune(w, policy, seed=1):
    """The candidates' runs by label, of a campaign that ends verified. Endpoint and model are all
    that is set: no configuration, no key."""
    with ModelServer(plays()) as server:
        p = w.attune("run", RECIPE, "--launcher", "sim", "--world", "default:0",
                     "--seed", str(seed), "--tuner", "agent", "--policy", policy,
                     "--final-blocks", "2",
                     env={"ATTUNE_LLM_ENDPOINT": server.url + "/v1",
                          "ATTUNE_LLM_MODEL": "fake-model"})
    expect(p.code == 0, f"exit {p.code}: {p.text()}")
    runs = w.attune("runs", "--format", "json")
    expect(runs.code == 0, runs.text())
    table = json.loads(runs.out)["runs"]
    expect(any(kind == "final_result" and body["passed"] for _, kind, body in w.events()),
           "the final stage verified nothing")
    calls = [body["llm_call"] for _, kind, body in w.events() if kind == "proposed"]
    expect(calls and all(calls), f"a proposal names no call: {calls}")
    return {row["label"]: row for row in table if row["purpose"] == "candidate"}


def ended(runs, label):
    row = runs.get(label)
    if row is None:
        return "not launched"
    return row["end"] if row["standing"] == "failed" else row["standing"]


def is_one_of(runs, label, *words):
    expect(ended(runs, label) in words, f"{label}: {ended(runs, label)}, not {' or '.join(words)}")


def is_table_f1(runs):
    is_one_of(runs, "pp16ep8", "tie", "loss", "stopped_early")
    is_one_of(runs, "tp1pp8", "oom_gpu")
    is_one_of(runs, "tp1pp16", "oom_gpu")
    is_one_of(runs, "tp1pp16fr", "win")
    is_one_of(runs, "tp1pp8fr", "stopped_early")
    is_one_of(runs, "tp1pp16s53", "tie", "loss", "stopped_early")


def plays_table_f1_without_the_prefilter(w):
    is_table_f1(tune(w, "paper"))


def plays_it_with_another_seed_too(w):
    """Other nodes, other noise: the table is no luck of one draw."""
    is_table_f1(tune(w, "paper", seed=7))


def the_prefilter_turns_back_what_does_not_fit(w):
    runs = tune(w, "full")
    is_one_of(runs, "tp1pp8", "not launched")
    is_one_of(runs, "tp1pp16", "not launched")
    is_one_of(runs, "tp1pp16fr", "win")
    reasons = {body["what"]["label"]: body["reason"] for _, kind, body in w.events()
               if kind == "turned_back" and body["what"]}
    for label in ("tp1pp8", "tp1pp16"):
        expect(reasons.get(label) == "prefilter.memory", f"{label}: {reasons}")


CASES = {name: case for name, case in list(globals().items())
         if callable(case) and getattr(case, "__module__", "") == __name__
         and case.__code__.co_varnames[:1] == ("w",) and case.__code__.co_argcount == 1}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
