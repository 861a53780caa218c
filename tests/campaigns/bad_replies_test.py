"""Replies seen in the wild, played to a whole campaign by a provider of our own. The numbers are
those of the collection of field cases (facts/llm_api/bad_replies.md below ATTUNE_CORPORA). A
campaign on the simulated cluster is brought to its first request once; each row goes on from a copy
of it. No row may crash attune, launch anything that is no proposal, or lose the campaign: after
each the campaign goes on with a model that answers well.
"""

import contextlib
import json
import os
import shutil
import sys

import arms_test
import world
from world import expect

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fakes"))
import model_server  # noqa: E402
from model_server import ModelServer  # noqa: E402

GOOD = arms_test.MOVES[0]
TEXT = json.dumps(GOOD)
DENIED = {"status": 401, "body": '{"error":{"message":"no","code":"invalid_api_key"}}'}


def tokens(request):
    return len(request.body) // 3


def chat(arguments, tool="propose", **more):
    return {"body": lambda request: model_server.chat(arguments, tool,
                                                      **{"prompt_tokens": tokens(request), **more})}


def message(content, finish="stop", out_tokens=40, calls=None, **more):
    """An answer of OpenAI Chat Completions with this content."""
    def body(request):
        said = {"role": "assistant", "content": content, **more}
        if calls is not None:
            said["tool_calls"] = calls
        return json.dumps({
            "id": "c", "model": "fake-model",
            "choices": [{"index": 0, "finish_reason": finish, "message": said}],
            "usage": {"prompt_tokens": tokens(request), "completion_tokens": out_tokens}})
    return {"body": body}


