# SPDX-License-Identifier: Apache-2.0
"""Policies in a running server: what a session may ask for, and what it is refused."""

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

import harness
import pytest
from policy_server import LIMITS, denied, write


def at(record, dotted):
    for part in dotted.split("."):
        record = record[part]
    return record


def nest(dotted, value):
    for part in reversed(dotted.split(".")):
        value = {part: value}
    return value


# --- asked for at creation, by an agent ---

CAPPED = [
    ("timeout", "2h", "1h"),
    ("idle_timeout", "20m", "10m"),
    ("resource_limits.max_memory_mb", 513, 512),
    ("resource_limits.max_cpu_percent", 91, 90),
    ("resource_limits.max_disk_mb", 101, 100),
    ("resource_limits.max_network_mb", 51, 50),
    ("resource_limits.pids_max", 201, 200),
    ("resource_limits.io_read_bps_max", 50000001, 50000000),
    ("resource_limits.io_write_bps_max", 40000001, 40000000),
    ("resource_limits.command_timeout", "61s", "1m"),
    ("limits.max_commands", 51, 50),
]


def as_agent(server, wanted):
    """A session of uid 1000 on root's server: an agent, no admin."""
    harness.ensure_user()
    ws = server.workspace()
    os.chown(ws, harness.USER_UID, harness.USER_UID)
    body = json.dumps({"workspace": str(ws), "policy": "mine", **wanted})
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import harness\n"
        "c = harness.UnixConnection(sys.argv[2]); c.request('POST', '/api/v1/sessions', body=sys.argv[3])\n"
        "r = c.getresponse(); print(r.status); print(r.read().decode())"
    )
    r = harness.subprocess.run(
        ["python3", "-c", code, str(harness.TOP / "tests"), str(server.socket), body],
        capture_output=True, text=True, user=harness.USER_UID, group=harness.USER_UID, extra_groups=[],
        env={"PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert r.returncode == 0, r.stderr
    status, text = r.stdout.split("\n", 1)
    return harness.Answer(int(status), text, {})


@pytest.mark.parametrize(("field", "asked", "given"), CAPPED, ids=[c[0] for c in CAPPED])
def test_ses_5_numbers_are_capped_and_shown(shared, field, asked, given):
    a = as_agent(shared, nest(field, asked))
    assert a.status == 201, a.body
    assert a.json["agent_id"] == f"uid-{harness.USER_UID}"
    assert at(a.json["config"], field) == given
    assert a.json["capped"] == [field]
    shared.call("DELETE", f"/api/v1/sessions/{a.json['id']}")


def test_ses_5_what_is_within_is_as_asked(shared):
    s = shared.session(policy="mine", timeout="30m", resource_limits={"command_timeout": "2s"})
    assert (s.record["config"]["timeout"], s.record["capped"]) == ("30m", [])
    assert s.exec("sleep", "20")["result"]["exit_code"] == 124
    # what nobody asked for is the policy's
    assert s.record["config"]["limits"]["max_commands"] == 50
    s.destroy()


def test_ses_5_the_policys_limits_hold(shared):
    write(shared.policies, "few", text="version: 1\nname: few\ndefault: {files: allow, network: allow}\n"
          "resource_limits: {max_commands: 2, command_timeout: 300ms}\n")  # fmt: skip
    s = shared.session(policy="few")
    assert s.exec("sleep", "20", timeout="10s")["result"]["error"]["code"] == "E_COMMAND_TIMEOUT"
    s.exec("true")
    a = shared.post(f"{s.path}/exec", {"command": "true"})
    assert (a.status, a.code) == (429, "E_RESOURCE_LIMIT")
    s.destroy()


WIDER = [
    ({"network": {"allowed_domains": ["other.example"]}}, "network_rules", "other.example"),
    ({"network": {"allowed_domains": ["*.example"]}}, "network_rules", "*.example"),
    ({"network": {"allowed_ports": [22]}}, "network_rules", "22"),
    ({"network": {"allowed_ports": [443, 8011]}}, "network_rules", "8011"),
    ({"environment": {"HOME": "/x"}}, "environment", "HOME"),
    ({"environment": {"APP_SECRET": "x"}}, "environment", "APP_SECRET"),
]


@pytest.mark.parametrize(("wanted", "rule", "target"), WIDER, ids=[w[2] for w in WIDER])
def test_ses_3_what_is_beyond_the_policy_is_refused(shared, wanted, rule, target):
    d = denied(as_agent(shared, wanted), rule, target)
    assert d["alternatives"]
    e = shared.get("/api/v1/events/search?type=policy_violation&limit=1000").json["events"][-1]
    assert e["agent_id"] == f"uid-{harness.USER_UID}" and target in e["reason"] and e["decision"] == "deny"
    assert "session_id" not in e
    assert {k: e["policy"][k] for k in d} == d


def test_ses_3_what_the_policy_has_is_given(shared):
    # within the policy, and yet there is no network to have it in
    a = as_agent(shared, {"network": {"allowed_domains": ["mirror.example"], "allowed_ports": [443, 8000]}})
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "network_rules"), a.body
    a = as_agent(shared, {"limits": {"max_net_ops": 50}})
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "network_rules"), a.body
    a = as_agent(shared, {"limits": {"max_file_ops": 50}})
    assert a.status == 201 and a.json["config"]["limits"]["max_file_ops"] == 50, a.body
    a = as_agent(shared, {"environment": {"APP_X": "1", "LANG": "C"}})
    assert a.status == 201, a.body
    # what the policy itself sets stays, and is shown
    assert a.json["config"]["limits"] == {"max_commands": 50, "max_file_ops": 1000, "max_net_ops": 100}
    said = " ".join(a.json["policy"]["unenforced"])
    assert "resource_limits.max_net_ops" in said and "max_file_ops" not in said
    assert a.json["environment"]["APP_X"] == "1"
    shared.call("DELETE", f"/api/v1/sessions/{a.json['id']}")


