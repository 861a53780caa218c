"""A language model as the tuner, with the real program against a provider that misbehaves on order
(tests/fakes/model_server.py). Every wait between tries is milliseconds by configuration."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import signal
import stat
import sys

import world
from world import expect

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fakes"))
import model_server  # noqa: E402
from model_server import ModelServer  # noqa: E402

CANARY = "canary-Zq7-key-4f8a1c0d"


def proposal(value=2, **more):
    return {
        "lever": "micro_batch",
        "changes": [{"op": "set", "flag": "--micro-batch-size", "value": value}],
        "enablers": [], "label": f"mbs{value}",
        "hypothesis": "more rows a launch hide its overhead",
        "bottleneck": "launch_bound", "evidence": ["r001"], "expected_gain": [0.0, 0.5],
        "expected_peak_gb": 1, **more}


def good(value=2, **more):
    return {"body": model_server.chat(proposal(value, **more))}


DENIED = {"status": 401, "body": '{"error":{"message":"Incorrect API key provided: ' + CANARY +
          '","code":"invalid_api_key"}}'}
REFUSED = {"body": json.dumps({
    "id": "c", "model": "m", "usage": {"prompt_tokens": 4000, "completion_tokens": 3},
    "choices": [{"index": 0, "finish_reason": "stop", "message": {
        "role": "assistant", "content": None, "refusal": "I can't help with that."}}]})}


def configure(place, *lines):
    """The user's own configuration: no wait of a second, no try without an end."""
    text = ["schema: attune/config/1", "llm:", "  backoff: 5ms", "  tries: 3", "  timeout: 5s",
            *[f"  {line}" for line in lines]]
    place.write("config.yaml", "\n".join(text) + "\n")


def env(w, server, path="/v1", key=CANARY, **more):
    values = {"ATTUNE_CONFIG": f"{w.folder}/config.yaml", "ATTUNE_LLM_ENDPOINT": server.url + path,
              "ATTUNE_LLM_MODEL": "fake-model", "no_proxy": "*", **more}
    if key:
        values["ATTUNE_LLM_API_KEY"] = key
    return values


def ends(process, code):
    expect(process.code == code, f"exit {process.code}, not {code}: {process.text()}")


def says(process, *texts):
    for text in texts:
        expect(text in process.text(), f"'{text}' is not said in: {process.text()}")


def calls(place):
    """Rows of llm_call as dicts, in order."""
    with contextlib.closing(world.audit.connect(place.state)) as db:
        rows = db.execute("SELECT * FROM llm_call ORDER BY seq")
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row)) for row in rows]


def everything_on_disk(folder):
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    yield path, file.read()


def expect_no_key(place, *processes, key=CANARY):
    forms = {key, base64.b64encode(key.encode()).decode().rstrip("=")[:-2]}
    for form in forms:
        for path, data in everything_on_disk(place.folder):
            if os.path.basename(path).startswith("config"):
                continue
            expect(form.encode() not in data, f"the key stands in {path}")
        for process in processes:
            expect(form not in process.text(), f"the key is said: {process.text()}")


# ----- doctor: each reply that a transport can spoil, and each interface


def doctor(w, plays, *words, config=(), path="/v1", key=CANARY, **more):
    """Runs `doctor --llm` against the plays. The first request asks for the list of models."""
    configure(w, *config)
    with ModelServer([{"status": 404, "body": "{}"}, *plays]) as server:
        process = w.attune("doctor", "--llm", *words, env=env(w, server, path, key, **more))
    return process, server


def ready(tool="ready", prompt_tokens=20_000, **more):
    return {"body": model_server.chat({"word": "yes"}, tool, prompt_tokens=prompt_tokens), **more}


def doctor_says_what_works(w):
    p, server = doctor(w, [ready()])
    ends(p, 0)
    says(p, "fake-model at http://127.0.0.1", "key from ATTUNE_LLM_API_KEY", "a forced call: answered",
         "a prompt of 4")
    expect([r.path for r in server.requests] ==
           ["/v1/models", "/v1/chat/completions", "/v1/chat/completions"], "other requests")
    expect(server.requests[1].headers["authorization"] == f"Bearer {CANARY}", "no key was sent")
    expect("expect" not in server.requests[2].headers, "it waits for 100 Continue")
    expect_no_key(w, p)