def call(arguments, tool="propose", id_="call_1"):
    return {"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}}


def claude(content, stop="end_turn", **more):
    def body(request):
        return json.dumps({"id": "m", "type": "message", "role": "assistant", "model": "fake-model",
                           "content": content, "stop_reason": stop, **more,
                           "usage": {"input_tokens": tokens(request), "output_tokens": 40}})
    return {"body": body}


def changed(change):
    """A good answer, spoilt as text."""
    return {"body": lambda request: change(model_server.chat(GOOD, prompt_tokens=tokens(request)))}


def error(status, body, **headers):
    return {"status": status, "body": body if isinstance(body, str) else json.dumps(body),
            "headers": {name.replace("_", "-"): value for name, value in headers.items()}}


def as_strings(value):
    return {**GOOD, "changes": [{**GOOD["changes"][0], "value": value}]}


# Of the caps: an answer may have 4,096 tokens.
CAP = 4096
CLAUDE, BEDROCK = ("api: anthropic",), ("api: bedrock-converse",)

# (row, what it is, the plays, what each of them comes to, configuration). A row that comes to an
# action has its proposal launched. After the plays the provider denies, so that the process ends.
ROWS = [
    (1, "cut, though finish_reason says tool_calls", [chat(GOOD, out_tokens=CAP)],
     ["truncated"], ()),
    (2, "a bracket is missing", [chat(TEXT[:-2])], ["format_error"], ()),
    (3, "arguments replaced by {}", [chat("{}")], ["format_error"], ()),
    (5, "the call in tags", [message(
        f'<tool_call>{{"name":"propose","arguments":{TEXT}}}</tool_call>')], ["action"], ()),
    (5, "the call as bare JSON", [message(f'{{"tool":"propose","arguments":{TEXT}}}')], ["action"],
     ()),
    (5, "the call as <function=>", [message(f"<function=propose>{TEXT}</function>")],
     ["format_error"], ()),
    (6, "the call in another notation", [message(
        '[TOOL_CALL] {tool => "propose", args => {}} [/TOOL_CALL]')], ["format_error"], ()),
    (7, "the last brace is missing", [chat(TEXT[:-1])], ["format_error"], ()),
    (8, "arguments are an object", [message(None, "tool_calls", calls=[call(GOOD)])],
     ["action"], ()),
    (9, "a scalar as a string", [chat(as_strings("2"))], ["action"], ()),
    (9, "a list as a string", [chat({**GOOD, "changes": json.dumps(GOOD["changes"])})],
     ["format_error"], ()),
    (10, "two calls", [message(None, "tool_calls", calls=[call(TEXT), call(TEXT, id_="call_2")])],
     ["format_error"], ()),
    (13, "a tool that is none", [chat(GOOD, "launch")], ["format_error"], ()),
    (14, "tool_use without a block", [claude([], "tool_use")], ["format_error"], CLAUDE),
    (15, "nothing at all", [claude([])], ["format_error"], CLAUDE),
    (17, "a refusal", [claude([], "refusal", stop_details={
        "type": "refusal", "category": "frontier_llm"})], ["refusal"], CLAUDE),
    (18, "a refusal of another category", [claude([], "refusal", stop_details={
        "type": "refusal", "category": "reasoning_extraction"})], ["refusal"], CLAUDE),
    (19, "content_filter and nothing in it", [message(None, "content_filter", refusal=None)],
     ["refusal"], ()),
    (20, "an undocumented finish_reason", [message(None, "error", calls=[call(TEXT)])],
     ["format_error"], ()),
    (21, "a web page with 502", [error(502, "<html>502</html>", content_type="text/html")],
     ["unreachable"], ()),
    (21, "a web page with 200", [error(200, "<html>hi</html>", content_type="text/html")],
     ["unreachable"], ()),
    (22, "overloaded", [error(529, {"type": "error", "error": {"type": "overloaded_error"}})],
     ["overloaded"], CLAUDE),
    (22, "overloaded, as an event after a 200", [error(
        200, 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
        content_type="text/event-stream")], ["overloaded"], CLAUDE),
    (23, "closed in the middle of a chunk", [{**chat(GOOD), "how": "chunk_cut"}, chat(GOOD)],
     ["action"], ()),
    (23, "200, then a reset", [{**chat(GOOD), "how": "silent_reset"}, chat(GOOD)], ["action"], ()),
    (24, "gzip", [{**chat(GOOD), "how": "gzip"}], ["action"], ()),
    (24, "says gzip and is plain", [{**chat(GOOD), "how": "gzip_lie"}, chat(GOOD)], ["action"], ()),
    (25, "one word up to the cap", [message("off" * 3000, "stop", out_tokens=CAP)], ["truncated"],
     ()),
    (26, "the prompt was cut", [chat(GOOD, prompt_tokens=900)], ["too_long"], ()),
    (27, "reasoning ate the cap", [message("", "length", out_tokens=CAP)], ["truncated"], ()),
    (28, "a parameter that it no longer takes", [error(400, {"error": {
        "message": "temperature is not supported", "type": "invalid_request_error",
        "param": "temperature"}})], ["rejected"], ()),
    (31, "rate headers of -1 and 0", [error(
        429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}},
        x_ratelimit_reset_tokens="-1", retry_after="0"), chat(GOOD)], ["action"], ()),
    (32, "403 of a signature", [error(403, {"message": "The request signature does not match"},
                                      x_amzn_errortype="InvalidSignatureException:http://x")],
     ["denied"], BEDROCK),
    (33, "the context is too long", [error(400, {"error": {
        "message": "maximum context length", "code": "context_length_exceeded"}})] * 2,
     ["too_long", "too_long"], ()),
    (0, "a list", [error(200, "[1,2]")], ["unreachable"], ()),
    (0, "text behind it", [changed(lambda text: text + " ok")], ["unreachable"], ()),
    (0, "a byte order mark", [changed(lambda text: "\ufeff" + text)], ["unreachable"], ()),
    (0, "a lone surrogate", [chat(TEXT.replace('"label"', '"\\ud800":1,"label"'))],
     ["format_error"], ()),
    (0, "bytes that are no UTF-8", [changed(
        lambda text: text.encode().replace(b"fake", b"\xff\xfe"))], ["unreachable"], ()),
    (0, "a key twice", [chat(TEXT.replace('"label"', '"lever":"x","label"'))],
     ["format_error"], ()),
    (0, "1e400", [chat(TEXT.replace("60", "1e400"))], ["format_error"], ()),
    (0, "NaN", [chat(TEXT.replace("60", "NaN"))], ["format_error"], ()),
    (0, "100,000 deep", [error(200, "[" * 100_000)], ["unreachable"], ()),
    (0, "an empty body", [error(200, "")], ["unreachable"], ()),
    (0, "204", [error(204, "")], ["unreachable"], ()),
]
# A request holds no turn of the model, so none can poison it: see stateless().
BY_CONSTRUCTION = {4, 11, 12, 16, 29, 30}
ENDS = {"refusal": 75, "overloaded": 75, "unreachable": 75, "rejected": 2, "denied": 4}


def configure(w, config):
    w.write("config.yaml", "\n".join(
        ["schema: attune/config/1", "llm:", "  backoff: 5ms", "  tries: 3", "  timeout: 20s",
         *[f"  {line}" for line in config]]) + "\n")


def resume(w, server, config, state):
    configure(w, config)
    path = "" if config else "/v1"
    return w.attune("resume", state=state, env={
        "ATTUNE_CONFIG": f"{w.folder}/config.yaml", "no_proxy": "*",
        "ATTUNE_LLM_API_KEY": "key-of-the-test",
        "ATTUNE_LLM_ENDPOINT": server.url + path, "ATTUNE_LLM_MODEL": "fake-model"})


def calls(state):
    with contextlib.closing(world.audit.connect(state)) as db:
        return [row[0] for row in db.execute("SELECT outcome FROM llm_call ORDER BY seq")]


def launched(state):
    events = world.audit.events(state, world.audit.campaigns(state)[-1])
    return sum(1 for _, kind, body in events
               if kind == "launch_intended" and body["purpose"] == "candidate")