def test_ses_3_patch_and_exec_only_narrow(shared):
    s = shared.session(policy="mine")
    denied(shared.call("PATCH", s.path, {"environment": {"APP_X": "1", "COLUMNS": "80"}}), "environment", "COLUMNS")
    assert "APP_X" not in s.get()["environment"]
    assert shared.call("PATCH", s.path, {"environment": {"APP_X": "1"}}).status == 200
    for field, asked, _ in CAPPED:
        before = s.get()["config"]
        a = shared.call("PATCH", s.path, nest(field, asked))
        assert a.status == 200 and field in a.json["capped"], (field, a.body)
        assert a.json["config"] == before
    denied(shared.post(f"{s.path}/exec", {"command": "true", "env": {"COLUMNS": "80"}}), "environment", "COLUMNS")
    assert s.exec("sh", "-c", "echo $APP_Y", env={"APP_Y": "7"})["result"]["stdout"] == "7\n"
    assert s.get()["command_count"] == 1
    assert {e["type"] for e in s.history(decision="deny")} == {"policy_violation"}
    r = shared.cli("exec", s.id, "--env", "COLUMNS=80", "--", "true")
    assert r.returncode == 126 and b"rule: environment" in r.stderr
    s.destroy()


# --- one body for every denial ---


def test_pol_4_a_denied_exec_has_its_denial_everywhere(shared):
    s = shared.session(policy="mine")
    headers = {"Idempotency-Key": "once"}
    a = shared.post(f"{s.path}/exec", {"command": "id"}, headers=headers)
    d = denied(a, "no-id", "/usr/bin/id")
    assert d["final"] and d["reason"] == "id is not for you: /usr/bin/id" and d["operation"] == "exec"
    again = shared.post(f"{s.path}/exec", {"command": "id"}, headers=headers).json["error"]
    first = a.json["error"]
    del first["request_id"], again["request_id"]
    assert again == first
    assert denied(shared.post(f"{s.path}/exec/stream", {"command": "id"}), "no-id", "/usr/bin/id") == d
    stdio = harness.Stdio(s, {"command": "id"})
    assert stdio.status == 403 and json.loads(stdio.buf)["error"]["policy"] == d
    stdio.close()
    record = s.get("/commands")["commands"][0]
    assert record["error"]["code"] == "E_POLICY_DENIED" and record["error"]["policy"] == d
    r = shared.cli("exec", s.id, "--", "id")
    assert r.returncode == 126
    for line in ("E_POLICY_DENIED", "rule: no-id (final)", "reason: id is not for you", "asked: exec /usr/bin/id"):
        assert line in r.stderr.decode(), r.stderr
    r = shared.cli("run", "--policy", "mine", "--workspace", s.workspace, "--", "id")
    assert r.returncode == 126 and b"rule: no-id (final)" in r.stderr
    s.destroy()


