"""A whole campaign with a genuine language model as its tuner: llama.cpp (npm package node-llama-cpp,
CPU only) serving weights of our own (model.gguf, made by train.py). Needs node >= 20 and npm; skips
with the reason where the packages can't be had. `--model FILE` plays other weights.

    llm_test.py [--model FILE] [CASE ...]
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "campaigns"))
import prompts  # noqa: E402
import world  # noqa: E402
from world import Failure, Skip, expect  # noqa: E402

SKIPPED = 77
# Installed once, outside the tree and the build: a second run needs no network.
PACKAGES = os.environ.get("ATTUNE_NODE_PACKAGES",
                          os.path.join(tempfile.gettempdir(), f"attune-node-{os.getuid()}"))
MODEL = os.path.join(HERE, "model.gguf")


def node():
    """Path of a node that is new enough."""
    path = shutil.which("node")
    if path is None:
        raise Skip("no node; it needs version 20 or newer")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.match(r"v(\d+)", version).group(1)) < 20:
        raise Skip(f"node is {version.strip()}, it needs version 20 or newer")
    return path


def packages():
    """A folder with node_modules as the lock file has them."""
    if shutil.which("npm") is None:
        raise Skip("no npm")
    marker = os.path.join(PACKAGES, "package-lock.json")
    with open(os.path.join(HERE, "package-lock.json"), "rb") as file:
        wanted = file.read()
    with contextlib.suppress(OSError), open(marker, "rb") as file:
        if file.read() == wanted and os.path.isdir(os.path.join(PACKAGES, "node_modules")):
            return PACKAGES
    folder = PACKAGES + f".{os.getpid()}"
    os.makedirs(folder)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), folder)
    done = subprocess.run(
        ["npm", "ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise Skip("npm can't install node-llama-cpp: " + done.stderr.strip()[-200:])
    shutil.rmtree(PACKAGES, ignore_errors=True)
    os.rename(folder, PACKAGES)
    return PACKAGES


@contextlib.contextmanager
def serving(model):
    """The endpoint of a server of these weights."""
    folder = packages()
    shutil.copy(os.path.join(HERE, "serve.mjs"), folder)
    process = subprocess.Popen([node(), "serve.mjs", os.path.abspath(model)], cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = process.stdout.readline()
        if not line.startswith("port "):
            raise Failure(f"the server says: {line}{process.stdout.read()[:500]}")
        yield f"http://127.0.0.1:{int(line.split()[1])}/v1"
    finally:
        process.kill()
        process.wait()


def recipe(w):
    """The fake job with the levers of prompts.py: larger micro-batches are faster, threads are not."""
    w.recipe(declare=[
        "lever: micro_batch, flag: --micro-batch-size, values: [1, 2, 4, 8], class: batching",
        "lever: threads, env: OPENBLAS_NUM_THREADS, values: [1, 2, 4], class: placement"])
    with open(f"{w.folder}/recipe.yaml", "a", encoding="utf-8") as file:
        file.write("llm: {prompt_bytes: 1200}\n")


def campaign(w, model):
    recipe(w)
    with serving(model) as endpoint:
        return w.run("--tuner", "agent", env={
            "ATTUNE_LLM_ENDPOINT": endpoint, "ATTUNE_LLM_MODEL": "attune-test", "no_proxy": "*"})


def candidates(w):
    """Launched proposals of the search: {proposal: the call that made it}."""
    launched = {plan["proposal"] for _, kind, body in w.events() if kind == "launch_intended"
                and body["purpose"] == "candidate" for plan in body["runs"]}
    return {body["proposal"]: body["llm_call"] for _, kind, body in w.events()
            if kind == "proposed" and body["proposal"] in launched}


def asked(w):
    """(system text, user text) of each request, as it went out."""
    folder = f"{w.state}/llm/{w.campaign()}"
    for name in sorted(os.listdir(folder)):
        if name.endswith(".request.json"):
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                messages = json.loads(json.load(file)["body"])["messages"]
            yield messages[0]["content"], messages[1]["content"]


# Every line of the compact prompt begins with one of these; prompts.py makes the same ones.
LINES = ("budget ", "leader ", "now ", "diagnosis ", "failed ", "refused ", "tried ",
         "last answer not taken: ", "call ")


def trained_model_tunes(w):
    """Ends verified; three launched proposals or more are the model's, and one of them wins."""
    p = campaign(w, OPTIONS.model)
    expect(p.code == 0, f"exit {p.code}: {p.text()}")
    launched = candidates(w)
    expect(len(launched) >= 3 and all(launched.values()), f"launched: {launched}")
    wins = [body for _, kind, body in w.events() if kind == "judged" and body["standing"] == "win"]
    expect(wins, "none won")
    expect(any(kind == "final_result" and body["passed"] for _, kind, body in w.events()),
           "the final stage verified nothing")
    told = w.attune("explain", wins[0]["run"], "--transcript")
    expect(prompts.SYSTEM.split("\n")[1] in told.out, f"no transcript: {told.text()[-800:]}")
    # What it was trained on is what it was asked.
    for system, user in asked(w):
        expect(system.strip() == prompts.SYSTEM, f"another system text: {system}")
        for line in user.strip().split("\n"):
            expect(line.startswith(LINES), f"a line that prompts.py does not make: {line}")
    w.check_books()


def random_weights_launch_nothing(w):
    """The same command with weights as they are drawn: junk is refused, and nothing is launched."""
    model = f"{w.folder}/random.gguf"
    made = subprocess.run(["/usr/bin/python3", f"{HERE}/train.py", model, "--random"],
                          capture_output=True, text=True)
    if made.returncode != 0:
        if "No module named" in made.stderr:
            raise Skip("no PyTorch to draw the weights")
        raise Failure(made.stderr[-500:])
    campaign(w, model)
    expect(not candidates(w), f"launched: {candidates(w)}")
    expect("turned_back" in w.kinds(), f"it was not asked: {w.kinds()}")


CASES = {"trained_model_tunes": trained_model_tunes,
         "random_weights_launch_nothing": random_weights_launch_nothing}


class Options:
    model = MODEL


OPTIONS = Options()

if __name__ == "__main__":
    if "--model" in sys.argv:
        at = sys.argv.index("--model")
        OPTIONS.model = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    try:
        node()
        packages()
    except Skip as why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    sys.exit(world.main(CASES))