def texts(node):
    """Every content and text of a body."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("content", "text") and isinstance(value, str):
                yield value
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)


def stateless(request):
    """Rows 4, 11, 12, 16, 29, 30: one turn of the user, plain texts, at most three cache marks."""
    if request.method != "POST":
        return
    body = request.json()
    roles = [turn["role"] for turn in body["messages"]]
    expect(roles in (["system", "user"], ["user"]), f"{roles}")
    expect(all(texts(body)), "an empty text is sent")
    expect(request.body.count(b"cache_control") <= 3, "too many cache marks")
    if "max_tokens" in body and roles[0] == "system":
        expect(all(isinstance(turn["content"], str) for turn in body["messages"]),
               "a list as content")


def begin(w):
    """A campaign that has calibrated and was denied its first question; each row copies it."""
    arms_test.prepare(w)
    with ModelServer([DENIED]) as server:
        p = w.attune("run", "recipe.yaml", "--launcher", "sim", "--world", "default:2",
                     "--seed", "3", "--final-blocks", "1", "--tuner", "agent", env={
                         "ATTUNE_CONFIG": f"{w.folder}/config.yaml", "no_proxy": "*",
                         "ATTUNE_LLM_ENDPOINT": server.url + "/v1",
                         "ATTUNE_LLM_MODEL": "fake-model"})
    expect(p.code == 4, f"exit {p.code}: {p.text()}")


def play(w, name, plays, comes_to, config):
    state = f"{w.folder}/row"
    shutil.rmtree(state, ignore_errors=True)
    shutil.copytree(w.state, state)
    with ModelServer([*plays, DENIED] if comes_to[-1] not in ENDS else plays) as server:
        p = resume(w, server, config, state)
        for request in server.requests:
            stateless(request)
    outcomes = calls(state)[1:]
    expect(outcomes[:len(comes_to)] == comes_to, f"{name}: {outcomes}: {p.text()}")
    code = 2 if comes_to[-2:] == ["too_long"] * 2 else ENDS.get(comes_to[-1], 4)
    expect(p.code == code, f"{name}: exit {p.code}, not {code}: {p.text()}")
    good = comes_to == ["action"]
    expect(launched(state) == good, f"{name}: {launched(state)} launches")
    with ModelServer([chat({**GOOD, "label": "after", **({} if not good else as_strings(4))}),
                      DENIED]) as server:
        p = resume(w, server, (), state)
        for request in server.requests:
            stateless(request)
    expect(p.code == 4, f"{name}: it did not go on: exit {p.code}: {p.text()}")
    expect(launched(state) == good + 1, f"{name}: after it {launched(state)} launches")


def rows(w, low, high):
    begin(w)
    for row, name, plays, comes_to, config in ROWS:
        if low <= row <= high:
            play(w, f"row {row}, {name}", plays, comes_to, config)


def rows_made_by_hand(w):
    rows(w, 0, 0)


def rows_of_calls(w):
    rows(w, 1, 13)


def rows_of_ends(w):
    rows(w, 14, 22)


def rows_of_transport_and_size(w):
    rows(w, 23, 99)


def three_spoilt_answers_end_the_turn_and_the_campaign_goes_on(w):
    """Whatever spoils them: cut, no call, no object. Nothing is launched for them."""
    begin(w)
    spoilt = [chat(GOOD, finish="length"), chat(TEXT[:-1]), message("Let me think.")]
    for first in range(3):
        plays = (spoilt[first:] + spoilt[:first]) * 2
        state = f"{w.folder}/three"
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(w.state, state)
        with ModelServer([*plays, chat(GOOD), DENIED]) as server:
            p = resume(w, server, (), state)
        expect(p.code == 4, f"exit {p.code}: {p.text()}")
        events = world.audit.events(state, world.audit.campaigns(state)[-1])
        turned = [body["reason"] for _, kind, body in events if kind == "turned_back"]
        expect(turned and set(turned) <= {"schema", "truncated"}, f"{turned}")
        expect(launched(state) == 1, f"{launched(state)} launches")
        expect(calls(state)[-2:] == ["action", "denied"], f"{calls(state)}")


def every_row_of_the_collection_is_here(w):
    corpora = os.environ.get("ATTUNE_CORPORA")
    if not corpora:
        raise world.Skip("ATTUNE_CORPORA is not set")
    with open(f"{corpora}/facts/llm_api/bad_replies.md", encoding="utf-8") as file:
        cells = [line.split("|") for line in file if line.startswith("|")]
    numbers = {int(cell[1]) for cell in cells if len(cell) > 2 and cell[1].strip().isdigit()}
    expect(numbers, "the collection has no rows")
    missing = numbers - {row for row, *_ in ROWS} - BY_CONSTRUCTION
    expect(not missing, f"no play for rows {sorted(missing)}")


CASES = {name: case for name, case in list(globals().items())
         if callable(case) and hasattr(case, "__code__")
         and getattr(case, "__module__", "") == __name__
         and case.__code__.co_varnames[:1] == ("w",) and case.__code__.co_argcount == 1
         and name != "begin"}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