def test_pol_4_a_nested_denial_is_listed(shared):
    s = shared.session(policy="mine")
    first = denied(shared.post(f"{s.path}/exec", {"command": "id"}), "no-id", "/usr/bin/id")
    answer = s.script("id; env id; echo on")
    assert answer["result"]["stdout"] == "on\n" and answer["result"]["error"] is None
    blocked = answer["events"]["blocked_operations"]
    assert [e["exec"]["path"] for e in blocked] == ["/usr/bin/id"] * 2
    assert answer["events"]["totals"]["blocked"] == 2
    for e in blocked:
        assert e["policy"]["rule"] == "no-id" and e["policy"]["version"] == s.record["policy"]["version"]
        # one body everywhere
        assert {k: e["policy"][k] for k in first} == first
    told = [e for e in s.history(type="exec") if e["decision"] == "deny"]
    assert len(told) == 3 and all({k: e["policy"][k] for k in first} == first for e in told)
    allowed = next(e for e in s.history(type="exec") if e["decision"] == "allow")
    assert "alternatives" not in allowed["policy"] and "final" not in allowed["policy"]
    s.destroy()


ROUNDABOUT = """\
version: 1
name: {name}
default: {{files: allow, network: deny, commands: {default}}}
command_rules:
{rules}
"""


@pytest.mark.parametrize("uid", [0, harness.USER_UID])
def test_pol_4_a_refused_script_as_an_interpreter(policies, uid):
    s = policies(uid)
    rules = """\
  - {name: no-ldd, commands: [ldd], decision: deny, final: true}
  - {name: no-echo, commands: [echo], args_pattern: ["bad*"], decision: deny}
"""
    write(s.policies, "script", text=ROUNDABOUT.format(name="script", default="allow", rules=rules))
    session = s.session(policy="script")
    own = session.workspace / "own"
    own.write_text("#!/usr/bin/ldd --version\n")
    own.chmod(0o755)
    os.chown(own, uid, uid)
    assert session.script("/usr/bin/ldd --version")["result"]["exit_code"] == 126
    nested = session.script("./own")
    assert nested["result"]["exit_code"] == 126
    assert [e["policy"]["rule"] for e in nested["events"]["blocked_operations"]] == ["no-ldd"]
    assert session.script("env ./own")["result"]["exit_code"] == 126
    a = s.post(f"{session.path}/exec", {"command": "./own"})
    target = denied(a, "no-ldd", "/workspace/own")["target"]
    assert a.json["error"]["subject"] == target and f"denies {target}:" in a.json["error"]["message"]
    # arguments behind more than are looked at
    many = "import subprocess; print(subprocess.run(['/bin/echo', *['x'] * {}, '{}']).returncode)"
    assert session.exec("python3", "-c", many.format(16000, "good"))["result"]["exit_code"] == 0
    for n in (16000, 17000, 60000):
        answer = session.exec("python3", "-c", many.format(n, "bad"))
        assert "PermissionError" in answer["result"]["stderr"], n
        assert [e["policy"]["rule"] for e in answer["events"]["blocked_operations"]] == ["no-echo"]
        assert s.post(f"{session.path}/exec", {"command": "echo", "args": ["x"] * n + ["bad"]}).status == 403


