# SPDX-License-Identifier: Apache-2.0
"""/openapi.json: it is valid, it has every method, and what the server takes and gives is what it says."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import harness
import pytest
from cgroups import needs_cgroups
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV31SpecValidator

sys.path.insert(0, str(harness.TOP / "tools"))
import gen_reference  # noqa: E402


def closed(schema):
    """The same, but refusing keys that it does not name: a client would never learn of them."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: closed(v) for k, v in schema.items()}
    if isinstance(out.get("properties"), dict):
        out.setdefault("additionalProperties", False)
    return out


class Described:
    """Calls methods and holds both sides of each call against the document."""

    def __init__(self, server):
        self.server = server
        self.doc = server.get("/openapi.json").json
        self.seen = set()

    def operation(self, method, path):
        for template, operations in self.doc["paths"].items():
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) and method.lower() in operations:
                return template, operations[method.lower()]
        return None, None

    def errors(self, schema, value):
        whole = {**closed(schema), "components": closed(self.doc["components"])}
        checker = Draft202012Validator(whole, format_checker=FormatChecker())
        return [f"{'.'.join(map(str, e.path))}: {e.message}" for e in checker.iter_errors(value)]

    def named(self, name, value):
        assert not self.errors({"$ref": f"#/components/schemas/{name}"}, value)

    def check(self, operation, answer):
        response = operation["responses"].get(str(answer.status))
        if response is None:
            assert answer.status >= 400, (answer.status, answer.body)
            self.named("Error", answer.json)
        elif "content" in response:
            (kind, content), *_ = response["content"].items()
            assert answer.headers["Content-Type"].startswith(kind)
            if kind == "application/json":
                assert not self.errors(content["schema"], answer.json), answer.body

    def call(self, method, path, body=None, status=200, **kw):
        template, operation = self.operation(method, path.split("?")[0])
        answer = self.server.call(method, path, body, **kw)
        assert answer.status == status, (answer.status, answer.body)
        if operation is None:
            self.named("Error", answer.json)
            return answer
        self.seen.add((method, template))
        if body is not None:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert bool(self.errors(schema, body)) == (status == 400), (body, self.errors(schema, body))
        self.check(operation, answer)
        return answer


@pytest.fixture(scope="module")
def api(root_server):
    return Described(root_server)


def test_api_1_the_document_is_valid(api):
    OpenAPIV31SpecValidator(api.doc).validate()


def test_api_1_every_method_is_in_the_document(api):
    rows, upgrades = {}, {}
    for m in gen_reference.methods():
        (upgrades if m["kind"] == "BIDIRECTIONAL" else rows)[(m["verb"], m["path"])] = m
    assert len(rows) >= 18
    assert set(upgrades) == {("POST", "/api/v1/sessions/{id}/exec"), ("POST", "/api/v1/run")}
    found = {(verb.upper(), path): op for path, ops in api.doc["paths"].items() for verb, op in ops.items()}
    assert found.pop(("GET", "/metrics"))["operationId"] == "Metrics"
    assert set(found) == set(rows)
    for key, m in rows.items():
        both = [m, upgrades[key]] if key in upgrades else [m]
        assert found[key]["operationId"] == m["rpc"]
        assert found[key]["x-kinds"] == [gen_reference.KINDS[r["kind"]] for r in both]
        assert found[key]["x-listeners"] == gen_reference.LISTENERS[m["listeners"]]
        assert ("101" in found[key]["responses"]) == (key in upgrades)
        given = {p["name"] for p in found[key]["parameters"] if p["in"] in ("query", "header")}
        assert given == {*m["params"], "X-Request-Id"}
        assert all(p["name"][0].isupper() == (p["in"] == "header") for p in found[key]["parameters"])
        names = set(re.findall(r"\{(\w+)\}", key[1]))
        assert {p["name"] for p in found[key]["parameters"] if p["in"] == "path"} == names


def events_of(body):
    return [
        (re.search(r"^event: (.*)$", part, re.M), json.loads(re.search(r"^data: (.*)$", part, re.M).group(1)))
        for part in body.decode().split("\n\n")
        if re.search(r"^data: ", part, re.M)
    ]


def tour_session(api):
    wanted = {
        "workspace": str(api.server.workspace()),
        "timeout": "1h30m",
        "environment": {"A": "1"},
        "resource_limits": {"pids_max": 500, "command_timeout": "5m"},
        "limits": {"max_commands": 100},
        "background": None,
    }
    path = "/api/v1/sessions/" + api.call("POST", "/api/v1/sessions", wanted, 201).json["id"]
    api.call("POST", "/api/v1/sessions", {"workspace": wanted["workspace"], "nonsense": 1}, 400)
    api.call("POST", "/api/v1/sessions", {"workspace": 1}, 400)
    api.call("POST", "/api/v1/sessions", {}, 400)
    api.call("GET", "/api/v1/sessions?limit=10")
    api.call("GET", path)
    api.call("PATCH", path, {"environment": {"A": None, "B": "2"}, "idle_timeout": "10m"})
    api.call("PATCH", path, {"environment": {"A": 1}}, 400)
    return path