def doctor_needs_no_key_for_a_server_of_ones_own(w):
    p, server = doctor(w, [ready()], key=None)
    ends(p, 0)
    expect("authorization" not in server.requests[1].headers, "a key was made up")


def survives(w, spoilt, code, *texts, tries=3):
    p, server = doctor(w, [spoilt])
    ends(p, code)
    says(p, *texts)
    expect(len(server.requests) == 1 + tries, f"{len(server.requests)} requests")


def cut_body(w):
    survives(w, {**ready(), "how": "cut"}, 75, "unreachable")


def cut_chunk(w):
    survives(w, {**ready(), "how": "chunk_cut"}, 75, "unreachable")


def reset_before_reply(w):
    survives(w, {"how": "reset"}, 75, "unreachable")


def reset_after_headers(w):
    survives(w, {**ready(), "how": "silent_reset"}, 75, "unreachable")


def shorter_than_it_says(w):
    survives(w, {**ready(), "how": "short"}, 75, "unreachable")


def html_with_500(w):
    survives(w, {"status": 502, "headers": {"content-type": "text/html"},
                 "body": "<html>\x1b[31m<h1>Bad gateway</h1></html>"}, 75, "HTTP 502", "\\x1b[31m")


def html_with_200(w):
    survives(w, {"headers": {"content-type": "text/html"}, "body": "<html>welcome</html>"}, 75,
             "a web page instead of JSON")


def too_many_without_a_hint(w):
    survives(w, {"status": 429, "body": '{"error":{"message":"slow down"}}'}, 75, "overloaded")


def overloaded_529(w):
    survives(w, {"status": 529, "body": '{"error":{"type":"overloaded_error"}}'}, 75, "overloaded")


def fifty_megabytes(w):
    survives(w, {"how": "huge"}, 75, "larger than 8388608 bytes", tries=2)


def redirect_is_not_followed(w):
    with ModelServer([ready()]) as elsewhere:
        survives(w, {"status": 302, "headers": {"location": elsewhere.url + "/v1"}}, 2,
                 "redirect", tries=1)
        expect(elsewhere.bytes == 0, "the redirect was followed")


def wrong_types(w):
    survives(w, {"body": '{"choices":"none","usage":[],"model":7}'}, 2, "no choice", tries=1)


def drips(w):
    p, server = doctor(w, [{**ready(), "how": "drip"}], config=["connect_timeout: 1s"],
                       ATTUNE_LLM_MODEL="fake-model")
    ends(p, 75)
    says(p, "unreachable")


def recovers_from(w, spoilt):
    p, server = doctor(w, [spoilt, ready()])
    ends(p, 0)
    expect(len(server.requests) == 4, f"{len(server.requests)} requests")
    return server


def too_many_with_a_hint(w):
    recovers_from(w, {"status": 429, "body": "{}", "headers": {"retry-after-ms": "20"}})


def gzip_is_unpacked(w):
    p, server = doctor(w, [{**ready(), "how": "gzip"}])
    ends(p, 0)
    expect(server.requests[1].headers["accept-encoding"] == "gzip", "gzip was not asked for")


def says_gzip_and_is_plain(w):
    server = recovers_from(w, {**ready(), "how": "gzip_lie"})
    expect(server.requests[2].headers["accept-encoding"] == "identity", "asked for gzip again")


def prompt_cut_by_the_server(w):
    p, _ = doctor(w, [ready(prompt_tokens=900)])
    ends(p, 2)
    says(p, "it has cut the prompt", "larger context")