@pytest.mark.parametrize("uid", [0, harness.USER_UID])
def test_pol_4_an_allowed_script_by_a_name_that_can_change(policies, uid):
    s = policies(uid)
    rules = """\
  - {name: tools, commands: [make, ln, "/usr/bin/ldd"], decision: allow}
  - {name: own, commands: ["/workspace/own/*"], decision: allow}
"""
    write(s.policies, "tools", text=ROUNDABOUT.format(name="tools", default="deny", rules=rules))
    session = s.session(policy="tools")
    (session.workspace / "own").mkdir()
    own = session.workspace / "own/x"
    own.write_text("#!/bin/sh\necho own\n")
    (session.workspace / "evil").write_text("echo evil\n")
    (session.workspace / "Makefile").write_text("all: a b\na:\n\t./link --version\nb:\n\tln -sfn evil link\n")
    for p in (own, own.parent, session.workspace / "Makefile"):
        os.chown(p, uid, uid)
    own.chmod(0o755)
    link = session.workspace / "link"
    os.symlink("/usr/bin/ldd", link)
    os.lchown(link, uid, uid)
    assert session.exec("ldd", "--version")["result"]["exit_code"] == 0
    assert session.exec("./own/x")["result"]["stdout"] == "own\n"
    d = denied(s.post(f"{session.path}/exec", {"command": "./link"}), "default", "/usr/bin/ldd")
    assert "absolute path" in d["reason"]
    # what runs beside it cannot put another script in its place
    answer = session.exec("make", "-j2", "-s")
    assert "evil" not in answer["result"]["stdout"] and answer["events"]["totals"]["blocked"] == 1


@pytest.fixture
def shown():
    """A directory of root's that every session sees."""
    path = Path(tempfile.mkdtemp(prefix="agentsh-test-", dir="/opt"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_pol_4_a_workspace_that_the_system_shows_as_well(policies, shown):
    """Root's files seem to be fixed at their own place, and can be changed in /workspace."""
    shutil.copy("/bin/true", shown / "tool")
    os.symlink("/bin/true", shown / "link")
    s = policies()

    def verified():
        lines = s.get("/metrics").body.decode().splitlines()
        return int(next(x for x in lines if 'execs_total{outcome="verified"}' in x).split()[1])

    session = s.session(policy="mine", workspace=str(shown))
    for name in ("tool", "link"):
        before = verified()
        session.out(f"{shown}/{name}; true")
        harness.wait_for(lambda n=before: verified() > n, f"{name} was verified", seconds=5)


def test_obs_1_violations_are_counted(policies):
    s = policies()

    def violations():
        lines = s.get("/metrics").body.decode().splitlines()
        return int(next(x for x in lines if x.startswith("agentsh_policy_violations_total ")).split()[1])

    session = s.session(policy="mine")
    assert violations() == 0
    # counted with the commit of its event, which an answer need not wait for
    session.script("id")
    harness.wait_for(lambda: violations() == 1, "the exec is counted", show=violations)
    s.post(f"{session.path}/exec", {"command": "true", "env": {"COLUMNS": "80"}})
    harness.wait_for(lambda: violations() == 2, "the wanted is counted", show=violations)


def test_pol_2_approve_is_denied_without_an_approver(shared):
    s = shared.session(policy="mine")
    d = denied(shared.post(f"{s.path}/exec", {"command": "whoami"}), "ask-whoami", "/usr/bin/whoami")
    assert d["reason"] == "wants /usr/bin/whoami (no approver)" and not d["final"]
    e = s.script("whoami")["events"]["blocked_operations"][0]
    assert e["policy"]["approval"] == {"required": True, "mode": "enforced", "approval_id": None}
    s.destroy()


def test_cfg_1_approvals_mode(policies):
    s = policies(config={"approvals": {"mode": "shadow"}})
    session = s.session(policy="mine")
    answer = session.exec("whoami")
    assert answer["result"]["exit_code"] == 0, answer
    e = answer["events"]["exec_operations"][0]
    assert (e["decision"], e["policy"]["decision"], e["policy"]["effective_decision"]) == (
        "allow",
        "approve",
        "allow",
    )
    assert e["policy"]["approval"] == {"required": True, "mode": "shadow", "approval_id": None}
    denied(s.post(f"{session.path}/exec", {"command": "id"}), "no-id", "/usr/bin/id")
    s = policies(config={"approvals": {"mode": "none"}})
    denied(s.post(f"{s.session(policy='mine').path}/exec", {"command": "whoami"}), "ask-whoami", "/usr/bin/whoami")


def test_pol_2_the_event_of_a_redirect_says_what_ran(policies):
    s = policies()
    rules = "  - {name: other, commands: [whoami], decision: redirect, redirect_to: /bin/echo}"
    write(s.policies, "other", text=ROUNDABOUT.format(name="other", default="allow", rules=rules))
    session = s.session(policy="other")
    for answer in (session.exec("whoami", "x"), session.script("whoami x; true")):
        assert answer["result"]["stdout"] == "x\n"
        e = next(e for e in answer["events"]["exec_operations"] if e["policy"]["rule"] == "other")
        assert (e["exec"]["path"], e["real_path"]) == ("/usr/bin/whoami", "/bin/echo")
        assert e["policy"]["effective_decision"] == "allow"


# --- which policy ---


def test_ses_3_rules_about_files_need_the_workspace(policies):
    s = policies(config=harness.NATIVE)
    write(s.policies, "files", files="deny")
    wanted = {"workspace": str(s.workspace()), "policy": "files"}
    a = s.post("/api/v1/sessions", wanted)
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "file_rules")
    s = policies(start=False, config=harness.NATIVE)
    s.merge(s.config, {"sandbox": {"allow_unenforced": [*LIMITS, "file_rules"]}})
    write(s.policies, "files", files="deny")
    s.start()
    walls = {w["wall"]: w["state"] for w in s.session(policy="files").record["enforcement"]}
    assert walls["file_rules"] == "unavailable"
    walls = {w["wall"]: w["state"] for w in s.session(policy="mine").record["enforcement"]}
    assert walls["file_rules"] == "absent"


def test_cfg_1_policies_dir_of_a_server(policies):
    s = policies(config={"policies": {"default": "mine"}})
    assert s.session().record["policy"]["name"] == "mine"
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace()), "policy": "none-such"})
    assert (a.status, a.code) == (400, "E_BAD_REQUEST") and "mine" in a.json["error"]["message"]
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace()), "policy": "../mine"})
    assert (a.status, a.code) == (400, "E_BAD_REQUEST")
    write(s.policies, "open").chmod(0o666)
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace()), "policy": "open"})
    assert a.code == "E_FORBIDDEN", a.body