def tour_commands(api, path):
    api.call("POST", f"{path}/exec", {"command": "ls", "args": ["-l"]})
    api.call(
        "POST", f"{path}/exec", {"script": "echo out; printf '\\377' >&2; cd /tmp; export N=1; sleep 60 & exit 3"}
    )
    api.call("POST", f"{path}/exec", {"command": "no-such-command"})
    api.call("POST", f"{path}/exec", {"command": "sleep", "args": ["60"], "timeout": "100ms"})
    api.call("POST", f"{path}/exec", {"command": "seq", "args": ["10000"], "max_output_bytes": 100})
    api.call("POST", f"{path}/exec", {"command": "ls", "args": "-l"}, 400)
    nap = api.call("POST", f"{path}/exec", {"command": "sleep", "args": ["60"], "detach": True}, 202).json[
        "command_id"
    ]
    api.call("GET", f"/api/v1/commands/{nap}")
    api.call("POST", f"{path}/kill/{nap}", {"signal": "KILL", "grace": "0s"})
    harness.wait_for(lambda: api.call("GET", f"{path}/commands/{nap}").json["state"] == "killed", "it is killed")
    api.call("POST", f"{path}/kill/{nap}", status=409)
    api.call("GET", f"{path}/commands?limit=100")
    api.call("GET", f"{path}/output/{nap}?stream=stderr&limit=5")
    api.call("GET", f"{path}/output/{nap}?stream=nonsense", status=400)
    stream = api.call("POST", f"{path}/exec/stream", {"script": "echo streamed"})
    for name, data in events_of(stream.body):
        kind = name.group(1)
        if kind in ("event", "result"):
            api.named("Event" if kind == "event" else "ExecAnswer", data)


def tour_run(api):
    session = {"workspace": str(api.server.workspace()), "idle_timeout": "1m"}
    api.call("POST", "/api/v1/run", {"script": "echo out; exit 3", "session": session})
    api.call("POST", "/api/v1/run", {"command": "true"}, 400)
    api.call("POST", "/api/v1/run", {"command": "true", "session": {"workspace": 1}}, 400)
    api.call("POST", "/api/v1/run", {"command": "true", "session": session, "detach": True}, 202)


def tour_policies(api, path):
    api.call("GET", "/api/v1/policies")
    api.call("GET", f"{path}/policy")
    api.call("POST", "/api/v1/policies/reload")


def tour_caches(api):
    (cache,) = (c for c in api.call("GET", "/api/v1/caches").json["caches"] if c["in_use"])
    api.call("DELETE", f"/api/v1/caches/{cache['id']}", status=409)
    (idle,) = (c for c in api.call("GET", "/api/v1/caches").json["caches"] if not c["in_use"])
    api.call("DELETE", f"/api/v1/caches/{idle['id']}")


def tour_trash(api, path):
    """test_trash.py has entries; this session has none."""
    api.call("GET", f"{path}/trash?limit=10")
    api.call("GET", f"{path}/trash?limit=0", status=400)
    api.call("POST", f"{path}/trash/1/restore", status=404)


def tour_events(api, path):
    assert len(api.call("GET", f"{path}/history?limit=1000").json["events"]) > 10
    api.call("GET", "/api/v1/events/search?type=command_finished,session_state&limit=20")
    api.call("GET", f"{path}/history?since=yesterday", status=400)
    api.call("DELETE", path)
    api.call("GET", path)
    api.call("POST", f"{path}/exec", {"command": "true"}, 410)
    stream = api.call("GET", f"{path}/events", headers={"Last-Event-ID": "0"})  # ends: the session has ended
    assert events_of(stream.body)
    for _, event in events_of(stream.body):
        api.named("Event", event)


def test_api_1_answers_are_as_described(api):
    path = tour_session(api)
    tour_commands(api, path)
    tour_run(api)
    tour_policies(api, path)
    tour_caches(api)
    tour_trash(api, path)
    tour_events(api, path)
    for root in ("/health", "/ready", "/metrics", "/openapi.json"):
        api.call("GET", root)
    api.call("GET", "/api/v1/sessions/none", status=404)
    api.call("GET", "/nowhere", status=404)
    api.call("PUT", "/health", status=405)
    every = {(verb.upper(), path) for path, ops in api.doc["paths"].items() for verb in ops}
    assert api.seen == every


def test_api_1_a_failed_session_is_as_described(api):
    session = api.server.session()
    for pid in api.server.warden_pids():
        if session.id.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    harness.wait_for(lambda: session.get()["state"] == "failed", "it fails")
    assert api.call("GET", session.path).json["failure"]


POLICY = """\
version: 1
name: mixed
default: {files: allow, network: allow, commands: allow}
command_rules:
  - {name: no-id, commands: [id], decision: deny}
  - {name: ask-date, commands: [date], decision: approve}
  - {name: mark-uname, commands: [uname], decision: log}
  - {name: other-host, commands: [hostname], decision: redirect, redirect_to: /bin/true}
"""


def test_api_1_decisions_are_as_described(new_server):
    server = new_server(start=False)
    directory = server.dir / "policies"
    directory.mkdir(mode=0o755)
    (directory / "mixed.yaml").write_text(POLICY)
    server.merge(server.config, {"policies": {"dir": str(directory)}})
    api = Described(server.start())
    path = server.session(policy="mixed").path
    api.call("POST", f"{path}/exec", {"command": "id"}, 403)
    answer = api.call("POST", f"{path}/exec", {"script": "uname; hostname; date; id"}).json
    assert answer["result"]["error"]["code"] == "E_POLICY_DENIED"
    events = api.call("GET", f"{path}/history?type=exec").json["events"]
    assert {e["policy"]["decision"] for e in events} == {"allow", "deny", "approve", "log", "redirect"}


@needs_cgroups
def test_api_1_a_limit_is_as_described(api):
    path = api.server.session(resource_limits={"pids_max": 20}).path
    api.call("POST", f"{path}/exec", {"command": "sh", "args": ["-c", "for i in $(seq 40); do sleep 1 & done"]})
    assert api.call("GET", f"{path}/history?type=resource_limit").json["events"]