def tools_as_text_only(w):
    p, _ = doctor(w, [{"body": json.dumps({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": "Sure! I call ready."}}]})}])
    ends(p, 2)
    says(p, "text instead of a tool call", "llm.output: json_schema")


def schema_instead_of_tools(w):
    p, server = doctor(w, [{"body": json.dumps({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": '{"word":"yes"}'}}]})}], config=["output: json_schema"])
    ends(p, 0)
    expect("tools" not in server.requests[1].json(), "tools were sent")


def anthropic_interface(w):
    p, server = doctor(w, [{"body": model_server.anthropic({"word": "yes"}, "ready")}], path="",
                       config=["api: anthropic"])
    ends(p, 0)
    last = server.requests[-1]
    expect(last.path == "/v1/messages" and last.headers["x-api-key"] == CANARY
           and last.headers["anthropic-version"] == "2023-06-01", "not Anthropic's interface")


def azure_interface(w):
    p, server = doctor(w, [ready()], path="/openai/deployments/d",
                       config=["auth: api-key", "api_version: 2026-01-01",
                               "max_tokens_field: max_completion_tokens"])
    ends(p, 0)
    last = server.requests[-1]
    expect(last.path == "/openai/deployments/d/chat/completions?api-version=2026-01-01"
           and last.headers["api-key"] == CANARY and "authorization" not in last.headers
           and last.json()["max_completion_tokens"] > 0, "not Azure's interface")


def bedrock_with_a_bearer_key(w):
    configure(w, "api: bedrock-converse")
    with ModelServer([{"body": model_server.bedrock({"word": "yes"}, "ready")}]) as server:
        p = w.attune("doctor", "--llm",
                     env=env(w, server, "", ATTUNE_LLM_MODEL="us.vendor.model-v2:0"))
    ends(p, 0)
    expect(server.requests[0].path == "/model/us.vendor.model-v2%3A0/converse", "another path")
    expect(server.requests[0].headers["authorization"] == f"Bearer {CANARY}", "no key")


def aws_signature(request, secret, region):
    """Signature Version 4 by the AWS General Reference, independent of the program's own."""
    authorization = request.headers["authorization"]
    fields = dict(part.strip().split("=", 1) for part in authorization.split(" ", 1)[1].split(","))
    names = fields["SignedHeaders"].split(";")
    path = "/".join("".join(c if c.isalnum() or c in "-._~" else f"%{ord(c):02X}" for c in part)
                    for part in request.path.split("/"))
    canonical = "\n".join([
        request.method, path, "", *[f"{n}:{' '.join(request.headers[n].split())}" for n in names],
        "", ";".join(names), hashlib.sha256(request.body).hexdigest()])
    time = request.headers["x-amz-date"]
    scope = f"{time[:8]}/{region}/bedrock/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", time, scope,
                         hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return fields["Signature"], hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def bedrock_signed(w):
    """Also for a model id with a colon, which libcurl's own signer gets wrong."""
    configure(w, "api: bedrock-converse", "auth: sigv4", "region: eu-west-1")
    for model, token in (("vendor.model", ""), ("vendor.model-v2:0", "session/token+x")):
        more = {"AWS_SESSION_TOKEN": token} if token else {}
        with ModelServer([{"body": model_server.bedrock({"word": "yes"}, "ready")}]) as server:
            p = w.attune("doctor", "--llm", env=env(
                w, server, "", None, ATTUNE_LLM_MODEL=model, AWS_ACCESS_KEY_ID="AKIDEXAMPLE",
                AWS_SECRET_ACCESS_KEY=CANARY, **more))
        ends(p, 0)
        sent, right = aws_signature(server.requests[0], CANARY, "eu-west-1")
        expect(sent == right, f"{model}: signed {sent}, right is {right}")
        expect_no_key(w, p)


# ----- keys


def key_file_modes(w):
    configure(w)
    w.write("key", CANARY + "\n")
    with ModelServer([{"status": 404, "body": "{}"}, ready()]) as server:
        for mode, code, text in ((0o644, 4, "readable by everybody"), (0o640, 0, "chmod 600"),
                                 (0o600, 0, "answered")):
            os.chmod(f"{w.folder}/key", mode)
            p = w.attune("doctor", "--llm", "--llm-key-file", "key", env=env(w, server, key=None))
            ends(p, code)
            says(p, text)
            expect(CANARY not in p.text(), "the key is said")


def key_from_a_command_and_from_credentials(w):
    w.write("printer", f"#!/bin/sh\necho {CANARY}\n")
    os.chmod(f"{w.folder}/printer", stat.S_IRWXU)
    os.mkdir(f"{w.folder}/creds")
    w.write("creds/attune-llm-key", CANARY)
    os.chmod(f"{w.folder}/creds/attune-llm-key", 0o600)
    for config, more in ((["api_key_command: [./printer]"], {}),
                         ([], {"CREDENTIALS_DIRECTORY": f"{w.folder}/creds"}),
                         (["api_key_env: SOME_KEY"], {"SOME_KEY": CANARY})):
        p, server = doctor(w, [ready()], config=config, key=None, **more)
        ends(p, 0)
        expect(server.requests[1].headers["authorization"] == f"Bearer {CANARY}", f"{config}: no key")
        expect(CANARY not in p.text(), "the key is said")


def key_is_bound_to_its_endpoint(w):
    """A key that stands beside one endpoint goes to no other, wherever a variable points."""
    w.write("key", CANARY)
    os.chmod(f"{w.folder}/key", 0o600)
    configure(w, "endpoint: https://llm.example.org/v1", f"api_key_file: {w.folder}/key")
    with ModelServer([ready()]) as server:
        p = w.attune("doctor", "--llm", env=env(w, server, key=None))
        expect(server.bytes == 0, "the endpoint was asked")
    ends(p, 4)
    says(p, "is meant for https://llm.example.org:443")


def a_proxy_of_the_environment_is_not_asked_for_this_machine(w):
    """A key in clear text goes to the loopback endpoint itself, whatever http_proxy says."""
    configure(w)
    with ModelServer([{"status": 404, "body": "{}"}, ready()]) as server, \
            ModelServer([ready()]) as proxy:
        p = w.attune("doctor", "--llm", env=env(
            w, server, no_proxy="", http_proxy=proxy.url, HTTP_PROXY=proxy.url, ALL_PROXY=proxy.url))
        ends(p, 0)
        expect(proxy.bytes == 0, "the proxy got the request")
        expect(len(server.requests) == 3, f"{len(server.requests)} requests")


def hostile_files_get_no_byte(w):
    """What comes with a repository can send a key nowhere: not one byte reaches the listener."""
    configure(w)
    with ModelServer([good()]) as listener, ModelServer([good()]) as own:
        evil = listener.url + "/v1"
        w.recipe()
        with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
            fine = file.read()
        attacks = {
            "an endpoint": f"llm: {{model: m, endpoint: \"{evil}\"}}\n",
            "a key source": "llm: {model: m, api_key_env: ATTUNE_LLM_API_KEY}\n",
            "headers": "llm: {model: m, headers: {x: y}}\n",
            "a command": f"notify: {{command: [curl, \"{evil}\"]}}\n",
            "the key as an argument": "extra: 1\n",
        }
        for what, line in attacks.items():
            w.write("recipe.yaml", fine + line)
            p = w.run("--tuner", "agent", env=env(w, own))
            ends(p, 2)
            says(p, "recipe.yaml:")
        for name in ("ATTUNE_LLM_API_KEY", "attune_llm_api_key"):
            w.write("recipe.yaml", fine.replace(
                "measure:", f"launcher: {{kind: local, pass_env: [{name}]}}\nmeasure:", 1))
            ends(w.run("--tuner", "agent", env=env(w, own)), 2)
        w.write("base.yaml", fine + f"llm: {{endpoint: \"{evil}\"}}\n")
        w.write("recipe.yaml", "schema: attune/recipe/1\nextends: base.yaml\n")
        ends(w.run("--tuner", "agent", env=env(w, own)), 2)
        w.write("recipe.yaml", fine)
        w.write("attune.yaml", f"schema: attune/config/1\nllm: {{endpoint: \"{evil}\"}}\n")
        p = w.run("--tuner", "agent", env=env(w, own))
        ends(p, 2)
        says(p, "attune.yaml")
        expect(listener.bytes == 0 and own.bytes == 0, "something was sent")
        expect(not w.files("*"), "something was launched")
    expect_no_key(w)


# ----- whole campaigns


def answers_are_kept_and_the_key_is_not(w):
    """A campaign to its end: the launched change names the call that proposed it; the key is nowhere,
    although the provider echoes it and the job could print its environment."""
    configure(w, "price: {in: 1, out: 4}")
    w.recipe()
    w.write("peek", f"""#!/usr/bin/python3
import os, sys
open({w.folder!r} + "/environment.txt", "a").write(repr(dict(os.environ)))
os.execv({world.TRAIN!r}, [{world.TRAIN!r}, *sys.argv[1:]])
""")
    os.chmod(f"{w.folder}/peek", stat.S_IRWXU)
    with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
        text = file.read()
    w.write("recipe.yaml", text.replace(world.TRAIN, f"{w.folder}/peek"))
    echo = good(hypothesis=f"because {CANARY} and {base64.b64encode(CANARY.encode()).decode()}")
    with ModelServer([good("9"), echo, DENIED]) as server:
        p = w.run("--tuner", "agent", "--log-file", f"{w.folder}/log.json", "-vv",
                  env=env(w, server))
    ends(p, 4)
    rows = calls(w)
    expect([row["outcome"] for row in rows] == ["action", "action", "denied"], f"{rows}")
    expect(rows[1]["tool"] == "propose" and rows[1]["in_tokens"] == 4000
           and rows[1]["usd_micros"] == 4000 + 4 * 40, f"{rows[1]}")
    proposed = [body for _, kind, body in w.events() if kind == "proposed"]
    expect([body["llm_call"] for body in proposed] == ["q002"], f"{proposed}")
    folder = f"{w.state}/llm/{w.campaign()}"
    expect(sorted(os.listdir(folder)) ==
           [f"q00{n}.{what}.json" for n in (1, 2, 3) for what in ("reply", "request")],
           f"{os.listdir(folder)}")
    with open(f"{folder}/q002.request.json", encoding="utf-8") as file:
        expect(json.load(file)["body"].encode() == server.requests[1].body, "other bytes are kept")
    told = [w.attune(*words) for words in
            (["explain", "p002", "--transcript"], ["explain", "p002", "--transcript", "--json"],
             ["runs"], ["report"], ["status", "--json"], ["db", "export", "dump.ndjson"],
             ["report", "--html", "report.html"])]
    for process in told:
        ends(process, 0)
    says(told[0], "q002", "called propose", "micro_batch", "refused or turned back")
    expect_no_key(w, p, *told)
    with open(f"{w.folder}/environment.txt", encoding="utf-8") as file:
        expect("ATTUNE_LLM" not in file.read(), "the job got what is attune's")


def killed_before_the_answer(w):
    """The request is a row before it is sent; after a kill the same bytes go out once more, and both
    count against the budget."""
    configure(w, "price: {in: 1, out: 4}")
    w.recipe()
    with ModelServer([{**good(), "how": "hold"}, good(), DENIED]) as server:
        p = w.start_run("--tuner", "agent", "--llm-budget", "5", env=env(w, server))
        expect(server.wait_held(world.DEADLINE), f"no request: {p.text()}")
        expect(calls(w)[0]["outcome"] == "" and calls(w)[0]["id"] == "q001", "no row")
        p.send(signal.SIGKILL)
        p.popen.wait()
        r = w.attune("resume", env=env(w, server))
        ends(r, 4)  # the third play
        bodies = [request.body for request in server.requests]
    expect(bodies[0] == bodies[1], "another request was sent")
    expect(bodies.count(bodies[0]) == 2, f"sent {bodies.count(bodies[0])} times")
    rows = calls(w)
    expect([row["outcome"] for row in rows[:2]] == ["unknown", "action"], f"{rows}")
    expect(rows[0]["body_hash"] == rows[1]["body_hash"] and rows[1]["repeats"] == "q001", f"{rows}")
    expect(rows[0]["usd_micros"] == rows[0]["bound_usd_micros"] > 0, f"{rows[0]}")
    expect(rows[1]["usd_micros"] == 4000 + 4 * 40, f"{rows[1]}")
    w.check_books()


def every_model_refuses(w):
    """The list of models is gone through, then the campaign waits for better days: exit 75."""
    configure(w, "fallback: [second-model]")
    w.recipe()
    with ModelServer([REFUSED, REFUSED, good(), DENIED]) as server:
        p = w.run("--tuner", "agent", env=env(w, server))
        ends(p, 75)
        says(p, "no model answers", "refusal")
        models = [request.json()["model"] for request in server.requests]
        expect(models == ["fake-model", "second-model"], f"{models}")
        r = w.attune("resume", env=env(w, server))
        ends(r, 4)
    expect([row["outcome"] for row in calls(w)] == ["refusal", "refusal", "action", "denied"],
           f"{calls(w)}")


def nobody_answers(w):
    configure(w)
    w.recipe()
    with ModelServer([{"how": "reset"}]) as server:
        values = env(w, server)
        p = w.run("--tuner", "agent", env=values)
    ends(p, 75)
    says(p, "no answer, next try in", "3 of 3")
    row = calls(w)[0]
    expect(row["outcome"] == "unreachable" and row["tries"] == 3, f"{row}")


def broken_answers_end_the_turn(w):
    """Three answers in a row that are no call: one proposal turned back, nothing launched."""
    configure(w)
    w.recipe()
    prose = {"body": json.dumps({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": "Let me think."}}]})}
    with ModelServer([prose, {"body": model_server.chat('{"lever":"micro_batch"')}, prose,
                      DENIED]) as server:
        ends(w.run("--tuner", "agent", env=env(w, server)), 4)
        expect("text instead of a tool call" in server.requests[1].body.decode(),
               "the model is not told what was wrong")
    turned = [body for _, kind, body in w.events() if kind == "turned_back"]
    expect(len(turned) == 1 and turned[0]["reason"] == "schema", f"{turned}")
    expect([row["outcome"] for row in calls(w)][:3] == ["format_error"] * 3, f"{calls(w)}")
    expect(w.kinds().count("launch_intended") == 1, "more than the baseline was launched")


def budget_needs_a_price(w):
    configure(w)
    w.recipe()
    with ModelServer([good()]) as server:
        p = w.run("--tuner", "agent", "--llm-budget", "1", env=env(w, server))
        expect(server.bytes == 0, "it was asked all the same")
    ends(p, 2)
    says(p, "price of model fake-model is not known", "llm.price")
    expect(not w.files("*"), "something was launched")


def budget_is_a_ceiling(w):
    configure(w, "price: {in: 1, out: 4}")
    w.recipe()
    with ModelServer([good("9"), good("9"), DENIED]) as server:
        p = w.run("--tuner", "agent", "--llm-budget", "0.03", env=env(w, server))
        ends(p, 5)
        says(p, "the model budget of $0.03")
        asked = len(server.requests)
        r = w.attune("resume", "--llm-budget", "5", env=env(w, server))
        ends(r, 4)
        expect(len(server.requests) > asked, "it did not go on")


def interrupted_while_it_asks(w):
    configure(w)
    w.recipe()
    with ModelServer([{**good(), "how": "hold"}, DENIED]) as server:
        p = w.start_run("--tuner", "agent", env=env(w, server))
        expect(server.wait_held(world.DEADLINE), f"no request: {p.text()}")
        p.send(signal.SIGINT)
        ends(p.wait(), 130)
    expect(calls(w)[0]["outcome"] == "interrupted", f"{calls(w)}")


def replayed(w):
    """Another campaign answered from the first one's record, with no provider anywhere."""
    configure(w)
    w.recipe()
    with ModelServer([good(), DENIED]) as server:
        ends(w.run("--tuner", "agent", env=env(w, server)), 4)
    first = w.campaign()
    w.attune("stop", "--cancel-jobs")
    with open(f"{w.folder}/recipe.yaml", encoding="utf-8") as file:
        w.write("again.yaml", file.read())
    p = w.attune("run", "again.yaml", "--final-blocks", "1", "--tuner", "agent", "--llm",
                 f"replay:{first}", env={"ATTUNE_CONFIG": f"{w.folder}/config.yaml"})
    ends(p, 4)  # as the first one ended
    second = [row for row in calls(w) if row["campaign"] != first]
    expect([row["outcome"] for row in second] == ["action", "denied"], f"{second}")
    expect(second[0]["usd_micros"] == 0, f"{second[0]}")


def untrusted_text_stays_text(w):
    """What a model writes is shown escaped on a terminal, in Markdown and in HTML."""
    configure(w)
    w.recipe()
    nasty = "\x1b[31mred\x1b[0m <script>alert(1)</script> | [x](javascript:1) \u202eabc `rm`\r\nnext"
    with ModelServer([good(hypothesis=nasty), DENIED]) as server:
        p = w.run("--tuner", "agent", env=env(w, server))
        ends(p, 4)
    for words in (["runs"], ["show", "mbs2"], ["explain", "mbs2"],
                  ["explain", "mbs2", "--transcript"], ["report"]):
        told = w.attune(*words)
        ends(told, 0)
        for bad in ("\x1b", "\u202e", "\r"):
            expect(bad not in told.text(), f"{words}: {bad!r} is printed raw")
    ends(w.attune("report", "--html", "r.html", "--md", "r.md"), 0)
    with open(f"{w.folder}/r.html", encoding="utf-8") as file:
        html = file.read()
    expect("<script>alert(1)" not in html and "\u202e" not in html, "HTML runs the model's text")
    with open(f"{w.folder}/r.md", encoding="utf-8") as file:
        markdown = file.read()
    expect("<script>alert(1)" not in markdown and "](javascript" not in markdown,
           "Markdown runs the model's text")


CASES = {name: case for name, case in list(globals().items())
         if callable(case) and getattr(case, "__module__", "") == __name__
         and case.__code__.co_varnames[:1] == ("w",) and case.__code__.co_argcount == 1}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