def test_cfg_1_policies_selectable(policies):
    """An agent may choose among the listed policies, an admin among all."""
    keys = [
        {"id": role, "agent_id": role, "role": role, "uid": uid, "sha256": hashlib.sha256(role.encode()).hexdigest()}
        for role, uid in (("agent", harness.USER_UID), ("admin", 0))
    ]
    s = policies(config={"policies": {"default": "mine", "selectable": ["other"]}}, start=False, keys=keys)
    write(s.policies, "other")
    s.start()
    for name in ("mine", "other"):
        a = as_agent(s, {"policy": name})
        assert (a.status, a.json["policy"]["name"]) == (201, name), a.body
    for name in ("observe", "none-such"):
        d = denied(as_agent(s, {"policy": name}), "policies.selectable", name)
        assert (d["operation"], d["alternatives"]) == ("policy", ["policies mine, other"])
    assert s.session(policy="observe").record["policy"]["name"] == "observe"  # root
    for key, status in (("agent", 403), ("admin", 201)):
        ws = s.workspace()
        os.chown(ws, harness.USER_UID, harness.USER_UID)
        a = s.post("/api/v1/sessions", {"workspace": str(ws), "policy": "observe"}, key=key)
        assert a.status == status, a.body
    r = s.cli("config", "validate", s.config_file)
    assert r.returncode == 0, r.stderr
    wrong = s.dir / "wrong.yaml"
    wrong.write_text(f"policies:\n  dir: {s.policies}\n  selectable: [mine, theirs]\n")
    r = s.cli("config", "validate", wrong)
    assert r.returncode == 125 and f"{wrong}:3:15: policies.selectable: no policy 'theirs'" in r.stderr.decode()
    r = s.cli("config", "show", "--config", s.config_file, "--json")
    assert json.loads(r.stdout)["policies"]["selectable"] == ["other"]
